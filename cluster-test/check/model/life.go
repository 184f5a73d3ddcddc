package model

import (
	"maps"
	"slices"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Instance is one instance, own (host) or of a child (link). DELETED ones stay
// until the zone prunes them.
type Instance struct {
	Hold   *Hold
	Group  int
	Host   api.HostID
	Target api.HostID // where it moves to
	Link   api.LinkID
	Status api.Status
	Stays  uint64      // how many stays on hosts have ended by a move
	Other  bool        // a slot that is on another host than when its window began
	Waits  bool        // a slot whose window has begun, or a firm instance, that waits for its room
	Away   api.Instant // start of being unreachable, as reported by its zone; 0 while it is reachable

	Made     api.Instant
	Eviction *api.Eviction // why a preemptible must leave
	Closed   bool          // a slot whose room is closed to preemptibles

	Attached api.InstanceID // of a volume

	Halted bool   // its owner has stopped it
	Orders uint64 // how often its owner has ordered that it runs again

	Restarts  uint64      // how often its agent has started it anew
	Restarted api.Instant // the last of them, as the agent has it
}

// Live reports whether an instance is not DELETED.
func (i *Instance) Live() bool { return i.Status != api.StatusDeleted }

func (m *Model) makeInstance(id api.InstanceID, i *Instance) {
	i.Status, i.Made = api.StatusBuild, m.Now
	m.Instances[id], m.Hit[id] = i, true
}

// MadeBy returns an instance if h made it: after an abort another hold may have
// used the id, also one that has the id of h, once h is forgotten.
func (m *Model) MadeBy(h *Hold, id api.InstanceID) *Instance {
	if i, ok := m.Instances[id]; ok && i.Hold == h {
		return i
	}
	return nil
}

// setStatus moves an instance on. Its claim ends when it is DELETED. Of an instance that waits for
// its room nothing runs that would have to end.
func (m *Model) setStatus(id api.InstanceID, st api.Status) {
	i := m.Instances[id]
	if st == api.StatusDeleting && i.Waits && !i.isSlot() {
		st = api.StatusDeleted
	}
	if i.Status == st {
		return
	}
	i.Status, m.Hit[id] = st, true
	m.touchRules(i)
	if st == api.StatusDeleting || st == api.StatusDeleted {
		i.Waits = false
		m.releaseTarget(id, i)
		m.detach(id)
	}
	if st == api.StatusDeleted {
		i.Away = 0
		end := i.Hold.EndOf(i.Group)
		if c := m.Claims[id]; c != nil {
			end = c.Until()
		}
		m.detachFrom(id)
		m.endInstance(id)
		m.queueGone(id, end)
	}
	if st == api.StatusDeleting {
		m.endWithin(id)
	}
}

// Since returns the start of an instance being unreachable; 0 while it is reachable.
func (m *Model) Since(i *Instance) api.Instant {
	switch {
	case !i.Live():
		return i.Away
	case i.Host != "":
		return m.Hosts[i.Host].DownSince
	case i.Away == 0 && m.Links[i.Link] != nil:
		return m.Links[i.Link].Silent
	}
	return i.Away
}

// noteReach records a child's report that an instance is unreachable, since at most the
// present time here.
func (m *Model) noteReach(id api.InstanceID, since api.Instant) {
	i, was := m.Instances[id], m.Instances[id].Away
	switch {
	case since <= 0:
		i.Away = 0
	case since <= m.Now:
		i.Away = since
	case i.Away == 0:
		i.Away = m.Now
	}
	if i.Away != was {
		m.Hit[id] = true
	}
}

// noteHostReach records that a host is up or down, for all instances on it.
func (m *Model) noteHostReach(h *Host, up bool) {
	if h.Up == up {
		return
	}
	h.Up, h.DownSince = up, 0
	if !up {
		h.DownSince = m.Now
	}
	for id, i := range m.Instances {
		if i.Host == h.ID && i.Live() {
			m.Hit[id] = true
		}
	}
}

func (m *Model) instanceDelete(c command.InstanceDelete) *Refusal {
	i, ok := m.Instances[c.ID]
	if !ok || !i.Live() {
		return &Refusal{promise.Model, "there is no instance " + string(c.ID)}
	}
	if m.Kept[c.ID] != nil {
		return &Refusal{promise.Lease, "an update takes over the slot " + string(c.ID)}
	}
	if i.Attached != "" && i.Hold.ID.Origin == "" {
		return &Refusal{promise.Volume, "the volume " + string(c.ID) + " is attached"}
	}
	if i.Status == api.StatusDeleting {
		m.stayEnded(c.ID)
	}
	m.setStatus(c.ID, api.StatusDeleting)
	return nil
}

// stayEnded records that a preempted instance is not booted again, because somebody has ended it.
func (m *Model) stayEnded(id api.InstanceID) {
	i := m.Instances[id]
	if i.Eviction != nil && i.Hold.Request.OnPreempt == api.PreemptRequeue && i.Eviction.Stays == "" {
		e := *i.Eviction
		e.Stays, m.Hit[id] = api.RequeueEnded, true
		i.Eviction = &e
	}
}

func (m *Model) instanceTold(c command.InstanceTold) {
	for _, id := range c.Gone {
		if i, ok := m.Instances[id]; ok && i.Link != "" && i.Status == api.StatusDeleting {
			m.setStatus(id, api.StatusDeleted)
		}
	}
}

// hostsSilent takes what was to end on lost hosts as gone if its agent does not let it outlive
// the silence of its zone: host by host, in the order of ids, in which preempted ones are booted again.
func (m *Model) hostsSilent(c command.HostsSilent) {
	for _, silent := range c.Hosts {
		h := m.Hosts[silent.ID]
		if h == nil || h.Up || h.DownSince != silent.Since {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(m.Instances)) {
			i := m.Instances[id]
			if i.Host == h.ID && i.Status == api.StatusDeleting && !i.Reserved() && (i.Hold.Request.Class == api.Preemptible || i.isMovable()) {
				m.setStatus(id, api.StatusDeleted)
			}
		}
	}
}

// instanceReport applies an agent's report on instances of its own hosts.
func (m *Model) instanceReport(c command.InstanceReport) {
	for _, r := range c.Items {
		i, ok := m.Instances[r.Instance]
		if !ok || !command.IsHost(r.Host, i.Host) || !i.Live() {
			continue
		}
		h, known := m.Hosts[i.Host]
		if !known || h.Agent != c.Agent {
			continue
		}
		if r.Stay > 0 && r.Stay != i.Stays+i.Orders+1 {
			continue // of an earlier stay or run
		}
		if i.Waits && !i.isSlot() {
			continue // no agent knows of it
		}
		m.countFailed(h, i, r.Status)
		switch {
		case r.Status == api.StatusDeleted && i.Status == api.StatusDeleting:
			m.setStatus(r.Instance, api.StatusDeleted)
		case r.Status == api.StatusDeleted && i.Target != "":
			m.arriveAt(r.Instance, i)
		case r.Status == api.StatusDeleted:
			m.setStatus(r.Instance, api.StatusError) // gone unasked
		case i.Status == api.StatusDeleting: // it will be gone
		case r.Status == api.StatusActive || r.Status == api.StatusShutoff || r.Status == api.StatusError:
			m.setStatus(r.Instance, r.Status)
			if r.Restarted != 0 && r.Restarted != i.Restarted {
				i.Restarts, i.Restarted, m.Hit[r.Instance] = i.Restarts+1, r.Restarted, true
			}
		}
	}
}

// countFailed counts consecutive failed starts on a host.
func (m *Model) countFailed(h *Host, i *Instance, reported api.Status) {
	const most = 1000
	switch {
	case reported == api.StatusError && i.Status == api.StatusBuild && h.Failures < most:
		h.Failures++
		m.bumpGeneration(h)
	case reported == api.StatusActive && i.Status != api.StatusActive && i.Status != api.StatusDeleting && h.Failures > 0:
		h.Failures = 0
		m.bumpGeneration(h)
	}
}

// instanceChanges applies a child's report, up to the first instance that is not decided
// here yet.
func (m *Model) instanceChanges(c command.InstanceChanges) *Refusal {
	l, ok := m.Links[c.Link]
	if !ok || l.Next != c.After {
		return &Refusal{promise.Model, "the child was followed from elsewhere"}
	}
	next := c.Next
	for _, ch := range c.Items {
		if _, pending := m.Held[ch.ID]; pending {
			next = min(next, ch.Index-1)
			break
		}
		i, ok := m.Instances[ch.ID]
		if !ok || i.Link != c.Link || !i.Live() {
			continue
		}
		m.noteEvicted(ch, i)
		m.noteRestarts(ch, i)
		switch ch.Status {
		case api.StatusDeleted:
			m.setStatus(ch.ID, ch.Status)
		case api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting:
			if i.Status != api.StatusDeleting {
				m.setStatus(ch.ID, ch.Status)
			}
			m.noteReach(ch.ID, ch.Unreachable)
			m.noteAttached(ch, i)
			if ch.Replaced && !i.Other {
				i.Other, m.Hit[ch.ID] = true, true
			}
		}
	}
	l.Next = next
	return nil
}

// noteRestarts records a child's report of how often an instance was started anew: the last one counts, also if it told more before.
func (m *Model) noteRestarts(ch api.InstanceChange, i *Instance) {
	if isWord(ch.Status) && ch.Restarts != i.Restarts {
		i.Restarts, m.Hit[ch.ID] = ch.Restarts, true
	}
}

// isWord reports whether a status is one that a child may report.
func isWord(s api.Status) bool {
	return slices.Contains([]api.Status{api.StatusBuild, api.StatusActive, api.StatusShutoff, api.StatusError, api.StatusDeleting, api.StatusDeleted}, s)
}

// noteEvicted records a child's report that an instance must leave, unless its owner has ended it.
func (m *Model) noteEvicted(ch api.InstanceChange, i *Instance) {
	switch {
	case ch.Eviction == nil || i.Eviction != nil || i.Status == api.StatusDeleting:
		return
	case !isWord(ch.Status):
		return
	}
	e := *ch.Eviction
	e.Stays = ""
	if !api.ValidName(string(e.For)) {
		e.For = ""
	}
	i.Eviction, m.Hit[ch.ID] = &e, true
}
