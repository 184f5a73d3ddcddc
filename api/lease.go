package api

import "time"

// Limits of leases.
const (
	LeasesMax           = 100_000        // leases of one zone
	ReservationsMax     = GroupsMax      // reservations of one lease
	LeaseNameMax        = 80             // characters of a lease's name
	SharedProjectsMax   = 64             // projects that a lease is shared with
	LeaseDurationMax    = WindowMax      // of one lease
	LeaseLeadMax        = 10 * WindowMax // from now to the start of a lease; before FormFifth a parent may ask for WindowMax
	CleaningMax         = 24 * time.Hour
	PropertiesMaxBytes  = QueryMaxBytes // of a condition on hosts, as text
	ReservedPerLinkMax  = 100_000       // slots of leases that one parent may have here
	LeaseEventsMax      = 4             // events of one lease
	LeaseReasonMaxBytes = 512           // of the reason of an ERROR
	LeaseExemptMax      = 1_000         // projects that an operator's policy for leases does not hold for
	OccurrencesMax      = 400           // leases of one series
	SeriesMax           = 10_000        // series of one zone
	SeriesSlotsMax      = CountMax      // hosts and instances of all leases of one series
)

// LeaseID names a lease; a random UUID.
type LeaseID string

// SeriesID names a series of leases; a random UUID.
type SeriesID string

// Repeat says when the leases of a series take place.
type Repeat struct {
	Rule     string `cbor:"1,keyasint"` // see package lease/recur
	TimeZone string `cbor:"2,keyasint"` // of the IANA database, such as Europe/Berlin
}

// SeriesStatus is the life of a series of leases. Each of its leases has its own.
type SeriesStatus string

// The statuses of a series.
const (
	SeriesCreating SeriesStatus = "CREATING" // the room of its leases is being held
	SeriesReady    SeriesStatus = "READY"    // all its leases were made
	SeriesDeleting SeriesStatus = "DELETING" // it goes with the last of its leases
)

// LeaseStatus is the life of a lease as its owner sees it.
type LeaseStatus string

// The statuses of a lease. PENDING, ACTIVE, TERMINATED and ERROR are stable.
const (
	LeaseCreating    LeaseStatus = "CREATING"    // its room is being held
	LeasePending     LeaseStatus = "PENDING"     // all room is held; the window has not begun
	LeaseStarting    LeaseStatus = "STARTING"    // the window has begun; some room is not free yet
	LeaseActive      LeaseStatus = "ACTIVE"      // the room may be used
	LeaseTerminating LeaseStatus = "TERMINATING" // the window has ended; instances in it are ending
	LeaseTerminated  LeaseStatus = "TERMINATED"  // the window has ended and nothing is left of it
	LeaseUpdating    LeaseStatus = "UPDATING"    // room for its new terms is being held
	LeaseDeleting    LeaseStatus = "DELETING"    // being deleted; the record goes when nothing is left
	LeaseError       LeaseStatus = "ERROR"       // it failed; Reason is why
)

// Stable reports whether s lasts until somebody or the clock changes it.
func (s LeaseStatus) Stable() bool {
	return s == LeasePending || s == LeaseActive || s == LeaseTerminated || s == LeaseError
}

// LeaseEventType is what an event of a lease does.
type LeaseEventType string

// The types of events. At one instant before_end comes first, then end, then start.
const (
	EventStartLease       LeaseEventType = "start_lease"
	EventBeforeStartLease LeaseEventType = "before_start_lease"
	EventBeforeEndLease   LeaseEventType = "before_end_lease"
	EventEndLease         LeaseEventType = "end_lease"
)

// LeaseEventStatus is how far an event is.
type LeaseEventStatus string

// The statuses of an event.
const (
	EventUndone     LeaseEventStatus = "UNDONE"
	EventInProgress LeaseEventStatus = "IN_PROGRESS"
	EventDone       LeaseEventStatus = "DONE"
	EventError      LeaseEventStatus = "ERROR"
)

// LeaseEvent is one step in the life of a lease.
type LeaseEvent struct {
	ID      string           `cbor:"1,keyasint"` // a random UUID
	Type    LeaseEventType   `cbor:"2,keyasint"`
	Time    Instant          `cbor:"3,keyasint"` // when it is due
	Status  LeaseEventStatus `cbor:"4,keyasint"`
	Created Instant          `cbor:"5,keyasint"`
	Updated Instant          `cbor:"6,keyasint,omitempty"` // of the last change of Time or Status; 0 for none
}

// ReservationType is what a reservation reserves.
type ReservationType string

// The types of reservations.
const (
	ReserveHosts     ReservationType = "physical:host"    // whole hosts
	ReserveInstances ReservationType = "virtual:instance" // room for instances of one size
	ReserveFlavor    ReservationType = "flavor:instance"  // room for instances of a flavor
)

// ReservationStatus is the life of a reservation.
type ReservationStatus string

// The statuses of a reservation.
const (
	ReservationPending ReservationStatus = "pending"
	ReservationActive  ReservationStatus = "active"
	ReservationDeleted ReservationStatus = "deleted"
	ReservationError   ReservationStatus = "error"
)

// Reservation is one part of a lease: whole hosts, or room for instances of one size.
type Reservation struct {
	ID   ReservationID   `cbor:"1,keyasint"` // a random UUID; unique in the zone
	Type ReservationType `cbor:"2,keyasint"`
	// Min and Max are how many hosts or slots it must and may have. For instances both are
	// the amount.
	Min       int       `cbor:"3,keyasint"`
	Max       int       `cbor:"4,keyasint"`
	Resources Resources `cbor:"5,keyasint,omitempty"` // of one slot; nil for whole hosts
	// Affinity puts all slots on one host (true), each on another (false), or anywhere (nil).
	Affinity             *bool             `cbor:"6,keyasint,omitempty"`
	HypervisorProperties string            `cbor:"7,keyasint,omitempty"` // condition on hosts, as sent
	ResourceProperties   string            `cbor:"8,keyasint,omitempty"` // condition on hosts, as sent
	Query                string            `cbor:"9,keyasint,omitempty"` // both conditions; see Hints.Query
	BeforeEnd            string            `cbor:"10,keyasint,omitempty"`
	Flavor               FlavorID          `cbor:"11,keyasint,omitempty"` // of ReserveFlavor
	ExtraSpecs           map[string]string `cbor:"12,keyasint,omitempty"` // of that flavor
	Traits               Traits            `cbor:"13,keyasint,omitzero"`  // of that flavor
	ShareIdle            bool              `cbor:"14,keyasint,omitempty"` // see Group.ShareIdle
}

// Whole reports whether r reserves whole hosts.
func (r *Reservation) Whole() bool { return r.Type == ReserveHosts }

// The actions shortly before the end of a lease.
const (
	BeforeEndDefault  = "default"  // what the zone has configured
	BeforeEndSnapshot = "snapshot" // make an image of every instance
	BeforeEndNotify   = "notify"   // call the webhooks of the project
)

// LeaseTerms are what the owner of a lease has asked for.
type LeaseTerms struct {
	ID           LeaseID       `cbor:"1,keyasint"`
	Name         string        `cbor:"2,keyasint,omitempty"` // need not be unique
	Project      ProjectID     `cbor:"3,keyasint"`
	User         UserID        `cbor:"4,keyasint,omitempty"`
	Window       Window        `cbor:"5,keyasint"`           // has an end
	BeforeEnd    Instant       `cbor:"6,keyasint,omitempty"` // when before_end_lease is due; 0 for no such event
	Reservations []Reservation `cbor:"7,keyasint,omitempty"` // at most ReservationsMax
	Zones        ZoneRule      `cbor:"8,keyasint,omitzero"`
	Shared       []ProjectID   `cbor:"9,keyasint,omitempty"`  // projects of the same zone that may use it; sorted
	Series       SeriesID      `cbor:"10,keyasint,omitempty"` // that it is part of; "" for none
	// Hosts are the names of the hosts of a maintenance lease, all in its own zone; nil for
	// any other. It has one reservation, of as many whole hosts.
	Hosts []string `cbor:"11,keyasint,omitempty"` // at most MaintenanceMax
	// Grace is asked for by its owner; see Request.Grace. 0 for that of each zone.
	Grace time.Duration `cbor:"12,keyasint,omitempty"`
}

// LeaseRule is what the operator of a zone allows of the leases that are made there. The zero
// LeaseRule allows everything.
type LeaseRule struct {
	Longest   time.Duration `cbor:"1,keyasint,omitempty"` // of one lease; exactly as long is allowed. 0 for no limit
	Extension time.Duration `cbor:"2,keyasint,omitempty"` // how long before its end a lease may be extended beyond Longest; 0 for never
	Exempt    []ProjectID   `cbor:"3,keyasint,omitempty"` // projects that Longest does not hold for; at most LeaseExemptMax
	Lead      time.Duration `cbor:"4,keyasint,omitempty"` // from now to the start; 0 for LeaseLeadMax
	BeforeEnd time.Duration `cbor:"5,keyasint,omitempty"` // default distance of before_end_lease to the end; 0 for DefaultBeforeEnd, below 0 for no such event
	// Cleaning is how long a host of leases stays free after each window, at most
	// CleaningMax. A host takes a change of it when nothing is claimed of it.
	Cleaning time.Duration `cbor:"6,keyasint,omitempty"`
	Check    LeaseCheck    `cbor:"7,keyasint,omitzero"` // asked before a lease is made or changed
}

// BeforeEndDistance returns how long before the end of a lease its before_end_lease event is,
// unless its owner asks for another time; 0 for no such event.
func (r *LeaseRule) BeforeEndDistance() time.Duration {
	if r.BeforeEnd == 0 {
		return DefaultBeforeEnd
	}
	return max(r.BeforeEnd, 0)
}

// StartWithin is how long the room of a lease may stay in use by others after the start of the
// window. After that it counts as missing, and other room is looked for.
const StartWithin = 10 * time.Minute

// DefaultBeforeEnd is how long before its end a lease has its before_end_lease event,
// unless its owner or the zone's configuration says otherwise.
const DefaultBeforeEnd = time.Hour

// LeaseChange is what the owner of a lease wants changed; nil leaves as is.
type LeaseChange struct {
	Name         *string
	Start        *Instant
	End          *Instant
	BeforeEnd    *Instant // 0 for no such event
	Shared       *[]ProjectID
	Grace        *time.Duration // 0 for that of each zone
	ShareIdle    *bool          // of all reservations, unless one says itself
	Reservations []ReservationChange
}

// ReservationChange is what its owner wants changed in one reservation; nil leaves as is.
type ReservationChange struct {
	ID                   ReservationID
	Type                 *ReservationType // only the same
	Min                  *int
	Max                  *int
	Resources            *Resources
	Affinity             **bool
	HypervisorProperties *string
	ResourceProperties   *string
	Query                *string // goes with the two conditions
	BeforeEnd            *string
	ShareIdle            *bool
}
