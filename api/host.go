package api

// HostState says whether a host can run instances just now.
type HostState string

// The host states.
const (
	HostUp   HostState = "up"
	HostDown HostState = "down" // its agent has not been heard for too long
)

// Host is a machine that runs instances, as its own zone's operator sees it. It
// never leaves the zone's public API, and no other zone ever sees one.
type Host struct {
	ID         HostID                      `json:"id" cbor:"1,keyasint"`
	Name       string                      `json:"name" cbor:"2,keyasint"`
	Agent      AgentID                     `json:"agent" cbor:"3,keyasint"`
	Driver     string                      `json:"driver" cbor:"4,keyasint"`
	Inventory  map[ResourceClass]Inventory `json:"inventory" cbor:"5,keyasint"`
	Traits     []string                    `json:"traits,omitempty" cbor:"6,keyasint,omitempty"` // sorted
	Pool       Pool                        `json:"pool" cbor:"7,keyasint"`
	State      HostState                   `json:"state" cbor:"8,keyasint"`
	Enabled    bool                        `json:"enabled" cbor:"9,keyasint"`
	Generation uint64                      `json:"generation" cbor:"10,keyasint"` // rises by one per change
	Used       Resources                   `json:"used" cbor:"-"`                 // at this instant; filled on read
	Instances  int                         `json:"instances" cbor:"-"`            // filled on read
	Created    Instant                     `json:"created" cbor:"11,keyasint"`
	Updated    Instant                     `json:"updated" cbor:"12,keyasint"`
}

// Claim is amounts of resource classes on one host over one window for one
// consumer. Allocations are claims whose window covers now.
type Claim struct {
	Consumer  InstanceID `json:"consumer" cbor:"1,keyasint"`
	Resources Resources  `json:"resources" cbor:"2,keyasint"`
	Window    Window     `json:"window" cbor:"3,keyasint"`
	Class     Class      `json:"class" cbor:"4,keyasint"`
}
