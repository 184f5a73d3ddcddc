package model

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"berth/api"
	"berth/cluster-test/check/promise"
	"berth/raftstore/command"
)

// Model is a zone as plain lists: the claims, their hosts and windows. It computes the
// effect of a command by itself and is then compared with the real state.
type Model struct {
	form      api.Form // of the command
	Begun     bool
	Now       api.Instant
	Hosts     map[api.HostID]*Host
	Names     map[string]api.HostID
	Links     map[api.LinkID]*Link
	Joins     map[api.TokenID]api.JoinToken // of agents
	Agents    map[api.AgentID]*Agent        // that joined by a token, or were revoked
	Boots     map[BootID]*Boot
	Keys      map[BootKey]BootID
	Queue     map[BootID]*Queued
	Holds     map[HoldID]*Hold
	Held      map[api.InstanceID]*Hold // of undecided holds
	Instances map[api.InstanceID]*Instance
	Claims    map[api.InstanceID]*Claim  // live ones, where they are
	Coming    map[api.InstanceID]*Claim  // of those that move, where they will be
	Plans     map[api.PlanID]api.Instant // taken up, with their expiry; never forgotten

	Zone, DefaultAZ string
	Hides           bool     // its layout from parents
	Public          []string // attributes that parents may ask for
	Preempt         api.PreemptRule
	Cleaning        time.Duration // that hosts of leases take once nothing is claimed of them
	Scheduler       api.Scheduler
	Aggregates      map[api.AggregateID]*Aggregate
	Groups          map[GroupID]Group
	Bonds           map[RuleID]map[api.InstanceID]Bond
	Arrived         map[api.InstanceID]bool // on another host, ever
	Evacuated       map[api.InstanceID]bool // at once, ever
	left            map[stayed]bool         // hosts that instances have been on before
	Returned        map[api.InstanceID]int  // how often an instance came to a host in left

	Consumers map[api.ConsumerID]*Consumer
	Classes   map[string]bool // custom ones
	Traits    map[string]bool // custom ones
	Private   map[string]bool // attributes of hosts of which something is said
	Claimed   int             // consumers that this command granted allocations

	Webhooks map[WebhookName]*Webhook

	Index  uint64                 // of the entry that has the command; the caller sets it
	Leases map[api.LeaseID]*Lease // made at this zone
	Series map[api.SeriesID]*Series
	Limits map[api.ProjectID]Limits              // "": of projects that have none of their own
	Ends   map[api.LeaseEndName]api.LeaseOutcome // that the external service of the zone was not told
	Asks   bool                                  // the zone has such a service
	Kept   map[api.InstanceID]*Claim             // slots that an undecided hold takes over, with the claim that does
	Facts  []LeaseFact                           // that this command made

	HitLeases map[api.LeaseID]bool // leases that this command changed

	Bindings []*api.Binding // active and past, without the names of zones
	Rebound  bool           // this command changed them

	Bumped       map[api.HostID]bool     // moved on by this command
	Reshaped     map[api.ProviderID]bool // changed by this command in another way
	HitConsumers map[api.ConsumerID]bool // that this command changed
	Hit          map[api.InstanceID]bool // instances that this command changed
	Moved        map[HoldID]bool         // holds that this command changed
	Told         map[BootID]bool         // boots that this command decided or made
	Answer       BootID                  // the boot that is the answer to this command, if it orders one and is not refused
	Fresh        []*Claim                // claims that this command made
	Ruled        map[RuleID]bool         // rules that this command may have touched
	Bound        int                     // instances that this command held under a rule
}

type (
	// BootID names a boot of a project.
	BootID struct {
		Project     api.ProjectID
		Reservation api.ReservationID
		Refill      int // the number of an order for preempted instances of it; 0 for the boot
	}
	stayed struct {
		id   api.InstanceID
		host api.HostID
	}
	// BootKey is the idempotency key of a boot.
	BootKey struct {
		Project api.ProjectID
		Key     string
	}
	// HoldID names a hold of this zone, or of a parent.
	HoldID struct {
		Origin api.LinkID
		ID     api.HoldID
	}
)

// Link is a link to another zone.
type Link struct {
	Role api.LinkRole
	Next uint64 // next index of a child's changes

	Paused bool
	Silent api.Instant // start of a child's silence; 0 without silence

	Incarnation api.Incarnation // of the other zone, as it was accepted
	Reconcile   api.Instant     // since when what both have is compared; 0 for not
	Restored    uint64          // where the child last went back to a backup, as far as it is noted
	Forgot      api.Instant     // until when one of the two may have forgotten what was held

	Held, Committed *int // percent of each class that a parent may have; nil for lentPercent
}

// Host is a provider of resources: a host, or one that is passive.
type Host struct {
	ID          api.HostID
	Name        string
	Agent       api.AgentID
	Inventory   map[api.ResourceClass]api.Inventory
	Pool        api.Pool
	Up, Enabled bool
	DownSince   api.Instant // 0 while it is up
	Maintenance string
	Drain       api.DrainPolicy
	Attributes  map[string]string // that the agent says
	Overrides   map[string]string
	Commands    bool // its driver needs one
	Failures    int
	Unserved    bool // its agent has registered without it
	Generation  uint64
	Claims      []*Claim
	Cleaning    time.Duration // it stays free that long after each claim

	Passive       bool // not a host, but a provider that hosts and others draw from
	Parent        api.ProviderID
	Traits        []string // that the agent says
	OwnInventory  map[api.ResourceClass]api.Inventory
	OwnFields     map[api.ResourceClass]api.InventoryFields // what operators have set of a class that the agent reports; all, if it has no entry
	OwnTraits     []string
	OwnAggregates []string
}

// Claim is room on one host over [start, end). A part of a slot's resources may come from
// other providers that its host reaches: rest has those, by provider.
type Claim struct {
	Consumer   api.InstanceID
	Host       api.HostID
	Amounts    api.Resources
	Want       api.Resources
	Rest       []*Claim
	Start, End api.Instant
	Class      api.Class
	Over       api.Instant // when its window ended, if it is not gone since; then it counts as a preemptible without an end

	Grace     time.Duration  // how long before its start it keeps preemptibles out
	Pushes    bool           // preemptibles leave for it
	Whole     bool           // of a whole host: nothing else is admitted there
	Within    api.InstanceID // the slot of a lease that it is inside; then it adds nothing to the host
	Instead   *Claim         // the claim, on the same provider, that it is to replace; both count as the greater
	Replaced  *Claim         // the claim that it has replaced or is to
	Keeps     api.InstanceID // the slot that it takes over
	Shortened []*Claim       // within that slot, which ended with it and end sooner for now
}

// Until returns when its window ends, or ended.
func (c *Claim) Until() api.Instant { return cmp.Or(c.Over, c.End) }

// Refusal is the reason why a command must be refused, and the promise that breaks
// otherwise.
type Refusal struct {
	Promise promise.Name
	Text    string
}

// Agent is what an agent may register.
type Agent struct {
	Revoked bool
	Terms   api.AgentTerms
}

// New returns the model of a zone before its first command.
func New() *Model {
	m := &Model{
		Hosts: map[api.HostID]*Host{}, Names: map[string]api.HostID{}, Links: map[api.LinkID]*Link{},
		Joins: map[api.TokenID]api.JoinToken{}, Agents: map[api.AgentID]*Agent{},
		Boots: map[BootID]*Boot{}, Keys: map[BootKey]BootID{}, Queue: map[BootID]*Queued{}, Holds: map[HoldID]*Hold{},
		Held: map[api.InstanceID]*Hold{}, Instances: map[api.InstanceID]*Instance{},
		Claims: map[api.InstanceID]*Claim{}, Coming: map[api.InstanceID]*Claim{}, Plans: map[api.PlanID]api.Instant{},
		Aggregates: map[api.AggregateID]*Aggregate{}, Groups: map[GroupID]Group{},
		Bonds: map[RuleID]map[api.InstanceID]Bond{}, Arrived: map[api.InstanceID]bool{}, Evacuated: map[api.InstanceID]bool{},
		left: map[stayed]bool{}, Returned: map[api.InstanceID]int{},
		Consumers: map[api.ConsumerID]*Consumer{}, Classes: map[string]bool{}, Traits: map[string]bool{}, Private: map[string]bool{},
		Webhooks: map[WebhookName]*Webhook{}, Leases: map[api.LeaseID]*Lease{}, Series: map[api.SeriesID]*Series{}, Limits: map[api.ProjectID]Limits{}, Kept: map[api.InstanceID]*Claim{},
		Ends: map[api.LeaseEndName]api.LeaseOutcome{},
	}
	m.beginCommand()
	return m
}

// beginCommand begins a new command.
func (m *Model) beginCommand() {
	m.Rebound = false
	m.Bumped, m.Hit = map[api.HostID]bool{}, map[api.InstanceID]bool{}
	m.Moved, m.Told, m.Answer, m.Fresh = map[HoldID]bool{}, map[BootID]bool{}, BootID{}, nil
	m.Ruled, m.Bound, m.Claimed = map[RuleID]bool{}, 0, 0
	m.Reshaped, m.HitConsumers = map[api.ProviderID]bool{}, map[api.ConsumerID]bool{}
	m.Facts, m.HitLeases = nil, map[api.LeaseID]bool{}
}

// Apply applies c, or returns the reason why it must be refused. Refusals that depend on
// tokens and names of links are not decided here: see adopt.
func (m *Model) Apply(c command.Command) *Refusal {
	m.beginCommand()
	m.form = c.Form()
	at := max(m.Now, c.Time())
	if _, first := c.(command.Init); !first && !m.Begun {
		m.Now = at
		return &Refusal{promise.Model, "the zone has not begun"}
	}
	m.passTime(at)
	m.Now = at
	no := m.applyCommand(c)
	if _, whole := c.(command.Restore); !whole {
		m.settle()
		m.passTime(at)
	}
	m.refreshCleaning()
	return no
}

// refreshCleaning gives each host of which nothing is claimed the cleaning time of the zone, if
// leases may use the host.
func (m *Model) refreshCleaning() {
	for _, h := range m.Hosts {
		want := m.Cleaning
		if h.Pool == api.PoolOnDemand {
			want = 0
		}
		if !h.Passive && len(h.Claims) == 0 && h.Cleaning != want {
			h.Cleaning = want
			m.bumpGeneration(h)
		}
	}
}

func (m *Model) applyCommand(c command.Command) *Refusal {
	switch c := c.(type) {
	case command.ForMembers:
		return m.applyMembers(c)
	case command.ForStock:
		return m.applyStock(c)
	case command.ForWork:
		return m.applyWork(c)
	case command.ForSaga:
		return m.applySaga(c)
	case command.ForBoots:
		return m.applyBoots(c)
	case command.ForLeases:
		return m.applyLeases(c)
	case command.ForQuotas:
		return nil
	case command.ForBindings:
		return m.applyBindings(c)
	case command.ForEvents:
		return m.applyEvents(c)
	case command.ForAudit: // it changes nothing that the model has: see the auditor of check
		return nil
	case command.ForSeveral:
		return m.applySeveral(c)
	}
	return nil
}

func (m *Model) applyMembers(c command.ForMembers) *Refusal {
	switch c := c.(type) {
	case command.Init:
		if m.Begun {
			return &Refusal{promise.Model, "the zone has begun already"}
		}
		m.Begun, m.Zone, m.DefaultAZ, m.Cleaning = true, c.Name, c.Config.DefaultAZ, c.Config.Leases.Cleaning
		m.Preempt = c.Config.Preemptibles
		m.Scheduler = api.Scheduler{Filters: c.Config.Filters, Costs: c.Config.Costs}
		m.Asks = c.Config.Leases.Check.URL != ""
		m.Hides, m.Public = c.Config.HidesLayout, c.Config.PublicAttributes
	case command.SchedulerSet:
		if len(c.Scheduler.Filters) > api.FiltersMax || len(c.Scheduler.Costs) > api.FiltersMax {
			return &Refusal{promise.Model, "there are too many filters or costs"}
		}
		m.Scheduler = c.Scheduler
	case command.NodePut, command.NodeRemove, command.FormRaise, command.TokenPut, command.TokenDelete, command.TokensUsed, command.RoleSet, command.RoleDelete, command.JoinPut, command.JoinUse, command.AgentRenew, command.AgentTrust, command.CAAdd, command.LinkPin,
		command.FlavorPut, command.FlavorDelete, command.EpochAdd, command.LinkPut, command.LinkSet:
	}
	return nil
}

func (m *Model) applyStock(c command.ForStock) *Refusal {
	switch c := c.(type) {
	case command.ConfigSet:
		m.rearrange(func() { m.DefaultAZ, m.Cleaning = c.Config.DefaultAZ, c.Config.Leases.Cleaning })
		m.Asks, m.Preempt = c.Config.Leases.Check.URL != "", c.Config.Preemptibles
		m.Hides, m.Public = c.Config.HidesLayout, c.Config.PublicAttributes
	case command.AgentRevoke: // see Adopt
	case command.HostsPut:
		return m.hostsPut(c)
	case command.HostsState:
		m.hostsState(c)
	case command.HostSet:
		return m.hostSet(c)
	case command.HostDelete:
		return m.hostDelete(c)
	case command.AggregatePut:
		return m.aggregatePut(c)
	case command.AggregateDelete:
		return m.aggregateDelete(c)
	case command.ProviderCreate:
		return m.providerCreate(c)
	case command.ProviderDelete:
		return m.providerDelete(c)
	case command.ClassPut:
		return m.classPut(c)
	case command.ClassDelete:
		return m.takeName(m.Classes, string(c.Name), m.hasClass(c.Name))
	case command.TraitPut:
		m.Traits[c.Name] = true
	case command.TraitDelete:
		return m.takeName(m.Traits, c.Name, m.hasTrait(c.Name))
	case command.PropertySet:
		return m.propertySet(c)
	}
	return nil
}

func (m *Model) applyBindings(c command.ForBindings) *Refusal {
	switch c := c.(type) {
	case command.BindingSet:
		return m.bindingSet(c)
	case command.BindingEnd:
		return m.bindingEnd(c)
	}
	return nil
}

func (m *Model) applyWork(c command.ForWork) *Refusal {
	switch c := c.(type) {
	case command.GroupPut:
		return m.groupPut(c)
	case command.InstanceReport:
		m.instanceReport(c)
	case command.InstanceTold:
		m.instanceTold(c)
	case command.HostsSilent:
		m.hostsSilent(c)
	case command.VolumeAttach:
		return m.volumeAttach(c)
	case command.VolumeDetach:
		return m.volumeDetach(c)
	case command.InstancePower:
		return m.instancePower(c)
	case command.Restored:
	}
	return nil
}

func (m *Model) applySaga(c command.ForSaga) *Refusal {
	switch c := c.(type) {
	case command.HoldParts:
		return m.holdParts(c)
	case command.HoldDecide:
		return m.holdDecide(c)
	case command.PartAck:
		m.partAck(c)
	case command.InstanceDelete:
		return m.instanceDelete(c)
	case command.InstanceChanges:
		return m.instanceChanges(c)
	case command.InstanceMove:
		return m.instanceMove(c)
	case command.HostWriteOff:
		return m.hostWriteOff(c)
	}
	return nil
}

func (m *Model) applyBoots(c command.ForBoots) *Refusal {
	switch c := c.(type) {
	case command.BootCreate:
		return m.bootCreate(c)
	case command.BootDecide:
		return m.bootDecide(c)
	case command.BootRelease:
		return m.bootRelease(c)
	case command.Requeue:
		return m.requeue(c)
	case command.GroupDelete:
		return m.groupDelete(c)
	}
	return nil
}

func (m *Model) applySeveral(c command.ForSeveral) *Refusal {
	switch c := c.(type) {
	case command.Hold:
		return m.makeHold(c)
	case command.ProviderSet:
		return m.providerSet(c)
	case command.ConsumersPut:
		return m.consumersPut(c)
	case command.ConsumerDelete:
		return m.consumerDelete(c)
	case command.Prune:
		m.pruneLeases(c)
	case command.LinkWriteOff:
		return m.linkWriteOff(c)
	case command.LinkRelink:
		return m.linkRelink(c)
	case command.LinkReconciled:
		return m.linkReconciled(c)
	case command.LinkRestored:
		return m.linkRestored(c)
	case command.LinkDelete, command.Restore, command.KEKUse, command.CAUse, command.CADrop:
	}
	return nil
}

func (m *Model) bootCreate(c command.BootCreate) *Refusal {
	id := BootID{Project: c.Request.Project, Reservation: c.Request.Reservation}
	b, ok := m.Boots[id]
	if !ok && c.Key != "" {
		b, ok = m.Boots[m.Keys[BootKey{c.Request.Project, c.Key}]]
	}
	switch {
	case ok && c.Fixed && (c.Key == "" || c.Key != b.Key):
		return &Refusal{promise.Plan, "the reservation of the plan exists"}
	case ok && !bytes.Equal(b.Digest, c.Digest):
		return &Refusal{promise.Repeat, "the reservation id or key stands for another request"}
	case ok:
		m.Told[b.ID], m.Answer = true, b.ID
		return nil
	}
	for _, i := range c.Instances {
		if m.knowsInstance(i.ID) {
			return &Refusal{promise.Once, "instance id " + string(i.ID) + " is in use"}
		}
	}
	if not := m.checkBootQuota(&c.BootTerms); not != nil {
		return not
	}
	m.Boots[id] = &Boot{
		ID: id, Key: c.Key, Digest: c.Digest, Least: c.Min, Request: c.Request, Decision: api.DecisionPending,
		Metadata: c.Metadata, Data: DataOf(&c.BootTerms), Lifted: m.noGroups(&c.Request),
	}
	if c.Key != "" {
		m.Keys[BootKey{c.Request.Project, c.Key}] = id
	}
	m.Told[id], m.Answer = true, id
	return nil
}

// knowsInstance reports whether an instance id is in use, or was until it is pruned.
func (m *Model) knowsInstance(id api.InstanceID) bool {
	_, made := m.Instances[id]
	_, held := m.Held[id]
	return made || held || m.Consumers[id] != nil
}

// Pieces returns c and its shares from other providers.
func (c *Claim) Pieces() []*Claim { return append([]*Claim{c}, c.Rest...) }

// grantClaim gives a claim room on its host, and on all that it draws from.
func (m *Model) grantClaim(c *Claim) {
	m.Claims[c.Consumer] = c
	m.putClaim(c)
}

func (m *Model) putClaim(c *Claim, kept ...*Claim) {
	for _, p := range c.Pieces() {
		if slices.Contains(kept, p) {
			continue
		}
		h := m.Hosts[p.Host]
		h.Claims = append(h.Claims, p)
		m.Fresh = append(m.Fresh, p)
		m.bumpGeneration(h)
	}
}

// endInstance releases the room of an instance.
func (m *Model) endInstance(id api.InstanceID) {
	c, ok := m.Claims[id]
	if !ok {
		return
	}
	delete(m.Claims, id)
	m.dropClaim(c)
	m.endEmptySlot(c.Within)
}

// dropClaim takes a claim off its host, and off all that it draws from but for what is kept.
func (m *Model) dropClaim(c *Claim, kept ...*Claim) {
	for _, p := range c.Pieces() {
		if slices.Contains(kept, p) {
			continue
		}
		h := m.Hosts[p.Host]
		h.Claims = slices.DeleteFunc(h.Claims, func(o *Claim) bool { return o == p })
		m.bumpGeneration(h)
	}
}
