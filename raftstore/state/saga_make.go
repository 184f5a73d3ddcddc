package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// makeHold makes a hold, or returns the one that c repeats. owner is the refusal of the
// owner, for a hold of this zone, and lifted are server groups of its rules that were deleted.
func (s *sagaBook) makeHold(c command.Hold, owner Result, lifted []api.ServerGroupID) Result {
	k := joinKey(c.Origin, c.ID)
	if h, ok := s.holds.Get(k); ok {
		if h.Plan != c.Plan && h.Plan != "" {
			return refuseWith(api.CodePlanRefused, "%s", api.PlanRefusedMessage)
		}
		return Result{Hold: h} // a repeat, or aborted before it arrived
	}
	if r := s.checkHold(c, owner); r.Err != nil {
		return r
	}
	if c.Plan != "" {
		s.putPlan(string(c.Plan), planUse{Hold: k, Expires: c.Expires})
	}
	h := &Hold{
		ID: c.ID, Origin: c.Origin, Attempt: c.Attempt, Request: c.Request, Plan: c.Plan, Window: c.Request.WindowAt(s.now),
		State: api.HoldAsking, Decision: api.DecisionPending, Metadata: c.Metadata, Commit: c.Commit, Created: s.now, Choices: c.Choices,
		Refill: c.Refill, Lifted: lifted,
	}
	if h.Request.Within != "" {
		h.Window = s.windowWithin(h)
	}
	if h.Request.Reserves {
		h.Grace = s.Config.Preemptibles.GraceOf(h.Request.Grace)
	}
	s.indexChoices(h, true)
	s.takeSlots(h, c)
	s.takeParts(h, c)
	s.indexHeld(h)
	if h.Origin == "" {
		s.open.Insert(k)
	} else {
		s.prepared.Insert(k)
	}
	s.addFact(slotsTaken{owner: h.owner(), hold: h, wanted: c.Request.Count(), outcome: c.Outcome})
	s.advanceHold(h)
	h, _ = s.holds.Get(k)
	return Result{Hold: h}
}

// checkHold refuses a hold as a whole.
func (s *sagaBook) checkHold(c command.Hold, owner Result) Result {
	if c.Plan != "" {
		_, used := s.plans.Get(string(c.Plan))
		if used || s.now >= c.Expires {
			return refuseWith(api.CodePlanRefused, "%s", api.PlanRefusedMessage)
		}
	}
	if c.Origin != "" {
		owner = s.checkAbroad(c)
	}
	if owner.Err != nil {
		return owner
	}
	t := api.Tenant{Origin: c.Origin, Project: c.Request.Project}
	chosen := func(k api.BindingKey) (api.LinkID, bool) { return s.chosenBeside(t, k, &c.Request) }
	if r := s.checkChoices(t, c.Choices, chosen); r.Err != nil {
		return r
	}
	return s.checkAsked(c)
}

// checkAbroad refuses a hold for a zone that is not a parent or holds too much, and a
// request that a zone serves only for itself.
func (s *sagaBook) checkAbroad(c command.Hold) Result {
	if l, ok := s.links.Get(string(c.Origin)); !ok || l.Role != api.LinkParent {
		return refuseWith(api.CodeForbidden, "only a parent may hold slots here")
	}
	if s.isPaused(c.Origin) {
		return refuseWith(api.CodePaused, "the link takes no new work")
	}
	if c.Request.Preempt && s.Config.Preemptibles.Closed {
		return refuseWith(api.CodeForbidden, "this zone ends no preemptible instances for other zones")
	}
	if err := c.Request.ValidateAbroad(s.now, s.limits.leaseLead); err != nil {
		return Result{Err: err}
	}
	if n := s.heldFor(c.Origin); n+c.Count() > s.limits.holdsPerLink {
		return refuseWith(api.CodeOverloaded, "the parent holds %d instances without a decision; the limit is %d", n, s.limits.holdsPerLink)
	}
	if n, _ := s.leased.Get(string(c.Origin)); c.Request.Reserves && n+c.Count() > s.limits.reserved {
		return refuseWith(api.CodeOverloaded, "the parent has %d slots of leases; the limit is %d", n, s.limits.reserved)
	}
	return Result{}
}

// checkAsked refuses references to unknown groups and links, and instance ids in use.
func (s *sagaBook) checkAsked(c command.Hold) Result {
	seen := make(map[api.InstanceID]bool, c.Count())
	free := func(id api.InstanceID) bool {
		ok := !seen[id] && !s.knowsInstance(id)
		seen[id] = true
		return ok
	}
	groups := len(c.Request.Groups)
	if groups == 0 {
		return refuseWith(api.CodeInvalid, "a hold needs a group")
	}
	for _, sl := range c.Slots {
		if sl.Group < 0 || sl.Group >= groups {
			return refuseWith(api.CodeInvalid, "the request has no group %d", sl.Group)
		}
		if !free(sl.Instance.ID) {
			return refuseWith(api.CodeConflict, "instance id %s is taken", string(sl.Instance.ID))
		}
	}
	for _, p := range c.Parts {
		if l, ok := s.links.Get(string(p.Link)); !ok || l.Role != api.LinkChild {
			return refuseWith(api.CodePlanRefused, "%s", api.PlanRefusedMessage)
		}
		if len(p.Instances) > groups {
			return refuseWith(api.CodeInvalid, "the request has no group %d", groups)
		}
		for _, i := range slices.Concat(p.Instances...) {
			if !free(i.ID) {
				return refuseWith(api.CodeConflict, "instance id %s is taken", string(i.ID))
			}
		}
	}
	return Result{}
}

// heldFor counts the instances that a parent holds without a decision.
func (s *sagaBook) heldFor(origin api.LinkID) int {
	n := 0
	s.prepared.Ascend(string(origin)+"\x00", func(k string) bool {
		h, _ := s.holds.Get(k)
		if h.Origin != origin {
			return false
		}
		n += len(h.Slots)
		for _, p := range h.Parts {
			n += len(p.Instances)
		}
		return true
	})
	return n
}

// takeSlots claims each slot on its host, or else on the first alternate with room that
// the rules allow. It refuses slots without any. Whole hosts come first: they need all of
// what others need a part of.
func (s *sagaBook) takeSlots(h *Hold, c command.Hold) {
	lends := s.newLending(h)
	full := false
	for _, sl := range wholeFirst(c.Slots, c.Request.Groups) {
		hosts := []api.HostID{sl.Host}
		if sl.Group < len(c.Spares) {
			hosts = append(hosts, c.Spares[sl.Group]...)
		}
		var shares []api.Share
		taken := false
		for _, id := range hosts {
			if shares, taken = s.takeSlot(h, &sl, id, lends); taken {
				break
			}
		}
		if !taken {
			h.Refused = append(h.Refused, sl.Instance.ID)
			full = full || !lends.hasRefused()
			continue
		}
		sl.Host = s.sharedHost(sl.Host)
		if h.Slots == nil {
			h.Slots = make([]command.Slot, 0, len(c.Slots))
		}
		h.Slots = append(h.Slots, sl)
		if len(shares) > 0 || h.Shares != nil {
			h.Shares = append(h.Shares, make([][]api.Share, len(h.Slots)-1-len(h.Shares))...)
			h.Shares = append(h.Shares, shares)
		}
		s.countSlot(h, sl, +1)
		s.bumpDrawn(sl.Host, shares)
	}
	unpaired := s.dropUnpaired(h)
	s.countLentBy(h, true)
	switch {
	case full, unpaired && !lends.hasRefused():
		h.noteCause(s.whyFull(h))
	case len(h.Refused) > 0:
		h.noteCause(s.whyOver(h, lends.may))
	}
}

// wholeFirst returns slots with those for whole hosts first.
func wholeFirst(slots []command.Slot, groups []api.Group) []command.Slot {
	if !slices.ContainsFunc(groups, func(g api.Group) bool { return g.Whole }) {
		return slots
	}
	var whole, others []command.Slot
	for _, sl := range slots {
		if groups[sl.Group].Whole {
			whole = append(whole, sl)
		} else {
			others = append(others, sl)
		}
	}
	return append(whole, others...)
}

// takeSlot claims a slot on a host, in place of one that it replaces if it can, or within the
// slot of a lease that id names. A parent takes what its share leaves.
func (s *sagaBook) takeSlot(h *Hold, sl *command.Slot, id api.HostID, lends *lending) (shares []api.Share, ok bool) {
	if h.Request.WithinOf(sl.Group) != "" {
		return nil, s.takeWithin(h, sl, api.InstanceID(id))
	}
	if sl.Keeps != "" && id == sl.Host {
		if shares, ok = s.keepSlot(h, sl, lends); ok {
			return shares, true
		}
	}
	if h.Request.Class == api.Preemptible {
		if slot, known := s.instances.Get(string(id)); known {
			return nil, s.takeLent(h, sl, slot)
		}
	}
	sl.Host, sl.Keeps = id, ""
	wants := s.takenBy(h, sl, id)
	if !s.rulesAllow(h, sl.Group, hostPlace(id)) || !s.mayLend(lends, wants) {
		return nil, false
	}
	if shares, sl.Whole, ok = s.claimSlot(id, s.claimOfSlot(h, *sl), h.Request.Maintains()); ok {
		lends.take(wants)
	}
	return shares, ok
}

// indexHeld indexes every instance of an undecided hold, so that no other hold can use the
// same id.
func (s *sagaBook) indexHeld(h *Hold) {
	for _, sl := range h.Slots {
		s.held.Set(string(sl.Instance.ID), h.Key())
	}
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			s.held.Set(string(i.Spec.ID), h.Key())
		}
	}
}

// knowsInstance reports whether an id is that of a consumer, a held slot, or an instance
// that has not been pruned.
func (s *sagaBook) knowsInstance(id api.InstanceID) bool {
	_, consumer := s.consumers.Get(string(id))
	return consumer || s.isInstance(id)
}

// isInstance reports whether an id is that of an instance that has not been pruned, or of a
// held slot, here or in a child.
func (s *sagaBook) isInstance(id api.InstanceID) bool {
	if _, ok := s.instances.Get(string(id)); ok {
		return true
	}
	_, ok := s.held.Get(string(id))
	return ok
}

// advanceHold stores a changed hold and moves it on if it is complete.
func (s *sagaBook) advanceHold(h *Hold) {
	if h.State == api.HoldAsking && !slices.ContainsFunc(h.Parts, func(p Part) bool { return !p.Answered }) {
		h.State = api.HoldHeld
	}
	h.Updated = s.now
	s.putHold(h)
	if h.State != api.HoldHeld || !h.Commit {
		return
	}
	d := api.DecisionCommit
	if len(h.Refused) > 0 {
		d = api.DecisionAbort
	}
	switch {
	case h.Origin != "":
		s.decideHold(h, d, false)
	case d == api.DecisionCommit:
		s.addFact(holdComplete{h.owner()})
	}
}
