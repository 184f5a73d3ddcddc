package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// Hold is slots that are taken, and what has been decided of them. Held and
// Refused together are all that was asked for.
type Hold struct {
	ID       api.HoldID        `cbor:"1,keyasint"`
	Origin   api.LinkID        `cbor:"2,keyasint,omitempty"`
	Attempt  int               `cbor:"3,keyasint"`
	Request  api.Request       `cbor:"4,keyasint"`
	Plan     api.PlanID        `cbor:"5,keyasint,omitempty"`
	State    api.HoldState     `cbor:"6,keyasint"`
	Decision api.Decision      `cbor:"7,keyasint"`
	Forced   bool              `cbor:"8,keyasint,omitempty"`
	Slots    []command.Slot    `cbor:"9,keyasint,omitempty"` // claims on own hosts
	Parts    []Part            `cbor:"10,keyasint,omitempty"`
	Refused  []api.InstanceID  `cbor:"11,keyasint,omitempty"`
	Window   api.Window        `cbor:"12,keyasint"` // of the claims
	Metadata map[string]string `cbor:"13,keyasint,omitempty"`
	Commit   bool              `cbor:"14,keyasint,omitempty"` // asked to decide at once, all or nothing
	Created  api.Instant       `cbor:"15,keyasint"`
	Updated  api.Instant       `cbor:"16,keyasint"`
	Firm     bool              `cbor:"17,keyasint,omitempty"` // it was decided commit, whatever came later
	// Shares are, for each of Slots, what other providers than the host give; nil if
	// that is nothing for all of them.
	Shares [][]api.Share `cbor:"18,keyasint,omitempty"`
	Why    api.Code      `cbor:"19,keyasint,omitempty"` // some were refused; see noteCause
}

// Part is what one child holds for a hold.
type Part struct {
	Link      api.LinkID     `cbor:"1,keyasint"`
	Instances []PartInstance `cbor:"2,keyasint"` // asked for; after the answer, held
	Answered  bool           `cbor:"3,keyasint,omitempty"`
	Acked     bool           `cbor:"4,keyasint,omitempty"` // has carried out the decision
	Committed bool           `cbor:"5,keyasint,omitempty"` // has said that it made the instances
}

// PartInstance is one instance of a part, with the group it belongs to.
type PartInstance struct {
	Spec  api.InstanceSpec `cbor:"1,keyasint"`
	Group int              `cbor:"2,keyasint"`
}

// Key returns the hold's key in the tables.
func (h *Hold) Key() string { return joinKey(h.Origin, h.ID) }

// Tenant returns whom the hold is for.
func (h *Hold) Tenant() api.Tenant { return api.Tenant{Origin: h.Origin, Project: h.Request.Project} }

// Held returns the instances that are held, own ones first.
func (h *Hold) Held() []api.InstanceID {
	var ids []api.InstanceID
	for _, sl := range h.Slots {
		ids = append(ids, sl.Instance.ID)
	}
	for _, p := range h.Parts {
		if p.Answered {
			for _, i := range p.Instances {
				ids = append(ids, i.Spec.ID)
			}
		}
	}
	return ids
}

// Answer returns what the asker is told.
func (h *Hold) Answer() api.HoldAnswer {
	return api.HoldAnswer{ID: h.ID, State: h.State, Held: h.Held(), Refused: h.Refused, Why: h.Why}
}

// DecisionFor returns what a child must be told. One that did not say in time
// that it holds anything is told to release, whatever was decided of the others.
func (h *Hold) DecisionFor(p Part) api.Decision {
	if len(p.Instances) == 0 {
		return api.DecisionAbort
	}
	return h.Decision
}

// PartAcked reports whether a child has carried out the decision.
func (h *Hold) PartAcked(link api.LinkID) bool {
	return !slices.ContainsFunc(h.Parts, func(p Part) bool { return p.Link == link && !p.Acked })
}

// isSettled reports whether every child has carried out the decision.
func (h *Hold) isSettled() bool {
	return !slices.ContainsFunc(h.Parts, func(p Part) bool { return !p.Acked })
}

func (h *Hold) dependsOn(link api.LinkID) bool {
	if h.Decision == api.DecisionPending && h.Origin == link {
		return true
	}
	return slices.ContainsFunc(h.Parts, func(p Part) bool { return p.Link == link && !p.Acked })
}

// sharesOf returns what other providers than its host give the slot numbered n.
func (h *Hold) sharesOf(n int) []api.Share {
	if h.Shares == nil {
		return nil
	}
	return h.Shares[n]
}

func (h *Hold) claimOfSlot(sl command.Slot) api.Claim {
	return api.Claim{
		Consumer: sl.Instance.ID, Resources: h.Request.Groups[sl.Group].Resources,
		Window: h.Window, Class: h.Request.Class,
	}
}

// makeHold makes a hold, or returns the one that it repeats. owner is why the owner does not
// want it, of a hold of this zone.
func (s *sagaBook) makeHold(c command.Hold, owner Result) Result {
	k := joinKey(c.Origin, c.ID)
	if h, ok := s.holds.Get(k); ok {
		if h.Plan != c.Plan && h.Plan != "" {
			return refuseWith(api.CodePlanRefused, "%s", api.PlanRefusedMessage)
		}
		return Result{Hold: h} // a repeat, or one that was aborted before it came
	}
	if r := s.checkHold(c, owner); r.Err != nil {
		return r
	}
	if c.Plan != "" {
		s.putPlan(string(c.Plan), planUse{Hold: k, Expires: c.Expires})
	}
	h := &Hold{
		ID: c.ID, Origin: c.Origin, Attempt: c.Attempt, Request: c.Request, Plan: c.Plan, Window: c.Request.WindowAt(s.now),
		State: api.HoldAsking, Decision: api.DecisionPending, Metadata: c.Metadata, Commit: c.Commit, Created: s.now,
	}
	s.takeSlots(h, c)
	s.takeParts(h, c)
	s.indexHeld(h)
	if h.Origin == "" {
		s.open.Insert(k)
	} else {
		s.prepared.Insert(k)
	}
	s.addFact(slotsTaken{owner: h.Owner(), hold: h, wanted: c.Request.Count(), tale: c.Tale})
	s.advanceHold(h)
	h, _ = s.holds.Get(k)
	return Result{Hold: h}
}

// checkHold refuses what must change nothing.
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
	return s.checkAsked(c)
}

// checkAsked refuses a hold that names what is not there, or an instance twice.
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

// takeSlots claims each slot on its host, or on the first alternate that takes it
// and that its rules allow, or refuses it.
func (s *sagaBook) takeSlots(h *Hold, c command.Hold) {
	for _, sl := range c.Slots {
		hosts := []api.HostID{sl.Host}
		if sl.Group < len(c.Spares) {
			hosts = append(hosts, c.Spares[sl.Group]...)
		}
		var shares []api.Share
		taken := false
		for _, id := range hosts {
			sl.Host = id
			if !s.rulesAllow(h, sl.Group, hostPlace(id), "") {
				continue
			}
			if shares, taken = s.claimSlot(id, h.claimOfSlot(sl)); taken {
				break
			}
		}
		if !taken {
			h.Refused = append(h.Refused, sl.Instance.ID)
			continue
		}
		h.Slots = append(h.Slots, sl)
		if len(shares) > 0 || h.Shares != nil {
			h.Shares = append(h.Shares, make([][]api.Share, len(h.Slots)-1-len(h.Shares))...)
			h.Shares = append(h.Shares, shares)
		}
		s.countSlot(h, sl, +1)
		s.bumpDrawn(sl.Host, shares)
	}
	if len(h.Refused) > 0 {
		h.noteCause(s.whyFull(h))
	}
}

// indexHeld notes every instance of an undecided hold, so that no other hold can
// use the same id.
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

// knowsInstance reports whether an instance id is in use, or was until it is pruned, or is that
// of another consumer.
func (s *sagaBook) knowsInstance(id api.InstanceID) bool {
	_, consumer := s.consumers.Get(string(id))
	return consumer || s.isInstance(id)
}

// isInstance reports whether an id is, or was until it is pruned, that of an instance,
// or of a slot that is held for one, here or in a child.
func (s *sagaBook) isInstance(id api.InstanceID) bool {
	if _, ok := s.instances.Get(string(id)); ok {
		return true
	}
	_, ok := s.held.Get(string(id))
	return ok
}

// advanceHold stores h, which is not in the table yet as it is now, and moves it
// on as far as what is known allows.
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
		s.addFact(holdComplete{h.Owner()})
	}
}

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
	}
	s.decideHold(h, c.Decision, c.Forced)
	h, _ = s.holds.Get(k)
	return Result{Hold: h}
}

// rememberAbort remembers the abort of a hold that is not known: it may still be on its way.
func (s *sagaBook) rememberAbort(c command.HoldDecide) Result {
	if n, _ := s.tombstones.Get(string(c.Origin)); n >= s.limits.tombstonesPerLink {
		return refuseWith(api.CodeOverloaded, "%d holds that never came were aborted over this link; the limit is %d", n, s.limits.tombstonesPerLink)
	}
	h := &Hold{ID: c.ID, Origin: c.Origin, State: api.HoldReleased, Decision: api.DecisionAbort, Created: s.now, Updated: s.now}
	s.putHold(h)
	addTally(&s.tombstones, string(c.Origin), +1)
	return Result{Hold: h}
}

// neverCame reports whether all that is known of a hold is that it was aborted.
func (h *Hold) neverCame() bool { return len(h.Request.Groups) == 0 }

// decideHold carries a decision out on own hosts and leaves the children to be
// told. A commit may be followed by an abort, which gives everything back; a
// repeat changes nothing.
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
	}
	if d == api.DecisionCommit {
		h.State, h.Firm = api.HoldCommitted, true
		s.makeInstances(&h)
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
	for n, sl := range h.Slots {
		i := s.newInstance(h, sl.Instance, sl.Group)
		i.Host, i.Shares = sl.Host, h.sharesOf(n)
		s.addInstance(i)
	}
	for _, p := range h.Parts {
		for _, pi := range p.Instances {
			i := s.newInstance(h, pi.Spec, pi.Group)
			i.Link = p.Link
			s.addInstance(i)
		}
	}
}

func (s *sagaBook) newInstance(h *Hold, spec api.InstanceSpec, group int) *api.Instance {
	g := h.Request.Groups[group]
	return &api.Instance{
		ID: spec.ID, Name: spec.Name, Reservation: h.Request.Reservation, Project: h.Request.Project,
		User: h.Request.User, Flavor: g.Flavor, Resources: g.Resources, Metadata: h.Metadata,
		Status: api.StatusBuild, Origin: h.Origin, Hold: h.ID, Window: h.Window, Class: h.Request.Class,
		Created: s.now, Rules: rulesOf(&h.Request, group), Group: g.Name, Movable: g.ExtraSpecs[api.SpecEvacuate] == "true",
	}
}

// forgetHeld forgets what an undecided hold holds: it is about to be decided.
func (s *sagaBook) forgetHeld(h *Hold) {
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

// releaseHold gives back what a hold took: claims if it was not committed,
// instances if it was. A child that had committed must be told again.
func (s *sagaBook) releaseHold(h *Hold, committed bool) {
	for i := range h.Parts {
		h.Parts[i].Acked = false
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
		s.releaseAllocation(sl.Host, h.claimOfSlot(sl), h.sharesOf(n))
		s.bumpDrawn(sl.Host, h.sharesOf(n))
	}
}

// mayLive reports whether a child may have started what the hold is for: it was
// decided commit once, or the child was to decide by itself. Of all others an
// abort is final the moment it is logged, whenever the child hears of it.
func (h *Hold) mayLive() bool { return h.Commit || h.Firm }

// noteUntold keeps the list of holds whose children must be told, and tells the owner of
// those that may live. by is +1 after a decision, -1 after an
// acknowledgement.
func (s *sagaBook) noteUntold(h *Hold, by int) {
	was := s.untold.Contains(h.Key())
	if h.isSettled() {
		s.untold.Delete(h.Key())
	} else {
		s.untold.Insert(h.Key())
	}
	if is := s.untold.Contains(h.Key()); h.Origin == "" && is != was && h.mayLive() {
		s.addFact(partsOwed{h.Owner(), by})
	}
}

func (s *sagaBook) partAck(c command.PartAck) Result {
	old, ok := s.holds.Get(joinKey(c.Origin, c.ID))
	if !ok || old.Decision != c.Decision || c.Decision == api.DecisionPending {
		return Result{} // decided anew meanwhile, or forgotten: the loop will see
	}
	h := *old
	h.Parts = slices.Clone(h.Parts)
	for i := range h.Parts {
		p := &h.Parts[i]
		if p.Link != c.Link || p.Acked {
			continue
		}
		p.Acked = true
		switch {
		case c.Lost:
			s.losePart(&h, p)
		case c.Decision == api.DecisionCommit:
			p.Committed = true
			s.endPart(&h, p)
		case !p.Committed: // else it ends what it made, and says so
			s.endPart(&h, p)
		}
	}
	s.putHold(&h)
	s.noteUntold(&h, -1)
	return Result{Hold: &h}
}

// madeBy returns an instance if h made it: after an abort another hold may have
// used the id.
func (s *sagaBook) madeBy(h *Hold, id api.InstanceID) *api.Instance {
	if i, ok := s.instances.Get(string(id)); ok && i.Hold == h.ID && i.Origin == h.Origin {
		return i
	}
	return nil
}

// losePart marks the instances of a child that gave them up against its word:
// its operator had released the hold by force. Those that should end are gone.
func (s *sagaBook) losePart(h *Hold, p *Part) {
	for _, pi := range p.Instances {
		switch i := s.madeBy(h, pi.Spec.ID); {
		case i == nil || !i.Live():
		case i.Status == api.StatusDeleting:
			s.setStatus(i, api.StatusDeleted, "")
		default:
			s.setStatus(i, api.StatusError, "the zone's operator released it before it was decided")
		}
	}
}

// endPart has the child told, one by one, of the instances that must end. They
// were given up before it confirmed the commit: it has them and was not asked to
// end them, or never made them and has nothing to say of them.
func (s *sagaBook) endPart(h *Hold, p *Part) {
	for _, pi := range p.Instances {
		if i := s.madeBy(h, pi.Spec.ID); i != nil && i.Status == api.StatusDeleting {
			s.mustEnd(i)
		}
	}
}

func (s *sagaBook) instanceDelete(c command.InstanceDelete) Result {
	i, ok := s.instances.Get(string(c.ID))
	if !ok || !i.Live() {
		return refuseWith(api.CodeNotFound, "no such server")
	}
	if i.Status != api.StatusDeleting {
		s.endInstance(i)
		if h, ok := s.holds.Get(joinKey(i.Origin, i.Hold)); i.Link != "" && (!ok || h.PartAcked(i.Link)) {
			s.mustEnd(i) // else its zone does not have it yet: see partAck
		}
	}
	return Result{}
}
