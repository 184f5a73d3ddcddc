package state

import (
	"cmp"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/command"
)

// Preempted instances of a boot of this zone that asked for it are booted again, here or below: the
// last of them to go makes the boot due. They wait in an entry of the queue, one for each boot, until a
// leader finds room. Then a new boot is made for all of them, the successor; the entry stays while
// that is undecided. What it does not get waits again.

// Requeued is an entry of the queue: the instances of one boot that are to be booted again.
type Requeued struct {
	Project     api.ProjectID      `cbor:"1,keyasint"`
	Reservation api.ReservationID  `cbor:"2,keyasint"`            // the boot
	Instances   []RequeuedInstance `cbor:"3,keyasint"`            // by group and id; those that came after Successor was made last
	Since       api.Instant        `cbor:"4,keyasint"`            // when the first of them was gone
	Until       api.Instant        `cbor:"5,keyasint"`            // end of the last window of them
	Tries       int                `cbor:"6,keyasint,omitempty"`  // that failed, in a row
	Tried       api.Instant        `cbor:"7,keyasint,omitempty"`  // the last one; 0 for none
	TriedAt     uint64             `cbor:"8,keyasint,omitempty"`  // index of its entry
	Next        api.Instant        `cbor:"9,keyasint"`            // when the next is due, whether room has become free or not
	Successor   api.ReservationID  `cbor:"10,keyasint,omitempty"` // an undecided boot of the first of them; "" for none
	Sent        int                `cbor:"11,keyasint,omitempty"` // how many those are
	Enough      bool               `cbor:"12,keyasint,omitempty"` // a successor has reached the minimum
	ModIndex    uint64             `cbor:"13,keyasint"`
}

// RequeuedInstance is an instance that is gone, and is to be booted again under another id.
type RequeuedInstance struct {
	ID    api.InstanceID `cbor:"1,keyasint"`
	Name  string         `cbor:"2,keyasint"`
	Group int            `cbor:"3,keyasint,omitempty"`
}

func (r *Requeued) id() string { return joinKey(r.Project, r.Reservation) }

func (s *bootsBook) isRequeued(b *Boot) bool {
	_, ok := s.queue.Get(b.ID())
	return ok
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

// editRequeued changes the entry of a boot, and stores the boot: whether it may be pruned depends
// on the entry.
func (s *bootsBook) editRequeued(old *Requeued, edit func(*Requeued)) {
	r := *old
	r.Instances = slices.Clone(r.Instances)
	edit(&r)
	if r.Successor == "" {
		slices.SortFunc(r.Instances, func(a, b RequeuedInstance) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.ID, b.ID))
		})
	}
	r.ModIndex = s.index
	s.editBoot(r.id(), func(*Boot) { s.putRequeued(&r) })
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

// forgetRequeued forgets the instances of a boot that its owner releases, and releases the boot
// that is to have them, if that is undecided.
func (s *bootsBook) forgetRequeued(b *Boot) {
	old, ok := s.queue.Get(b.ID())
	if !ok {
		return
	}
	s.editRequeued(old, func(r *Requeued) { r.Instances = nil })
	if next, ok := s.boots.Get(joinKey(old.Project, old.Successor)); ok && old.Successor != "" {
		s.releaseBoot(next)
	}
}

func (s *bootsBook) requeue(c command.Requeue) Result {
	r, ok := s.queue.Get(joinKey(c.Project, c.Reservation))
	if b, made := s.boots.Get(joinKey(c.Project, c.Successor)); made && c.Successor != "" {
		if b.Again != c.Reservation {
			return refuseWith(api.CodeConflict, "reservation %q exists", string(c.Successor))
		}
		return Result{Boot: b} // a repeat
	}
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no preempted instances of reservation %q wait", string(c.Reservation))
	case r.ModIndex != c.Seen || r.Successor != "":
		return refuseWith(api.CodeConflict, "the preempted instances of reservation %q have changed", string(c.Reservation))
	case r.Until <= s.now:
		s.editRequeued(r, func(r *Requeued) { r.Instances = nil })
		return Result{}
	case c.Successor == "":
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
	terms.Request.Reservation, terms.Instances = c.Successor, slices.Clone(c.Instances)
	for n := range terms.Instances {
		terms.Instances[n].Name = r.Instances[n].Name
	}
	if s.checkBoot(&terms).Err != nil {
		s.editRequeued(r, s.failTry)
		return Result{}
	}
	s.editRequeued(r, func(r *Requeued) { r.Successor, r.Sent = c.Successor, len(r.Instances) })
	s.editBoot(r.id(), func(b *Boot) {
		b.Successors = append(slices.Clone(b.Successors), c.Successor)
		b.Successors = b.Successors[max(0, len(b.Successors)-api.SuccessorsKept):]
	})
	s.addFact(bootRequeued{r, c.Successor})
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

// settleRequeued takes what a boot got, or did not, into account in the entry that it was made for.
func (s *bootsBook) settleRequeued(b *Boot) {
	r, ok := s.queue.Get(joinKey(b.Request.Project, b.Again))
	if !ok || b.Again == "" || r.Successor != b.Request.Reservation {
		return
	}
	type twin struct{ group, name string } // each attempt of a boot has other ids
	got := map[twin]int{}
	for _, i := range s.OfReservation(b.Request.Project, b.Request.Reservation) {
		if i.Origin == "" {
			got[twin{i.Group, i.Name}]++
		}
	}
	s.editRequeued(r, func(r *Requeued) {
		sent, later := r.Instances[:r.Sent], r.Instances[r.Sent:]
		switch {
		case b.Decision == api.DecisionCommit:
			sent = slices.DeleteFunc(sent, func(i RequeuedInstance) bool {
				t := twin{b.Request.Groups[i.Group].Name, i.Name}
				got[t]--
				return got[t] >= 0
			})
			r.Enough, r.Tries, r.Tried, r.TriedAt, r.Next = true, 0, s.now, s.index, s.now.Add(api.RequeuePause)
		case b.Ended: // by its owner, who does not want them any more
			sent = nil
		default:
			s.failTry(r)
		}
		r.Instances, r.Successor, r.Sent = slices.Concat(sent, later), "", 0
	})
}

// awaitsPreempted reports whether more preempted instances of the boot of an entry will come to it.
func (s *bootsBook) awaitsPreempted(r *Requeued) bool {
	return slices.ContainsFunc(s.OfReservation(r.Project, r.Reservation), func(i *api.Instance) bool {
		return i.Origin == "" && i.Status == api.StatusDeleting && i.Eviction != nil && i.Eviction.Stays == ""
	})
}

// RequeueTerms returns the terms of the successor for an entry, without ids: those of the boot, for the
// instances of the entry and the time that is left. Its minimum is what the boot lacks of its own, and
// at least 1.
func (s *bootsBook) RequeueTerms(r *Requeued) command.BootTerms {
	b, _ := s.boots.Get(r.id())
	out := command.BootTerms{Digest: b.Digest, Name: b.Name, Request: b.Request, Metadata: b.Metadata, Again: r.Reservation}
	groups := slices.Clone(b.Request.Groups)
	for g := range groups {
		groups[g].Count = 0
	}
	for _, i := range r.Instances {
		groups[i.Group].Count++
	}
	least := b.Min
	for _, i := range s.OfReservation(r.Project, r.Reservation) {
		if i.Origin != "" || i.Status == api.StatusDeleting || i.Status == api.StatusDeleted {
			continue
		}
		least--
		if g := slices.IndexFunc(groups, func(g api.Group) bool { return g.Name == i.Group }); g >= 0 {
			groups[g].Min--
		}
	}
	sum := 0
	for g := range groups {
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
	out.Request.Zones.MinZones = min(out.Request.Zones.MinZones, len(r.Instances))
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
