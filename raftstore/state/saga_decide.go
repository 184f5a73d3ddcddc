package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

func (s *sagaBook) holdDecide(c command.HoldDecide) Result {
	k := joinKey(c.Origin, c.ID)
	h, ok := s.holds.Get(k)
	switch {
	case !ok && c.Decision == api.DecisionCommit:
		return refuseWith(api.CodeNotFound, "no such hold")
	case !ok:
		return s.rememberAbort(c)
	case c.Decision == api.DecisionCommit && h.Decision == api.DecisionAbort:
		return refuseWith(api.CodeConflict, "the hold was released")
	case c.Decision == api.DecisionCommit && h.State == api.HoldAsking:
		return refuseWith(api.CodeConflict, "the hold is not complete")
	case h.Origin == "" && (c.Decision != api.DecisionAbort || c.Forced || h.Decision == api.DecisionCommit):
		return refuseWith(api.CodeConflict, "the hold belongs to reservation %q of this zone; delete that instead", string(h.Request.Reservation))
	case c.Decision == api.DecisionAbort && s.isReplaced(h):
		return refuseWith(api.CodeConflict, "an update that takes over its slots is not decided")
	}
	s.decideHold(h, c.Decision, c.Forced)
	if h, _ = s.holds.Get(k); c.Decision == api.DecisionCommit && s.limits.rulesLifted {
		s.liftRules(h, c.Lifted)
		h, _ = s.holds.Get(k)
	}
	return Result{Hold: h}
}

// rememberAbort records the abort of an unknown hold, which may still arrive.
func (s *sagaBook) rememberAbort(c command.HoldDecide) Result {
	if n, _ := s.tombstones.Get(string(c.Origin)); n >= s.limits.tombstonesPerLink {
		return refuseWith(api.CodeOverloaded, "%d holds that never came were aborted over this link; the limit is %d", n, s.limits.tombstonesPerLink)
	}
	h := &Hold{ID: c.ID, Origin: c.Origin, State: api.HoldReleased, Decision: api.DecisionAbort, Created: s.now, Updated: s.now}
	s.putHold(h)
	addTally(s.tombstones, string(c.Origin), +1)
	return Result{Hold: h}
}

// decideHold carries out a decision on own hosts and lists the hold for telling the
// children. An abort may follow a commit and releases everything; a repeat changes
// nothing.
func (s *sagaBook) decideHold(old *Hold, d api.Decision, forced bool) {
	if old.Decision == d {
		return
	}
	h := *old
	h.Decision, h.Forced, h.Updated = d, forced, s.now
	h.Parts = slices.Clone(h.Parts)
	s.prepared.Delete(h.Key())
	s.open.Delete(h.Key())
	if old.Decision == api.DecisionPending {
		s.forgetHeld(old)
		s.indexChoices(old, false)
	}
	if d == api.DecisionCommit {
		s.bindChoices(&h)
		h.State, h.Firm = api.HoldCommitted, true
		s.makeInstances(&h)
		s.carryOutLifts(&h)
	} else {
		s.releaseHold(&h, old.Decision == api.DecisionCommit)
		h.State = api.HoldReleased
	}
	s.putHold(&h)
	s.noteUntold(&h, +1)
	s.addFact(holdDecided{&h})
}

// makeInstances records every instance of a committed hold.
func (s *sagaBook) makeInstances(h *Hold) {
	terms := s.termsOf(h)
	for n := range h.Slots {
		s.makeInstance(h, n, terms)
	}
	for _, p := range h.Parts {
		for _, pi := range p.Instances {
			i := newInstance(pi.Spec, terms[pi.Group])
			i.Link = p.Link
			s.addInstance(i)
		}
	}
	s.attachBooted(h.Tenant(), &h.Request)
}

// makeInstance records the instance of a slot on an own host. One in a slot that has ended
// meanwhile ends at once.
func (s *sagaBook) makeInstance(h *Hold, n int, terms []*api.InstanceTerms) {
	sl := h.Slots[n]
	i := newInstance(sl.Instance, terms[sl.Group])
	i.Host = sl.Host
	if shares := h.sharesOf(n); shares != nil {
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Shares = shares })
	}
	if w := h.windowOf(sl); w != i.Window {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Window = w })
	}
	if sl.Whole != nil {
		i.ChangeTerms(func(t *api.InstanceTerms) { t.Resources = sl.Whole })
	}
	if sl.Keeps != "" {
		s.replaceSlot(h, n, i)
		return
	}
	if sl.Within != "" {
		i.ChangeExtras(func(x *api.InstanceExtras) { x.Within = sl.Within })
	}
	s.addInstance(i)
	late := s.limits.leases > 0 && i.Window.End <= s.now // nothing has run, and its room may be another's
	if late {
		s.setStatus(i, api.StatusDeleted, "")
	}
	if sl.Within != "" {
		s.promiseWithin(sl.Within, i.Class, -1)
	}
	if late {
		return
	}
	s.beginAdded(i)
	slot, _ := s.instances.Get(string(sl.Within))
	switch {
	case sl.Within != "" && (slot == nil || slot.Status != api.StatusActive):
		now, _ := s.instances.Get(string(i.ID))
		s.endInstance(now)
	case i.Class == api.Preemptible:
		s.evictLate(i)
		if slot != nil {
			s.evictLent(slot)
		}
	case !i.Reserved && (h.Request.Preempt || sl.Within != ""):
		s.waitForRoom(i)
	}
}

func newInstance(spec api.InstanceSpec, terms *api.InstanceTerms) *api.Instance {
	return api.NewInstance(terms, spec, api.StatusBuild)
}

// termsOf returns what the instances of each group of a hold have in common.
func (s *sagaBook) termsOf(h *Hold) []*api.InstanceTerms {
	out := make([]*api.InstanceTerms, len(h.Request.Groups))
	for n, g := range h.Request.Groups {
		out[n] = &api.InstanceTerms{
			Reservation: h.Request.Reservation, Project: h.Request.Project,
			User: h.Request.User, Flavor: g.Flavor, Resources: g.Resources, Metadata: h.Metadata,
			Origin: h.Origin, Hold: h.ID, Window: h.windowOfGroup(n), Class: h.Request.Class,
			Created: s.now, Rules: rulesOf(&h.Request, n), Group: g.Name, Movable: g.ExtraSpecs[api.SpecEvacuate] == "true",
			Reserved: h.Request.Reserves, Whole: g.Whole, Shared: h.Request.Shared, InLease: h.Request.WithinOf(n) != "",
			OnPreempt: h.Request.OnPreempt, Way: h.Request.Way, Grace: h.Grace, ShareIdle: g.ShareIdle, Volume: g.Volume,
		}
	}
	return out
}

// forgetHeld removes a hold that is about to be decided from the index of held instances.
func (s *sagaBook) forgetHeld(h *Hold) {
	s.touchTopic(HoldTopic(h.Key()))
	s.countLentBy(h, false)
	for _, sl := range h.Slots {
		s.held.Delete(string(sl.Instance.ID))
		s.countSlot(h, sl, -1)
	}
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			s.held.Delete(string(i.Spec.ID))
			s.countPart(h, p.Link, i, -1)
		}
	}
}

// releaseHold ends what a hold took: its instances if it was committed, else its claims.
// A child that had committed must be told again; one that is linked no more has nothing of it.
func (s *sagaBook) releaseHold(h *Hold, committed bool) {
	for i := range h.Parts {
		_, linked := s.links.Get(string(h.Parts[i].Link))
		h.Parts[i].Acked = !linked && s.limits.unlinked
	}
	if committed {
		for _, id := range h.Held() {
			if i := s.madeBy(h, id); i != nil {
				s.endInstance(i) // a child is told of the whole hold
			}
		}
		return
	}
	for n, sl := range h.Slots {
		if sl.Keeps != "" {
			s.unkeepSlot(h, n)
			continue
		}
		s.releaseAllocation(sl.Host, s.claimOfSlot(h, sl), h.sharesOf(n))
		s.bumpDrawn(sl.Host, h.sharesOf(n))
		if sl.Within != "" {
			s.promiseWithin(sl.Within, h.Request.Class, -1)
		}
	}
}

// mayLive reports whether a child may have started instances of the hold: it was committed
// once, or the child was to decide by itself. For all others an abort is final as soon as
// it is logged, whenever the child learns of it.
func (h *Hold) mayLive() bool { return h.Commit || h.Firm }

// noteUntold updates the list of holds whose children must be told, and adds a fact for the
// owner of a hold that may be live. by is +1 after a decision, -1 after an
// acknowledgement.
func (s *sagaBook) noteUntold(h *Hold, by int) {
	was := s.untold.Contains(h.Key())
	if h.isSettled() {
		s.untold.Delete(h.Key())
	} else {
		s.untold.Insert(h.Key())
		s.touchTopic(dueTopic(DueTells, h.Key()))
	}
	if is := s.untold.Contains(h.Key()); h.Origin == "" && is != was && h.mayLive() {
		s.addFact(partsOwed{h.owner(), by})
	}
}

// madeBy returns an instance if h made it, else nil: after an abort another hold may have
// used the id.
func (s *sagaBook) madeBy(h *Hold, id api.InstanceID) *api.Instance {
	if i, ok := s.instances.Get(string(id)); ok && i.Hold == h.ID && i.Origin == h.Origin {
		return i
	}
	return nil
}

func (s *sagaBook) instanceDelete(c command.InstanceDelete) Result {
	i, ok := s.instances.Get(string(c.ID))
	if !ok || !i.Live() {
		return refuseWith(api.CodeNotFound, "no such server")
	}
	if s.isKept(i.ID) {
		return refuseWith(api.CodeConflict, "an update that takes over the slot is not decided")
	}
	if i.Attached != "" && i.Origin == "" { // of a parent's it decides, by what it knows
		return refuseWith(api.CodeConflict, "the volume is attached to server %s; detach it first", string(i.Attached))
	}
	if i.Status != api.StatusDeleting {
		s.requestEnd(i)
	} else if i.Eviction != nil {
		s.stayEnded(i, api.RequeueEnded)
	}
	return Result{}
}

// requestEnd requests the end of an instance that is not ending. The child that has it is told.
func (s *sagaBook) requestEnd(i *api.Instance) {
	s.endInstance(i)
	if h, ok := s.holds.Get(joinKey(i.Origin, i.Hold)); i.Link != "" && (!ok || h.PartAcked(i.Link)) {
		s.mustEnd(i) // else its zone does not have it yet: see partAck
	}
}
