package state

import (
	"berth/api"
	"berth/capacity"
	"berth/raftstore/command"
	"berth/raftstore/state/table"
)

// The state is a tower of books. Each book owns its tables: it alone changes them. It reads
// the books below and calls their methods, which are embedded, and cannot reach those above:
// what it does is a fact, and the books above take facts up when the command is done; see
// facts.go. A test holds that no book changes a table of another.

// entry is what every book knows of the command that is applied.
type entry struct {
	index uint64
	now   api.Instant
	form  api.Form // the newest of all entries so far

	limits  *limits // of the command that is applied
	touched []Topic // by this command
	facts   []fact  // of this command, that no book above has taken up yet
}

// membersBook is the zone itself: its nodes, tokens, links, keys and settings.
type membersBook struct {
	entry

	Zone   api.ZoneID
	Name   string
	Config api.ZoneConfig
	CA     []byte          // DER
	CAKey  []byte          // DER, wrapped
	Epochs []command.Epoch // newest first; the first one seals

	nodes   table.Map[*api.Node]
	tokens  table.Map[*api.Token]
	joins   table.Map[*api.JoinToken]
	flavors table.Map[*api.Flavor]
	links   table.Map[*api.Link]
}

func (s *membersBook) tables() []table.Table {
	return []table.Table{&s.nodes, &s.tokens, &s.joins, &s.flavors, &s.links}
}

// stockBook is what there is to give, and how much of it is drawn: hosts and other
// providers, aggregates, and the host table.
type stockBook struct {
	membersBook

	hosts  table.Map[*Host]
	work   table.Set             // agent, log index of the last change of its work, host
	byName table.Map[api.HostID] // name of a provider -> id

	providers table.Map[*api.Provider] // those that are no hosts
	children  table.Set                // parent, provider
	classes   table.Map[api.Instant]   // resource classes that are not standard -> since when they are known
	traits    table.Map[api.Instant]   // traits that are not standard -> since when they are known
	consumers table.Map[*api.Consumer] // those that are no instances
	byOwner   table.Set                // project, consumer
	draws     table.Map[int]           // provider, consumer -> claims; see stock_draws.go

	aggregates  table.Map[*api.Aggregate]
	inAggregate table.Set // host, aggregate

	hostTable *capacity.Table         // nil in a clone
	view      capacity.View           // of a clone
	bumped    map[api.ProviderID]bool // providers that this command has moved one generation on
}

func (s *stockBook) tables() []table.Table {
	return append(s.membersBook.tables(),
		&s.hosts, &s.work, &s.byName, &s.providers, &s.children, &s.classes, &s.traits, &s.consumers,
		&s.byOwner, &s.draws, &s.aggregates, &s.inAggregate)
}

// workBook is what runs: instances, here and below, and the groups that rules count them in.
type workBook struct {
	stockBook

	instances table.Map[*api.Instance]
	byTenant  table.Set                   // tenant, instance
	byRes     table.Set                   // tenant, reservation, instance
	byHost    table.Set                   // host, instance; instances that are not DELETED
	byTarget  table.Set                   // host, instance; instances that will move there
	changes   table.Set                   // origin link, ModIndex, instance
	ends      table.Set                   // end of the window, own instance that nobody has asked to end
	unended   table.Set                   // remote instances whose zone does not know yet that they must end
	members   table.Map[int]              // project, rule, place -> members; see work_rules.go
	tenants   table.Map[int]              // project, host -> instances and held slots
	groups    table.Map[*api.ServerGroup] // project, server group

	endedInstances table.Set // those that are DELETED, by when; see prune.go

	gone map[string]int // of what Without returned: what members and tenants count too much
}

func (s *workBook) tables() []table.Table {
	return append(s.stockBook.tables(),
		&s.instances, &s.byTenant, &s.byRes, &s.byHost, &s.byTarget, &s.changes, &s.ends, &s.unended,
		&s.members, &s.tenants, &s.groups, &s.endedInstances)
}

// sagaBook is what is held for an owner until it is decided, and the plans that holds have
// used up. It does not know what an owner is.
type sagaBook struct {
	workBook

	holds     table.Map[*Hold]
	held      table.Map[string]  // instance -> hold key, for undecided holds
	plans     table.Map[planUse] // consumed plan -> hold key
	undecided table.Set          // owners of this zone that have not decided
	open      table.Set          // keys of undecided holds of this zone
	prepared  table.Set          // keys of undecided holds that a parent asked for
	untold    table.Set          // keys of decided holds that a child has not confirmed

	tombstones table.Map[int] // origin link -> aborts of holds that never came

	endedHolds    table.Set // those that are decided and have nothing left, by when
	expiringPlans table.Set // consumed plans, by when they expire
}

func (s *sagaBook) tables() []table.Table {
	return append(s.workBook.tables(),
		&s.holds, &s.held, &s.plans, &s.undecided, &s.open, &s.prepared, &s.untold, &s.tombstones, &s.endedHolds, &s.expiringPlans)
}

// bootsBook is the reservations that were made at this zone. A boot owns holds.
type bootsBook struct {
	sagaBook

	boots table.Map[*Boot]
	keys  table.Map[api.ReservationID] // project, idempotency key

	endedBoots table.Set // those that are final and have no hold left, by when
}

func (s *bootsBook) tables() []table.Table {
	return append(s.sagaBook.tables(), &s.boots, &s.keys, &s.endedBoots)
}

// eventsBook is what entries have done of late: the facts of all other books, for whoever
// watches.
type eventsBook struct {
	bootsBook

	events table.Map[*Event] // log index, number within the entry
}

func (s *eventsBook) tables() []table.Table { return append(s.bootsBook.tables(), &s.events) }

// State is the replicated state of one zone: its books, and what concerns several of them.
// One goroutine may Apply; clones may be read by any number.
type State struct {
	eventsBook

	upload *upload // a backup that has not come to its end
}
