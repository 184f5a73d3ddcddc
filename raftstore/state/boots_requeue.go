package state

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/raftstore/command"
)

// Preempted instances of a boot of this zone that asked for it are booted again, here or below: the
// last of them to go makes the boot due. They wait in an entry of the queue, one for each boot, until a
// leader finds room. Then instances are ordered for all of them, in a refill: another order of the same boot, with a
// record of its own while it is undecided. What it gets is the boot's from its commit on; what it does not get waits
// again. The entry stays meanwhile.

// Requeued is an entry of the queue: the instances of one boot that are to be booted again.
type Requeued struct {
	Project     api.ProjectID      `cbor:"1,keyasint"`
	Reservation api.ReservationID  `cbor:"2,keyasint"`            // the boot
	Instances   []RequeuedInstance `cbor:"3,keyasint"`            // by group and id; those that came after Refill was ordered last
	Since       api.Instant        `cbor:"4,keyasint"`            // when the first of them was gone
	Until       api.Instant        `cbor:"5,keyasint"`            // end of the last window of them
	Tries       int                `cbor:"6,keyasint,omitempty"`  // that failed, in a row
	Tried       api.Instant        `cbor:"7,keyasint,omitempty"`  // the last one; 0 for none
	TriedAt     uint64             `cbor:"8,keyasint,omitempty"`  // index of its entry
	Next        api.Instant        `cbor:"9,keyasint"`            // when the next is due, whether room has become free or not
	Sent        int                `cbor:"11,keyasint,omitempty"` // of the first of them, how many Refill is for
	Enough      bool               `cbor:"12,keyasint,omitempty"` // a refill has reached the minimum
	ModIndex    uint64             `cbor:"13,keyasint"`
	Refill      int                `cbor:"14,keyasint,omitempty" form:"5"` // the order that is undecided; 0 for none
}

// RequeuedInstance is an instance that is gone, and is to be booted again under another id.
type RequeuedInstance struct {
	ID    api.InstanceID `cbor:"1,keyasint"`
	Name  string         `cbor:"2,keyasint"`
	Group int            `cbor:"3,keyasint,omitempty"`
}

func (r *Requeued) id() string { return joinKey(r.Project, r.Reservation) }

// bootKey returns the key of a boot in the tables, or that of one of its refills.
func bootKey(p api.ProjectID, r api.ReservationID, refill int) string {
	if refill == 0 {
		return joinKey(p, r)
	}
	return joinKey(joinKey(p, r), strconv.Itoa(refill))
}

// heirOf returns the key of the boot that has what an owner held: a refill that is decided has left it to its boot.
func (s *bootsBook) heirOf(owner string) string {
	if _, ok := s.boots.Get(owner); ok {
		return owner
	}
	parts := strings.SplitN(owner, "\x00", 3)
	return strings.Join(parts[:min(len(parts), 2)], "\x00")
}

// putRequeued stores an entry; one without instances is deleted.
func (s *bootsBook) putRequeued(r *Requeued) {
	if old, ok := s.queue.Delete(r.id()); ok {
		s.queued -= len(old.Instances)
	}
	if len(r.Instances) > 0 {
		s.queue.Set(r.id(), r)
		s.queued += len(r.Instances)
	}
}

func (s *bootsBook) loadRequeued(r *Requeued) {
	s.putRequeued(r)
	if b, ok := s.boots.Get(r.id()); ok {
		b.Queued = len(r.Instances)
	}
}

// editRequeued changes the entry of a boot, and the number in the boot's record.
func (s *bootsBook) editRequeued(old *Requeued, edit func(*Requeued)) {
	r := *old
	r.Instances = slices.Clone(r.Instances)
	edit(&r)
	if r.Refill == 0 {
		slices.SortFunc(r.Instances, func(a, b RequeuedInstance) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.ID, b.ID))
		})
	}
	r.ModIndex = s.index
	s.putRequeued(&r)
	s.editBoot(r.id(), func(b *Boot) { b.Queued = len(r.Instances) })
}

// queuePreempted queues an instance that is gone, if it was preempted, asked to be booted again and
// its owner has not ended it.
func (s *bootsBook) queuePreempted(i *api.Instance) {
	if i.Live() || i.Eviction == nil || i.OnPreempt != api.PreemptRequeue || i.Origin != "" || i.Eviction.Stays != "" {
		return
	}
	b, ok := s.boots.Get(joinKey(i.Project, i.Reservation))
	if !ok || b.Ended || b.Decision != api.DecisionCommit || i.Window.End <= s.now {
		return
	}
	if s.queued >= s.limits.requeued {
		s.stayEnded(i, api.RequeueFull)
		return
	}
	old, ok := s.queue.Get(b.ID())
	if !ok {
		old = &Requeued{Project: i.Project, Reservation: i.Reservation, Since: s.now, Next: s.now}
	}
	group := max(slices.IndexFunc(b.Request.Groups, func(g api.Group) bool { return g.Name == i.Group }), 0)
	s.editRequeued(old, func(r *Requeued) {
		r.Instances = append(r.Instances, RequeuedInstance{ID: i.ID, Name: i.Name, Group: group})
		r.Until = max(r.Until, i.Window.End)
	})
	s.addFact(instanceQueued{i})
}

// forgetRequeued forgets the instances of a boot that its owner releases, and gives up the refill that is to have
// them.
func (s *bootsBook) forgetRequeued(b *Boot) {
	old, ok := s.queue.Get(b.ID())
	if !ok {
		return
	}
	refill, pending := s.boots.Get(bootKey(old.Project, old.Reservation, old.Refill))
	s.editRequeued(old, func(r *Requeued) { r.Instances = nil })
	if pending && old.Refill > 0 {
		s.decideBoot(refill, api.DecisionAbort, "", "released before it was decided")
	}
}

func (s *bootsBook) requeue(c command.Requeue) Result {
	r, ok := s.queue.Get(joinKey(c.Project, c.Reservation))
	b, _ := s.boots.Get(joinKey(c.Project, c.Reservation))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no preempted instances of reservation %q wait", string(c.Reservation))
	case r.Refill > 0 && r.Refill == c.Refill:
		refill, _ := s.boots.Get(bootKey(c.Project, c.Reservation, c.Refill))
		return Result{Boot: refill} // a repeat
	case r.ModIndex != c.Seen || r.Refill > 0 || c.Refill > 0 && c.Refill != b.Refills+1:
		return refuseWith(api.CodeConflict, "the preempted instances of reservation %q have changed", string(c.Reservation))
	case r.Until <= s.now:
		s.editRequeued(r, func(r *Requeued) { r.Instances = nil })
		return Result{}
	case c.Refill == 0:
		s.editRequeued(r, s.failTry)
		return Result{}
	case s.awaitsPreempted(r):
		return refuseWith(api.CodeConflict, "not all preempted instances of reservation %q are gone", string(c.Reservation))
	case len(c.Instances) != len(r.Instances):
		return refuseWith(api.CodeInvalid, "%d preempted instances of reservation %q wait, and there are %d ids for them", len(r.Instances), string(c.Reservation), len(c.Instances))
	}
	for _, i := range c.Instances {
		if s.knowsInstance(i.ID) {
			return refuseWith(api.CodeConflict, "instance id %s is taken", string(i.ID))
		}
	}
	terms := s.RequeueTerms(r)
	terms.Instances = slices.Clone(c.Instances)
	for n := range terms.Instances {
		terms.Instances[n].Name = r.Instances[n].Name
	}
	if s.checkBoot(&terms).Err != nil {
		s.editRequeued(r, s.failTry)
		return Result{}
	}
	s.editBoot(b.ID(), func(b *Boot) { b.Refills = c.Refill })
	s.editRequeued(r, func(r *Requeued) { r.Refill, r.Sent = c.Refill, len(r.Instances) })
	s.addFact(bootRequeued{r})
	return Result{Boot: s.addBoot(terms, s.now)}
}

// failTry records a try that found no room.
func (s *bootsBook) failTry(r *Requeued) {
	pause := s.limits.requeuePause
	if r.Tries < 30 { // 2^30 s are more than the longest pause
		pause = min(pause, api.RequeuePause<<r.Tries)
	}
	r.Tries++
	r.Tried, r.TriedAt, r.Next = s.now, s.index, s.now.Add(pause)
}

// settleRefill ends a refill that is decided. Its boot has the holds that were committed, and the entry of the queue
// keeps what it did not get.
func (s *bootsBook) settleRefill(b *Boot) {
	s.dropRefill(b)
	r, ok := s.queue.Get(joinKey(b.Request.Project, b.Request.Reservation))
	if !ok || r.Refill != b.Refill {
		return // its owner does not want them any more
	}
	type twin struct{ group, name string } // each attempt of a boot has other ids
	got := map[twin]int{}
	for _, i := range s.madeFor(b) {
		got[twin{i.Group, i.Name}]++
	}
	s.editRequeued(r, func(r *Requeued) {
		sent, later := r.Instances[:r.Sent], r.Instances[r.Sent:]
		if b.Decision == api.DecisionCommit {
			sent = slices.DeleteFunc(sent, func(i RequeuedInstance) bool {
				t := twin{b.Request.Groups[i.Group].Name, i.Name}
				got[t]--
				return got[t] >= 0
			})
			r.Enough, r.Tries, r.Tried, r.TriedAt, r.Next = true, 0, s.now, s.index, s.now.Add(api.RequeuePause)
		} else {
			s.failTry(r)
		}
		r.Instances, r.Refill, r.Sent = slices.Concat(sent, later), 0, 0
	})
}

// dropRefill forgets the record of a refill. Its boot has its holds that were committed, and no longer the ids of its
// own that are forgotten.
func (s *bootsBook) dropRefill(b *Boot) {
	s.boots.Delete(b.ID())
	s.countRecord(b, false)
	s.editBoot(joinKey(b.Request.Project, b.Request.Reservation), func(first *Boot) {
		first.Holds = slices.DeleteFunc(slices.Concat(first.Holds, b.Holds), func(id api.HoldID) bool {
			h, ok := s.holds.Get(joinKey(api.LinkID(""), id))
			return !ok || h.Refill > 0 && h.Decision != api.DecisionCommit
		})
		first.Unacked += b.Unacked
	})
}

// madeFor returns the instances of the holds of a boot of this zone.
func (s *bootsBook) madeFor(b *Boot) (out []*api.Instance) {
	for _, id := range b.Holds {
		h, ok := s.holds.Get(joinKey(api.LinkID(""), id))
		if !ok || h.Decision != api.DecisionCommit {
			continue
		}
		for _, id := range h.Held() {
			if i := s.madeBy(h, id); i != nil {
				out = append(out, i)
			}
		}
	}
	return out
}

// awaitsPreempted reports whether more preempted instances of the boot of an entry will come to it.
func (s *bootsBook) awaitsPreempted(r *Requeued) bool {
	return slices.ContainsFunc(s.OfReservation(r.Project, r.Reservation), func(i *api.Instance) bool {
		return i.Origin == "" && i.Status == api.StatusDeleting && i.Eviction != nil && i.Eviction.Stays == ""
	})
}

// Survivors counts the instances of a boot that are not to end, for each group of its request, by place: the link to a
// child, or "" for own hosts. What is booted again is beside them.
func (s *bootsBook) Survivors(b *Boot) []map[api.LinkID]int {
	out := make([]map[api.LinkID]int, len(b.Request.Groups))
	for g := range out {
		out[g] = map[api.LinkID]int{}
	}
	for _, i := range s.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Origin != "" || i.Status == api.StatusDeleting || i.Status == api.StatusDeleted {
			continue
		}
		if g := slices.IndexFunc(b.Request.Groups, func(g api.Group) bool { return g.Name == i.Group }); g >= 0 {
			out[g][i.Link]++
		}
	}
	return out
}

// RequeueTerms returns the terms of the next refill for an entry, without ids: those of the boot, for the
// instances of the entry and the time that is left. Its minimum is what the boot lacks, and at least 1.
func (s *bootsBook) RequeueTerms(r *Requeued) command.BootTerms {
	b, _ := s.boots.Get(r.id())
	out := command.BootTerms{Digest: b.Digest, Name: b.Name, Request: b.RequestNow(), Metadata: b.Metadata, Call: b.Call, Refill: b.Refills + 1}
	groups := slices.Clone(b.Request.Groups)
	for g := range groups {
		groups[g].Count = 0
	}
	for _, i := range r.Instances {
		groups[i.Group].Count++
	}
	least, sum, zones := b.Min, 0, map[api.LinkID]bool{}
	for g, places := range s.Survivors(b) {
		for at, n := range places {
			least -= n
			groups[g].Min -= n
			zones[at] = true
		}
		groups[g].Min = max(0, min(groups[g].Min, groups[g].Count))
		if r.Enough {
			groups[g].Min = 0
		}
		sum += groups[g].Min
	}
	if r.Enough {
		least = 1
	}
	out.Min = max(1, sum, min(least, len(r.Instances)))
	out.Request.Groups = groups
	out.Request.Zones.MinZones = min(out.Request.Zones.MinZones, len(zones)+len(r.Instances))
	if r.Until != api.Forever && b.Request.Window.End == api.Forever {
		out.Request.Lifetime = time.Duration(max(r.Until-s.now, 1)) * time.Millisecond
	}
	return out
}

// noteRoom notes that room may have become free.
func (s *bootsBook) noteRoom(f instanceChanged) {
	if f.is == api.StatusDeleted {
		s.freed = s.index
	}
}
