package state

import (
	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// workBook has the instances of this zone and its children, server groups, and the members
// of rules.
type workBook struct {
	bindingsBook

	instances table.Map[*api.Instance]
	byTenant  table.Pairs                 // tenant, instance
	byRes     table.Pairs                 // tenant, reservation, instance
	byHost    table.Pairs                 // host, instance; instances that are not DELETED
	byTarget  table.Pairs                 // host, instance; instances that will move there
	changes   table.Set                   // origin link, ModIndex, instance
	ends      table.Set                   // end of the window, own instance whose end nobody has requested
	begins    table.Set                   // start of the window, own slot that has not begun
	closings  table.Set                   // closing, own slot whose closing has not begun
	waiting   table.Set                   // host or what gives a share, slot whose window has begun and whose room is not free
	within    table.Set                   // slot, live instance within it
	promised  table.Map[int]              // slot -> slots within it that undecided holds have
	lent      table.Map[int]              // the same for those of preemptibles, which are in nobody's way
	leased    table.Map[int]              // origin -> live slots
	lending   table.Set                   // own slots that have begun and whose owners lend what they do not use
	keeping   table.Set                   // slots that an undecided hold takes over
	reserved  table.Set                   // origin, reservation, live slot here or abroad
	unended   table.Set                   // remote instances whose zone does not know yet that they must end
	members   table.Map[int]              // project, rule, place -> members; see work_rules.go
	tenants   table.Map[int]              // project, host -> instances and held slots
	groups    table.Map[*api.ServerGroup] // project, server group

	behind bool // the entry before had more steps than it might take, so this one begins with windows that are over

	endedInstances table.Set // DELETED instances, by end time; see prune.go

	loading map[termsKey][]*api.InstanceTerms // while a snapshot is loaded: terms by hold; else nil

	gone map[string]int // in a view of Without: what to subtract from members and tenants
}

func (s *workBook) tables(into []table.Table) []table.Table {
	return append(s.bindingsBook.tables(into),
		table.Of(&s.instances), &s.byTenant, &s.byRes, &s.byHost, &s.byTarget, &s.changes, &s.ends, &s.begins, &s.closings, &s.waiting, &s.within, table.Of(&s.promised), table.Of(&s.lent), &s.lending, table.Of(&s.leased), &s.keeping, &s.reserved, &s.unended, table.Of(&s.members), table.Of(&s.tenants), table.Of(&s.groups),
		&s.endedInstances)
}

func (s *workBook) sections() []section {
	return append(s.bindingsBook.sections(),
		s.instancesSection(),
		sectionOf("groups", s.groups.Values, s.loadGroup),
		sectionOf("unended", s.unended.Keys, func(id *string) { s.unended.Insert(*id) }))
}

// apply applies a command that is for this book.
func (s *workBook) apply(c command.ForWork) Result {
	switch c := c.(type) {
	case command.GroupPut:
		return s.groupPut(c)
	case command.InstanceReport:
		return s.instanceReport(c)
	case command.InstanceTold:
		s.instanceTold(c)
	case command.HostsSilent:
		s.hostsSilent(c)
	case command.VolumeAttach:
		return s.volumeAttach(c)
	case command.VolumeDetach:
		return s.volumeDetach(c)
	case command.InstancePower:
		return s.instancePower(c)
	case command.Restored:
		s.markRestored()
	}
	return Result{}
}

// note updates instances from the facts of the books below.
func (s *workBook) note(f fact) {
	switch f := f.(type) {
	case hostReached:
		s.tellReach(f.host)
	case childReached:
		s.tellReachBelow(f.link)
	}
}
