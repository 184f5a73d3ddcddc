package api

// BootState is the life of a boot as its caller sees it.
type BootState string

// The boot states. ACTIVE, DEGRADED, ERROR, FAILED and RELEASED are outcomes.
const (
	BootAccepted  BootState = "ACCEPTED"  // recorded; nothing is held yet
	BootHolding   BootState = "HOLDING"   // slots are being held
	BootBuilding  BootState = "BUILDING"  // decided: commit; instances are being started
	BootActive    BootState = "ACTIVE"    // every instance has run
	BootDegraded  BootState = "DEGRADED"  // every instance was decided; some failed, and others run or have run
	BootError     BootState = "ERROR"     // every instance was decided, and each that is left failed: nothing runs
	BootReleasing BootState = "RELEASING" // being released
	BootReleased  BootState = "RELEASED"  // released at the caller's request; nothing is left
	BootFailed    BootState = "FAILED"    // fewer than min_count could be held; nothing was started
)

// Outcome reports whether s is an outcome, which ends a caller's wait.
func (s BootState) Outcome() bool {
	switch s {
	case BootActive, BootDegraded, BootError, BootReleased, BootFailed:
		return true
	case BootAccepted, BootHolding, BootBuilding, BootReleasing:
		return false
	}
	return false
}

// BootAttempt describes one attempt to hold slots. Wanted == Held + Refused + Short:
// refused slots were offered by a zone that then refused them, short ones not offered.
type BootAttempt struct {
	Attempt  int           `cbor:"1,keyasint"`
	Wanted   int           `cbor:"2,keyasint"`
	Held     int           `cbor:"3,keyasint"`
	Refused  int           `cbor:"4,keyasint"`
	Short    int           `cbor:"5,keyasint"`
	Zones    []ZoneOutcome `cbor:"6,keyasint"`
	Refusals []Refusals    `cbor:"7,keyasint"`
	Offered  []Offer       `cbor:"8,keyasint,omitempty"` // per group
	// Contended reports that undecided requests of others held some of the room.
	Contended bool `cbor:"9,keyasint,omitempty"`
}

// Offer is the number of slots that one group wanted in an attempt, and the number in
// the plan.
type Offer struct {
	Wanted  int `cbor:"1,keyasint"`
	Offered int `cbor:"2,keyasint"`
}
