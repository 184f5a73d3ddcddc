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
	ID          LinkID    `cbor:"1,keyasint"`
	Name        string    `cbor:"2,keyasint"` // unique in this zone
	Role        LinkRole  `cbor:"3,keyasint"`
	Zone        ZoneID    `cbor:"4,keyasint" log:"zone_id"`
	Endpoints   []string  `cbor:"5,keyasint" log:"gateways"`      // host:port of its gateways
	CA          []byte    `cbor:"6,keyasint"`                     // DER of the pinned CA certificate
	Offset      int64     `cbor:"7,keyasint" log:"weight_offset"` // added to each weight of the child
	Scale       int64     `cbor:"8,keyasint" log:"weight_scale"`  // times each weight, before the offset; >= 1
	State       LinkState `cbor:"9,keyasint"`
	ChangesNext uint64    `cbor:"10,keyasint,omitempty"` // where to go on following the child
	Created     Instant   `cbor:"11,keyasint"`
	Updated     Instant   `cbor:"12,keyasint"`
	SilentSince Instant   `cbor:"13,keyasint,omitempty" form:"2"` // since when a child is not heard, as the log has it; 0 while it is
	Health      string    `cbor:"-"`                              // "up", "down", "unknown"; filled on read
	Digest      *Digest   `cbor:"-"`                              // last digest heard; filled on read
}

// ClassTotals is what a zone says of one resource class: rounded sums over its
// hosts and everything below, and the smallest and largest amount that one slot
// may have.
type ClassTotals struct {
	Total   int64 `cbor:"1,keyasint"`
	Free    int64 `cbor:"2,keyasint"`
	SlotMin int64 `cbor:"3,keyasint"`
	SlotMax int64 `cbor:"4,keyasint"`
}

// FitSketch says, quantised, how many slots of one flavor shape would fit if
// they were wanted from Start on.
type FitSketch struct {
	Flavor    FlavorID  `cbor:"1,keyasint"`
	Resources Resources `cbor:"2,keyasint"`
	StartIn   Instant   `cbor:"3,keyasint"` // milliseconds from the digest's own time
	Fits      int64     `cbor:"4,keyasint"`
}

// Digest is what a zone says of itself by gossip. It is a hint: it may prune and
// order a fan-out, and never decides a claim.
type Digest struct {
	Zone     ZoneID                        `cbor:"1,keyasint"`
	Sequence uint64                        `cbor:"2,keyasint"` // applied log index; higher is newer
	At       Instant                       `cbor:"3,keyasint"`
	Health   string                        `cbor:"4,keyasint"` // "up" or "leaderless"
	Paused   bool                          `cbor:"5,keyasint,omitempty"`
	Tags     []string                      `cbor:"6,keyasint,omitempty"`
	Traits   []string                      `cbor:"7,keyasint,omitempty"`
	Classes  map[ResourceClass]ClassTotals `cbor:"8,keyasint"`
	Sketches []FitSketch                   `cbor:"9,keyasint,omitempty"`
	Partial  bool                          `cbor:"10,keyasint,omitempty"` // a zone below was not heard lately: rules nothing out
	AZs      []string                      `cbor:"11,keyasint,omitempty"`
	Gateways []string                      `cbor:"12,keyasint,omitempty"` // where the zone's gateways are; for the other end of a link alone
}

// ZoneInfo is what GET /zones/info says of this zone itself.
type ZoneInfo struct {
	ID      ZoneID  `cbor:"1,keyasint"`
	Name    string  `cbor:"2,keyasint"`
	Version string  `cbor:"3,keyasint"`
	Digest  *Digest `cbor:"4,keyasint,omitempty"`
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
	Costs     []CostWeight  `cbor:"1,keyasint"`
	PlanTTL   time.Duration `cbor:"2,keyasint"` // default PlanTTLDefault
	HostGrace time.Duration `cbor:"3,keyasint"` // silence after which a host is down
	Tags      []string      `cbor:"4,keyasint,omitempty"`
	Filters   []FilterSpec  `cbor:"5,keyasint,omitempty"`                                 // which filters run, in order; none for the default
	DefaultAZ string        `cbor:"6,keyasint,omitempty" log:"default_availability_zone"` // of hosts that no aggregate gives one; "" for the zone's name
}

// FilterSpec names a filter and sets its options.
type FilterSpec struct {
	Name    string            `cbor:"1,keyasint"`
	Options map[string]string `cbor:"2,keyasint,omitempty"`
}

// Scheduler is how a zone chooses hosts: the part of its configuration that
// /operator/scheduler shows and changes.
type Scheduler struct {
	Filters []FilterSpec `cbor:"1,keyasint"`
	Costs   []CostWeight `cbor:"2,keyasint"`
}

// CostWeight names a cost and its weight. A negative weight reverses the
// preference; 0 switches the cost off. Range [-1000, 1000].
type CostWeight struct {
	Name   string `cbor:"1,keyasint"`
	Weight int64  `cbor:"2,keyasint"`
	// Options say what the cost looks at, such as class or attribute.
	Options map[string]string `cbor:"3,keyasint,omitempty"`
}
