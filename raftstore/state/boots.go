package state

import (
	"bytes"
	"slices"
	"time"

	"berth/api"
	"berth/raftstore/command"
)

// Boot is the record of one request to boot, at the zone where it was made.
type Boot struct {
	Key       string             `cbor:"1,keyasint,omitempty"`
	Digest    []byte             `cbor:"2,keyasint"`
	Name      string             `cbor:"3,keyasint"`
	Request   api.Request        `cbor:"4,keyasint"`
	Min       int                `cbor:"5,keyasint"`
	Instances []api.InstanceSpec `cbor:"6,keyasint"` // allotted; the first ones are used first
	Metadata  map[string]string  `cbor:"7,keyasint,omitempty"`
	Fixed     bool               `cbor:"8,keyasint,omitempty"`
	Decision  api.Decision       `cbor:"9,keyasint"`
	Ended     bool               `cbor:"10,keyasint,omitempty"` // its owner asked for its end
	Reason    string             `cbor:"11,keyasint,omitempty"`
	Attempts  []api.BootAttempt  `cbor:"12,keyasint,omitempty"`
	Holds     []api.HoldID       `cbor:"13,keyasint,omitempty"`
	Unacked   int                `cbor:"14,keyasint,omitempty"` // holds that may live in a child that has not confirmed their end or their start
	Counts    Counts             `cbor:"15,keyasint"`
	Created   api.Instant        `cbor:"16,keyasint"`
	Updated   api.Instant        `cbor:"17,keyasint"`
	ModIndex  uint64             `cbor:"18,keyasint"`
	Call      api.RequestID      `cbor:"19,keyasint,omitempty"`          // the call that asked for it
	Timeout   time.Duration      `cbor:"20,keyasint,omitempty"`          // how long after Created it is aborted if it is not decided; 0 for never
	Code      api.Code           `cbor:"21,keyasint,omitempty" form:"2"` // why it failed; "" in a record of an entry without it, see Cause
}

// Counts is the number of a boot's instances by status.
type Counts struct {
	Build    int `cbor:"1,keyasint,omitempty"`
	Active   int `cbor:"2,keyasint,omitempty"`
	Shutoff  int `cbor:"3,keyasint,omitempty"`
	Error    int `cbor:"4,keyasint,omitempty"`
	Deleting int `cbor:"5,keyasint,omitempty"`
	Deleted  int `cbor:"6,keyasint,omitempty"`
}

// add changes the count of one status by n.
func (c *Counts) add(st api.Status, n int) {
	switch st {
	case api.StatusBuild:
		c.Build += n
	case api.StatusActive:
		c.Active += n
	case api.StatusShutoff:
		c.Shutoff += n
	case api.StatusError:
		c.Error += n
	case api.StatusDeleting:
		c.Deleting += n
	case api.StatusDeleted:
		c.Deleted += n
	}
}

// Live returns the number of instances that are not DELETED.
func (c Counts) Live() int { return c.Build + c.Active + c.Shutoff + c.Error + c.Deleting }

// ID returns the boot's key in the tables.
func (b *Boot) ID() string { return joinKey(b.Request.Project, b.Request.Reservation) }

func (b *Boot) owner() Owner { return Owner{OwnerBoot, b.ID()} }

// State derives what the caller sees.
func (b *Boot) State() api.BootState {
	settled := b.Unacked == 0
	switch {
	case b.Decision == api.DecisionPending && len(b.Holds) == 0:
		return api.BootAccepted
	case b.Decision == api.DecisionPending:
		return api.BootHolding
	case b.Decision == api.DecisionAbort && !settled:
		return api.BootReleasing
	case b.Decision == api.DecisionAbort && b.Ended:
		return api.BootReleased
	case b.Decision == api.DecisionAbort:
		return api.BootFailed
	case b.Ended && (b.Counts.Live() > 0 || !settled):
		return api.BootReleasing
	case b.Ended || b.Counts.Live() == 0 && settled:
		return api.BootReleased
	case b.Counts.Build > 0 || !settled:
		return api.BootBuilding
	case b.Counts.Error > 0 && b.Counts.Error == b.Counts.Live():
		return api.BootError
	case b.Counts.Error > 0:
		return api.BootDegraded
	}
	return api.BootActive
}

// Cause returns why a boot failed: its code, "" if it has not failed, and the
// sentence that its caller is shown. Records of earlier releases have the code in
// the sentence alone.
func (b *Boot) Cause() (api.Code, string) {
	switch {
	case b.Code != "":
		return b.Code, string(b.Code) + ": " + b.Reason
	case b.Decision == api.DecisionAbort && !b.Ended:
		return api.ReasonCode(b.Reason), b.Reason
	}
	return "", b.Reason
}

// Final reports whether nothing of the boot is left to be done or kept.
func (b *Boot) Final() bool {
	st := b.State()
	return st == api.BootReleased || st == api.BootFailed
}

// BootFor finds a boot by its reservation id, or by the idempotency key that it
// was asked for with.
func (s *bootsBook) BootFor(p api.ProjectID, r api.ReservationID, idempotency string) (*Boot, bool) {
	return s.bootFor(command.BootCreate{Key: idempotency, Request: api.Request{Project: p, Reservation: r}})
}

func (s *bootsBook) bootCreate(c command.BootCreate) Result {
	project := c.Request.Project
	if b, ok := s.bootFor(c); ok {
		if c.Fixed && (c.Key == "" || b.Key != c.Key) {
			return refuseWith(api.CodePlanRefused, "%s", api.PlanRefusedMessage)
		}
		if !bytes.Equal(b.Digest, c.Digest) {
			return refuseWith(api.CodeConflict, "the reservation id or idempotency key was used for a different request")
		}
		return Result{Boot: b}
	}
	for _, i := range c.Instances {
		if s.knowsInstance(i.ID) {
			return refuseWith(api.CodeConflict, "instance id %s is taken", string(i.ID))
		}
	}
	b := &Boot{
		Key: c.Key, Digest: c.Digest, Name: c.Name, Request: c.Request, Min: c.Min, Instances: c.Instances,
		Metadata: c.Metadata, Fixed: c.Fixed, Decision: api.DecisionPending, Created: c.At,
		Call: c.Call, Timeout: c.Timeout,
	}
	if c.Key != "" {
		s.keys.Set(joinKey(project, c.Key), c.Request.Reservation)
	}
	s.openOwner(b.owner())
	s.storeBoot(b)
	s.addFact(bootChanged{EventBootCreated, b})
	return Result{Boot: b}
}

// checkOwn refuses a hold for a boot of this zone that does not wait for it.
func (s *bootsBook) checkOwn(c command.Hold) Result {
	if c.Origin != "" {
		return Result{}
	}
	b, ok := s.boots.Get(joinKey(c.Request.Project, c.Request.Reservation))
	switch {
	case !ok || b.Decision != api.DecisionPending:
		return refuseWith(api.CodeConflict, "reservation %q is not waiting for slots", string(c.Request.Reservation))
	case len(c.Request.Groups) != len(b.Request.Groups):
		return refuseWith(api.CodeInvalid, "the hold has other groups than reservation %q", string(c.Request.Reservation))
	}
	return Result{}
}

// noteHold ties a hold to its boot, and tells the boot's tale.
func (s *bootsBook) noteHold(f slotsTaken) {
	if f.owner.Kind != OwnerBoot {
		return
	}
	s.editBoot(f.owner.ID, func(b *Boot) {
		b.Holds = append(slices.Clone(b.Holds), f.hold.ID)
		tale := api.BootAttempt{Attempt: f.hold.Attempt, Wanted: f.wanted}
		if f.tale != nil {
			tale = *f.tale
		}
		tale.Held, tale.Refused = len(f.hold.Slots), len(f.hold.Refused)
		tale.Contended = tale.Contended || f.hold.Why == api.CodeContended
		b.addAttempt(tale)
	})
}

// noteAnswers adds to the tale of an attempt what children have said.
func (s *bootsBook) noteAnswers(f partsAnswered) {
	if f.owner.Kind != OwnerBoot {
		return
	}
	s.editBoot(f.owner.ID, func(b *Boot) {
		b.editAttempt(f.hold.Attempt, func(t *api.BootAttempt) {
			t.Held += f.held
			t.Refused += f.refused
			t.Contended = t.Contended || f.hold.Why == api.CodeContended
			tellAnswers(t, f.answers)
		})
	})
}

// noteInstance counts the instances of a boot by status.
func (s *bootsBook) noteInstance(f instanceChanged) {
	if f.instance.Origin != "" {
		return
	}
	s.editBoot(joinKey(f.instance.Project, f.instance.Reservation), func(b *Boot) {
		if f.was != "" {
			b.Counts.add(f.was, -1)
		}
		b.Counts.add(f.is, +1)
	})
}

// decideComplete commits a boot that wanted to be decided as soon as it has enough.
func (s *bootsBook) decideComplete(o Owner) {
	if b, ok := s.boots.Get(o.ID); ok && o.Kind == OwnerBoot && b.Decision == api.DecisionPending && s.Lacks(b) == "" {
		s.decideBoot(b, api.DecisionCommit, "", "")
	}
}

// bootFor finds the boot that c repeats, by reservation id or idempotency key.
func (s *bootsBook) bootFor(c command.BootCreate) (*Boot, bool) {
	if b, ok := s.boots.Get(joinKey(c.Request.Project, c.Request.Reservation)); ok {
		return b, true
	}
	if c.Key == "" {
		return nil, false
	}
	r, ok := s.keys.Get(joinKey(c.Request.Project, c.Key))
	if !ok {
		return nil, false
	}
	return s.boots.Get(joinKey(c.Request.Project, r))
}

func (s *bootsBook) storeBoot(b *Boot) {
	b.Updated, b.ModIndex = s.now, s.index
	s.putBoot(b)
}

// editBoot stores a changed copy of the boot that an own hold belongs to.
func (s *bootsBook) editBoot(id string, edit func(*Boot)) *Boot {
	old, ok := s.boots.Get(id)
	if !ok {
		return nil
	}
	b := *old
	edit(&b)
	s.storeBoot(&b)
	return &b
}

func (s *bootsBook) bootDecide(c command.BootDecide) Result {
	b, ok := s.boots.Get(joinKey(c.Project, c.Reservation))
	switch {
	case !ok:
		return refuseWith(api.CodeNotFound, "no reservation %q", string(c.Reservation))
	case b.Decision == c.Decision:
		return Result{Boot: b}
	case b.Decision != api.DecisionPending:
		return refuseWith(api.CodeConflict, "reservation %q was decided before: %s", string(c.Reservation), string(b.Decision))
	}
	if c.Decision == api.DecisionCommit {
		if why := s.Lacks(b); why != "" {
			return refuseWith(api.CodeConflict, "reservation %q %s", string(c.Reservation), why)
		}
	}
	if c.Tale != nil {
		t := *c.Tale
		t.Attempt = b.Tried() + 1 // the proposer may not have known of the one before
		b = s.editBoot(b.ID(), func(b *Boot) { b.addAttempt(t) })
	}
	return Result{Boot: s.decideBoot(b, c.Decision, c.Code, c.Reason)}
}

// decideBoot writes the decision of a boot and of each of its holds. A hold that
// is not complete is given back, whatever becomes of the others.
func (s *bootsBook) decideBoot(b *Boot, d api.Decision, code api.Code, reason string) *Boot {
	s.closeOwner(b.owner())
	b = s.editBoot(b.ID(), func(b *Boot) { b.Decision, b.Code, b.Reason = d, code, reason })
	s.addFact(bootChanged{EventBootDecided, b})
	for _, id := range b.Holds {
		h, ok := s.holds.Get(joinKey(api.LinkID(""), id))
		switch {
		case !ok:
		case h.Decision != api.DecisionPending:
			s.indexEndedHold(h) // its boot is decided now
		case h.State == api.HoldAsking:
			s.decideHold(h, api.DecisionAbort, false)
		default:
			s.decideHold(h, d, false)
		}
	}
	b, _ = s.boots.Get(b.ID())
	return b
}

func (s *bootsBook) bootRelease(c command.BootRelease) Result {
	b, ok := s.boots.Get(joinKey(c.Project, c.Reservation))
	if !ok {
		return refuseWith(api.CodeNotFound, "no reservation %q", string(c.Reservation))
	}
	if b.Ended {
		return Result{Boot: b}
	}
	b = s.editBoot(b.ID(), func(b *Boot) { b.Ended = true })
	s.addFact(bootChanged{EventBootReleased, b})
	if b.Decision == api.DecisionPending {
		return Result{Boot: s.decideBoot(b, api.DecisionAbort, "", "released before it was decided")}
	}
	for _, id := range b.Holds {
		if h, ok := s.holds.Get(joinKey(api.LinkID(""), id)); ok {
			s.decideHold(h, api.DecisionAbort, false)
		}
	}
	b, _ = s.boots.Get(b.ID())
	return Result{Boot: b}
}

// Tried returns the number of the last attempt.
func (b *Boot) Tried() int {
	if n := len(b.Attempts); n > 0 {
		return b.Attempts[n-1].Attempt
	}
	return 0
}

// addAttempt adds an attempt to the record. Beyond AttemptsKept, of those that lay between
// the first two and the last ones the oldest is dropped.
func (b *Boot) addAttempt(t api.BootAttempt) {
	b.Attempts = append(slices.Clone(b.Attempts), t)
	if len(b.Attempts) > api.AttemptsKept {
		b.Attempts = slices.Delete(b.Attempts, firstAttemptsKept, firstAttemptsKept+1)
	}
}

// firstAttemptsKept is how many of the first attempts stay in the record.
const firstAttemptsKept = 2

// editAttempt changes the attempt numbered n in a copy of the boot's attempts.
func (b *Boot) editAttempt(n int, edit func(*api.BootAttempt)) {
	b.Attempts = slices.Clone(b.Attempts)
	for i := range b.Attempts {
		if b.Attempts[i].Attempt == n {
			edit(&b.Attempts[i])
		}
	}
}
