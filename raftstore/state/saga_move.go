package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// instanceMove takes an instance to another host: at once if its own is lost, else
// when the agent there says that it is gone. See endStay.
func (s *sagaBook) instanceMove(c command.InstanceMove) Result {
	i, ok := s.instances.Get(string(c.ID))
	switch {
	case !ok || !i.Live() || i.Host == "":
		return refuseWith(api.CodeNotFound, "no such server on a host of this zone")
	case c.From == c.To:
		return refuseWith(api.CodeInvalid, "an instance moves from one host to another")
	case i.Host == c.To:
		return Result{} // it has moved
	case i.Host != c.From:
		return refuseWith(api.CodeConflict, "the instance is not on the host that it should leave")
	case i.Status == api.StatusDeleting:
		return refuseWith(api.CodeConflict, "the instance is being deleted")
	case i.Target != "" && i.Target != c.To:
		return refuseWith(api.CodeConflict, "the instance is on its way to another host")
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

// mayEvacuate refuses to start an instance elsewhere without waiting, unless its
// host is down and it was booted to be so moved.
func (s *workBook) mayEvacuate(i *api.Instance, c command.InstanceMove) Result {
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

// claimTarget claims room for an instance on the host that it will move to.
func (s *sagaBook) claimTarget(old *api.Instance, to api.HostID) Result {
	if !s.mayMove(old, to) {
		return refuseWith(api.CodeNoCapacity, "a rule of the instance keeps it from that host")
	}
	i := *old
	i.Target = to
	if !s.takeTarget(&i) {
		return refuseWith(api.CodeNoCapacity, "the host does not take the instance")
	}
	s.bumpDrawn(to, i.TargetShares, i.Kept()...)
	s.putInstance(old, &i)
	s.touchHost(i.Host)
	return Result{}
}

// takeTarget claims room for an instance on its target. What sharing providers give it
// they need not give twice: if they can give the same there, it keeps that. What the
// target itself gives it from afar is not the same as what it gives as its host.
func (s *stockBook) takeTarget(i *api.Instance) bool {
	pooled := slices.DeleteFunc(slices.Clone(i.Shares), func(sh api.Share) bool {
		root, _ := s.rootOf(sh.Provider)
		return root == i.Host || sh.Provider == i.Target
	})
	for {
		ok := s.takeBeside(i, pooled)
		fewer := slices.DeleteFunc(slices.Clone(pooled), func(sh api.Share) bool { return changesProvider(sh, i.TargetShares) })
		if !ok || len(fewer) == len(pooled) {
			return ok
		}
		s.releaseAllocation(i.Target, claimOf(i), i.TargetShares, i.Kept()...)
		pooled = fewer
	}
}

// takeBeside claims room for an instance on its target as if it did not draw pooled
// where it is. It is right only if none of pooled changes.
func (s *stockBook) takeBeside(i *api.Instance, pooled []api.Share) bool {
	c := claimOf(i)
	for id, part := range allocations("", c, pooled) {
		s.hostTable.Return(id, part)
	}
	shares, ok := s.claimSlot(i.Target, c)
	i.TargetShares = shares
	kept := i.Kept()
	for id, part := range allocations("", c, pooled, kept...) {
		s.hostTable.Lend(id, part)
	}
	for id, part := range allocations("", c, kept, pooled...) { // there it was claimed again
		s.hostTable.Return(id, part)
	}
	for _, sh := range kept {
		addTally(&s.draws, joinKey(sh.Provider, i.ID), -1) // take has counted it again
	}
	return ok
}

// changesProvider reports whether a provider that gives a share gives another one among shares.
func changesProvider(old api.Share, shares []api.Share) bool {
	return slices.ContainsFunc(shares, func(sh api.Share) bool { return sh.Provider == old.Provider && !sh.Equal(old) })
}

// mayMove reports whether the rules that an instance was booted under let it be on
// another host. Its hold, which is kept as long as it is, knows them.
func (s *sagaBook) mayMove(i *api.Instance, to api.HostID) bool {
	h, ok := s.holds.Get(joinKey(i.Origin, i.Hold))
	if !ok {
		return true
	}
	for n := range h.Request.Rules {
		if slices.Contains(i.Rules, h.Request.RuleKey(n)) && !s.ruleAllows(h, n, hostPlace(to), hostPlace(i.Host)) {
			return false
		}
	}
	return true
}

// endStay ends the stay of an instance on the host that it leaves: it is to be
// started on the other one.
func (s *workBook) endStay(old *api.Instance) {
	i := *old
	i.Host, i.Shares = old.Target, old.TargetShares
	i.Target, i.TargetShares = "", nil
	i.Status, i.Fault = api.StatusBuild, ""
	i.Moves++
	s.putInstance(old, &i)
	s.byHost.Delete(joinKey(old.Host, old.ID))
	s.byHost.Insert(joinKey(i.Host, i.ID))
	s.releaseAllocation(old.Host, claimOf(old), old.Shares, old.Kept()...)
	s.bumpDrawn(old.Host, old.Shares, old.Kept()...)
	s.touchHost(old.Host)
	s.touchHost(i.Host)
}

// releaseTarget gives back the room that an instance has on the host that it was to move to.
// The caller has stored the instance without its target.
func (s *workBook) releaseTarget(old *api.Instance) {
	if old.Target != "" {
		s.releaseAllocation(old.Target, claimOf(old), old.TargetShares, old.Kept()...)
		s.bumpDrawn(old.Target, old.TargetShares, old.Kept()...)
	}
}
