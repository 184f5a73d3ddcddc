package model

import (
	"cmp"
	"slices"
	"time"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Queued is the instances of a boot that were preempted and are to be booted again.
type Queued struct {
	IDs     []QueuedID // by group and id
	Since   api.Instant
	Until   api.Instant // when the last of their windows ends
	Tries   int         // in vain, in a row
	Next    api.Instant
	Refill  int // the undecided order for the first Sent of them; 0 for none
	Sent    int
	Enough  bool // an order for them was committed
	Changed uint64
}

// QueuedID is one of them.
type QueuedID struct {
	Group int
	ID    api.InstanceID
	Name  string // of one boot it is the same whenever it is booted again
}

// groupIn returns the index of the group of an instance by its name, as records have it; -1 if its
// hold named another.
func groupIn(r *api.Request, i *Instance) int {
	name := i.Hold.Request.Groups[i.Group].Name
	return slices.IndexFunc(r.Groups, func(g api.Group) bool { return g.Name == name })
}

// queueGone queues an instance that is gone, if it is to be booted again.
func (m *Model) queueGone(id api.InstanceID, end api.Instant) {
	i := m.Instances[id]
	b := i.Hold.Boot
	if i.Eviction == nil || i.Hold.Request.OnPreempt != api.PreemptRequeue || b == nil || i.Eviction.Stays != "" {
		return
	}
	if b.Ended || b.Decision != api.DecisionCommit || end <= m.Now {
		return
	}
	q := m.Queue[b.ID]
	if q == nil {
		q = &Queued{Since: m.Now, Next: m.Now}
		m.Queue[b.ID] = q
	}
	q.IDs = append(q.IDs, QueuedID{max(0, groupIn(&b.Request, i)), id, i.Hold.Names[id]})
	q.Until = max(q.Until, end)
	m.noteQueue(b.ID)
}

// noteQueue notes that the entry of a boot has changed; an empty one is gone.
func (m *Model) noteQueue(id BootID) {
	q := m.Queue[id]
	q.Changed, m.Told[id] = m.Index, true
	if len(q.IDs) == 0 {
		delete(m.Queue, id)
	}
	if q.Refill == 0 {
		slices.SortFunc(q.IDs, func(a, b QueuedID) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.ID, b.ID)) })
	}
}

// unqueue forgets what is queued of a boot that is released, and gives up what is being made of it.
func (m *Model) unqueue(b *Boot) {
	q := m.Queue[b.ID]
	if q == nil {
		return
	}
	q.IDs = nil
	m.noteQueue(b.ID)
	if next := m.Boots[BootID{b.ID.Project, b.ID.Reservation, q.Refill}]; q.Refill > 0 && next != nil {
		m.decideBoot(next, api.DecisionAbort)
	}
}

// fail notes that there was no room for what is queued.
func (q *Queued) fail(now api.Instant) {
	pause := time.Second
	for range q.Tries {
		pause = min(2*pause, time.Minute)
	}
	q.Tries++
	q.Next = now.Add(pause)
}

// settleRefill gives a boot what an order for its preempted instances has got, and queues the others again.
func (m *Model) settleRefill(b *Boot) {
	id := BootID{Project: b.ID.Project, Reservation: b.ID.Reservation}
	from, q := m.Boots[id], m.Queue[id]
	got := map[[2]string]int{} // by group and name
	for id, i := range m.Instances {
		if i.Hold.Boot == b {
			got[[2]string{i.Hold.Request.Groups[i.Group].Name, i.Hold.Names[id]}]++
		}
	}
	delete(m.Boots, b.ID)
	delete(m.Told, b.ID)
	m.Told[id] = true
	for _, h := range b.Holds {
		if h.Boot = nil; h.Decision == api.DecisionCommit {
			h.Boot, from.Holds = from, append(from.Holds, h)
		}
	}
	if q == nil || q.Refill != b.ID.Refill {
		return
	}
	left := q.IDs[:q.Sent]
	if b.Decision == api.DecisionCommit {
		left = nil
		for _, one := range q.IDs[:q.Sent] {
			twin := [2]string{b.Request.Groups[one.Group].Name, one.Name}
			if got[twin]--; got[twin] < 0 {
				left = append(left, one)
			}
		}
		q.Enough, q.Tries, q.Next = true, 0, m.Now.Add(time.Second)
	} else {
		q.fail(m.Now)
	}
	q.IDs, q.Refill, q.Sent = slices.Concat(left, q.IDs[q.Sent:]), 0, 0
	m.noteQueue(id)
}

func (m *Model) requeue(c command.Requeue) *Refusal {
	id, next := BootID{Project: c.Project, Reservation: c.Reservation}, BootID{c.Project, c.Reservation, c.Refill}
	q := m.Queue[id]
	switch {
	case q == nil:
		return &Refusal{promise.Once, "nothing waits to be booted again"}
	case q.Refill > 0 && q.Refill == c.Refill:
		return nil
	case q.Changed != c.Seen || q.Refill > 0 || c.Refill > 0 && c.Refill != m.Boots[id].Refills+1:
		return &Refusal{promise.Once, "what waits to be booted again has changed"}
	case q.Until <= m.Now:
		q.IDs = nil
		m.noteQueue(id)
		return nil
	case c.Refill == 0:
		q.fail(m.Now)
		m.noteQueue(id)
		return nil
	case m.awaitsEvicted(m.Boots[id]):
		return &Refusal{promise.Once, "not all that was preempted is gone"}
	case len(c.Instances) != len(q.IDs):
		return &Refusal{promise.Model, "it has another number of instances"}
	}
	for _, i := range c.Instances {
		if m.knowsInstance(i.ID) {
			return &Refusal{promise.Once, "instance id " + string(i.ID) + " is in use"}
		}
	}
	b := m.nextBoot(m.Boots[id], q, c)
	terms := command.BootTerms{Request: b.Request, Metadata: b.Metadata, Instances: slices.Clone(c.Instances)}
	for n := range terms.Instances {
		terms.Instances[n].Name = q.IDs[n].Name
	}
	b.Data = DataOf(&terms)
	if m.checkBootQuota(&terms) != nil {
		q.fail(m.Now)
		m.noteQueue(id)
		return nil
	}
	m.Boots[next] = b
	m.Boots[id].Refills = c.Refill
	m.Told[next] = true
	q.Refill, q.Sent = c.Refill, len(q.IDs)
	m.noteQueue(id)
	return nil
}

// awaitsEvicted reports whether preempted instances of a boot are still ending.
func (m *Model) awaitsEvicted(b *Boot) bool {
	for _, i := range m.Instances {
		if i.Hold.Boot == b && i.Status == api.StatusDeleting && i.Eviction != nil && i.Eviction.Stays == "" {
			return true
		}
	}
	return false
}

// nextBoot returns the boot that is made for what is queued of another one.
func (m *Model) nextBoot(from *Boot, q *Queued, c command.Requeue) *Boot {
	r := from.Request
	r.Groups = slices.Clone(r.Groups)
	next := &Boot{
		ID: BootID{c.Project, c.Reservation, c.Refill}, Digest: from.Digest, Decision: api.DecisionPending, Metadata: from.Metadata, Request: from.Request,
	}
	has, all, zones := map[int]int{}, 0, map[api.LinkID]bool{}
	for g, at := range m.survivorsOf(next) {
		for zone, n := range at {
			has[g], all, zones[zone] = has[g]+n, all+n, true
		}
	}
	least, sum := from.Least-all, 0
	for g := range r.Groups {
		n := 0
		for _, one := range q.IDs {
			if one.Group == g {
				n++
			}
		}
		r.Groups[g].Count = n
		r.Groups[g].Min = max(0, min(n, r.Groups[g].Min-has[g]))
		if q.Enough {
			r.Groups[g].Min, least = 0, 1
		}
		sum += r.Groups[g].Min
	}
	r.Zones.MinZones = min(r.Zones.MinZones, len(zones)+len(q.IDs))
	if q.Until < api.Forever && r.Window.End == api.Forever {
		r.Lifetime = time.Duration(q.Until-m.Now) * time.Millisecond
	}
	r.Rules = withoutRules(r.Rules, from.Lifted)
	next.Lifted = m.noGroups(&r)
	next.Request, next.Least = r, max(1, min(least, len(q.IDs)), sum)
	return next
}
