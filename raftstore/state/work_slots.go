package state

import (
	"slices"
	"strings"

	"berth/api"
)

// A slot is room on a host that a lease has reserved: an instance that is Reserved. Nothing
// runs in it by itself; instances boot within it, and their claims are within its claim. A
// slot begins when its window has begun and its room is free. It ends with its window or
// when its order is released: the instances within it end first, and then it is gone.

func waitingKey(i *api.Instance) string { return joinKey(i.Host, i.ID) }

// listWaiting lists a slot as waiting for room on its host and of all that give it a share.
func (s *workBook) listWaiting(i *api.Instance) {
	for id := range allocations(i.Host, api.Claim{}, i.Shares) {
		s.waiting.Insert(joinKey(id, i.ID))
	}
}

func (s *workBook) unlistWaiting(i *api.Instance) {
	for id := range allocations(i.Host, api.Claim{}, i.Shares) {
		s.waiting.Delete(joinKey(id, i.ID))
	}
}

// beginsByWindow reports whether a slot waits for its window to begin.
func beginsByWindow(i *api.Instance) bool {
	return i.Reserved && i.Host != "" && i.Status == api.StatusBuild
}

// beginSlot begins a slot whose window has begun, or lists it as waiting while others still
// use its room.
func (s *workBook) beginSlot(i *api.Instance) {
	if s.isRoomFree(i) {
		s.unlistWaiting(i)
		s.setStatus(i, api.StatusActive, "")
		return
	}
	s.begins.Delete(beginKey(i))
	s.listWaiting(i)
	s.evictFor(i)
}

// LateSlots returns, by id, the slots whose window has begun by then and whose room is still in
// use by others.
func (s *workBook) LateSlots(then api.Instant) []*api.Instance {
	var out []*api.Instance
	s.waiting.Scan(func(k string) bool {
		host, id, _ := strings.Cut(k, "\x00")
		if i, ok := s.instances.Get(id); ok && host == string(i.Host) && i.Reserved && i.Window.Start <= then {
			out = append(out, i)
		}
		return true
	})
	slices.SortFunc(out, func(a, b *api.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// beginAdded begins a new slot whose window has begun already, and closes the room of one whose
// closing has.
func (s *workBook) beginAdded(i *api.Instance) {
	switch {
	case s.waiting.Contains(waitingKey(i)):
		s.beginSlot(i)
	case s.needsRoom(i):
		s.closeRoom(i)
	}
}

// isRoomFree reports whether everything that a slot or an instance has is free of others now.
func (s *workBook) isRoomFree(i *api.Instance) bool {
	if i.Within != "" {
		return len(s.hostTable.ExcessWithin(i.Host, *s.outerClaim(i.Within))) == 0
	}
	for id, part := range allocations(i.Host, s.claimOf(i), i.Shares) {
		if s.hostTable.Overfull(id, part.Resources) {
			return false
		}
	}
	return true
}

// beginWaiting begins the waiting slots and instances that have room of what this command has
// changed; of any, after an entry that had more steps than it might take. It begins none while
// a window that is over is yet to be ended: what has it seems gone until it is overdue.
func (s *workBook) beginWaiting() {
	if s.waiting.Len() == 0 || s.endsNow() {
		return
	}
	var due []*api.Instance
	list := func(id api.InstanceID) {
		if i, ok := s.instances.Get(string(id)); ok {
			due = append(due, i)
		}
	}
	for id := range s.bumped { // in any order: sorted below
		eachOn(&s.waiting, id, list)
	}
	if s.behind {
		s.waiting.Scan(func(k string) bool {
			_, id, _ := strings.Cut(k, "\x00")
			list(api.InstanceID(id))
			return true
		})
	}
	slices.SortFunc(due, func(a, b *api.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, i := range slices.Compact(due) {
		switch {
		case !s.isRoomFree(i):
		case i.Waits:
			s.endWait(i)
		default:
			s.beginSlot(i)
		}
	}
}

// endWait shows an instance whose room is free to its agent.
func (s *workBook) endWait(old *api.Instance) {
	i := *old
	i.Waits = false
	s.putInstance(old, &i)
	s.touchHost(i.Host, i.ID)
}

// nextEnd returns the own instance or slot whose window ends next, or was to be ended first; nil
// for none. While an update of a lease is being decided, what it takes over does not end.
func (s *workBook) nextEnd() (next *api.Instance) {
	s.ends.Scan(func(k string) bool {
		i, ok := s.instances.Get(k[8:])
		if !ok || s.isKept(i.ID) || i.Within != "" && s.isKept(i.Within) {
			return true
		}
		next = i
		return false
	})
	return next
}

// endsNow reports whether a window is over and is yet to be ended.
func (s *workBook) endsNow() bool {
	i := s.nextEnd()
	return i != nil && i.Window.End <= s.now && s.limits.endFirst
}

// noteBehind records, before an entry, whether the one before has left windows that are over.
func (s *workBook) noteBehind() { s.behind = s.endsNow() }

// endWindow ends an instance or slot whose window has passed. What is not gone at once is
// overdue: it counts as using its room until it is gone, but has no right to it.
func (s *workBook) endWindow(i *api.Instance) {
	s.endInstance(i)
	old, ok := s.instances.Get(string(i.ID))
	if !ok || !old.Live() || old.Overdue {
		return
	}
	now := *old
	now.Overdue = true
	s.releaseAllocation(old.Host, s.claimOf(old), old.Shares)
	s.putInstance(old, &now)
	s.allocate(now.Host, s.claimOf(&now), now.Shares)
}

// eachWithin visits the live instances within a slot, by id.
func (s *workBook) eachWithin(slot api.InstanceID, visit func(*api.Instance)) {
	eachUnder(&s.within, string(slot)+"\x00", func(id string) {
		if i, ok := s.instances.Get(id); ok {
			visit(i)
		}
	})
}

// Within returns the live instances within a slot, by id.
func (s *workBook) Within(slot api.InstanceID) []*api.Instance {
	var out []*api.Instance
	s.eachWithin(slot, func(i *api.Instance) { out = append(out, i) })
	return out
}

// endWithin ends the instances within a slot that is ending, and then the slot.
func (s *workBook) endWithin(slot *api.Instance) {
	if !slot.Reserved || slot.Host == "" {
		return
	}
	for _, i := range s.Within(slot.ID) {
		s.endInstance(i)
	}
	s.endEmptySlot(slot.ID)
}

// endEmptySlot ends a slot that is ending and has no instance left.
func (s *workBook) endEmptySlot(id api.InstanceID) {
	slot, ok := s.instances.Get(string(id))
	if ok && slot.Status == api.StatusDeleting && !s.isOccupied(id) {
		s.setStatus(slot, api.StatusDeleted, "")
	}
}

// isOccupied reports whether an instance is within a slot, or an undecided hold has room
// in it.
func (s *workBook) isOccupied(slot api.InstanceID) bool {
	_, promised := s.promised.Get(string(slot))
	return promised || s.isPromisedLent(slot) || len(s.Within(slot)) > 0
}

// isUsed is isOccupied by others than preemptibles.
func (s *workBook) isUsed(slot api.InstanceID) bool {
	_, promised := s.promised.Get(string(slot))
	return promised || slices.ContainsFunc(s.Within(slot), func(i *api.Instance) bool { return i.Class != api.Preemptible })
}

// isPromisedLent reports whether an undecided hold of preemptibles has room in a slot.
func (s *workBook) isPromisedLent(slot api.InstanceID) bool {
	_, lent := s.lent.Get(string(slot))
	return lent
}

// HasOnlyLent reports whether nothing runs in a slot but preemptibles that have not been asked to
// leave, and nothing is about to.
func (s *workBook) HasOnlyLent(slot *api.Instance) bool {
	return s.isOccupied(slot.ID) && !s.isUsed(slot.ID) && !s.isPromisedLent(slot.ID) && !s.isKept(slot.ID) &&
		slices.ContainsFunc(s.Within(slot.ID), func(i *api.Instance) bool { return i.Status != api.StatusDeleting })
}

// IsEmpty reports whether nothing runs in a slot, nor is about to, and no update takes it over.
func (s *workBook) IsEmpty(slot *api.Instance) bool {
	return !s.isOccupied(slot.ID) && !s.isKept(slot.ID)
}

// FreeSlots returns the slots of a reservation on own hosts in which a project may boot now,
// by id. origin is the parent that has the lease, "" for this zone. Whole hosts are listed
// whatever runs there.
func (s *workBook) FreeSlots(origin api.LinkID, reservation api.ReservationID, p api.ProjectID) []*api.Instance {
	return slices.DeleteFunc(s.UsableSlots(origin, reservation, p), func(i *api.Instance) bool { return s.isKept(i.ID) || !i.Whole && s.isUsed(i.ID) })
}

// UsableSlots returns the slots on own hosts of a reservation that has begun and which a
// project may use, by id, also those that are taken.
func (s *workBook) UsableSlots(origin api.LinkID, reservation api.ReservationID, p api.ProjectID) []*api.Instance {
	return slices.DeleteFunc(s.SlotsOf(origin, reservation), func(i *api.Instance) bool {
		return i.Host == "" || i.Status != api.StatusActive || i.Overdue || !mayUse(i, p)
	})
}

// LentSlots returns the slots on own hosts, by id, in which preemptibles may run while their
// owners do not use them.
func (s *workBook) LentSlots() []*api.Instance {
	return slices.DeleteFunc(pickRecords(&s.lending, s.instances), func(i *api.Instance) bool { return s.isKept(i.ID) })
}

// mayUse reports whether a project of the zone with a lease may use a slot of it.
func mayUse(slot *api.Instance, p api.ProjectID) bool {
	return slot.Project == p || slices.Contains(slot.Shared, p)
}

// SlotsOn returns the slots on a host that are not DELETED, by id.
func (s *workBook) SlotsOn(id api.HostID) []*api.Instance {
	return slices.DeleteFunc(s.allOn(id), func(i *api.Instance) bool { return !i.Reserved })
}

// SlotsOf returns the slots of a reservation of a lease that are not DELETED, here and abroad,
// by id. origin is the parent that has the lease, "" for this zone.
func (s *workBook) SlotsOf(origin api.LinkID, reservation api.ReservationID) []*api.Instance {
	var out []*api.Instance
	eachUnder(&s.reserved, joinKey(origin, reservation)+"\x00", func(id string) {
		if i, ok := s.instances.Get(id); ok {
			out = append(out, i)
		}
	})
	return out
}

// promiseWithin counts n more slots of a class within a slot that undecided holds have.
func (s *workBook) promiseWithin(slot api.InstanceID, c api.Class, n int) {
	if c == api.Preemptible {
		addTally(s.lent, string(slot), n)
	} else {
		addTally(s.promised, string(slot), n)
	}
	s.endEmptySlot(slot)
}

// noteKept marks a slot as one that an undecided hold takes over, or no longer.
func (s *workBook) noteKept(slot api.InstanceID, kept bool) {
	if kept {
		s.keeping.Insert(string(slot))
	} else {
		s.keeping.Delete(string(slot))
	}
}

// isKept reports whether an undecided hold takes over a slot. Until it is decided the slot
// stays as it is.
func (s *workBook) isKept(slot api.InstanceID) bool { return s.keeping.Contains(string(slot)) }

// succeedSlot records new in place of old, a slot whose claim has become that of new. The
// instances within old are within new from now on.
func (s *workBook) succeedSlot(old, now *api.Instance) {
	gone := *old
	gone.Status = api.StatusDeleted
	inner := s.Within(old.ID)
	s.putInstance(old, &gone)
	s.byHost.Delete(string(old.Host), string(old.ID))
	s.noteDrawn(old.Host, s.claimOf(old), old.Shares, -1)
	s.addInstance(now)
	for _, was := range inner {
		i := *was
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Within = now.ID })
		s.putInstance(was, &i)
	}
	s.refitWithin(now.ID, old.Window.End, now.Window.End)
}

// refitWithin gives the instances within a slot whose window ends at from the end to.
func (s *workBook) refitWithin(slot api.InstanceID, from, to api.Instant) {
	if from == to {
		return
	}
	for _, was := range s.Within(slot) {
		if was.Window.End != from || was.Overdue {
			continue
		}
		i := *was
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Window.End = to })
		s.releaseAllocation(was.Host, s.claimOf(was), was.Shares)
		s.putInstance(was, &i)
		s.allocate(i.Host, s.claimOf(&i), i.Shares)
	}
}
