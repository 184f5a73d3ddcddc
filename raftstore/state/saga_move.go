package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// instanceMove moves an instance to another host: at once if its host is lost, else when
// the agent of that host reports it gone. See endStay. All that the command names move, or none:
// their room is claimed first.
func (s *sagaBook) instanceMove(c command.InstanceMove) Result {
	var all []*api.Instance
	for _, id := range c.All() {
		i, ok := s.instances.Get(string(id))
		if r := s.checkMove(i, ok, c); r.Err != nil {
			return r
		}
		if i.Host != c.To && !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	if s.evictFromSlots(all) {
		return Result{} // they move when these have left
	}
	if r := s.mayMove(all, c); r.Err != nil {
		return r
	}
	moved := make([]api.Instance, len(all))
	for n, old := range all {
		r := s.claimMove(old, &moved[n], c.To)
		if r.Err == nil {
			continue
		}
		for m := range n {
			s.releaseMove(all[m], &moved[m])
		}
		return r
	}
	for n, old := range all {
		s.recordMove(old, &moved[n], c.Evacuate)
	}
	return Result{}
}

// checkMove refuses to move what does not leave its host as c says.
func (s *sagaBook) checkMove(i *api.Instance, ok bool, c command.InstanceMove) Result {
	switch {
	case !ok || !i.Live() || i.Host == "":
		return refuseWith(api.CodeNotFound, "no such server on a host of this zone")
	case s.isKept(i.ID):
		return refuseWith(api.CodeConflict, "an update that takes over the slot is not decided")
	case i.Within != "":
		return refuseWith(api.CodeConflict, "the instance runs in a reservation and stays in its slot")
	case c.From == c.To:
		return refuseWith(api.CodeInvalid, "an instance moves from one host to another")
	case i.Host == c.To:
		return Result{} // it has moved
	case i.Host != c.From:
		return refuseWith(api.CodeConflict, "the instance is not on the host that it should leave")
	case i.Status == api.StatusDeleting:
		return refuseWith(api.CodeConflict, "the instance is being deleted")
	case i.Waits:
		return refuseWith(api.CodeConflict, "the instance waits for its room, and has not begun")
	case i.Volume != "":
		return refuseWith(api.CodeConflict, "a volume stays on its host")
	case i.Target != "" && i.Target != c.To:
		return refuseWith(api.CodeConflict, "the instance is on its way to another host")
	case i.Reserved && (s.isUsed(i.ID) || s.isPromisedLent(i.ID)):
		return refuseWith(api.CodeConflict, "instances run in the slot")
	case i.Reserved:
		return Result{}
	}
	return s.mayEvacuate(i, c)
}

// evictFromSlots evicts the preemptibles from within slots that are to move, and reports whether there
// are any.
func (s *sagaBook) evictFromSlots(all []*api.Instance) bool {
	found := false
	for _, i := range all {
		if i.Reserved && s.isOccupied(i.ID) {
			s.evictAllLent(i)
			found = true
		}
	}
	return found
}

// mayEvacuate refuses to start an instance elsewhere without waiting, unless its host is
// down and its boot allowed it or it has not begun.
func (s *sagaBook) mayEvacuate(i *api.Instance, c command.InstanceMove) Result {
	if !c.Evacuate {
		return Result{}
	}
	if h, ok := s.hosts.Get(string(i.Host)); ok && h.State == api.HostUp {
		return refuseWith(api.CodeConflict, "the host is up; the instance must stop there first")
	}
	if !i.Movable && (!c.Unstarted || i.Status != api.StatusBuild) {
		return refuseWith(api.CodeConflict, "the instance may not be started elsewhere when its host is lost")
	}
	return Result{}
}

// mayMove refuses instances that leave a host together if one of their rules keeps them from the
// other. The rules are in the hold, which is kept as long as the instance. What is on its way
// already is counted as one that leaves.
func (s *sagaBook) mayMove(all []*api.Instance, c command.InstanceMove) Result {
	leaving, coming := map[string]int{}, map[string]int{}
	for _, i := range all {
		for _, rule := range i.Rules {
			leaving[memberKey(i.Tenant(), rule, "")]++
			if i.Target == "" {
				coming[memberKey(i.Tenant(), rule, "")]++
			}
		}
	}
	for _, i := range all {
		h, ok := s.holds.Get(joinKey(i.Origin, i.Hold))
		if !ok || i.Target != "" {
			continue
		}
		for n := range h.Request.Rules {
			if s.limits.detachedMove && h.Request.Attaches(n) {
				continue // volumes keep it only as long as they are attached: see ReachesVolumes
			}
			rule := h.Request.RuleKey(n)
			k := memberKey(i.Tenant(), rule, "")
			if slices.Contains(i.Rules, rule) && !s.ruleAllows(h, n, hostPlace(c.To), hostPlace(c.From), leaving[k], coming[k]) {
				if i.Reserved {
					return refuseWith(api.CodeNoCapacity, "a rule of the lease keeps the slot from that host")
				}
				return refuseWith(api.CodeNoCapacity, "a rule of the instance keeps it from that host")
			}
		}
	}
	return Result{}
}

// claimMove claims the room of one that moves, on its new host, and sets i to what it will be. What is
// on its way has that room.
func (s *sagaBook) claimMove(old, i *api.Instance, to api.HostID) Result {
	*i = *old
	switch {
	case old.Reserved:
		return s.claimSlotAt(old, i, to)
	case old.Target != "":
		return Result{}
	case !s.ReachesVolumes(to, old):
		return refuseWith(api.CodeNoCapacity, "that host does not reach the volumes of the instance")
	}
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Target = to })
	if !s.takeTarget(i, s.claimOf(i)) {
		return refuseWith(api.CodeNoCapacity, "the host does not take the instance")
	}
	return Result{}
}

// claimSlotAt claims room for a slot that moves at once: nothing runs in it.
func (s *sagaBook) claimSlotAt(old, i *api.Instance, to api.HostID) Result {
	shares, all, ok := s.claimSlot(to, s.claimOf(old), false)
	if !ok {
		return refuseWith(api.CodeNoCapacity, "the host does not take the slot")
	}
	i.Host, i.Status = to, api.StatusBuild
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Shares, x.Replaced = shares, old.Replaced || old.Window.Start <= s.now
		x.Moves++
	})
	if i.Whole {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Resources = all })
	}
	return Result{}
}

// releaseMove releases what claimMove has claimed.
func (s *sagaBook) releaseMove(old, i *api.Instance) {
	switch {
	case old.Reserved:
		s.releaseAllocation(i.Host, s.claimOf(i), i.Shares)
	case old.Target == "":
		s.releaseAllocation(i.Target, s.claimOf(i), i.TargetShares, i.Kept()...)
	}
}

// recordMove stores what has room on its new host.
func (s *sagaBook) recordMove(old, i *api.Instance, evacuate bool) {
	switch {
	case old.Reserved:
		s.releaseAllocation(old.Host, s.claimOf(old), old.Shares)
		s.bumpDrawn(old.Host, old.Shares)
		s.putMoved(old, i)
		s.bumpDrawn(i.Host, i.Shares)
		s.beginAdded(i)
		return
	case old.Target == "":
		s.bumpDrawn(i.Target, i.TargetShares, i.Kept()...)
		s.putInstance(old, i)
		s.touchHost(i.Host, i.ID)
	}
	if evacuate {
		now, _ := s.instances.Get(string(i.ID))
		s.endStay(now)
	}
}
