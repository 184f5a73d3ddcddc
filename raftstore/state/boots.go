package state

import (
	"bytes"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// bootsBook has the boots that were requested at this zone. A boot owns holds.
type bootsBook struct {
	sagaBook

	boots table.Map[*Boot]             // by bootKey; a refill is there while it is undecided
	keys  table.Map[api.ReservationID] // project, idempotency key
	queue table.Map[*Requeued]         // boot -> its preempted instances that are to be booted again

	endedBoots table.Set // final boots without holds, by end time

	bootTexts int64 // quota.DataOf of all

	fresh *Boot // the record that this command made last: no view has it

	queued int    // instances in the queue
	freed  uint64 // index of the last entry in which room may have become free
}

func (s *bootsBook) tables(into []table.Table) []table.Table {
	return append(s.sagaBook.tables(into), table.Of(&s.boots), table.Of(&s.keys), table.Of(&s.queue), &s.endedBoots)
}

func (s *bootsBook) sections() []section {
	queue := sectionOf("requeued", s.queue.Values, s.loadRequeued)
	queue.form = api.FormFourth
	return append(s.sagaBook.sections(), sectionOf("boots", s.boots.Values, s.loadBoot), queue)
}

// apply applies a command that is for this book.
func (s *bootsBook) apply(c command.ForBoots) Result {
	switch c := c.(type) {
	case command.BootCreate:
		return s.bootCreate(c)
	case command.BootDecide:
		return s.bootDecide(c)
	case command.BootRelease:
		return s.bootRelease(c)
	case command.Requeue:
		return s.requeue(c)
	case command.GroupDelete:
		return s.deleteGroup(c)
	}
	return Result{}
}

// note updates boots from the facts of the books below.
func (s *bootsBook) note(f fact) {
	switch f := f.(type) {
	case instanceChanged:
		s.noteInstance(f)
		s.noteRoom(f)
		s.queuePreempted(f.instance)
	case hostReached:
		if f.since == 0 {
			s.freed = s.index
		}
	case slotsTaken:
		s.noteHold(f)
	case partsAnswered:
		s.noteAnswers(f)
	case holdComplete:
		s.decideComplete(f.owner)
	case partsOwed:
		if f.owner.Kind == ownerBoot {
			s.editBoot(s.heirOf(f.owner.ID), func(b *Boot) { b.Unacked += f.by })
		}
	}
}

// Boot is the record of one request to boot, at the zone where it was made.
type Boot struct {
	command.BootTerms
	Decision api.Decision      `cbor:"20,keyasint"`
	Ended    bool              `cbor:"21,keyasint,omitempty"` // its owner asked for its end
	Reason   string            `cbor:"22,keyasint,omitempty"`
	Attempts []api.BootAttempt `cbor:"23,keyasint,omitempty"`
	Holds    []api.HoldID      `cbor:"24,keyasint,omitempty"`
	Unacked  int               `cbor:"25,keyasint,omitempty"` // holds that may be live in a child that has not confirmed the decision
	Counts   Counts            `cbor:"26,keyasint"`
	Created  api.Instant       `cbor:"27,keyasint"`
	Updated  api.Instant       `cbor:"28,keyasint"`
	ModIndex uint64            `cbor:"29,keyasint"`
	Code     api.Code          `cbor:"30,keyasint,omitempty" form:"2"` // why it failed; "" in a record of an entry without it, see Cause
	Refills  int               `cbor:"32,keyasint,omitempty" form:"5"` // how many orders there were for preempted instances of it
	// Lifted are server groups of its rules that were deleted since: what is still made for it is not bound by them.
	Lifted []api.ServerGroupID `cbor:"33,keyasint,omitempty" form:"5"`
	Queued int                 `cbor:"-"` // preempted instances that are to be booted again, as in the queue
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
func (b *Boot) ID() string { return bootKey(b.Request.Project, b.Request.Reservation, b.Refill) }

func (b *Boot) owner() owner { return owner{ownerBoot, b.ID()} }

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
	case b.Ended || b.Counts.Live()+b.Queued == 0 && settled:
		return api.BootReleased
	case b.Counts.Live()+b.Queued == 0:
		return api.BootReleasing
	case b.Counts.Build+b.Queued > 0:
		return api.BootBuilding
	case b.Counts.Error > 0 && b.Counts.Error == b.Counts.Live():
		return api.BootError
	case b.Counts.Error > 0:
		return api.BootDegraded
	}
	return api.BootActive
}

// Cause returns why a boot failed: the code, or "" if it has not failed, and the
// sentence shown to its caller. Records of earlier releases have the code only in
// the sentence.
func (b *Boot) Cause() (api.Code, string) {
	switch {
	case b.Code != "":
		return b.Code, string(b.Code) + ": " + b.Reason
	case b.Decision == api.DecisionAbort && !b.Ended:
		return api.ReasonCode(b.Reason), b.Reason
	}
	return "", b.Reason
}

// Final reports whether the boot has ended: no work is left and nothing is held.
func (b *Boot) Final() bool {
	st := b.State()
	return st == api.BootReleased || st == api.BootFailed
}

func (s *bootsBook) bootCreate(c command.BootCreate) Result {
	if b, ok := s.BootFor(c.Request.Project, c.Request.Reservation, c.Key); ok {
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
	if r := s.checkBoot(&c.BootTerms); r.Err != nil {
		return r
	}
	return Result{Boot: s.addBoot(c.BootTerms, c.At)}
}

// addBoot records a new boot.
func (s *bootsBook) addBoot(terms command.BootTerms, created api.Instant) *Boot {
	terms.Request.Groups = s.sharedGroups(terms.Request.Groups)
	s.shareMetadata(&terms.Metadata)
	b := &Boot{BootTerms: terms, Decision: api.DecisionPending, Created: created, Lifted: s.missingGroups(&terms.Request)}
	if b.Key != "" {
		s.keys.Set(joinKey(b.Request.Project, b.Key), b.Request.Reservation)
	}
	s.openOwner(b.owner())
	s.countRecord(b, true)
	s.countBoot(b, true)
	s.storeBoot(b)
	s.noteChange(EventBootCreated, b)
	return b
}

// checkOwn refuses a hold for a boot of this zone that is not waiting for slots.
func (s *bootsBook) checkOwn(c command.Hold) Result {
	if c.Origin != "" {
		return Result{}
	}
	b, ok := s.boots.Get(bootKey(c.Request.Project, c.Request.Reservation, c.Refill))
	switch {
	case !ok || b.Decision != api.DecisionPending:
		return refuseWith(api.CodeConflict, "reservation %q is not waiting for slots", string(c.Request.Reservation))
	case len(c.Request.Groups) != len(b.Request.Groups):
		return refuseWith(api.CodeInvalid, "the hold has other groups than reservation %q", string(c.Request.Reservation))
	}
	return Result{}
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

// decideComplete commits a boot that asked to be committed as soon as it has enough slots.
func (s *bootsBook) decideComplete(o owner) {
	if b, ok := s.boots.Get(o.ID); ok && o.Kind == ownerBoot && b.Decision == api.DecisionPending && s.DescribeShortfall(b) == "" {
		s.decideBoot(b, api.DecisionCommit, "", "")
	}
}

func (s *bootsBook) storeBoot(b *Boot) {
	b.Updated, b.ModIndex, s.fresh = s.now, s.index, b
	s.putBoot(b)
}

// editBoot changes the record of a boot. The first change of a command makes a copy, and the
// others are made in it.
func (s *bootsBook) editBoot(id string, edit func(*Boot)) *Boot {
	b, ok := s.boots.Get(id)
	if !ok {
		return nil
	}
	s.unlistBoot(b)
	if b != s.fresh {
		cp := *b
		b = &cp
	}
	edit(b)
	s.storeBoot(b)
	return b
}

// forgetFresh begins a command: views may have the record that the last one made.
func (s *bootsBook) forgetFresh() { s.fresh = nil }

// noteChange adds a fact about the present state of b. A refill has none: its boot was decided before.
func (s *bootsBook) noteChange(kind EventKind, b *Boot) {
	if b.Refill > 0 {
		return
	}
	s.addFact(bootChanged{kind: kind, project: b.Request.Project, reservation: b.Request.Reservation, decision: b.Decision, code: b.Code})
}

func (s *bootsBook) bootDecide(c command.BootDecide) Result {
	b, ok := s.boots.Get(bootKey(c.Project, c.Reservation, c.Refill))
	switch {
	case !ok && c.Refill > 0:
		return refuseWith(api.CodeConflict, "order %d for preempted instances of reservation %q was decided before", c.Refill, string(c.Reservation))
	case !ok:
		return refuseWith(api.CodeNotFound, "no reservation %q", string(c.Reservation))
	case b.Decision == c.Decision:
		return Result{Boot: b}
	case b.Decision != api.DecisionPending:
		return refuseWith(api.CodeConflict, "reservation %q was decided before: %s", string(c.Reservation), string(b.Decision))
	}
	if c.Decision == api.DecisionCommit {
		if why := s.DescribeShortfall(b); why != "" {
			return refuseWith(api.CodeConflict, "reservation %q %s", string(c.Reservation), why)
		}
	}
	if c.Outcome != nil {
		t := *c.Outcome
		t.Attempt = b.Tried() + 1 // the proposer may not have seen the previous one
		b = s.editBoot(b.ID(), func(b *Boot) { b.addAttempt(t) })
	}
	return Result{Boot: s.decideBoot(b, c.Decision, c.Code, c.Reason)}
}

// decideBoot records the decision of a boot and of each of its holds. An incomplete
// hold is released, whatever the decision.
func (s *bootsBook) decideBoot(b *Boot, d api.Decision, code api.Code, reason string) *Boot {
	s.closeOwner(b.owner())
	s.countBoot(b, false)
	b = s.editBoot(b.ID(), func(b *Boot) { b.Decision, b.Code, b.Reason = d, code, reason })
	s.noteChange(EventBootDecided, b)
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
	if b.Refill > 0 {
		s.settleRefill(b)
	}
	return b
}

func (s *bootsBook) bootRelease(c command.BootRelease) Result {
	b, ok := s.boots.Get(joinKey(c.Project, c.Reservation))
	if !ok {
		return refuseWith(api.CodeNotFound, "no reservation %q", string(c.Reservation))
	}
	if b.Request.Reserves {
		return refuseWith(api.CodeConflict, "reservation %q is the room of a lease; delete the lease", string(c.Reservation))
	}
	return Result{Boot: s.releaseBoot(b)}
}

// releaseBoot releases everything that a boot holds; a repeat changes nothing.
func (s *bootsBook) releaseBoot(b *Boot) *Boot {
	if b.Ended {
		return b
	}
	b = s.editBoot(b.ID(), func(b *Boot) { b.Ended = true })
	s.noteChange(EventBootReleased, b)
	s.forgetRequeued(b)
	b, _ = s.boots.Get(b.ID())
	if b.Decision == api.DecisionPending {
		return s.decideBoot(b, api.DecisionAbort, "", "released before it was decided")
	}
	for _, id := range b.Holds {
		if h, ok := s.holds.Get(joinKey(api.LinkID(""), id)); ok {
			s.decideHold(h, api.DecisionAbort, false)
		}
	}
	b, _ = s.boots.Get(b.ID())
	return b
}

func (s *bootsBook) loadBoot(b *Boot) {
	b.Request.Groups = s.sharedGroups(b.Request.Groups)
	s.shareMetadata(&b.Metadata)
	s.shareBoot(b)
	s.boots.Set(b.ID(), b)
	s.countRecord(b, true)
	if b.Key != "" {
		s.keys.Set(joinKey(b.Request.Project, b.Key), b.Request.Reservation)
	}
	if b.Decision == api.DecisionPending {
		s.openOwner(b.owner())
		s.countBoot(b, true)
	}
}
