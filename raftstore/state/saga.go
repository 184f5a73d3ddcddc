package state

import (
	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// sagaBook has the holds of owners, decided or not, and the plans that holds have
// consumed. It does not know what an owner is.
type sagaBook struct {
	workBook

	holds     table.Map[*Hold]
	held      table.Map[string]  // instance -> hold key, for undecided holds
	plans     table.Map[planUse] // consumed plan -> hold key
	undecided table.Set          // owners of this zone that have not decided
	open      table.Set          // keys of undecided holds of this zone
	prepared  table.Set          // keys of undecided holds that a parent asked for
	untold    table.Set          // keys of decided holds that a child has not confirmed

	tombstones table.Map[int] // origin link -> aborts of holds that never arrived

	holdTexts int64 // Hold.textsOf of all

	endedHolds    table.Set // decided holds with nothing left, by end time
	expiringPlans table.Set // consumed plans, by expiry
}

func (s *sagaBook) tables(into []table.Table) []table.Table {
	return append(s.workBook.tables(into),
		table.Of(&s.holds), table.Of(&s.held), table.Of(&s.plans), &s.undecided, &s.open, &s.prepared, &s.untold, table.Of(&s.tombstones), &s.endedHolds, &s.expiringPlans)
}

func (s *sagaBook) sections() []section {
	return append(s.workBook.sections(),
		sectionOf("holds", s.holds.Values, s.loadHold),
		sectionOf("plans", s.savedPlans, func(p *planRecord) { s.putPlan(p.Plan, p.Use) }))
}

// apply applies a command that is for this book.
func (s *sagaBook) apply(c command.ForSaga) Result {
	switch c := c.(type) {
	case command.HoldParts:
		return s.holdParts(c)
	case command.HoldDecide:
		return s.holdDecide(c)
	case command.PartAck:
		return s.partAck(c)
	case command.InstanceDelete:
		return s.instanceDelete(c)
	case command.InstanceChanges:
		return s.instanceChanges(c)
	case command.InstanceMove:
		return s.instanceMove(c)
	case command.HostWriteOff:
		return s.hostWriteOff(c)
	}
	return Result{}
}

// owner is the one for whom a hold is made, and who decides it.
type owner struct {
	Kind ownerKind
	ID   string // Boot.ID, or the id of a link
}

// ownerKind is a kind of owner.
type ownerKind uint8

// The kinds.
const (
	ownerBoot ownerKind = iota + 1 // a boot of this zone
	ownerLink                      // a parent, for an order of its own
)

// planUse remembers which hold consumed a plan, until the plan has expired.
type planUse struct {
	Hold    string      `cbor:"1,keyasint"`
	Expires api.Instant `cbor:"2,keyasint"`
}

// openOwner marks an owner of this zone as undecided: it may make holds, and they are
// kept.
func (s *sagaBook) openOwner(o owner) {
	s.undecided.Insert(o.ID)
	s.touchTopic(dueTopic(DueBoots, o.ID))
}

// closeOwner marks an owner of this zone as decided. It decides its holds next.
func (s *sagaBook) closeOwner(o owner) { s.undecided.Delete(o.ID) }

// putPlan marks a plan as consumed.
func (s *sagaBook) putPlan(id string, u planUse) {
	if old, ok := s.plans.Set(id, u); ok {
		s.expiringPlans.Delete(prunableKey(endOwn, old.Expires, id))
	}
	s.expiringPlans.Insert(prunableKey(endOwn, u.Expires, id))
}

// PlanUsed reports whether a hold has consumed a plan. Expired plans may be forgotten.
func (s *sagaBook) PlanUsed(id api.PlanID) bool {
	_, used := s.plans.Get(string(id))
	return used
}

// planRecord is one row of the table of consumed plans.
type planRecord struct {
	Plan string  `cbor:"1,keyasint"`
	Use  planUse `cbor:"2,keyasint"`
}

func (s *sagaBook) savedPlans() []planRecord {
	plans := make([]planRecord, 0, s.plans.Len())
	s.plans.Scan(func(k string, u planUse) bool {
		plans = append(plans, planRecord{Plan: k, Use: u})
		return true
	})
	return plans
}
