package api

import "time"

// Limits of preemptible instances.
const (
	PreemptGraceMax     = time.Hour
	PreemptGraceDefault = time.Minute
	PreemptProjectsMax  = 1_000   // projects in one list of a PreemptRule
	RequeuedMax         = 100_000 // preempted instances of one zone that wait to be booted again
)

// PreemptAction is what becomes of a preemptible instance whose room is needed.
type PreemptAction string

// The actions. Each instance gets a notice when the room is closed to it.
const (
	PreemptStop    PreemptAction = "stop"    // it is asked to stop at once, and ended at its deadline
	PreemptNotify  PreemptAction = "notify"  // it may go on until its deadline, and is ended then
	PreemptRequeue PreemptAction = "requeue" // as stop, and it is booted again when there is room
)

// Valid reports whether a is one of the actions.
func (a PreemptAction) Valid() bool {
	return a == PreemptStop || a == PreemptNotify || a == PreemptRequeue
}

// PreemptWay is a way to ask for preemptible instances.
type PreemptWay string

// The ways, in order of precedence: the first that applies is the one that is shown.
const (
	PreemptByHint    PreemptWay = "hint"    // scheduler hint preemptible=true; preemptible=false opts out of the project list
	PreemptByFlavor  PreemptWay = "flavor"  // extra spec SpecPreemptible
	PreemptByImage   PreemptWay = "image"   // image property SpecPreemptible
	PreemptByProject PreemptWay = "project" // the project is in the list of the zone
)

// SpecPreemptible is the extra spec of a flavor, and the property of an image, that asks for
// preemptible instances if it is true.
const SpecPreemptible = "blazar:preemptible"

// PreemptWays returns every way, in order of precedence.
func PreemptWays() []PreemptWay {
	return []PreemptWay{PreemptByHint, PreemptByFlavor, PreemptByImage, PreemptByProject}
}

// Valid reports whether w is one of the ways.
func (w PreemptWay) Valid() bool {
	return w == PreemptByHint || w == PreemptByFlavor || w == PreemptByImage || w == PreemptByProject
}

// AllProjects stands for every project in a list of a PreemptRule.
const AllProjects ProjectID = "*"

// PreemptRule is what the operator of a zone says of preemptible instances.
type PreemptRule struct {
	// Grace is how long before the start of a lease its room is closed to preemptible
	// instances, and what they get to stop; at most PreemptGraceMax, 0 for
	// PreemptGraceDefault, below 0 for none.
	Grace time.Duration `cbor:"1,keyasint,omitempty"`
	Ways  []PreemptWay  `cbor:"2,keyasint,omitempty"` // that count here; none for PreemptByHint and PreemptByFlavor
	// Projects get preemptible instances alone, unless a boot opts out; AllProjects for all,
	// "!name" for all but one. At most PreemptProjectsMax.
	Projects []ProjectID `cbor:"3,keyasint,omitempty"`
	// Allowed may have preemptible instances; none for all projects. At most PreemptProjectsMax.
	Allowed []ProjectID `cbor:"4,keyasint,omitempty"`
	// Firm may ask that preemptible instances make room for a firm boot; admins may too. At
	// most PreemptProjectsMax.
	Firm []ProjectID `cbor:"5,keyasint,omitempty"`
	// Closed keeps parents from that.
	Closed bool `cbor:"6,keyasint,omitempty"`
}

// IsZero reports whether nothing is set.
func (r PreemptRule) IsZero() bool {
	return r.Grace == 0 && len(r.Ways)+len(r.Projects)+len(r.Allowed)+len(r.Firm) == 0 && !r.Closed
}

// GraceOf returns the grace of the room of a lease whose owner asks for one.
func (r *PreemptRule) GraceOf(asked time.Duration) time.Duration {
	own := max(r.Grace, 0)
	if r.Grace == 0 {
		own = PreemptGraceDefault
	}
	return max(own, asked)
}

// Eviction says why a preemptible instance must leave, and until when.
type Eviction struct {
	For   ReservationID `cbor:"1,keyasint"`           // the reservation of a lease, or the boot, that needs the room
	Lease bool          `cbor:"2,keyasint,omitempty"` // For is a reservation of a lease
	At    Instant       `cbor:"3,keyasint"`           // when it was told
	By    Instant       `cbor:"4,keyasint"`           // its deadline
}

// PreemptNotice tells an agent that an instance must leave.
type PreemptNotice struct {
	Left   time.Duration `cbor:"1,keyasint,omitempty"` // until it is ended hard, from the answer on; 0 for at once
	Quiet  bool          `cbor:"2,keyasint,omitempty"` // it is not asked to stop before
	For    ReservationID `cbor:"3,keyasint"`           // see Eviction
	Lease  bool          `cbor:"4,keyasint,omitempty"`
	Action PreemptAction `cbor:"5,keyasint"`
}
