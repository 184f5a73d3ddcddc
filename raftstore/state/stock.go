package state

import (
	"slices"

	"berth/api"
	"berth/capacity"
	"berth/filters"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// stockBook has the zone's resources and their use: hosts and other providers, aggregates,
// consumers, and the host table.
type stockBook struct {
	membersBook

	hosts  table.Map[*Host]
	work   table.Set             // agent, log index of the last change of its work, host
	byName table.Map[api.HostID] // name of a provider -> id

	hostTexts int64 // Host.textsOf of all

	workLog  table.Log[workChange] // the latest changes of work; see stock_worklog.go
	workFrom uint64                // every change after this index is in workLog; 0 if none is known to be

	providers table.Map[*api.Provider] // other than hosts
	children  table.Set                // parent, provider
	classes   table.Map[api.Instant]   // custom resource class -> when it became known
	traits    table.Map[api.Instant]   // custom trait -> when it became known
	consumers table.Map[*api.Consumer] // other than instances
	byOwner   table.Set                // project, consumer
	draws     table.Tallies            // provider, consumer -> claims; see stock_draws.go

	properties table.Map[*api.HostProperty] // by name

	aggregates  table.Map[*api.Aggregate]
	inAggregate table.Set // host, aggregate

	hostTable *capacity.Table         // nil in a clone
	view      capacity.View           // of a clone
	bumped    map[api.ProviderID]bool // providers whose generation this command has raised
	recheck   map[api.HostID]bool     // hosts whose cleaning time this command may change
	alike     *alike                  // nil in a clone
}

func (s *stockBook) tables(into []table.Table) []table.Table {
	return append(s.membersBook.tables(into),
		table.Of(&s.hosts), &s.work, &s.workLog, table.Of(&s.byName), table.Of(&s.providers), &s.children, table.Of(&s.classes), table.Of(&s.traits), table.Of(&s.consumers), &s.byOwner, &s.draws, table.Of(&s.properties), table.Of(&s.aggregates),
		&s.inAggregate)
}

func (s *stockBook) sections() []section {
	properties := sectionOf("properties", s.properties.Values, func(p *api.HostProperty) { s.properties.Set(p.Name, p) })
	properties.form = api.FormFourth
	return append(s.membersBook.sections(),
		sectionOf("aggregates", s.aggregates.Values, s.loadAggregate),
		sectionOf("classes", func() []Named { return namedList(s.classes) }, func(n *Named) { s.classes.Set(n.Name, n.Created) }),
		sectionOf("traits", func() []Named { return namedList(s.traits) }, func(n *Named) { s.traits.Set(n.Name, n.Created) }),
		sectionOf("hosts", s.savedHosts, s.loadHost),
		sectionOf("providers", s.savedProviders, func(p *api.Provider) { s.storeProvider(nil, p) }),
		sectionOf("consumers", s.consumers.Values, s.loadConsumer),
		properties)
}

// apply applies a command that is for this book.
func (s *stockBook) apply(c command.ForStock) Result {
	switch c := c.(type) {
	case command.ConfigSet:
		s.configSet(c)
	case command.AgentRevoke:
		return s.agentRevoke(c)
	case command.HostsPut:
		return s.hostsPut(c)
	case command.HostsState:
		return s.hostsState(c)
	case command.HostSet:
		return s.hostSet(c)
	case command.HostDelete:
		return s.hostDelete(c)
	case command.AggregatePut:
		return s.aggregatePut(c)
	case command.AggregateDelete:
		return s.aggregateDelete(c)
	case command.ProviderCreate:
		return s.providerCreate(c)
	case command.ProviderDelete:
		return s.providerDelete(c)
	case command.ClassPut:
		return s.classPut(c)
	case command.ClassDelete:
		return s.classDelete(c)
	case command.TraitPut:
		return s.traitPut(c)
	case command.TraitDelete:
		return s.traitDelete(c)
	case command.PropertySet:
		return s.propertySet(c)
	}
	return Result{}
}

// Hosts returns an immutable view of the host table.
func (s *stockBook) Hosts() capacity.View {
	if s.hostTable != nil {
		return s.hostTable.View()
	}
	return s.view
}

// hideLayout makes the host table show parents what the configuration says. A repeat costs nothing.
func (s *stockBook) hideLayout() {
	if s.Config.HidesLayout {
		s.hostTable.HideLayout(slices.Concat(filters.AlwaysPublic[:], s.Config.PublicAttributes))
	} else {
		s.hostTable.ShowLayout()
	}
}

// stockOf returns the capacity of all providers in a class that a share is of, whatever their state is: while the
// layout is hidden, of those that a parent is shown.
func (s *stockBook) stockOf(class api.ResourceClass) int64 {
	if s.hostTable != nil {
		return s.hostTable.Stock(class)
	}
	return s.view.Stock(class)
}

// advanceTable moves the host table to a later time.
func (s *stockBook) advanceTable(now api.Instant) { s.hostTable.Advance(now) }

// bumpGeneration raises the generation of a provider by one, once for each command.
func (s *stockBook) bumpGeneration(id api.ProviderID) {
	if s.bumped[id] {
		return
	}
	if s.bumped == nil {
		s.bumped = map[api.ProviderID]bool{}
	}
	s.bumped[id] = true
	s.hostTable.Bump(id)
}

func (s *stockBook) generationOf(id api.HostID) uint64 {
	if s.hostTable != nil {
		return s.hostTable.Generation(id)
	}
	row, ok := s.view.Row(id)
	if !ok {
		return 0
	}
	return s.view.Generation(row)
}

// setGenerations sets the generations of hosts and providers from their records. It comes
// last, because every claim that is added raises one.
func (s *stockBook) setGenerations() {
	s.hosts.Scan(func(_ string, h *Host) bool {
		s.hostTable.SetGeneration(h.ID, h.Generation)
		return true
	})
	s.providers.Scan(func(_ string, p *api.Provider) bool {
		s.hostTable.SetGeneration(p.ID, p.Generation)
		return true
	})
}
