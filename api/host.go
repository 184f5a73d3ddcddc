package api

import "time"

// HostState is the present ability of a host to run instances.
type HostState string

// The host states.
const (
	HostUp   HostState = "up"
	HostDown HostState = "down" // its agent has been silent for too long
)

// Host is a machine that runs instances, as its own zone's operator sees it. It
// never leaves the zone's public API, and no other zone ever sees one.
type Host struct {
	ID         HostID                      `cbor:"1,keyasint"`
	Name       string                      `cbor:"2,keyasint"`
	Agent      AgentID                     `cbor:"3,keyasint"`
	Driver     string                      `cbor:"4,keyasint"`
	Inventory  map[ResourceClass]Inventory `cbor:"5,keyasint"`
	Traits     []string                    `cbor:"6,keyasint,omitempty"` // sorted
	Pool       Pool                        `cbor:"7,keyasint"`
	State      HostState                   `cbor:"8,keyasint"`
	Enabled    bool                        `cbor:"9,keyasint"`
	Generation uint64                      `cbor:"10,keyasint"` // increases by one with each change
	Used       Resources                   `cbor:"-"`           // at this instant; filled on read
	Instances  int                         `cbor:"-"`           // filled on read
	Created    Instant                     `cbor:"11,keyasint"`
	Updated    Instant                     `cbor:"12,keyasint"`
	// Attributes are reported by the agent; Overrides are set by an operator and take
	// precedence. A decimal number counts as a number, true and false as truth values,
	// anything else as text.
	Attributes  map[string]string `cbor:"13,keyasint,omitempty"`
	Overrides   map[string]string `cbor:"14,keyasint,omitempty"`
	Maintenance string            `cbor:"15,keyasint,omitempty"`     // reason why it takes no new instances; "" if it does
	Drain       DrainPolicy       `cbor:"16,keyasint,omitempty"`     // policy for its instances; "" without a drain
	Failures    int               `cbor:"17,keyasint,omitempty"`     // consecutive instances that failed to start
	AZ          string            `cbor:"-" log:"availability_zone"` // filled on read
	// Additions of operators through the placement API: classes that replace or extend
	// those of the agent, further traits, and UUIDs of further aggregates.
	OwnInventory  map[ResourceClass]Inventory `cbor:"18,keyasint,omitempty"`
	OwnTraits     []string                    `cbor:"19,keyasint,omitempty"` // sorted
	OwnAggregates []string                    `cbor:"22,keyasint,omitempty"` // sorted
	DownSince     Instant                     `cbor:"24,keyasint,omitempty"` // start of being down; 0 while it is up
	// Unserved is set for a host that is down although its agent may be alive: the agent
	// has registered without it, and does not serve it until it registers it again.
	Unserved bool `cbor:"23,keyasint,omitempty"`
	// OwnFields are the fields of OwnInventory that operators have set, by class; the others follow
	// what the agent reports. A class without an entry is the operators' as a whole.
	OwnFields map[ResourceClass]InventoryFields `cbor:"27,keyasint,omitempty" form:"5"`
	// Reported is what the agent reports of the classes of OwnInventory; filled on read.
	Reported map[ResourceClass]Inventory `cbor:"-"`
	// Cleaning is the time between the end of a window on the host and the start of the next.
	Cleaning time.Duration `cbor:"26,keyasint,omitempty" form:"4"`
}

// DrainPolicy is the policy of a drain for the instances of a host.
type DrainPolicy string

// The drain policies.
const (
	DrainWait DrainPolicy = "wait" // wait until they have ended
	DrainEnd  DrainPolicy = "end"  // end them
	DrainMove DrainPolicy = "move" // stop each and start it on another host of the zone
)

// Valid reports whether p is one of the policies.
func (p DrainPolicy) Valid() bool { return p == DrainWait || p == DrainEnd || p == DrainMove }

// Aggregate is a named set of hosts of one zone, with metadata that filters read.
type Aggregate struct {
	ID       AggregateID       `cbor:"1,keyasint"`
	Name     string            `cbor:"2,keyasint"` // unique in the zone
	Metadata map[string]string `cbor:"3,keyasint,omitempty"`
	Hosts    []HostID          `cbor:"4,keyasint,omitempty"` // sorted
	Created  Instant           `cbor:"5,keyasint,omitempty"`
	Updated  Instant           `cbor:"6,keyasint,omitempty"`
}

// Keys of aggregate metadata with a meaning.
const (
	MetaAZ       = "availability_zone" // hosts belong to this availability zone
	MetaProjects = "filter_project_id" // comma separated: only these projects may use the hosts; also a prefix of further keys
)

// ServerGroup applies a policy to the hosts of instances booted into it, at any time and
// in the zone where it was made or any zone below.
type ServerGroup struct {
	ID      ServerGroupID `cbor:"1,keyasint"`
	Name    string        `cbor:"2,keyasint"` // unique in the project
	Project ProjectID     `cbor:"3,keyasint" log:"project_id"`
	Policy  Policy        `cbor:"4,keyasint"`
	Max     int           `cbor:"5,keyasint,omitempty" log:"max_per_host"` // only for AntiAffinity
	Created Instant       `cbor:"6,keyasint,omitempty"`
	Members []InstanceID  `cbor:"-"` // filled on read
}

// HostProperty says whether lists of the attributes of hosts show one.
type HostProperty struct {
	ID      string  `cbor:"1,keyasint"` // a random UUID
	Name    string  `cbor:"2,keyasint"` // of the attribute
	Private bool    `cbor:"3,keyasint,omitempty"`
	Created Instant `cbor:"4,keyasint"`
	Updated Instant `cbor:"5,keyasint,omitempty"` // of the last change; 0 for none
}

// Claim is amounts of resource classes on one host over one window for one
// consumer. Allocations are claims whose window covers now.
type Claim struct {
	Consumer  InstanceID `cbor:"1,keyasint"`
	Resources Resources  `cbor:"2,keyasint"`
	Window    Window     `cbor:"3,keyasint"`
	Class     Class      `cbor:"4,keyasint"`
	// Within is the claim on the same provider in whose room this one is; nil for none. That
	// one is not within another. Whoever keeps both fills it in: it is not written.
	Within *Claim `cbor:"-"`
	// Whole is set for a claim of whole hosts: nothing else is admitted on the provider at any
	// instant of its window, whatever is left there. Whoever keeps the claim fills it in.
	Whole bool `cbor:"-"`
	// Grace is how long before its start a claim that is not preemptible keeps those that are out
	// of its room. Whoever keeps the claim fills it in.
	Grace time.Duration `cbor:"-"`
}
