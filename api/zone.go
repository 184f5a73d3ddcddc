package api

import (
	"slices"
	"time"
)

// LinkRole is the role of the zone at the other end of a link.
type LinkRole string

// The link roles.
const (
	LinkChild  LinkRole = "child"
	LinkParent LinkRole = "parent"
)

// LinkState is the state of a link.
type LinkState string

// The link states.
const (
	LinkActive LinkState = "active"
	LinkPaused LinkState = "paused" // no new work; instances stay
)

// Link is the mutual enrolment of a parent and a child zone. The public API shows it as a
// zone.
type Link struct {
	ID          LinkID    `cbor:"1,keyasint"`
	Name        string    `cbor:"2,keyasint"` // unique in this zone
	Role        LinkRole  `cbor:"3,keyasint"`
	Zone        ZoneID    `cbor:"4,keyasint" log:"zone_id"`
	Endpoints   []string  `cbor:"5,keyasint" log:"gateways"`      // host:port of its gateways
	CA          []byte    `cbor:"6,keyasint"`                     // DER of the pinned CA certificate
	Offset      int64     `cbor:"7,keyasint" log:"weight_offset"` // added to each weight of the child
	Scale       int64     `cbor:"8,keyasint" log:"weight_scale"`  // multiplied with each weight, before the offset; >= 1
	State       LinkState `cbor:"9,keyasint"`
	ChangesNext uint64    `cbor:"10,keyasint,omitempty"` // next index of the child's changes
	Created     Instant   `cbor:"11,keyasint"`
	Updated     Instant   `cbor:"12,keyasint"`
	SilentSince Instant   `cbor:"13,keyasint,omitempty" form:"2"` // start of a child's silence according to the log; 0 without silence
	Terms       LinkTerms `cbor:"14,keyasint,omitzero" form:"4"`  // what an operator says of a child
	Share       LinkShare `cbor:"15,keyasint,omitzero" form:"5"`  // how much of this zone a parent may have

	NextCA []byte        `cbor:"16,keyasint,omitempty" form:"5"` // DER of a second CA certificate of the other zone, which changes its authority
	Pinned Instant       `cbor:"17,keyasint,omitempty" form:"5"` // when CA or NextCA last changed; 0 for never
	Told   []Fingerprint `cbor:"18,keyasint,omitempty" form:"5"` // authorities of this zone that the other one has pinned, as far as it was told of a change

	Incarnation Incarnation `cbor:"19,keyasint,omitempty" form:"5"` // of the other zone, as this zone's operator has confirmed it
	Reconcile   Instant     `cbor:"20,keyasint,omitempty" form:"5"` // since when this zone has to compare with a child what both have; 0 for not
	Restored    uint64      `cbor:"21,keyasint,omitempty" form:"5"` // of a child: see Changes.Restored, the newest that this zone has noted
	Forgot      Instant     `cbor:"22,keyasint,omitempty" form:"5"` // when this zone last began to compare with a child: one of the two may have forgotten what they agreed on until then

	Health string  `cbor:"-"` // "up", "down", "unknown"; filled on read
	Digest *Digest `cbor:"-"` // last digest received; filled on read
}

// Pins returns the certificates of the other zone's authorities in DER, the older one first.
func (l *Link) Pins() [][]byte {
	if l.NextCA == nil {
		return [][]byte{l.CA}
	}
	return [][]byte{l.CA, l.NextCA}
}

// LinkShare is how much of each resource class of a zone its parent may have at any instant, in
// percent of the capacity of all providers of the zone, in [0, ShareMax]. Nil stands for the default.
type LinkShare struct {
	Held      *int `cbor:"1,keyasint,omitempty"` // in holds that it has not decided; default ShareHeldDefault
	Committed *int `cbor:"2,keyasint,omitempty"` // decided or not; default ShareCommittedDefault
}

// Validate returns an invalid-input error for a share out of range.
func (s *LinkShare) Validate() error {
	for _, one := range []struct {
		name    string
		percent *int
	}{{"share_held", s.Held}, {"share_committed", s.Committed}} {
		if one.percent != nil && (*one.percent < 0 || *one.percent > ShareMax) {
			return Errorf(CodeInvalid, "%s must be 0 to %d percent, got %d", one.name, ShareMax, *one.percent)
		}
	}
	return nil
}

// LinkTerms are what the operator of a parent says of a child, for the choice of the zone that a
// project lives in. See package binding.
type LinkTerms struct {
	AZ          string                  `cbor:"1,keyasint,omitempty" log:"availability_zone"` // that it offers; "" for those that its digest names
	Tags        []string                `cbor:"2,keyasint,omitempty"`                         // affinity tags, see ValidateTags
	Maintenance bool                    `cbor:"3,keyasint,omitempty"`                         // new work goes elsewhere, what runs stays
	Headroom    map[ResourceClass]int64 `cbor:"4,keyasint,omitempty"`                         // percent of a class that stays free, in [0, 100]
}

// IsZero reports whether an operator has said nothing.
func (t LinkTerms) IsZero() bool {
	return t.AZ == "" && len(t.Tags)+len(t.Headroom) == 0 && !t.Maintenance
}

// Validate returns an invalid-input error for terms that cannot be.
func (t *LinkTerms) Validate() error {
	if t.AZ != "" && !ValidName(t.AZ) {
		return CheckName("availability zone", t.AZ)
	}
	if err := ValidateTags(t.Tags); err != nil {
		return err
	}
	return ValidateHeadroom(t.Headroom)
}

// ClassTotals are the figures of a zone for one resource class: rounded sums over its hosts
// and everything below, and the smallest and largest amount that one slot may have.
type ClassTotals struct {
	Total   int64 `cbor:"1,keyasint"`
	Free    int64 `cbor:"2,keyasint"`
	SlotMin int64 `cbor:"3,keyasint"`
	SlotMax int64 `cbor:"4,keyasint"`
}

// FitSketch is the quantised number of slots of one flavor shape that would fit from
// StartIn on.
type FitSketch struct {
	Flavor    FlavorID  `cbor:"1,keyasint"`
	Resources Resources `cbor:"2,keyasint"`
	StartIn   Instant   `cbor:"3,keyasint"` // milliseconds from the digest's own time
	Fits      int64     `cbor:"4,keyasint"`
	// Price is the weight of the cheapest of these slots, rounded down like every weight that leaves
	// a zone; nil if none fits, or if the price of a part of the zone is not known.
	Price *int64 `cbor:"5,keyasint,omitempty" form:"5"`
}

// Digest is the summary that a zone spreads by gossip. It is a hint: it may prune and order
// a fan-out, but never decides a claim.
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
	Partial  bool                          `cbor:"10,keyasint,omitempty"` // a zone below has been silent recently: rules nothing out
	AZs      []string                      `cbor:"11,keyasint,omitempty"`
	Gateways []string                      `cbor:"12,keyasint,omitempty"` // addresses of the zone's gateways; only for the other end of a link
}

// WithoutPrices returns the digest as it was before FormFifth.
func (d Digest) WithoutPrices() Digest {
	d.Sketches = slices.Clone(d.Sketches)
	for i := range d.Sketches {
		d.Sketches[i].Price = nil
	}
	return d
}

// ZoneInfo describes this zone itself in GET /zones/info.
type ZoneInfo struct {
	ID      ZoneID  `cbor:"1,keyasint"`
	Name    string  `cbor:"2,keyasint"`
	Version string  `cbor:"3,keyasint"`
	Digest  *Digest `cbor:"4,keyasint,omitempty"`
}

// Enrolment is the request of a child to a parent's gateway, with a link token, and the
// answer. Each end pins the other's CA.
type Enrolment struct {
	Token     string   `cbor:"1,keyasint,omitempty"` // to the parent only
	Link      LinkID   `cbor:"2,keyasint,omitempty"` // to the child only
	Zone      ZoneID   `cbor:"3,keyasint"`
	Name      string   `cbor:"4,keyasint"`
	Endpoints []string `cbor:"5,keyasint"`
	CA        []byte   `cbor:"6,keyasint"`
	KeyCheck  []byte   `cbor:"7,keyasint"` // reveals whether both seal with one key, and nothing else
	Offset    int64    `cbor:"8,keyasint,omitempty"`
	Scale     int64    `cbor:"9,keyasint,omitempty"`
	Levels    int      `cbor:"10,keyasint,omitempty"` // levels of zones below the child, 0 to DepthMax; to the parent only

	Incarnation Incarnation `cbor:"-"` // of the sender, from HeaderIncarnation
}

// Hello is a message to linked zones: a value that reveals whether both seal with the same
// operator's key, the addresses of the gateways whenever these change, and the zone's authorities while
// these change.
type Hello struct {
	KeyCheck  []byte   `cbor:"1,keyasint"`           // as in Enrolment; empty for no comparison
	Endpoints []string `cbor:"2,keyasint,omitempty"` // host:port of all gateways; empty if unchanged
	// Authorities are all that the zone trusts, the older one first; empty if unchanged.
	Authorities []Authority `cbor:"3,keyasint,omitempty" form:"5"`
}

// AboveQuestion is a child's question to its parent before it accepts a child of its own:
// is that zone you, or above you? It keeps the tree free of rings.
type AboveQuestion struct {
	Zone ZoneID `cbor:"1,keyasint"`
}

// AboveAnswer is the answer. Zones is the number of zones above the answering one, 0 for
// the root; it is incomplete if Above is true.
type AboveAnswer struct {
	Above bool `cbor:"1,keyasint"`
	Zones int  `cbor:"2,keyasint"`
}

// BelowAnswer is the number of levels of zones below the answering zone: 0 for a zone
// without children.
type BelowAnswer struct {
	Levels int `cbor:"1,keyasint"`
}

// ZoneConfig is the replicated configuration of a zone.
type ZoneConfig struct {
	Costs     []CostWeight  `cbor:"1,keyasint"`
	PlanTTL   time.Duration `cbor:"2,keyasint"` // default PlanTTLDefault
	HostGrace time.Duration `cbor:"3,keyasint"` // silence after which a host is down
	Tags      []string      `cbor:"4,keyasint,omitempty"`
	Filters   []FilterSpec  `cbor:"5,keyasint,omitempty"`                                 // filters in use, in order; none for the default
	DefaultAZ string        `cbor:"6,keyasint,omitempty" log:"default_availability_zone"` // of hosts that no aggregate gives one; "" for the zone's name
	// WebhookNetworks are inner networks that webhooks may reach, such as 10.1.0.0/16.
	WebhookNetworks []string    `cbor:"7,keyasint,omitempty" form:"4"`
	Leases          LeaseRule   `cbor:"8,keyasint,omitzero" form:"4"`
	Preemptibles    PreemptRule `cbor:"9,keyasint,omitzero" form:"4"`
	Bindings        BindingRule `cbor:"10,keyasint,omitzero" form:"4"`
	Fanout          FanoutRule  `cbor:"11,keyasint,omitzero" form:"5"`
	// PublicAttributes are attributes of hosts that requests of other zones may ask for, beside those
	// that every zone may.
	PublicAttributes []string `cbor:"12,keyasint,omitempty" form:"5"`
	// HidesLayout says that parents are shown a part of the hosts: of each kind a power of two at most.
	HidesLayout bool `cbor:"13,keyasint,omitempty" form:"5"`
	// RemoveDeadAfter is how long a voter must be silent before the leader removes it, if that makes the zone safer; 0 for never.
	RemoveDeadAfter time.Duration `cbor:"14,keyasint,omitempty" form:"5"`
}

// Limits of ZoneConfig.RemoveDeadAfter, if it is not 0.
const (
	RemoveDeadMin = 10 * time.Minute
	RemoveDeadMax = 30 * 24 * time.Hour
)

// CheckRemoveDead returns an invalid-input error for a ZoneConfig.RemoveDeadAfter out of range.
func CheckRemoveDead(d time.Duration) error {
	if d != 0 && (d < RemoveDeadMin || d > RemoveDeadMax) {
		return Errorf(CodeInvalid, "remove_dead_after must be %v to %v, or 0 for never, got %v", RemoveDeadMin, RemoveDeadMax, d)
	}
	return nil
}

// FilterSpec names a filter and sets its options.
type FilterSpec struct {
	Name    string            `cbor:"1,keyasint"`
	Options map[string]string `cbor:"2,keyasint,omitempty"`
}

// Scheduler has the filters and costs with which a zone chooses hosts: the part of its
// configuration that /operator/scheduler shows and changes.
type Scheduler struct {
	Filters []FilterSpec `cbor:"1,keyasint"`
	Costs   []CostWeight `cbor:"2,keyasint"`
}

// CostWeight names a cost and its weight. A negative weight reverses the
// preference; 0 switches the cost off. Range [-1000, 1000].
type CostWeight struct {
	Name   string `cbor:"1,keyasint"`
	Weight int64  `cbor:"2,keyasint"`
	// Options parametrise the cost, such as class or attribute.
	Options map[string]string `cbor:"3,keyasint,omitempty"`
}
