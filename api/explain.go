package api

import "time"

// How long and how many explanations a node keeps in memory.
const (
	ExplainKept = 15 * time.Minute
	ExplainMax  = 1000
)

// Explanation tells, for one request, where hosts were looked for and why those
// that took no slot did not. A boot's is read from its record and outlives the
// node; that of an estimate is kept by the node that made it, for ExplainKept.
type Explanation struct {
	Request     RequestID
	Reservation ReservationID
	Project     ProjectID
	Zone        string // the zone that tells
	At          Instant
	State       BootState // of a boot
	Code        Code      // of a boot that failed
	Reason      string    // of a boot
	Groups      []GroupTale
	Zones       []ZoneOutcome // this zone first, then its children
	Attempts    []BootAttempt // of a boot, all of them; Groups and Zones are the last
	Faults      []FaultCount  // of a boot: why instances are in ERROR
}

// FaultCount is how many live instances of a boot have one fault.
type FaultCount struct {
	Fault     string
	Instances int
	Example   InstanceID // one of them
}

// GroupTale is what this zone's own hosts had for one group. Wanted is how many
// slots were looked for, Offered how many the plan has in all zones.
type GroupTale struct {
	Name     string
	Flavor   FlavorID
	Wanted   int
	Offered  int
	Refusals Refusals
}
