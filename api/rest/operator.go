package rest

import (
	"encoding/json"
	"slices"
	"time"

	"berth/api"
)

// Member is one control-plane process of the zone. Addresses are host:port.
type Member struct {
	ID          api.NodeID  `json:"id"`
	NodeAddr    string      `json:"node_addr"` // Raft and requests between nodes
	APIAddr     string      `json:"api_addr"`
	GatewayAddr string      `json:"gateway_addr"`
	AgentAddr   string      `json:"agent_addr"`
	Version     string      `json:"version"`
	Joined      api.Instant `json:"joined,omitzero"` // absent while it is joining
	Voter       bool        `json:"voter"`
	Leader      bool        `json:"leader"`
	Alive       string      `json:"alive,omitempty"`  // alive, suspect or dead; from the zone's own gossip
	Expires     api.Instant `json:"expires,omitzero"` // the first of its certificates; absent until all nodes run a release that records it

	StateBytes int64 `json:"state_bytes"` // estimated size in a backup of the state of the zone, which all its nodes have

	Vitals
}

// Vitals is what the node that answers knows of the clock and the disk of a node.
type Vitals struct {
	Clock *Clock `json:"clock,omitempty"` // absent while it is unknown
	Disk  *Disk  `json:"disk,omitempty"`
}

// Clock is how the clock of a node differs from the leader's.
type Clock struct {
	Offset Duration `json:"offset"` // positive if it is ahead
	Error  Duration `json:"error"`  // by which the offset may be wrong either way
	Far    bool     `json:"far"`    // it differs by more than half a second for certain
}

// Disk is the file system with the data folder of a node.
type Disk struct {
	FreeBytes  int64    `json:"free_bytes"`
	TotalBytes int64    `json:"total_bytes"`
	FullIn     Duration `json:"full_in,omitzero"` // time after which it is full if it goes on to fill as it does; absent if that is not foreseen within 14 days
}

// MemberOf returns the body of a node of a zone whose state has a size.
func MemberOf(n api.Node, stateBytes int64) Member {
	return Member{n.ID, n.NodeAddr, n.APIAddr, n.GatewayAddr, n.AgentAddr, n.Version, n.Joined, n.Voter, n.Leader, n.Alive, n.Expires, stateBytes, Vitals{}}
}

// Token is a bearer token, without its secret.
type Token struct {
	ID      api.TokenID    `json:"id"`
	User    api.UserID     `json:"user_id"`
	Project api.ProjectID  `json:"project_id"`
	Roles   []api.UserRole `json:"roles"`
	Created api.Instant    `json:"created"`
	Expires api.Instant    `json:"expires"` // null for a token that does not expire

	Used api.Instant `json:"last_used,omitzero"` // up to an hour and some minutes behind; absent before its first use

	Service string `json:"service,omitempty"` // of a token of no user
}

// Role is a role that operators have made.
type Role struct {
	Name    api.UserRole     `json:"name"`
	Allow   []api.RouteGroup `json:"allow"`
	Created api.Instant      `json:"created"`
	Updated api.Instant      `json:"updated"`
}

// RoleOf returns the body of a role.
func RoleOf(r *api.Role) Role { return Role{r.Name, r.Allow, r.Created, r.Updated} }

// Agent is an agent of the zone. Its times are absent where the zone does not know them: Joined of one
// that joined in a release before agents were recorded, Seen of one that has not called this leader.
type Agent struct {
	ID      api.AgentID `json:"id"`
	Hosts   int         `json:"hosts"`              // that it has registered, those included that it no longer serves
	First   api.Instant `json:"first_seen"`         // its join, or its oldest host
	Seen    api.Instant `json:"last_seen,omitzero"` // its latest call of this leader
	Joined  api.Instant `json:"joined,omitzero"`    // the last time
	Expires api.Instant `json:"expires,omitzero"`   // its certificate
	Revoked bool        `json:"revoked"`
	Version string      `json:"version,omitempty"` // its release; absent for one that has not called this leader
	Clock   *Clock      `json:"clock,omitempty"`   // to that of the leader; absent while it is unknown
	AgentTerms
}

// AgentTerms bound what an agent may register. An absent one leaves it to the limits of the zone.
type AgentTerms struct {
	HostPrefix string `json:"host_prefix,omitempty"` // of the names of its hosts
	HostsMax   int    `json:"hosts_max,omitempty"`   // 1 to 10000
	Disabled   bool   `json:"disabled,omitempty"`    // its new hosts wait until an operator enables them

	HostCapacity api.Resources `json:"host_capacity,omitempty"` // the most that one of its hosts may offer of each class, after what is reserved and by its ratio
}

// TokenOf returns the body of a bearer token.
func TokenOf(t *api.Token) Token {
	return Token{t.ID, t.User, t.Project, t.Roles, t.Created, t.Expires, t.Used, t.Service}
}

// TokenCreated is a new bearer token. Its text is returned only here.
type TokenCreated struct {
	ID    api.TokenID `json:"id"`
	Token string      `json:"token"`
}

// JoinAnswer is the answer to a new node or agent: certificates by role, all for the key
// of its request, the CA, addresses to dial, and for a node the key-encryption key.
type JoinAnswer struct {
	Zone         api.ZoneID        `json:"zone_id"`
	ZoneName     string            `json:"zone_name"`
	ID           string            `json:"id"`
	Certificates map[string][]byte `json:"certificates"`  // DER, by role
	CA           []byte            `json:"ca"`            // DER
	Trusted      [][]byte          `json:"trusted"`       // DER: that one, and another one while the zone changes its authority; the older one first
	KEK          []byte            `json:"kek,omitempty"` // only for a node: the key-encryption key, which wraps the zone's keys
	Addresses    []string          `json:"addresses"`     // of agent listeners or node listeners
}

// CA is the certificate authority of a zone, and its change.
type CA struct {
	Phase       api.CAPhase   `json:"phase"`         // stable; trusted: all are to trust the next one, and the old one issues; used: the next one issues, and the old one is still trusted
	Authorities []CAAuthority `json:"authorities"`   // that are trusted, the older one first
	Due         CADue         `json:"due,omitempty"` // why it should be changed; absent if nothing says so
	Waits       []CAWait      `json:"waits"`         // who would be refused if the change went on now
	Behind      []CAWait      `json:"behind"`        // linked zones that have yet to drop an authority that this one has dropped
	Bundle      string        `json:"bundle"`        // the certificates of all that are trusted, in PEM, for clients
}

// CAAuthority is one authority.
type CAAuthority struct {
	Fingerprint api.Fingerprint `json:"fingerprint"` // SHA-256 of its certificate, in hex
	Issues      bool            `json:"issues"`
	Since       api.Instant     `json:"since"`
	Expires     api.Instant     `json:"expires"`
}

// CADue is why a zone should change its authority.
type CADue string

// The reasons.
const (
	CADueRemoved CADue = "a removed node has its key"
	CADueEnds    CADue = "it ends within a year"
)

// CAWait is a party that the change of an authority waits for.
type CAWait struct {
	Kind  api.CAWaitKind `json:"kind"` // node, agent, link or join-token
	Name  string         `json:"name"`
	Error string         `json:"error,omitempty"` // why a linked zone could not be told
}

// CABrought is an authority that an operator brings, both parts in PEM; both are "" to have one made. The key is a secret.
type CABrought struct {
	Cert string `json:"certificate,omitempty"`
	Key  string `json:"key,omitempty"`
}

// CAForce is how to go on with the change of an authority.
type CAForce struct {
	Force bool `json:"force,omitempty"` // also if somebody is refused from then on
}

// Upgrade is how far an upgrade of the nodes of a zone to another release is.
type Upgrade struct {
	Phase UpgradePhase  `json:"phase"` // finished, rolling (the nodes run several releases) or ready (all nodes read a newer form than the zone writes)
	Form  api.Form      `json:"form"`  // that the zone writes
	Next  api.Form      `json:"next"`  // that it will write once the upgrade is finished: the newest that all nodes read
	Nodes []UpgradeNode `json:"nodes"`
	Links []UpgradeLink `json:"links"`
}

// UpgradePhase is how far an upgrade is.
type UpgradePhase string

// The phases.
const (
	UpgradeFinished UpgradePhase = "finished"
	UpgradeRolling  UpgradePhase = "rolling"
	UpgradeReady    UpgradePhase = "ready"
)

// UpgradeNode is what one node runs.
type UpgradeNode struct {
	ID      api.NodeID `json:"id"`
	Version string     `json:"version"`        // of its release; empty while it has not said so
	Form    api.Form   `json:"form,omitempty"` // newest that it reads; absent while it has not said so
	Voter   bool       `json:"voter"`
	Alive   string     `json:"alive"` // as in the members of the zone
}

// UpgradeLink is what a linked zone writes.
type UpgradeLink struct {
	Name string       `json:"name"`
	Role api.LinkRole `json:"role"`           // parent or child
	Form api.Form     `json:"form,omitempty"` // absent if it did not answer
}

// Hold is an undecided hold of a parent in this zone.
type Hold struct {
	ID          api.HoldID        `json:"id"`
	Parent      string            `json:"parent"` // name of the link
	Reservation api.ReservationID `json:"reservation_id"`
	Project     api.ProjectID     `json:"project_id"`
	State       api.HoldState     `json:"state"`
	Held        int               `json:"held"` // number of instances
	Created     api.Instant       `json:"created"`
}

// ZoneConfig is the configuration of a zone.
type ZoneConfig struct {
	PlanTTL   Duration `json:"plan_ttl"`                  // how long a sealed plan is valid
	HostGrace Duration `json:"host_grace"`                // silence after which a host is down
	Tags      []string `json:"tags"`                      // affinity tags of the zone, for the zone rule of a boot
	DefaultAZ string   `json:"default_availability_zone"` // availability zone of hosts that get none from an aggregate; "" for the zone's name
	// WebhookNetworks are inner networks that webhooks may reach, such as 10.1.0.0/16; webhooks
	// reach public addresses alone without any.
	WebhookNetworks []string    `json:"webhook_networks,omitempty"`
	Leases          LeaseRule   `json:"leases"`
	Preemptibles    PreemptRule `json:"preemptibles"`
	Bindings        BindingRule `json:"bindings"`
	Fanout          FanoutRule  `json:"fanout"`
	// PublicAttributes are attributes of hosts that requests of other zones may ask for, beside arch,
	// hypervisor_type and os; at most 64.
	PublicAttributes []string `json:"public_attributes,omitempty"`
	// HidesLayout shows requests of other zones a part of the serving hosts: of each kind a power of two at most.
	HidesLayout bool `json:"hides_layout,omitempty"`
	// RemoveDeadAfter is how long a node that votes must be silent before the leader removes it, if that makes the zone
	// safer, 10m to 720h; none for never.
	RemoveDeadAfter Duration `json:"remove_dead_after,omitempty"`
}

// FanoutRule is what a zone says of which children are asked for slots.
type FanoutRule struct {
	Mode  api.FanoutMode `json:"mode,omitempty"`  // lean: the cheapest by what they report, and others when these are not enough; all: every child that may have room (default: lean)
	Slack int            `json:"slack,omitempty"` // with lean, how many times what is needed the asked children must have room for, 1 to 64 (default: 2)
}

// FanoutRuleOf returns the body of a rule, with its defaults.
func FanoutRuleOf(r *api.FanoutRule) FanoutRule {
	return FanoutRule{Mode: r.Use(), Slack: r.SlackOf()}
}

// Rule returns the rule that a body stands for. The defaults are left out, so that a configuration that is
// written back as it was read needs no newer form.
func (r *FanoutRule) Rule() api.FanoutRule {
	out := api.FanoutRule(*r)
	if out.Mode == api.FanoutLean {
		out.Mode = ""
	}
	if out.Slack == api.FanoutSlack {
		out.Slack = 0
	}
	return out
}

// PreemptRule is what a zone says of preemptible instances. In its lists of projects "*" stands
// for all projects, and "!name" beside it for all but one; each has at most 1,000 entries.
type PreemptRule struct {
	Grace    *Duration        `json:"grace,omitempty"`             // how long before a lease starts its room is closed to them, and how long they have to stop, in whole milliseconds up to 1h; 0s for none (default: 1m)
	Ways     []api.PreemptWay `json:"ways,omitempty"`              // how they may be asked for: hint, flavor, image, project (default: hint and flavor)
	Projects []api.ProjectID  `json:"projects,omitempty"`          // whose boots are preemptible unless they opt out, if project is one of the ways
	Allowed  []api.ProjectID  `json:"allowed_projects,omitempty"`  // that may have them (default: all)
	Firm     []api.ProjectID  `json:"firm_projects,omitempty"`     // that may ask that they make room for a firm boot; admins may too
	Closed   bool             `json:"closed_to_parents,omitempty"` // parents may not ask for that
}

// PreemptRuleOf returns the body of a rule.
func PreemptRuleOf(r *api.PreemptRule) PreemptRule {
	grace := Duration(r.GraceOf(0))
	ways := r.Ways
	if len(ways) == 0 {
		ways = slices.DeleteFunc(api.PreemptWays(), func(w api.PreemptWay) bool { return !r.Counts(w) })
	}
	return PreemptRule{Grace: &grace, Ways: ways, Projects: r.Projects, Allowed: r.Allowed, Firm: r.Firm, Closed: r.Closed}
}

// Rule returns the rule that a body stands for.
func (r *PreemptRule) Rule() api.PreemptRule {
	out := api.PreemptRule{Ways: r.Ways, Projects: r.Projects, Allowed: r.Allowed, Firm: r.Firm, Closed: r.Closed}
	if r.Grace != nil {
		if out.Grace = time.Duration(*r.Grace); out.Grace == 0 {
			out.Grace = -1
		}
	}
	return out
}

// LeaseRule is what a zone allows of its leases.
type LeaseRule struct {
	Longest   Duration        `json:"max_duration,omitempty"`     // of one lease, in whole minutes; exactly as long is allowed (default: no limit)
	Extension Duration        `json:"extension_window,omitempty"` // how long before its end a lease may be extended beyond max_duration (default: never)
	Exempt    []api.ProjectID `json:"exempt_projects,omitempty"`  // projects that max_duration does not hold for
	Lead      Duration        `json:"max_lead,omitempty"`         // from now to the start of a lease (default: a hundred years)
	BeforeEnd *Duration       `json:"before_end,omitempty"`       // default distance of before_end_lease to the end, 0s for no such event (default: 1h)
	Cleaning  Duration        `json:"cleaning_time,omitempty"`    // how long a host of leases stays free after each window, in whole minutes (default: not at all)
	Check     *LeaseCheck     `json:"check,omitempty"`            // asked before a lease is made or changed (default: nobody)
}

// LeaseCheck is the external service of a zone that may refuse leases.
type LeaseCheck struct {
	URL      string   `json:"url"`                 // its calls are below it; https://, and http:// only for loopback addresses in webhook_networks
	Token    *string  `json:"token,omitempty"`     // that it is shown, at most 1024 characters; never returned
	HasToken bool     `json:"has_token,omitempty"` // a token is set; without a new one the present one is kept, and the url must stay the same
	Timeout  Duration `json:"timeout,omitempty"`   // of one call, 1s to 30s (default: 5s)
	FailOpen bool     `json:"fail_open,omitempty"` // what it does not answer is allowed (default: refused)
}

// LeaseRuleOf returns the body of a rule.
func LeaseRuleOf(r *api.LeaseRule) LeaseRule {
	before := Duration(r.BeforeEndDistance())
	return LeaseRule{
		Check:   leaseCheckOf(&r.Check),
		Longest: Duration(r.Longest), Extension: Duration(r.Extension), Exempt: r.Exempt, Lead: Duration(r.Lead), BeforeEnd: &before, Cleaning: Duration(r.Cleaning),
	}
}

// leaseCheckOf returns the body of a service, without its token; nil for none.
func leaseCheckOf(c *api.LeaseCheck) *LeaseCheck {
	if c.URL == "" {
		return nil
	}
	return &LeaseCheck{URL: c.URL, HasToken: len(c.Token) > 0, Timeout: Duration(c.WaitMax()), FailOpen: c.Open}
}

// Rule returns the rule that a body stands for, without its service.
func (r *LeaseRule) Rule() api.LeaseRule {
	out := api.LeaseRule{Longest: time.Duration(r.Longest), Extension: time.Duration(r.Extension), Exempt: r.Exempt, Lead: time.Duration(r.Lead), Cleaning: time.Duration(r.Cleaning)}
	if r.BeforeEnd != nil {
		if out.BeforeEnd = time.Duration(*r.BeforeEnd); out.BeforeEnd == 0 {
			out.BeforeEnd = -1
		}
	}
	return out
}

// SchedulerAnswer has the filters and costs in use, and all available ones.
type SchedulerAnswer struct {
	Known     KnownRules `json:"known"`
	Scheduler Scheduler  `json:"scheduler"` // as set, or the default
}

// Scheduler has the filters and costs with which a zone chooses hosts.
type Scheduler struct {
	Filters []FilterSpec `json:"filters"` // in order; empty for the default
	Costs   []CostWeight `json:"costs"`   // empty for the default
}

// FilterSpec names a filter and sets its options.
type FilterSpec struct {
	Name    string            `json:"name"`
	Options map[string]string `json:"options,omitempty"`
}

// CostWeight names a cost and its weight, -1000 to 1000. A negative weight reverses
// the preference; 0 switches the cost off.
type CostWeight struct {
	Name    string            `json:"name"`
	Weight  int64             `json:"weight"`
	Options map[string]string `json:"options,omitempty"` // such as class or attribute
}

// KnownRules are all available filters and costs.
type KnownRules struct {
	Costs   []CostInfo   `json:"costs"`
	Filters []FilterInfo `json:"filters"`
}

// FilterInfo describes a filter.
type FilterInfo struct {
	Name    string         `json:"name"`
	Help    string         `json:"help"` // one line
	Tier    api.Tier       `json:"tier"`
	Default bool           `json:"default"` // the filter runs by default
	Options []FilterOption `json:"options,omitempty"`
	Example FilterSpec     `json:"example"`
}

// FilterOption describes an option of a filter.
type FilterOption struct {
	Name     string `json:"name"`
	Help     string `json:"help"`
	Required bool   `json:"required,omitempty"`
}

// CostInfo describes a cost.
type CostInfo struct {
	Name    string `json:"name"`
	Help    string `json:"help"` // one line
	Default bool   `json:"default"`
}

// SchedulerOf returns the body of a scheduler.
func SchedulerOf(s api.Scheduler) Scheduler {
	return Scheduler{
		each(s.Filters, filterSpecOf), each(s.Costs, func(c api.CostWeight) CostWeight { return CostWeight(c) }),
	}
}

// Record returns the scheduler as a record of the log.
func (s Scheduler) Record() api.Scheduler {
	return api.Scheduler{
		Filters: each(s.Filters, func(f FilterSpec) api.FilterSpec { return api.FilterSpec(f) }),
		Costs:   each(s.Costs, func(c CostWeight) api.CostWeight { return api.CostWeight(c) }),
	}
}

// filterSpecOf returns the body of a filter and its options.
func filterSpecOf(f api.FilterSpec) FilterSpec { return FilterSpec(f) }

// Duration is a time.Duration whose JSON is a text such as "60s".
type Duration time.Duration

// MarshalJSON writes a text such as "1m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a text such as "60s" or "1h30m", and nothing else.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return api.Errorf(api.CodeInvalid, "a duration must be a text such as \"60s\"")
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return api.Errorf(api.CodeInvalid, "%q is not a duration such as \"60s\"", s)
	}
	*d = Duration(v)
	return nil
}
