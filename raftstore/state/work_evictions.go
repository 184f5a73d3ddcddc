package state

import (
	"slices"
	"strings"

	"berth/api"
	"berth/preempt"
)

// Preemptible instances leave room that somebody else has: a slot of a lease from its closing on,
// which is its grace before its start, or a firm instance that waits for it. Whoever has the
// room evicts as many as are in its way, and begins when they are gone. From the closing on the
// host table admits no preemptible to the room of a slot.

// closingOf returns when the room of a slot is closed to preemptibles.
func closingOf(i *api.Instance) api.Instant { return i.Window.Start.Add(-i.Grace) }

// closingKey orders slots by their closing.
func closingKey(i *api.Instance) string { return timeKey(closingOf(i)) + string(i.ID) }

// needsRoom reports whether a slot or instance has room now that preemptibles have to leave.
func (s *workBook) needsRoom(i *api.Instance) bool {
	return i.Waits || beginsByWindow(i) && closingOf(i) <= s.now
}

// closeRoom evicts what is in the way of a slot whose closing has begun.
func (s *workBook) closeRoom(slot *api.Instance) {
	s.closings.Delete(closingKey(slot))
	s.evictFor(slot)
}

// evictFor evicts the preemptibles that are in the way of an instance or slot: all on the host
// of a whole one, else as many as are needed.
func (s *workBook) evictFor(who *api.Instance) {
	missing := s.missingFor(who)
	if len(missing) == 0 && !who.Whole {
		return
	}
	by := s.deadlineFor(who)
	var staying []*api.Instance
	for _, i := range s.preemptiblesBeside(who) {
		if i.Status != api.StatusDeleting {
			staying = append(staying, i)
			continue
		}
		for k, n := range s.usesOf(i) {
			missing[k] -= n
		}
		s.hasten(i, who, by)
	}
	leave := staying
	if !who.Whole {
		leave = s.chooseVictims(missing, staying)
	}
	for _, i := range leave {
		s.evict(i, who, by)
	}
}

// missingFor returns what an instance or slot has and others use, now or until it starts.
func (s *workBook) missingFor(who *api.Instance) map[preempt.Key]int64 {
	missing := map[preempt.Key]int64{}
	if who.Within != "" {
		for class, n := range s.hostTable.ExcessWithin(who.Host, *s.outerClaim(who.Within)) { // in any order
			missing[preempt.Key{Provider: who.Host, Class: class}] = n
		}
		return missing
	}
	for id, part := range allocations(who.Host, s.claimOf(who), who.Shares) {
		for class, n := range s.hostTable.Excess(id, part.Resources, who.Window.Start) { // in any order
			missing[preempt.Key{Provider: id, Class: class}] = n
		}
	}
	return missing
}

// deadlineFor returns until when what is in the way of an instance or slot must have gone: its
// start if that is to come, else the grace of the zone.
func (s *workBook) deadlineFor(who *api.Instance) api.Instant {
	if who.Window.Start > s.now {
		return who.Window.Start
	}
	return s.now.Add(s.Config.Preemptibles.GraceOf(0))
}

// preemptiblesBeside returns the instances, by id, that use room which an instance or slot has,
// without a right to it against a firm claim: preemptibles, and what is overdue.
func (s *workBook) preemptiblesBeside(who *api.Instance) []*api.Instance {
	var out []*api.Instance
	add := func(id api.InstanceID) {
		if i, ok := s.instances.Get(string(id)); ok && i.Live() && i.ID != who.ID && i.Within == who.Within && s.claimOf(i).Class == api.Preemptible {
			out = append(out, i)
		}
	}
	if who.Within != "" {
		s.eachWithin(who.Within, func(i *api.Instance) { add(i.ID) })
		return out
	}
	for _, id := range s.providersOf(who) {
		s.consumersOf(id, func(c api.ConsumerID) bool {
			add(c)
			return true
		})
	}
	slices.SortFunc(out, func(a, b *api.Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return slices.Compact(out)
}

// providersOf returns the host of an instance or slot, and all that give it a share: for a whole
// host, everything below it that has anything.
func (s *workBook) providersOf(who *api.Instance) []api.ProviderID {
	var out []api.ProviderID
	for id := range allocations(who.Host, api.Claim{}, who.Shares) {
		out = append(out, id)
	}
	return out
}

// usesOf returns what an instance uses of each provider.
func (s *workBook) usesOf(i *api.Instance) map[preempt.Key]int64 {
	uses := map[preempt.Key]int64{}
	for id, c := range s.instanceClaims(i) {
		for class, n := range c.Resources { // in any order
			uses[preempt.Key{Provider: id, Class: class}] += n
		}
	}
	return uses
}

// chooseVictims returns which of some instances leave so that nothing is missing, by id.
func (s *workBook) chooseVictims(missing map[preempt.Key]int64, staying []*api.Instance) []*api.Instance {
	all := make([]preempt.Candidate, 0, len(staying))
	for _, i := range staying {
		c := preempt.Candidate{ID: i.ID, Gang: joinKey(tenantKey(i.Tenant()), i.Reservation), Start: i.Created, Uses: s.usesOf(i)}
		if i.Status != api.StatusActive {
			c.Start = s.now // nothing runs that could be lost
		}
		all = append(all, c)
	}
	leave, _ := preempt.Choose(missing, all, s.now)
	return slices.DeleteFunc(staying, func(i *api.Instance) bool {
		_, leaves := slices.BinarySearch(leave, i.ID)
		return !leaves
	})
}

// evict requests the end of a preemptible instance for another that has its room.
func (s *workBook) evict(old, who *api.Instance, by api.Instant) {
	i := *old
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = s.evictionFor(who, by) })
	s.putInstance(old, &i)
	s.addFact(instanceEvicted{&i})
	s.endInstance(&i)
}

// evictionFor returns why an instance must leave for another.
func (s *workBook) evictionFor(who *api.Instance, by api.Instant) *api.Eviction {
	if who.Reserved {
		return &api.Eviction{For: api.ReservationID(who.Group), Lease: true, At: s.now, By: by}
	}
	return &api.Eviction{For: who.Reservation, At: s.now, By: by}
}

// hasten gives an instance that is leaving no more time than until by. What its owner had ended
// before is not booted again.
func (s *workBook) hasten(old, who *api.Instance, by api.Instant) {
	if old.Class != api.Preemptible || old.Eviction != nil && old.Eviction.By <= by {
		return
	}
	i, e := *old, s.evictionFor(who, by)
	switch {
	case old.Eviction != nil:
		*e = *old.Eviction
		e.By = by
	case old.OnPreempt == api.PreemptRequeue:
		e.Stays = api.RequeueEnded
	}
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Eviction = e })
	s.putInstance(old, &i)
	s.touchHost(i.Host, i.ID)
}

// evictLent evicts preemptibles from within a slot whose terms have changed, now or since one of
// them was held: all if its owner does not lend it any more, else as many as have no room left.
func (s *workBook) evictLent(slot *api.Instance) {
	var lent, leaving []*api.Instance
	s.eachWithin(slot.ID, func(i *api.Instance) {
		switch {
		case i.Class != api.Preemptible:
		case i.Status == api.StatusDeleting:
			leaving = append(leaving, i)
		default:
			lent = append(lent, i)
		}
	})
	if len(lent) == 0 {
		return
	}
	if slot.ShareIdle {
		missing := s.missingFor(lent[0])
		for _, i := range leaving {
			for k, n := range s.usesOf(i) {
				missing[k] -= n
			}
		}
		lent = s.chooseVictims(missing, lent)
	}
	for _, i := range lent {
		s.evict(i, slot, s.deadlineFor(slot))
	}
}

// evictAllLent evicts all preemptibles from within a slot.
func (s *workBook) evictAllLent(slot *api.Instance) {
	for _, i := range s.Within(slot.ID) {
		if i.Status != api.StatusDeleting {
			s.evict(i, slot, s.deadlineFor(slot))
		}
	}
}

// evictLate evicts preemptibles again for whoever has room that a new one uses: it was held
// before that was closed.
func (s *workBook) evictLate(late *api.Instance) {
	if late.Class != api.Preemptible || !late.Live() || late.Host == "" {
		return
	}
	var owners []api.InstanceID
	if late.Within != "" {
		s.eachWithin(late.Within, func(i *api.Instance) { owners = append(owners, i.ID) })
	} else {
		for id, part := range allocations(late.Host, s.claimOf(late), late.Shares) {
			if s.hostTable.IsOverClosed(id, part.Resources) {
				s.consumersOf(id, func(c api.ConsumerID) bool {
					owners = append(owners, c)
					return true
				})
			}
		}
	}
	slices.Sort(owners)
	for _, id := range slices.Compact(owners) {
		if who, ok := s.instances.Get(string(id)); ok && s.needsRoom(who) {
			s.evictFor(who)
		}
	}
}

// waitForRoom makes a firm instance wait for its room if preemptibles still use it, and evicts
// them.
func (s *workBook) waitForRoom(old *api.Instance) {
	if s.isRoomFree(old) {
		return
	}
	i := *old
	i.Waits = true
	s.putInstance(old, &i)
	s.evictFor(&i)
}

// RoomUntil returns until when at least a preemptible instance on an own host keeps its room if
// nothing new is asked for: the next closing that needs it, or the end of its window. It is 0 for
// one that must leave or is gone, and if another zone knows.
func (s *workBook) RoomUntil(i *api.Instance) api.Instant {
	if i.Host == "" || !i.Live() || i.Status == api.StatusDeleting {
		return 0
	}
	until := i.Window.End
	if i.Within != "" { // its owner may come at any time
		return s.now
	}
	hosts := s.Hosts()
	for id, part := range allocations(i.Host, s.claimOf(i), i.Shares) {
		if row, ok := hosts.Row(id); ok {
			until = min(until, hosts.RoomUntil(row, part.Resources))
		}
	}
	return until
}
