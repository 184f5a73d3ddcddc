package api

import "time"

// LinkRole says what the zone at the other end of a link is to this one.
type LinkRole string

// The link roles.
const (
	LinkChild  LinkRole = "child"
	LinkParent LinkRole = "parent"
)

// LinkState says whether a link is in use.
type LinkState string

// The link states.
const (
	LinkActive LinkState = "active"
	LinkPaused LinkState = "paused" // no new work; what is there goes on
)

// Link is the mutual enrolment of a parent and a child zone. The public API
// calls it a zone, seen from here.
type Link struct {
	ID          LinkID    `json:"id" cbor:"1,keyasint"`
	Name        string    `json:"name" cbor:"2,keyasint"` // unique in this zone
	Role        LinkRole  `json:"role" cbor:"3,keyasint"`
	Zone        ZoneID    `json:"zone_id" cbor:"4,keyasint"`
	Endpoints   []string  `json:"gateways" cbor:"5,keyasint"`      // host:port of its gateways
	CA          []byte    `json:"-" cbor:"6,keyasint"`             // DER of the pinned CA certificate
	Offset      int64     `json:"weight_offset" cbor:"7,keyasint"` // added to each weight of the child
	Scale       int64     `json:"weight_scale" cbor:"8,keyasint"`  // times each weight, before the offset; >= 1
	State       LinkState `json:"state" cbor:"9,keyasint"`
	ChangesNext uint64    `json:"-" cbor:"10,keyasint,omitempty"` // where to go on following the child
	Created     Instant   `json:"created" cbor:"11,keyasint"`
	Updated     Instant   `json:"updated" cbor:"12,keyasint"`
	SilentSince Instant   `json:"-" cbor:"13,keyasint,omitempty" form:"2"` // since when a child is not heard, as the log has it; 0 while it is
	Health      string    `json:"health,omitempty" cbor:"-"`               // "up", "down", "unknown"; filled on read
	Digest      *Digest   `json:"digest,omitempty" cbor:"-"`               // last digest heard; filled on read
}

// ClassTotals is what a zone says of one resource class: rounded sums over its
// hosts and everything below, and the smallest and largest amount that one slot
// may have.
type ClassTotals struct {
	Total   int64 `json:"total" cbor:"1,keyasint"`
	Free    int64 `json:"free" cbor:"2,keyasint"`
	SlotMin int64 `json:"slot_min" cbor:"3,keyasint"`
	SlotMax int64 `json:"slot_max" cbor:"4,keyasint"`
}

// FitSketch says, quantised, how many slots of one flavor shape would fit if
// they were wanted from Start on.
type FitSketch struct {
	Flavor    FlavorID  `json:"flavor" cbor:"1,keyasint"`
	Resources Resources `json:"resources" cbor:"2,keyasint"`
	StartIn   Instant   `json:"-" cbor:"3,keyasint"` // milliseconds from the digest's own time
	Fits      int64     `json:"fits" cbor:"4,keyasint"`
}

// Digest is what a zone says of itself by gossip. It is a hint: it may prune and
// order a fan-out, and never decides a claim.
type Digest struct {
	Zone     ZoneID                        `json:"zone_id" cbor:"1,keyasint"`
	Sequence uint64                        `json:"sequence" cbor:"2,keyasint"` // applied log index; higher is newer
	At       Instant                       `json:"at" cbor:"3,keyasint"`
	Health   string                        `json:"health" cbor:"4,keyasint"` // "up" or "leaderless"
	Paused   bool                          `json:"paused" cbor:"5,keyasint,omitempty"`
	Tags     []string                      `json:"tags,omitempty" cbor:"6,keyasint,omitempty"`
	Traits   []string                      `json:"traits,omitempty" cbor:"7,keyasint,omitempty"`
	Classes  map[ResourceClass]ClassTotals `json:"classes" cbor:"8,keyasint"`
	Sketches []FitSketch                   `json:"fits,omitempty" cbor:"9,keyasint,omitempty"`
	Partial  bool                          `json:"partial,omitempty" cbor:"10,keyasint,omitempty"` // a zone below was not heard lately: rules nothing out
	AZs      []string                      `json:"availability_zones,omitempty" cbor:"11,keyasint,omitempty"`
	Gateways []string                      `json:"-" cbor:"12,keyasint,omitempty"` // where the zone's gateways are; for the other end of a link alone
}

// ZoneInfo is what GET /zones/info says of this zone itself.
type ZoneInfo struct {
	ID      ZoneID  `json:"id" cbor:"1,keyasint"`
	Name    string  `json:"name" cbor:"2,keyasint"`
	Version string  `json:"version" cbor:"3,keyasint"`
	Digest  *Digest `json:"digest,omitempty" cbor:"4,keyasint,omitempty"`
}

// Enrolment is what a child sends to a parent's gateway with a link token, and
// what it gets back. Each end pins the other's CA.
type Enrolment struct {
	Token     string   `cbor:"1,keyasint,omitempty"` // to the parent only
	Link      LinkID   `cbor:"2,keyasint,omitempty"` // to the child only
	Zone      ZoneID   `cbor:"3,keyasint"`
	Name      string   `cbor:"4,keyasint"`
	Endpoints []string `cbor:"5,keyasint"`
	CA        []byte   `cbor:"6,keyasint"`
	KeyCheck  []byte   `cbor:"7,keyasint"` // shows whether both seal with one key, and nothing else
	Offset    int64    `cbor:"8,keyasint,omitempty"`
	Scale     int64    `cbor:"9,keyasint,omitempty"`
	Levels    int      `cbor:"10,keyasint,omitempty"` // of zones below the child, 0 to DepthMax; to the parent only
}

// Hello is what a zone tells the zones that it is linked to: with an operator's
// sealing key, what shows whether both seal with it, and where its gateways are, as
// often as that changes.
type Hello struct {
	KeyCheck  []byte   `cbor:"1,keyasint"`           // as in Enrolment; empty for not to be compared
	Endpoints []string `cbor:"2,keyasint,omitempty"` // host:port of all gateways; empty for as before
}

// AboveQuestion is what a child asks its parent before it takes a child of its own:
// is that zone you, or above you? It keeps the tree free of rings.
type AboveQuestion struct {
	Zone ZoneID `cbor:"1,keyasint"`
}

// AboveAnswer is the answer. Zones is how many zones are above the one that was
// asked, 0 for the root; it is not counted to the end if Above is true.
type AboveAnswer struct {
	Above bool `cbor:"1,keyasint"`
	Zones int  `cbor:"2,keyasint"`
}

// BelowAnswer tells a parent how many levels of zones there are below the zone that
// it asked: 0 for a zone without children.
type BelowAnswer struct {
	Levels int `cbor:"1,keyasint"`
}

// ZoneConfig is the replicated configuration of a zone.
type ZoneConfig struct {
	Costs     []CostWeight  `json:"costs" cbor:"1,keyasint"`
	PlanTTL   time.Duration `json:"plan_ttl" cbor:"2,keyasint"`   // default PlanTTLDefault
	HostGrace time.Duration `json:"host_grace" cbor:"3,keyasint"` // silence after which a host is down
	Tags      []string      `json:"tags,omitempty" cbor:"4,keyasint,omitempty"`
	Filters   []FilterSpec  `json:"filters" cbor:"5,keyasint,omitempty"`                   // which filters run, in order; none for the default
	DefaultAZ string        `json:"default_availability_zone" cbor:"6,keyasint,omitempty"` // of hosts that no aggregate gives one; "" for the zone's name
}

// FilterSpec names a filter and sets its options.
type FilterSpec struct {
	Name    string            `json:"name" cbor:"1,keyasint"`
	Options map[string]string `json:"options,omitempty" cbor:"2,keyasint,omitempty"`
}

// Scheduler is how a zone chooses hosts: the part of its configuration that
// /operator/scheduler shows and changes.
type Scheduler struct {
	Filters []FilterSpec `json:"filters" cbor:"1,keyasint"`
	Costs   []CostWeight `json:"costs" cbor:"2,keyasint"`
}

// CostWeight names a cost and its weight. A negative weight reverses the
// preference; 0 switches the cost off. Range [-1000, 1000].
type CostWeight struct {
	Name   string `json:"name" cbor:"1,keyasint"`
	Weight int64  `json:"weight" cbor:"2,keyasint"`
	// Options say what the cost looks at, such as class or attribute.
	Options map[string]string `json:"options,omitempty" cbor:"3,keyasint,omitempty"`
}
