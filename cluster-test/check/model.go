package check

import (
	"bytes"
	"maps"
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// model is a zone as plain lists: who wants which room where, until when. It
// decides by itself what a command does and is then compared with the real state.
type model struct {
	begun     bool
	now       api.Instant
	hosts     map[api.HostID]*host
	names     map[string]api.HostID
	links     map[api.LinkID]*link
	boots     map[bootID]*boot
	keys      map[bootKey]bootID
	holds     map[holdID]*hold
	held      map[api.InstanceID]*hold // of undecided holds
	instances map[api.InstanceID]*instance
	claims    map[api.InstanceID]*claim  // live ones, where they are
	coming    map[api.InstanceID]*claim  // of those that move, where they will be
	plans     map[api.PlanID]api.Instant // taken up, with their expiry; never forgotten

	zone, defaultAZ string
	scheduler       api.Scheduler
	aggregates      map[api.AggregateID]*aggregate
	groups          map[groupID]group
	bonds           map[ruleID]map[api.InstanceID]bond
	arrived         map[api.InstanceID]bool // on another host, ever
	evacuated       map[api.InstanceID]bool // at once, ever
	left            map[stayed]bool         // hosts that instances have been on before
	returned        map[api.InstanceID]int  // how often an instance came to a host in left

	consumers map[api.ConsumerID]*consumer
	classes   map[string]bool // custom ones
	traits    map[string]bool // custom ones
	claimed   int             // consumers that this command granted allocations

	bumped       map[api.HostID]bool     // moved on by this command
	reshaped     map[api.ProviderID]bool // changed by this command in another way
	hitConsumers map[api.ConsumerID]bool // that this command changed
	hit          map[api.InstanceID]bool // instances that this command changed
	moved        map[holdID]bool         // holds that this command changed
	told         map[bootID]bool         // boots that this command decided or made
	fresh        []*claim                // claims that this command made
	ruled        map[ruleID]bool         // rules that this command may have touched
	bound        int                     // instances that this command held under a rule
}

type (
	bootID struct {
		project     api.ProjectID
		reservation api.ReservationID
	}
	stayed struct {
		id   api.InstanceID
		host api.HostID
	}
	bootKey struct {
		project api.ProjectID
		key     string
	}
	holdID struct {
		origin api.LinkID
		id     api.HoldID
	}
)

type link struct {
	role api.LinkRole
	next uint64 // where to go on following a child

	paused bool
	silent api.Instant // since when a child is not heard; 0 while it is
}

type host struct {
	id          api.HostID
	name        string
	agent       api.AgentID
	inventory   map[api.ResourceClass]api.Inventory
	pool        api.Pool
	up, enabled bool
	downSince   api.Instant // 0 while it is up
	maintenance string
	drain       api.DrainPolicy
	overrides   map[string]string
	failures    int
	unserved    bool // its agent has registered without it
	generation  uint64
	claims      []*claim

	passive       bool // no host, but what hosts and others draw from
	parent        api.ProviderID
	traits        []string // that the agent says
	ownInventory  map[api.ResourceClass]api.Inventory
	ownTraits     []string
	ownAggregates []string
}

// claim is room on one host over [start, end). What a slot wants may come in part
// from others that its host reaches: rest is what they give, by provider.
type claim struct {
	consumer   api.InstanceID
	host       api.HostID
	amounts    api.Resources
	want       api.Resources
	rest       []*claim
	start, end api.Instant
	class      api.Class
}

// no says why a command must be refused, and which promise breaks if it is not.
type no struct {
	rule Rule
	text string
}

func newModel() *model {
	m := &model{
		hosts: map[api.HostID]*host{}, names: map[string]api.HostID{}, links: map[api.LinkID]*link{},
		boots: map[bootID]*boot{}, keys: map[bootKey]bootID{}, holds: map[holdID]*hold{},
		held: map[api.InstanceID]*hold{}, instances: map[api.InstanceID]*instance{},
		claims: map[api.InstanceID]*claim{}, coming: map[api.InstanceID]*claim{}, plans: map[api.PlanID]api.Instant{},
		aggregates: map[api.AggregateID]*aggregate{}, groups: map[groupID]group{},
		bonds: map[ruleID]map[api.InstanceID]bond{}, arrived: map[api.InstanceID]bool{}, evacuated: map[api.InstanceID]bool{},
		left: map[stayed]bool{}, returned: map[api.InstanceID]int{},
		consumers: map[api.ConsumerID]*consumer{}, classes: map[string]bool{}, traits: map[string]bool{},
	}
	m.forget()
	return m
}

// forget begins a new command.
func (m *model) forget() {
	m.bumped, m.hit = map[api.HostID]bool{}, map[api.InstanceID]bool{}
	m.moved, m.told, m.fresh = map[holdID]bool{}, map[bootID]bool{}, nil
	m.ruled, m.bound, m.claimed = map[ruleID]bool{}, 0, 0
	m.reshaped, m.hitConsumers = map[api.ProviderID]bool{}, map[api.ConsumerID]bool{}
}

// apply does what c asks, or returns why it must be refused. What hangs on
// tokens and names of links is not decided here: see adopt.
func (m *model) apply(c command.Command) *no {
	m.forget()
	m.now = max(m.now, c.Time())
	if _, first := c.(command.Init); !first && !m.begun {
		return &no{RuleModel, "the zone has not begun"}
	}
	switch c := c.(type) {
	case command.Init:
		if m.begun {
			return &no{RuleModel, "the zone has begun already"}
		}
		m.begun, m.zone, m.defaultAZ = true, c.Name, c.Config.DefaultAZ
		m.scheduler = api.Scheduler{Filters: c.Config.Filters, Costs: c.Config.Costs}
	case command.ConfigSet, command.SchedulerSet, command.AggregatePut, command.AggregateDelete, command.GroupPut, command.GroupDelete:
		return m.applyWishes(c)
	case command.ProviderCreate, command.ProviderSet, command.ProviderDelete, command.ConsumersPut, command.ConsumerDelete,
		command.ClassPut, command.ClassDelete, command.TraitPut, command.TraitDelete:
		return m.applyPlacement(c)
	case command.HostsPut:
		return m.hostsPut(c)
	case command.HostsState:
		m.hostsState(c)
	case command.HostSet:
		return m.hostSet(c)
	case command.HostDelete:
		return m.hostDelete(c)
	case command.BootCreate:
		return m.bootCreate(c)
	case command.Hold:
		return m.hold(c)
	case command.HoldParts:
		return m.holdParts(c)
	case command.HoldDecide:
		return m.holdDecide(c)
	case command.BootDecide:
		return m.bootDecide(c)
	case command.BootRelease:
		return m.bootRelease(c)
	case command.PartAck:
		m.partAck(c)
	case command.InstanceDelete:
		return m.instanceDelete(c)
	case command.InstanceReport:
		m.instanceReport(c)
	case command.InstanceChanges:
		return m.instanceChanges(c)
	case command.InstanceTold:
		m.instanceTold(c)
	case command.InstanceMove:
		return m.instanceMove(c)
	case command.NodePut, command.NodeRemove, command.TokenPut, command.TokenDelete,
		command.JoinPut, command.JoinUse, command.FlavorPut, command.FlavorDelete, command.EpochAdd,
		command.LinkPut, command.LinkSet, command.LinkDelete, command.Prune, command.Restored,
		command.Restore:
	}
	return nil
}

// applyWishes is apply for what operators and projects say of hosts.
func (m *model) applyWishes(c command.Command) *no {
	switch c := c.(type) { //nolint:gochecksumtype // apply has the other kinds
	case command.ConfigSet:
		m.rearrange(func() { m.defaultAZ = c.Config.DefaultAZ })
	case command.SchedulerSet:
		if len(c.Scheduler.Filters) > api.FiltersMax || len(c.Scheduler.Costs) > api.FiltersMax {
			return &no{RuleModel, "there are too many filters or costs"}
		}
		m.scheduler = c.Scheduler
	case command.AggregatePut:
		return m.aggregatePut(c)
	case command.AggregateDelete:
		return m.aggregateDelete(c)
	case command.GroupPut:
		return m.groupPut(c)
	case command.GroupDelete:
		return m.groupDelete(c)
	}
	return nil
}

// adopted are the commands whose refusal hangs on tokens, names, limits or parts of
// backups that the model does not keep.
var adopted = []command.Kind{
	command.KindTokenPut, command.KindTokenDelete, command.KindJoinPut, command.KindJoinUse, command.KindFlavorPut,
	command.KindFlavorDelete, command.KindLinkPut, command.KindLinkSet, command.KindLinkDelete,
	command.KindRestore,
}

// judged reports whether the model decides by itself if c is refused.
func judged(c command.Command) bool { return !slices.Contains(adopted, c.Kind()) }

// adopt folds in an accepted command that the model does not judge.
func (m *model) adopt(c command.Command) {
	if put, ok := c.(command.LinkPut); ok {
		m.links[put.Link.ID] = &link{role: put.Link.Role, next: put.Link.ChangesNext, paused: put.Link.State == api.LinkPaused}
	}
	if set, ok := c.(command.LinkSet); ok && m.links[set.ID] != nil {
		m.linkSet(set)
	}
	if del, ok := c.(command.LinkDelete); ok {
		delete(m.links, del.ID)
	}
}

func (m *model) linkSet(c command.LinkSet) {
	l := m.links[c.ID]
	if c.State != nil {
		l.paused = *c.State == api.LinkPaused
	}
	if c.Silent == nil || *c.Silent == l.silent {
		return
	}
	l.silent = min(*c.Silent, m.now)
	for id, i := range m.instances {
		if i.link == c.ID && i.live() {
			m.hit[id] = true
		}
	}
}

func (m *model) bump(h *host) {
	if !m.bumped[h.id] {
		m.bumped[h.id] = true
		h.generation++
	}
}

func (m *model) hostsPut(c command.HostsPut) *no {
	for _, e := range c.Hosts {
		if id, known := m.names[e.Host.Name]; known && (m.hosts[id].passive || m.hosts[id].agent != c.Agent) {
			return &no{RuleModel, "the name " + e.Host.Name + " belongs to another agent, or to no host"}
		}
	}
	served := map[api.HostID]bool{}
	for _, e := range c.Hosts {
		id, known := m.names[e.Host.Name]
		if !known {
			id = e.ID
			m.names[e.Host.Name] = id
			m.hosts[id] = &host{id: id, name: e.Host.Name, up: true, enabled: true, pool: e.Host.Pool}
		}
		h := m.hosts[id]
		m.rise(h, true)
		h.agent, h.inventory, h.traits = c.Agent, e.Host.Inventory, e.Host.Traits
		h.unserved, served[id] = false, true
		m.learnNames(h)
		m.bump(h)
	}
	for id, h := range m.hosts {
		if c.Whole && !h.passive && h.agent == c.Agent && !served[id] && !h.unserved {
			m.rise(h, false)
			h.unserved = true
			m.bump(h)
		}
	}
	return nil
}

func (m *model) hostsState(c command.HostsState) {
	for _, id := range c.Hosts {
		if h, ok := m.hosts[id]; ok && h.up != (c.State == api.HostUp) && !h.unserved {
			m.rise(h, c.State == api.HostUp)
			m.bump(h)
		}
	}
}

// current returns the host if generation is 0 or the one it is at.
func (m *model) current(id api.HostID, generation uint64) (*host, *no) {
	h, ok := m.hosts[id]
	switch {
	case !ok || h.passive:
		return nil, &no{RuleModel, "there is no host " + string(id)}
	case generation != 0 && generation != h.generation:
		return nil, &no{RuleGeneration, "the writer's generation of host " + string(id) + " is stale"}
	}
	return h, nil
}

func (m *model) hostSet(c command.HostSet) *no {
	h, not := m.current(c.ID, c.Generation)
	if not != nil {
		return not
	}
	next := *h
	if c.Enabled != nil {
		next.enabled = *c.Enabled
	}
	if c.Pool != nil {
		next.pool = *c.Pool
	}
	if not := next.wish(c); not != nil {
		return not
	}
	if next.enabled != h.enabled || next.pool != h.pool || next.maintenance != h.maintenance || next.drain != h.drain ||
		!maps.Equal(next.overrides, h.overrides) {
		*h = next
		m.bump(h)
	}
	return nil
}

// wish folds in what an operator says of maintenance, drain and attributes.
func (h *host) wish(c command.HostSet) *no {
	if c.Maintenance != nil {
		h.maintenance = *c.Maintenance
		if h.maintenance == "" {
			h.drain = ""
		}
	}
	if c.Drain != nil {
		h.drain = *c.Drain
	}
	h.overrides = maps.Clone(h.overrides)
	for k, v := range c.Overrides {
		if h.overrides == nil {
			h.overrides = map[string]string{}
		}
		h.overrides[k] = v
	}
	maps.DeleteFunc(h.overrides, func(_, v string) bool { return v == "" })
	long := func(s string) bool { return len(s) > api.ExtraSpecMaxBytes }
	for k, v := range h.overrides {
		if k == "" || long(k) || long(v) {
			return &no{RuleModel, "an attribute is empty or too long"}
		}
	}
	known := h.drain == "" || slices.Contains([]api.DrainPolicy{api.DrainWait, api.DrainEnd, api.DrainMove}, h.drain)
	if len(h.overrides) > api.AttributesMax || len(h.maintenance) > api.FaultMaxBytes || !known || h.drain != "" && h.maintenance == "" {
		return &no{RuleModel, "no operator may say that of host " + string(h.id)}
	}
	return nil
}

func (m *model) hostDelete(c command.HostDelete) *no {
	h, not := m.current(c.ID, c.Generation)
	if not != nil {
		return not
	}
	if len(h.claims) > 0 || len(m.below(h)) > 0 {
		return &no{RuleModel, "host " + string(c.ID) + " is in use, or has children"}
	}
	m.remove(h)
	return nil
}

// remove forgets a provider.
func (m *model) remove(h *host) {
	delete(m.hosts, h.id)
	delete(m.names, h.name)
	for _, a := range m.aggregates {
		a.hosts = slices.DeleteFunc(slices.Clone(a.hosts), func(id api.HostID) bool { return id == h.id })
	}
}

func (m *model) bootCreate(c command.BootCreate) *no {
	id := bootID{c.Request.Project, c.Request.Reservation}
	b, ok := m.boots[id]
	if !ok && c.Key != "" {
		b, ok = m.boots[m.keys[bootKey{c.Request.Project, c.Key}]]
	}
	switch {
	case ok && c.Fixed && (c.Key == "" || c.Key != b.key):
		return &no{RulePlan, "the reservation of the plan exists"}
	case ok && !bytes.Equal(b.digest, c.Digest):
		return &no{RuleRepeat, "the reservation id or key stands for another request"}
	case ok:
		m.told[b.id] = true
		return nil
	}
	for _, i := range c.Instances {
		if m.knows(i.ID) {
			return &no{RuleOnce, "instance id " + string(i.ID) + " is in use"}
		}
	}
	m.boots[id] = &boot{id: id, key: c.Key, digest: c.Digest, least: c.Min, request: c.Request, decision: api.DecisionPending}
	if c.Key != "" {
		m.keys[bootKey{c.Request.Project, c.Key}] = id
	}
	m.told[id] = true
	return nil
}

// knows reports whether an instance id is in use, or was until it is pruned.
func (m *model) knows(id api.InstanceID) bool {
	_, made := m.instances[id]
	_, held := m.held[id]
	return made || held || m.consumers[id] != nil
}

// pieces returns c and what others give to it.
func (c *claim) pieces() []*claim { return append([]*claim{c}, c.rest...) }

// grant gives a claim room on its host, and on all that it draws from.
func (m *model) grant(c *claim) {
	m.claims[c.consumer] = c
	m.put(c)
}

func (m *model) put(c *claim, kept ...*claim) {
	for _, p := range c.pieces() {
		if slices.Contains(kept, p) {
			continue
		}
		h := m.hosts[p.host]
		h.claims = append(h.claims, p)
		m.fresh = append(m.fresh, p)
		m.bump(h)
	}
}

// end gives the room of an instance back.
func (m *model) end(id api.InstanceID) {
	c, ok := m.claims[id]
	if !ok {
		return
	}
	delete(m.claims, id)
	m.drop(c)
}

// drop takes a claim off its host, and off all that it draws from but for what is kept.
func (m *model) drop(c *claim, kept ...*claim) {
	for _, p := range c.pieces() {
		if slices.Contains(kept, p) {
			continue
		}
		h := m.hosts[p.host]
		h.claims = slices.DeleteFunc(h.claims, func(o *claim) bool { return o == p })
		m.bump(h)
	}
}
