package api

import (
	"slices"
	"strings"
	"time"
)

// Limits of preemptible instances.
const (
	PreemptGraceMax     = time.Hour
	PreemptGraceDefault = time.Minute
	PreemptProjectsMax  = 1_000   // projects in one list of a PreemptRule
	RequeuedMax         = 100_000 // preempted instances of one zone that wait to be booted again

	RequeuePause    = time.Second // after the first try to boot preempted instances again; it doubles
	RequeuePauseMax = time.Minute
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

// NotProject begins the exception of one project from AllProjects.
const NotProject = "!"

// PreemptRule is what the operator of a zone says of preemptible instances.
type PreemptRule struct {
	// Grace is how long before the start of a lease its room is closed to preemptible
	// instances, and what they get to stop; at most PreemptGraceMax, 0 for
	// PreemptGraceDefault, below 0 for none.
	Grace time.Duration `cbor:"1,keyasint,omitempty"`
	Ways  []PreemptWay  `cbor:"2,keyasint,omitempty"` // that count here; none for PreemptByHint and PreemptByFlavor
	// Projects get preemptible instances alone, unless a boot opts out; AllProjects for all,
	// with "!name" for all but one. At most PreemptProjectsMax. So are the other two lists.
	Projects []ProjectID `cbor:"3,keyasint,omitempty"`
	// Allowed may have preemptible instances; none for all projects.
	Allowed []ProjectID `cbor:"4,keyasint,omitempty"`
	// Firm may ask that preemptible instances make room for a firm boot; admins may too.
	Firm []ProjectID `cbor:"5,keyasint,omitempty"`
	// Closed keeps parents from that.
	Closed bool `cbor:"6,keyasint,omitempty"`
}

// IsZero reports whether nothing is set.
func (r PreemptRule) IsZero() bool {
	return r.Grace == 0 && len(r.Ways)+len(r.Projects)+len(r.Allowed)+len(r.Firm) == 0 && !r.Closed
}

// Counts reports whether a way to ask counts in the zone.
func (r *PreemptRule) Counts(way PreemptWay) bool {
	if len(r.Ways) == 0 {
		return way == PreemptByHint || way == PreemptByFlavor
	}
	return slices.Contains(r.Ways, way)
}

// Allows reports whether a project may have preemptible instances.
func (r *PreemptRule) Allows(p ProjectID) bool {
	return len(r.Allowed) == 0 || hasProject(r.Allowed, p)
}

// Lists reports whether a project gets preemptible instances alone.
func (r *PreemptRule) Lists(p ProjectID) bool { return hasProject(r.Projects, p) }

// AllowsFirm reports whether a project may ask that preemptible instances make room.
func (r *PreemptRule) AllowsFirm(p ProjectID) bool { return hasProject(r.Firm, p) }

// hasProject reports whether a list of a PreemptRule has a project.
func hasProject(list []ProjectID, p ProjectID) bool {
	return (slices.Contains(list, p) || slices.Contains(list, AllProjects)) && !slices.Contains(list, NotProject+p)
}

// Validate returns an invalid-input error for the first field that no zone could follow.
func (r *PreemptRule) Validate() error {
	if r.Grace < -1 || r.Grace > PreemptGraceMax || r.Grace > 0 && r.Grace%time.Millisecond != 0 {
		return Errorf(CodeInvalid, "grace must be 1ms to %s, in whole milliseconds; 0s is none", PreemptGraceMax)
	}
	for n, w := range r.Ways {
		switch {
		case !w.Valid():
			return Errorf(CodeInvalid, "ways: %q is none of hint, flavor, image and project", string(w))
		case slices.Contains(r.Ways[:n], w):
			return Errorf(CodeInvalid, "ways: %s is there twice", w)
		}
	}
	for _, l := range []struct {
		name string
		list []ProjectID
	}{{"projects", r.Projects}, {"allowed_projects", r.Allowed}, {"firm_projects", r.Firm}} {
		if err := validateProjects(l.name, l.list); err != nil {
			return err
		}
	}
	return nil
}

// validateProjects checks one list of a PreemptRule.
func validateProjects(field string, list []ProjectID) error {
	if len(list) > PreemptProjectsMax {
		return Errorf(CodeInvalid, "%s may name at most %d projects, got %d", field, PreemptProjectsMax, len(list))
	}
	seen, all := map[ProjectID]bool{}, slices.Contains(list, AllProjects)
	for _, p := range list {
		bare, not := strings.CutPrefix(string(p), NotProject)
		if p != AllProjects && !ValidName(bare) {
			return CheckName(field, bare)
		}
		if seen[ProjectID(bare)] {
			return Errorf(CodeInvalid, "%s: %s is there twice", field, bare)
		}
		if not && !all {
			return Errorf(CodeInvalid, "%s: %s is an exception from %s, which the list needs too", field, p, AllProjects)
		}
		seen[ProjectID(bare)] = true
	}
	return nil
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
	// Stays says why the instance is not booted again although it asked for that; "" if it is,
	// or will be when it is gone.
	Stays RequeueRefusal `cbor:"5,keyasint,omitempty"`
}

// RequeueRefusal is a reason not to boot a preempted instance again.
type RequeueRefusal string

// The reasons.
const (
	RequeueFull  RequeueRefusal = "full"  // RequeuedMax instances wait already
	RequeueEnded RequeueRefusal = "ended" // its owner has ended it
)

// PreemptNotice tells an agent that an instance must leave.
type PreemptNotice struct {
	Left   time.Duration `cbor:"1,keyasint,omitempty"` // until it is ended hard, from the answer on; 0 for at once
	Quiet  bool          `cbor:"2,keyasint,omitempty"` // it is not asked to stop before
	For    ReservationID `cbor:"3,keyasint"`           // see Eviction
	Lease  bool          `cbor:"4,keyasint,omitempty"`
	Action PreemptAction `cbor:"5,keyasint"`
}

// validatePreempt checks what a request says of preemptible instances.
func (r *Request) validatePreempt() error {
	switch {
	case r.Grace < 0 || r.Grace > PreemptGraceMax || r.Grace%time.Millisecond != 0:
		return Errorf(CodeInvalid, "grace must be 1ms to %s, in whole milliseconds", PreemptGraceMax)
	case r.Grace != 0 && !r.Reserves:
		return Errorf(CodeInvalid, "only what is reserved has a grace")
	case !r.Reserves && slices.ContainsFunc(r.Groups, func(g Group) bool { return g.ShareIdle }):
		return Errorf(CodeInvalid, "only what is reserved can be shared while it is idle")
	case r.OnPreempt != "" && !r.OnPreempt.Valid():
		return Errorf(CodeInvalid, "on_preempt must be %s, %s or %s", PreemptStop, PreemptNotify, PreemptRequeue)
	case r.Way != "" && !r.Way.Valid():
		return Errorf(CodeInvalid, "%q is no way to ask for preemptible instances", string(r.Way))
	case r.Class == Preemptible && r.Preempt:
		return Errorf(CodeInvalid, "preempt is for firm instances: preemptible ones never make others leave")
	case r.Class == Preemptible && r.Within != "":
		return Errorf(CodeInvalid, "preemptible instances cannot be booted within a reservation")
	case r.Class == Preemptible:
		return nil
	case r.OnPreempt != "" || r.Way != "":
		return Errorf(CodeInvalid, "on_preempt is for preemptible instances alone")
	case r.Preempt && (r.Reserves || r.Within != ""):
		return Errorf(CodeInvalid, "preempt is for boots outside of reservations: room of leases is free when they start")
	}
	return nil
}
