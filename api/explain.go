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
	Request     RequestID     `json:"request_id"`
	Reservation ReservationID `json:"reservation_id"`
	Project     ProjectID     `json:"project_id"`
	Zone        string        `json:"zone"` // the zone that tells
	At          Instant       `json:"at"`
	State       BootState     `json:"state,omitempty"`  // of a boot
	Code        Code          `json:"code,omitempty"`   // of a boot that failed
	Reason      string        `json:"reason,omitempty"` // of a boot
	Groups      []GroupTale   `json:"groups"`
	Zones       []ZoneOutcome `json:"zones"`              // this zone first, then its children
	Attempts    []BootAttempt `json:"attempts,omitempty"` // of a boot, all of them; Groups and Zones are the last
	Faults      []FaultCount  `json:"faults,omitempty"`   // of a boot: why instances are in ERROR
}

// FaultCount is how many live instances of a boot have one fault.
type FaultCount struct {
	Fault     string     `json:"fault"`
	Instances int        `json:"instances"`
	Example   InstanceID `json:"example"` // one of them
}

// GroupTale is what this zone's own hosts had for one group. Wanted is how many
// slots were looked for, Offered how many the plan has in all zones.
type GroupTale struct {
	Name     string   `json:"name,omitempty"`
	Flavor   FlavorID `json:"flavor,omitempty"`
	Wanted   int      `json:"wanted"`
	Offered  int      `json:"offered"`
	Refusals Refusals `json:"refusals"`
}
