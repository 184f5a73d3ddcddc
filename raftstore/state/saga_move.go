package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// instanceMove moves an instance to another host: at once if its host is lost, else when
// the agent of that host reports it gone. See endStay.
func (s *sagaBook) instanceMove(c command.InstanceMove) Result {
	i, ok := s.instances.Get(string(c.ID))
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
	}
	if i.Reserved {
		return s.moveSlot(i, c.To)
	}
	if r := s.mayEvacuate(i, c); r.Err != nil {
		return r
	}
	if i.Target == "" {
		if r := s.claimTarget(i, c.To); r.Err != nil {
			return r
		}
	}
	if c.Evacuate {
		i, _ = s.instances.Get(string(c.ID))
		s.endStay(i)
	}
	return Result{}
}

// mayEvacuate refuses to start an instance elsewhere without waiting, unless its host is
// down and its boot allowed it.
func (s *sagaBook) mayEvacuate(i *api.Instance, c command.InstanceMove) Result {
	if !c.Evacuate {
		return Result{}
	}
	if h, ok := s.hosts.Get(string(i.Host)); ok && h.State == api.HostUp {
		return refuseWith(api.CodeConflict, "the host is up; the instance must stop there first")
	}
	if !i.Movable {
		return refuseWith(api.CodeConflict, "the instance may not be started elsewhere when its host is lost")
	}
	return Result{}
}

// claimTarget claims room for an instance on its new host.
func (s *sagaBook) claimTarget(old *api.Instance, to api.HostID) Result {
	if !s.mayMove(old, to) {
		return refuseWith(api.CodeNoCapacity, "a rule of the instance keeps it from that host")
	}
	if !s.ReachesVolumes(to, old) {
		return refuseWith(api.CodeNoCapacity, "that host does not reach the volumes of the instance")
	}
	i := *old
	i.ChangeExtras(func(x *api.InstanceExtras) { x.Target = to })
	if !s.takeTarget(&i, s.claimOf(&i)) {
		return refuseWith(api.CodeNoCapacity, "the host does not take the instance")
	}
	s.bumpDrawn(to, i.TargetShares, i.Kept()...)
	s.putInstance(old, &i)
	s.touchHost(i.Host, i.ID)
	return Result{}
}

// mayMove reports whether the rules of an instance allow it on another host. They are in
// its hold, which is kept as long as the instance. Volumes that it was booted with keep it only as long as they
// are attached: see ReachesVolumes.
func (s *sagaBook) mayMove(i *api.Instance, to api.HostID) bool {
	h, ok := s.holds.Get(joinKey(i.Origin, i.Hold))
	if !ok {
		return true
	}
	for n := range h.Request.Rules {
		if s.limits.detachedMove && h.Request.Attaches(n) {
			continue
		}
		if slices.Contains(i.Rules, h.Request.RuleKey(n)) && !s.ruleAllows(h, n, hostPlace(to), hostPlace(i.Host)) {
			return false
		}
	}
	return true
}

// moveSlot moves a slot of a lease to another host at once: nothing runs in it. From one in which
// only preemptibles run they are evicted instead, and it stays until it is moved again.
func (s *sagaBook) moveSlot(old *api.Instance, to api.HostID) Result {
	switch {
	case s.isUsed(old.ID) || s.isPromisedLent(old.ID):
		return refuseWith(api.CodeConflict, "instances run in the slot")
	case s.isOccupied(old.ID):
		s.evictAllLent(old)
		return Result{} // it moves when they have left
	}
	if !s.mayMove(old, to) {
		return refuseWith(api.CodeNoCapacity, "a rule of the lease keeps the slot from that host")
	}
	shares, all, ok := s.claimSlot(to, s.claimOf(old), false)
	if !ok {
		return refuseWith(api.CodeNoCapacity, "the host does not take the slot")
	}
	i := *old
	i.Host, i.Status = to, api.StatusBuild
	i.ChangeExtras(func(x *api.InstanceExtras) {
		x.Shares, x.Replaced = shares, old.Replaced || old.Window.Start <= s.now
		x.Moves++
	})
	if i.Whole {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Resources = all })
	}
	s.releaseAllocation(old.Host, s.claimOf(old), old.Shares)
	s.bumpDrawn(old.Host, old.Shares)
	s.putMoved(old, &i)
	s.bumpDrawn(i.Host, i.Shares)
	s.beginAdded(&i)
	return Result{}
}
