package api

import "time"

// The number of explanations that a node keeps in memory, in all and of one project, and for how long.
// All projects of parents count as one.
const (
	ExplainKept       = 15 * time.Minute
	ExplainMax        = 1000
	ExplainProjectMax = 100
)

// Explanation lists, for one request, the zones that took part and the reasons why hosts
// took no slot. That of a boot is read from its record and outlives the node; that of an
// estimate is kept for ExplainKept by the node that made it.
type Explanation struct {
	Request     RequestID
	Reservation ReservationID
	Project     ProjectID
	Zone        string // the zone that explains
	At          Instant
	State       BootState // of a boot
	Code        Code      // of a boot that failed
	Reason      string    // of a boot
	Groups      []GroupTale
	Zones       []ZoneOutcome // this zone first, then its children
	Attempts    []BootAttempt // all attempts of a boot; Groups and Zones are about the last one
	Faults      []FaultCount  // faults of the instances of a boot that are in ERROR
	Bindings    []BindingUse  // what it is bound to, or was to be
}

// BindingUse is the binding that a request used, made or moved, for one key.
type BindingUse struct {
	Key  BindingKey
	Zone string        // that it is bound to
	Was  string        // that it was bound to before; "" for none, and if that has not changed
	Why  BindingReason // of the change; "" if it was bound there already
}

// FaultCount counts the live instances of a boot with one fault.
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
