package rest

import "berth/api"

// AggregateBody is the body of a call that creates or changes an aggregate.
type AggregateBody struct {
	Aggregate AggregateSpec `json:"aggregate"`
}

// AggregateSpec is an aggregate to create or change; absent fields stay as they are.
type AggregateSpec struct {
	Name     *string           `json:"name,omitempty"`
	Metadata map[string]string `json:"metadata,omitzero"`
	Hosts    *[]string         `json:"hosts,omitempty"` // names or ids of all its hosts
}

// FlavorBody is the body of a call that creates or replaces a flavor.
type FlavorBody struct {
	Flavor FlavorSpec `json:"flavor"`
}

// FlavorSpec is a flavor to create or replace. vcpus, ram and disk are short for the
// standard classes.
type FlavorSpec struct {
	ID         string            `json:"id,omitempty"` // default: the name
	Name       string            `json:"name"`
	VCPUs      *int64            `json:"vcpus,omitempty"`
	RAM        *int64            `json:"ram,omitempty"`  // MiB
	Disk       *int64            `json:"disk,omitempty"` // GiB
	Resources  api.Resources     `json:"resources,omitempty"`
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
	Command    []string          `json:"command,omitempty"` // command of the process driver
}

// HostBody is the body of a call that changes a host.
type HostBody struct {
	Host HostSpec `json:"host"`
}

// HostSpec is a change of a host; absent fields stay as they are.
type HostSpec struct {
	Enabled    *bool     `json:"enabled,omitempty"`
	Pool       *api.Pool `json:"pool,omitempty"`
	Generation uint64    `json:"generation,omitempty"` // generation that the caller has read; 0 for any

	// Attributes override those of the agent one by one; an empty value removes an
	// override. Maintenance is the reason why the host takes no new instances; "" ends
	// maintenance and any drain.
	Attributes  map[string]string `json:"attributes,omitempty"`
	Maintenance *string           `json:"maintenance,omitempty"`
}

// DrainBody is the body of a call that drains a host.
type DrainBody struct {
	Policy api.DrainPolicy `json:"policy"`           // what to do with its instances: wait, end or move
	Reason string          `json:"reason,omitempty"` // default: the present reason of the host
}

// DrainQuestion asks what would become of everything on some hosts if they were drained.
type DrainQuestion struct {
	Hosts []string    `json:"hosts"`       // names or ids, at most 64
	At    api.Instant `json:"at,omitzero"` // when they would be drained; default: now
}

// ServerGroupBody is the body of a call that creates a server group.
type ServerGroupBody struct {
	Group ServerGroupSpec `json:"server_group"`
}

// ServerGroupSpec is a server group to create.
type ServerGroupSpec struct {
	Name   string     `json:"name"`
	Policy api.Policy `json:"policy"`
	Max    int        `json:"max_per_host,omitempty"` // largest number of members on one host, only for anti-affinity; 0 for 1
}

// ZoneBody is the body of a call that creates a link token or changes a link.
type ZoneBody struct {
	Zone ZoneSpec `json:"zone"`
}

// ZoneSpec is a link to a child or the parent to create or change; absent fields stay as
// they are.
type ZoneSpec struct {
	Name   *string        `json:"name,omitempty"`
	Offset *int64         `json:"weight_offset,omitempty"` // added to each weight of the child
	Scale  *int64         `json:"weight_scale,omitempty"`  // multiplied with each weight, before the offset
	State  *api.LinkState `json:"state,omitempty"`

	// Gateways are the addresses of a linked zone, 1 to 16 of host:port. Addresses that
	// the zone reports later replace them.
	Gateways []string `json:"gateways,omitempty"`

	// What is said of a child that is linked, for the choice of the zone that a project is bound to.
	AZ          *string                     `json:"availability_zone,omitempty"` // the one that it offers; "" for those that it reports
	Tags        *[]string                   `json:"tags,omitempty"`              // all its affinity tags, as key=value, at most 8
	Maintenance *bool                       `json:"maintenance,omitempty"`       // new work goes elsewhere, what runs stays
	Headroom    map[api.ResourceClass]int64 `json:"headroom,omitzero"`           // percent of each class, 0 to 100, that stays free; {} for that of the configuration

	// What a parent that is linked may have of this zone at any instant.
	ShareHeld      *int `json:"share_held,omitempty"`      // percent of each class, 0 to 100, in holds that it has not decided
	ShareCommitted *int `json:"share_committed,omitempty"` // percent of each class, 0 to 100, decided or not
}

// HasTerms reports whether something is said of a child.
func (s *ZoneSpec) HasTerms() bool {
	return s.AZ != nil || s.Tags != nil || s.Maintenance != nil || s.Headroom != nil
}

// HasShare reports whether something is said of the share of a parent.
func (s *ZoneSpec) HasShare() bool { return s.ShareHeld != nil || s.ShareCommitted != nil }

// LinkBody is the body of a call that makes this zone a child of another.
type LinkBody struct {
	Token string `json:"token"`          // link token of the parent
	Name  string `json:"name,omitempty"` // name of the parent in this zone; default: parent
}

// TransferBody is the body of a call that moves leadership.
type TransferBody struct {
	To api.NodeID `json:"to,omitempty"` // default: the most up-to-date node
}

// TokenSpec is a bearer token to create.
type TokenSpec struct {
	User    api.UserID     `json:"user_id,omitempty"`
	Service string         `json:"service,omitempty"` // in place of user_id: the token is for a service and of no user
	Project api.ProjectID  `json:"project_id"`
	Roles   []api.UserRole `json:"roles"`                   // 1 to 8
	TTL     Duration       `json:"ttl,omitempty"`           // default: 2160h
	Never   bool           `json:"never_expires,omitempty"` // in place of ttl
}

// RoleBody is the body of a call that makes or replaces a role.
type RoleBody struct {
	Role RoleSpec `json:"role"`
}

// RoleSpec is what a role allows.
type RoleSpec struct {
	Allow []api.RouteGroup `json:"allow"` // at least one
}

// JoinTokenSpec is a join token to create.
type JoinTokenSpec struct {
	Kind api.JoinKind `json:"kind"` // node or agent
	Name string       `json:"name"` // of the node or agent
	TTL  Duration     `json:"ttl,omitempty"`
	AgentTerms
}

// JoinBody is the request of a new node or agent, sent over TLS with the CA that the token
// pins.
type JoinBody struct {
	Token string `json:"token"`
	CSR   []byte `json:"csr"` // DER of a certificate request; its names are ignored
	// Names are the names in the certificate of a node's public API.
	Names []string `json:"names,omitempty"`
}

// ConfigBody is the body of a call that replaces the configuration of the zone.
type ConfigBody struct {
	Config ZoneConfig `json:"config"`
}

// SchedulerBody is the body of a call that replaces filters and costs.
type SchedulerBody struct {
	Scheduler *Scheduler `json:"scheduler"`
}

// DecisionBody is the body of a call that decides a hold by force.
type DecisionBody struct {
	Decision api.Decision `json:"decision"` // commit or abort
}
