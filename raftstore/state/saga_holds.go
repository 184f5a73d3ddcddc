package state

import (
	"slices"
	"time"

	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// Hold is a set of slots taken for an owner, and the decision about them. Held and
// Refused together are everything that was requested.
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
	// Shares are, for each of Slots, what providers other than the host give; nil if
	// they give nothing to any slot.
	Shares [][]api.Share `cbor:"18,keyasint,omitempty"`
	Why    api.Code      `cbor:"19,keyasint,omitempty"` // some were refused; see noteCause
	// Grace is how long before they start the slots of a lease are closed to preemptibles.
	Grace time.Duration `cbor:"20,keyasint,omitempty" form:"4"`
	// Choices are fixed until the hold is decided: its commit makes bindings of them.
	Choices []api.BindingChoice `cbor:"21,keyasint,omitempty" form:"4"`
	Refill  int                 `cbor:"22,keyasint,omitempty" form:"5"` // of a boot of this zone, see command.BootTerms
	// Lifted are server groups of its rules that were deleted since, in that order: they bind nothing
	// that it has made, and its children learn of them with its decision.
	Lifted []api.ServerGroupID `cbor:"23,keyasint,omitempty" form:"5"`
}

// Part is what one child holds for a hold.
type Part struct {
	Link      api.LinkID     `cbor:"1,keyasint"`
	Instances []PartInstance `cbor:"2,keyasint"` // requested; after the answer, held
	Answered  bool           `cbor:"3,keyasint,omitempty"`
	Acked     bool           `cbor:"4,keyasint,omitempty"` // has carried out the decision
	Committed bool           `cbor:"5,keyasint,omitempty"` // has reported that it made the instances
}

// PartInstance is one instance of a part, with the group it belongs to.
type PartInstance struct {
	Spec  api.InstanceSpec `cbor:"1,keyasint"`
	Group int              `cbor:"2,keyasint"`
}

// Key returns the hold's key in the tables.
func (h *Hold) Key() string { return joinKey(h.Origin, h.ID) }

// Tenant returns the tenant of the hold.
func (h *Hold) Tenant() api.Tenant { return api.Tenant{Origin: h.Origin, Project: h.Request.Project} }

// Held returns the instances that are held, first those on own hosts.
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

// Answer returns the answer to the zone that asked for the hold.
func (h *Hold) Answer() api.HoldAnswer {
	return api.HoldAnswer{ID: h.ID, State: h.State, Held: h.Held(), Refused: h.Refused, Why: h.Why}
}

// DecisionFor returns the decision to send to a child. A child that did not answer in time
// with held instances must release them, whatever the decision for the others.
func (h *Hold) DecisionFor(p Part) api.Decision {
	if len(p.Instances) == 0 {
		return api.DecisionAbort
	}
	return h.Decision
}

// DecisionAt returns what a child is told of the hold.
func (h *Hold) DecisionAt(p Part) api.HoldDecision {
	d := api.HoldDecision{ID: h.ID, Decision: h.DecisionFor(p)}
	if d.Decision == api.DecisionCommit {
		d.Lifted = h.Lifted
	}
	return d
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

// isUndecidedAt reports whether a child takes part in the hold and it is undecided: it may still make
// instances there, or the child has made some already.
func (h *Hold) isUndecidedAt(link api.LinkID) bool {
	return h.Decision == api.DecisionPending && slices.ContainsFunc(h.Parts, func(p Part) bool { return p.Link == link })
}

// sharesOf returns what providers other than its host give to the slot with index n.
func (h *Hold) sharesOf(n int) []api.Share {
	if h.Shares == nil {
		return nil
	}
	return h.Shares[n]
}

// claimOfSlot returns the claim of a slot of an undecided hold.
func (s *sagaBook) claimOfSlot(h *Hold, sl command.Slot) api.Claim {
	c := api.Claim{
		Consumer: sl.Instance.ID, Resources: h.Request.Groups[sl.Group].Resources,
		Window: h.windowOf(sl), Class: h.Request.ClaimClass(), Whole: h.Request.Groups[sl.Group].Whole, Grace: h.Grace,
	}
	if sl.Within != "" && c.Class == api.Firm {
		c.Class = api.Preempting // preemptibles there have to leave
	}
	if sl.Whole != nil {
		c.Resources = sl.Whole
	}
	c.Within = s.outerClaim(sl.Within)
	return c
}

// windowOf returns the window of one slot: that of a preemptible within a lease ends with it.
func (h *Hold) windowOf(sl command.Slot) api.Window {
	w := h.windowOfGroup(sl.Group)
	if sl.Until > 0 {
		w.End = min(w.End, sl.Until)
	}
	return w
}

// windowOfGroup returns the window of a group: what is within a lease ends with it, volumes beside
// it do not.
func (h *Hold) windowOfGroup(g int) api.Window {
	if h.Request.WithinOf(g) == h.Request.Within {
		return h.Window
	}
	return h.windowBeside()
}

// windowBeside returns the window of what the hold has that is not within a lease.
func (h *Hold) windowBeside() api.Window {
	if h.Request.Within == "" {
		return h.Window
	}
	return h.Request.WindowAt(h.Created)
}

// neverArrived reports whether a hold was aborted before it arrived.
func (h *Hold) neverArrived() bool { return len(h.Request.Groups) == 0 }

// owner returns the owner of a hold.
func (h *Hold) owner() owner {
	if h.Origin != "" {
		return owner{ownerLink, string(h.Origin)}
	}
	return owner{ownerBoot, bootKey(h.Request.Project, h.Request.Reservation, h.Refill)}
}

func (s *sagaBook) loadHold(h *Hold) {
	s.shareHold(h)
	s.holds.Set(h.Key(), h)
	s.holdTexts += h.textsOf()
	if h.neverArrived() {
		addTally(s.tombstones, string(h.Origin), +1)
	}
	if h.Decision != api.DecisionPending {
		if !h.isSettled() {
			s.untold.Insert(h.Key())
		}
		return
	}
	s.indexHeld(h)
	s.countLentBy(h, true)
	s.indexChoices(h, true)
	if h.Origin == "" {
		s.open.Insert(h.Key())
	} else {
		s.prepared.Insert(h.Key())
	}
	for n, sl := range h.Slots {
		if sl.Keeps == "" {
			s.allocate(sl.Host, s.claimOfSlot(h, sl), h.sharesOf(n))
		} else {
			s.loadKept(h, n)
		}
		s.countSlot(h, sl, +1)
		if sl.Within != "" {
			s.promiseWithin(sl.Within, h.Request.Class, +1)
		}
	}
	for _, p := range h.Parts {
		for _, i := range p.Instances {
			s.countPart(h, p.Link, i, +1)
		}
	}
}

// Hold returns one hold; origin is "" for one of this zone's own boots.
func (s *sagaBook) Hold(origin api.LinkID, id api.HoldID) (*Hold, bool) {
	return s.holds.Get(joinKey(origin, id))
}

// HoldsFor returns the holds with an id: at most one of this zone's own boots and one of a
// parent.
func (s *sagaBook) HoldsFor(id api.HoldID) []*Hold {
	var out []*Hold
	if h, ok := s.Hold("", id); ok {
		out = append(out, h)
	}
	if p, ok := s.Parent(); ok {
		if h, ok := s.Hold(p.ID, id); ok {
			out = append(out, h)
		}
	}
	return out
}

// Holds returns every hold by key; for operators and tests.
func (s *sagaBook) Holds() []*Hold { return s.holds.Values() }

// UntoldHolds returns decided holds that some child has not confirmed, by key.
func (s *sagaBook) UntoldHolds() []*Hold { return pickRecords(&s.untold, s.holds) }

// UntoldHold returns the hold with a key, if it is decided and some child has not confirmed that.
func (s *sagaBook) UntoldHold(key string) (*Hold, bool) { return pickRecord(&s.untold, s.holds, key) }

// PreparedHolds returns holds that a parent has not decided, by key.
func (s *sagaBook) PreparedHolds() []*Hold { return pickRecords(&s.prepared, s.holds) }

// giveBack releases the claims of a hold in a table.
func (s *sagaBook) giveBack(t *capacity.Table, h *Hold) {
	for n, sl := range h.Slots {
		if sl.Keeps != "" {
			s.ungrow(t, h, n)
			continue
		}
		for id, part := range allocations(sl.Host, s.claimOfSlot(h, sl), h.sharesOf(n)) {
			if id == sl.Host {
				t.Release(id, part)
			} else {
				t.Return(id, part)
			}
		}
	}
}
