// Package state is what a zone has agreed on, and what one command does to it.
//
// Apply is a function of (state, index, command): no clock, no randomness, no
// map order, no I/O. Tables are ordered copy-on-write trees and the host table
// copies the chunks it touches, so Clone costs next to nothing and a clone is an
// immutable view that readers use without locks. Records are never changed in
// place: a change stores a new record, and readers leave what they get as it is.
//
// The package plans nothing and tells nobody: effects follow from what readers
// see in a later view.
package state

import (
	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
)

// State is the replicated state of one zone: its books, and what concerns several of them.
// One goroutine may Apply; clones may be read by any number.
type State struct {
	eventsBook

	upload *upload // a backup that has not come to its end
}

// Result is what became of one command: an error (an *api.Error, and nothing
// was changed), or the records that answer the proposer.
type Result struct {
	Err   error
	Boot  *Boot
	Hold  *Hold
	Hosts []api.HostID
	Link  *api.Link
	Join  *api.JoinToken
}

// New returns the state of a zone before its first command.
func New() *State {
	s := &State{}
	s.form, s.limits, s.hostTable = api.FormFirst, limitsAt(api.FormFirst), capacity.NewTable()
	return s
}

// Clone returns an immutable view of the state. It is cheap: it copies roots,
// not tables. The receiver may be changed afterwards, the clone must not be.
func (s *State) Clone() *State {
	c := *s
	from := s.tables()
	for i, t := range c.tables() {
		t.CopyFrom(from[i])
	}
	c.hostTable, c.bumped, c.touched, c.facts = nil, nil, nil, nil // a clone is for reading
	c.view = s.Hosts()
	return &c
}

// Apply folds the command of the entry at index into s. Several commands may
// share an index. A command that is refused changes nothing but the index and
// the zone's time.
func (s *State) Apply(index uint64, c command.Command) Result {
	s.index, s.form, s.limits = index, max(s.form, c.Form()), limitsAt(c.Form())
	clear(s.bumped)
	s.touched, s.facts = s.touched[:0], s.facts[:0]
	at := c.Time()
	if at > s.now {
		s.now = at
		s.advanceTable(at)
	}
	if _, first := c.(command.Init); !first && s.Zone == "" {
		return refuseWith(api.CodeUnavailable, "the zone has not been initialised")
	}
	r := s.applyCommand(c)
	s.passFacts()
	if r.Hold != nil { // as it has become of that
		r.Hold, _ = s.holds.Get(r.Hold.Key())
	}
	if r.Boot != nil {
		r.Boot, _ = s.boots.Get(r.Boot.ID())
	}
	return r
}

// applyCommand does what one command asks. Every kind has its case: the lint holds it.
func (s *State) applyCommand(c command.Command) Result {
	switch c := c.(type) {
	case command.Init, command.NodePut, command.NodeRemove, command.ConfigSet, command.SchedulerSet,
		command.TokenPut, command.TokenDelete, command.JoinPut, command.JoinUse, command.FlavorPut,
		command.FlavorDelete, command.EpochAdd, command.LinkPut, command.LinkSet, command.LinkDelete,
		command.AggregatePut, command.AggregateDelete, command.GroupPut, command.GroupDelete:
		return s.foldZone(c)
	case command.HostsPut:
		return s.hostsPut(c)
	case command.HostsState:
		return s.hostsState(c)
	case command.HostSet:
		return s.hostSet(c)
	case command.HostDelete:
		return s.hostDelete(c)
	case command.ProviderCreate, command.ProviderSet, command.ProviderDelete, command.ConsumersPut, command.ConsumerDelete,
		command.ClassPut, command.ClassDelete, command.TraitPut, command.TraitDelete:
		return s.foldProvider(c)
	case command.BootCreate:
		return s.bootCreate(c)
	case command.Hold:
		return s.makeHold(c, s.checkOwn(c))
	case command.HoldParts:
		return s.holdParts(c)
	case command.HoldDecide:
		return s.holdDecide(c)
	case command.BootDecide:
		return s.bootDecide(c)
	case command.BootRelease:
		return s.bootRelease(c)
	case command.PartAck:
		return s.partAck(c)
	case command.InstanceDelete:
		return s.instanceDelete(c)
	case command.InstanceReport:
		return s.instanceReport(c)
	case command.InstanceChanges:
		return s.instanceChanges(c)
	case command.InstanceTold:
		s.instanceTold(c)
	case command.InstanceMove:
		return s.instanceMove(c)
	case command.Prune:
		s.pruneRecords(c)
	case command.Restored:
		s.markRestored()
	case command.Restore:
		return s.restorePart(c)
	}
	return Result{}
}

// foldZone is applyCommand for what a zone knows of itself and of its operators' wishes.
func (s *State) foldZone(c command.Command) Result {
	switch c := c.(type) { //nolint:gochecksumtype // fold has the other kinds
	case command.Init:
		return s.init(c)
	case command.NodePut:
		return s.nodePut(c)
	case command.NodeRemove:
		s.nodeRemove(c)
	case command.ConfigSet:
		s.configSet(c)
	case command.SchedulerSet:
		return s.schedulerSet(c)
	case command.TokenPut:
		return s.tokenPut(c)
	case command.TokenDelete:
		return s.tokenDelete(c)
	case command.JoinPut:
		return s.joinPut(c)
	case command.JoinUse:
		return s.joinUse(c.ID, c.Hash, c.Want)
	case command.FlavorPut:
		return s.flavorPut(c)
	case command.FlavorDelete:
		return s.flavorDelete(c)
	case command.EpochAdd:
		return s.epochAdd(c)
	case command.LinkPut:
		return s.linkPut(c)
	case command.LinkSet:
		return s.linkSet(c)
	case command.LinkDelete:
		return s.linkDelete(c)
	case command.AggregatePut:
		return s.aggregatePut(c)
	case command.AggregateDelete:
		return s.aggregateDelete(c)
	case command.GroupPut:
		return s.groupPut(c)
	case command.GroupDelete:
		return s.groupDelete(c)
	}
	return Result{}
}

// foldProvider is applyCommand for what the placement API changes.
func (s *State) foldProvider(c command.Command) Result {
	switch c := c.(type) { //nolint:gochecksumtype // fold has the other kinds
	case command.ProviderCreate:
		return s.providerCreate(c)
	case command.ProviderSet:
		return s.providerSet(c)
	case command.ProviderDelete:
		return s.providerDelete(c)
	case command.ConsumersPut:
		return s.consumersPut(c)
	case command.ConsumerDelete:
		return s.consumerDelete(c)
	case command.ClassPut:
		return s.classPut(c)
	case command.ClassDelete:
		return s.classDelete(c)
	case command.TraitPut:
		return s.traitPut(c)
	case command.TraitDelete:
		return s.traitDelete(c)
	}
	return Result{}
}

func refuseWith(code api.Code, format string, args ...any) Result {
	return Result{Err: api.Errorf(code, format, args...)}
}

// linkDelete forgets a link that nothing depends on any more.
func (s *State) linkDelete(c command.LinkDelete) Result {
	l, ok := s.links.Get(string(c.ID))
	if !ok {
		return refuseWith(api.CodeNotFound, "no such zone")
	}
	for _, i := range s.instances.Values() {
		if i.Live() && (i.Link == c.ID || i.Origin == c.ID) {
			return refuseWith(api.CodeConflict, "instances still depend on zone %q; delete them first", l.Name)
		}
	}
	for _, h := range s.holds.Values() {
		if h.dependsOn(c.ID) {
			return refuseWith(api.CodeConflict, "reservations in flight still depend on zone %q; try again when they have ended", l.Name)
		}
	}
	s.deleteLink(c.ID)
	return Result{Link: l}
}

// assignIfSet stores *from in *to unless from is nil.
func assignIfSet[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}
