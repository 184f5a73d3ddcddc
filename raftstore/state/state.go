// Package state is the replicated state of a zone, and the effect of each command on it.
//
// Apply is a function of (state, index, command): no clock, no randomness, no
// map order, no I/O. Tables are ordered copy-on-write trees and the host table
// copies the chunks it touches, so Clone costs next to nothing and a clone is an
// immutable view that readers use without locks. Records are never changed in
// place: a change stores a new record, and readers leave what they get as it is.
//
// The package plans nothing and notifies nobody: effects follow from what readers see in
// a later view.
package state

import (
	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// State is the replicated state of one zone: its books, and the operations on several books.
// One goroutine may Apply; clones may be read by any number.
type State struct {
	auditBook

	upload *upload // an unfinished backup
}

// Result is the outcome of one command: an error (an *api.Error; nothing was changed), or
// the records for the answer to the proposer.
type Result struct {
	Err     error
	Boot    *Boot
	Hold    *Hold
	Hosts   []api.HostID
	Link    *api.Link
	Join    *api.JoinToken
	Lease   *Lease  // nil if it is gone
	Series  *Series // nil if it is gone
	Binding *api.Binding
	Losses  *Losses // of a link that was written off
	Lost    *Lost   // on a host, with what was written off there
}

// Answer is the answer to one list of commands: the result of each, or an error if results are
// not known.
type Answer struct {
	Results []Result
	Err     error
}

// New returns the state of a zone before its first command.
func New() *State {
	s := &State{}
	for _, t := range s.tables(nil) {
		t.Init()
	}
	s.form, s.limits, s.hostTable = api.FormFirst, limitsAt(api.FormFirst), capacity.NewTable()
	return s
}

// tablesMax is the number of tables for which Clone has room on its stack.
const tablesMax = 64

// Clone returns an immutable view of the state. It is cheap: it copies roots,
// not tables. The receiver may be changed afterwards, the clone must not be.
func (s *State) Clone() *State {
	c := *s
	var mine, theirs [tablesMax]table.Table
	from := s.tables(mine[:0])
	for i, t := range c.tables(theirs[:0]) {
		t.SetView(from[i])
	}
	c.hostTable, c.bumped, c.recheck, c.alike, c.touched, c.facts = nil, nil, nil, nil, nil, nil // a clone is for reading
	c.view = s.Hosts()
	return &c
}

// Apply folds the command of the entry at index into s. Several commands may
// share an index. A command that is refused changes nothing but the index and
// the zone's time.
func (s *State) Apply(index uint64, c command.Command) Result {
	s.index, s.form, s.limits = index, max(s.form, c.Form()), limitsAt(c.Form())
	return s.applyEntry(c)
}

// applyEntry is Apply within the limits that are set.
func (s *State) applyEntry(c command.Command) Result {
	clear(s.bumped)
	s.noteBehind()
	s.forgetFresh()
	s.touched, s.facts, s.idle = s.touched[:0], s.facts[:0], false
	at := max(c.Time(), s.now)
	if _, first := c.(command.Init); !first && s.Zone == "" {
		s.moveTime(at)
		return refuseWith(api.CodeUnavailable, "the zone has not been initialised")
	}
	s.passTime(at)
	s.moveTime(at)
	r := s.applyCommand(c)
	s.hideLayout()
	s.passFacts()
	s.beginWaiting()
	s.passFacts()
	if _, whole := c.(command.Restore); !whole { // after it the state is that of the backup
		s.passTime(at)
	}
	s.auditOutcome(c, r.Err)
	s.refreshCleaning()
	if r.Hold != nil { // facts may have changed it
		r.Hold, _ = s.holds.Get(r.Hold.Key())
	}
	if r.Boot != nil {
		r.Boot, _ = s.boots.Get(r.Boot.ID())
	}
	if r.Lease != nil {
		r.Lease, _ = s.leases.Get(string(r.Lease.Terms.ID))
	}
	if r.Series != nil {
		r.Series, _ = s.series.Get(string(r.Series.ID))
	}
	return r
}

// passTime takes every step that is due by then, each at its time and with all that follows
// from it.
func (s *State) passTime(then api.Instant) {
	if s.limits.leases == 0 {
		return
	}
	for range stepsPerEntry {
		next := s.nextStep()
		if next.at > then {
			return
		}
		s.moveTime(next.at)
		next.run()
		s.passFacts()
		s.beginWaiting()
		s.passFacts()
	}
}

// moveTime moves the zone's time; it never falls.
func (s *State) moveTime(to api.Instant) {
	if to > s.now {
		s.now = to
		s.advanceTable(to)
	}
}

// applyCommand passes a command to the book that it is for.
func (s *State) applyCommand(c command.Command) Result {
	switch c := c.(type) {
	case command.ForMembers:
		return s.membersBook.apply(c)
	case command.ForStock:
		return s.stockBook.apply(c)
	case command.ForQuotas:
		return s.quotasBook.apply(c)
	case command.ForBindings:
		return s.bindingsBook.apply(c)
	case command.ForWork:
		return s.workBook.apply(c)
	case command.ForSaga:
		return s.sagaBook.apply(c)
	case command.ForBoots:
		return s.bootsBook.apply(c)
	case command.ForLeases:
		return s.leasesBook.apply(c)
	case command.ForEvents:
		return s.eventsBook.apply(c)
	case command.ForAudit:
		return s.auditBook.apply(c)
	case command.ForSeveral:
		return s.apply(c)
	}
	return Result{}
}

// apply applies a command that no book can apply alone.
func (s *State) apply(c command.ForSeveral) Result {
	switch c := c.(type) {
	case command.Hold:
		return s.makeHold(s.shareWithBoot(c), s.checkOwn(c), s.liftedOf(c))
	case command.LinkDelete:
		return s.linkDelete(c)
	case command.LinkWriteOff:
		return s.linkWriteOff(c)
	case command.LinkRelink:
		return s.linkRelink(c)
	case command.LinkReconciled:
		return s.linkReconciled(c)
	case command.LinkRestored:
		return s.linkRestored(c)
	case command.ProviderSet:
		return s.providerSet(c)
	case command.ConsumersPut:
		return s.consumersPut(c)
	case command.ConsumerDelete:
		return s.consumerDelete(c)
	case command.Prune:
		s.pruneRecords(c)
	case command.Restore:
		return s.restorePart(c)
	case command.KEKUse:
		return s.kekUse(c)
	case command.CAUse:
		return s.caUse(c)
	case command.CADrop:
		return s.caDrop(c)
	}
	return Result{}
}

func refuseWith(code api.Code, format string, args ...any) Result {
	return Result{Err: api.Errorf(code, format, args...)}
}

// assignIfSet stores *from in *to unless from is nil.
func assignIfSet[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
