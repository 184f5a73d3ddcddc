package api

import "time"

// Group is Count alike slots.
type Group struct {
	Count      int               `json:"count" cbor:"1,keyasint"` // 1 to CountMax
	Flavor     FlavorID          `json:"flavor,omitempty" cbor:"2,keyasint,omitempty"`
	Resources  Resources         `json:"resources" cbor:"3,keyasint"`
	ExtraSpecs map[string]string `json:"extra_specs,omitempty" cbor:"4,keyasint,omitempty"`
}

// Request is what select, boot and lease all carry. It is canonical: its
// deterministic encoding is what a sealed plan is bound to.
type Request struct {
	Reservation ReservationID `json:"reservation_id" cbor:"1,keyasint"`
	Project     ProjectID     `json:"project_id" cbor:"2,keyasint"`
	User        UserID        `json:"user_id" cbor:"3,keyasint,omitempty"`
	Groups      []Group       `json:"groups" cbor:"4,keyasint"` // 1 to GroupsMax
	Window      Window        `json:"window" cbor:"5,keyasint"` // Start 0: from when it is held
	Class       Class         `json:"class" cbor:"6,keyasint"`
}

// Count returns the number of slots of all groups.
func (r *Request) Count() int {
	n := 0
	for i := range r.Groups {
		n += r.Groups[i].Count
	}
	return n
}

// Validate returns an invalid-input error for the first thing that is wrong.
func (r *Request) Validate() error {
	if len(r.Groups) == 0 || len(r.Groups) > GroupsMax {
		return Errorf(CodeInvalid, "a request needs 1 to %d groups, got %d", GroupsMax, len(r.Groups))
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		if g.Count < 1 || g.Count > CountMax {
			return Errorf(CodeInvalid, "count must be 1 to %d, got %d", CountMax, g.Count)
		}
		if len(g.Resources) == 0 {
			return Errorf(CodeInvalid, "a group needs at least one resource")
		}
		if err := g.Resources.Validate(); err != nil {
			return err
		}
		if err := CheckPairs("extra_specs", g.ExtraSpecs, ExtraSpecsMax); err != nil {
			return err
		}
	}
	if r.Count() > CountMax {
		return Errorf(CodeInvalid, "a request may ask for at most %d instances in all, got %d", CountMax, r.Count())
	}
	if !r.Window.Valid() {
		return Errorf(CodeInvalid, "window must end after it starts")
	}
	if !r.Class.Valid() {
		return Errorf(CodeInvalid, "class must be %q or %q", Firm, Preemptible)
	}
	return nil
}

// ZoneOutcome says how one zone took part in a select, seen from the zone that
// asked it. Wanted == Offered + Short always.
type ZoneOutcome struct {
	Zone    string `json:"zone" cbor:"1,keyasint"` // link name, or this zone's own name
	Link    LinkID `json:"-" cbor:"2,keyasint,omitempty"`
	Outcome string `json:"outcome" cbor:"3,keyasint"` // answered, late, failed, paused, skipped
	Reason  string `json:"reason,omitempty" cbor:"4,keyasint,omitempty"`
	Wanted  int    `json:"wanted" cbor:"5,keyasint"`
	Offered int    `json:"offered" cbor:"6,keyasint"`
	Short   int    `json:"short" cbor:"7,keyasint"`
}

// The outcomes of asking a zone.
const (
	OutcomeAnswered = "answered"
	OutcomeLate     = "late"
	OutcomeFailed   = "failed"
	OutcomePaused   = "paused"
	OutcomeSkipped  = "skipped" // its digest rules it out
)

// Refusals say why hosts of the answering zone took no (further) slot of a
// group. Considered == Offering + the sum of Filters.
type Refusals struct {
	Considered int           `json:"considered" cbor:"1,keyasint"` // hosts looked at
	Offering   int           `json:"offering" cbor:"2,keyasint"`   // hosts that passed every filter
	Filters    []FilterCount `json:"filters,omitempty" cbor:"3,keyasint,omitempty"`
}

// FilterCount is how many hosts one filter turned away, in filter order.
type FilterCount struct {
	Filter string `json:"filter" cbor:"1,keyasint"`
	Hosts  int    `json:"hosts" cbor:"2,keyasint"`
}

// SelectAnswer is what POST /zones/select returns: per group the ordered weights
// of the offered slots (lower is better; the i-th supposes that slots 0..i-1 are
// taken), and one sealed plan for all of them.
type SelectAnswer struct {
	Reservation ReservationID `json:"reservation_id" cbor:"1,keyasint"`
	Weights     [][]int64     `json:"weights" cbor:"2,keyasint"` // per group, non-decreasing is not promised
	Blob        []byte        `json:"blob" cbor:"3,keyasint"`
	Expires     time.Duration `json:"-" cbor:"4,keyasint"` // how long from now the blob may be taken up
	Zones       []ZoneOutcome `json:"zones" cbor:"-"`      // what this zone's own caller is told; never sent to a parent
	Refusals    []Refusals    `json:"refusals" cbor:"-"`   // per group, this zone's own hosts; never sent to a parent
}

// HoldRequest asks a zone to take slots that it offered: a prefix of each group.
type HoldRequest struct {
	ID        HoldID            `json:"id" cbor:"1,keyasint"`
	Attempt   int               `json:"attempt" cbor:"2,keyasint"`
	Request   Request           `json:"request" cbor:"3,keyasint"` // the very request that was selected with
	Blob      []byte            `json:"blob" cbor:"4,keyasint"`
	Instances [][]InstanceSpec  `json:"instances" cbor:"5,keyasint"` // per group; its length is the prefix
	Metadata  map[string]string `json:"metadata,omitempty" cbor:"6,keyasint,omitempty"`
	Commit    bool              `json:"commit,omitempty" cbor:"7,keyasint,omitempty"` // one zone alone takes part: hold and decide at once
}

// InstanceSpec is the identity of an instance before it has a host.
type InstanceSpec struct {
	ID   InstanceID `json:"id" cbor:"1,keyasint"`
	Name string     `json:"name" cbor:"2,keyasint"`
}

// HoldState is the life of a hold.
type HoldState string

// The hold states.
const (
	HoldAsking    HoldState = "asking" // claims of this zone are made; children have not all answered
	HoldHeld      HoldState = "held"   // prepared; waits for the decision and does not expire
	HoldCommitted HoldState = "committed"
	HoldReleased  HoldState = "released" // aborted, or given back after commit
)

// HoldAnswer is what became of a hold. Held and refused instances add up to
// those asked for.
type HoldAnswer struct {
	ID      HoldID       `json:"id" cbor:"1,keyasint"`
	State   HoldState    `json:"state" cbor:"2,keyasint"`
	Held    []InstanceID `json:"held" cbor:"3,keyasint"`
	Refused []InstanceID `json:"refused" cbor:"4,keyasint"`
}

// Decision is what the coordinator of a hold has decided.
type Decision string

// The decisions. Absence means abort (presumed abort).
const (
	DecisionPending Decision = "pending"
	DecisionCommit  Decision = "commit"
	DecisionAbort   Decision = "abort"
)

// DecisionAnswer answers a child that asks what became of a hold.
type DecisionAnswer struct {
	Decision Decision `cbor:"1,keyasint"`
}
