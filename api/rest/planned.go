package rest

import "berth/api"

// LeasePlan is the dry run of a new lease, or of an update of one.
type LeasePlan struct {
	Fits         bool              `json:"fits"`
	Reason       *string           `json:"reason"` // why it does not fit; null if it does
	Start        LeaseTime         `json:"start_date"`
	End          LeaseTime         `json:"end_date"`
	Held         bool              `json:"needs_no_room"` // beside what the lease has: nothing was planned
	Contended    bool              `json:"contended"`     // undecided requests of others hold room that it could use
	Unasked      bool              `json:"not_checked"`   // the external service of the zone, which may refuse it, was not asked
	Reservations []ReservationPlan `json:"reservations"`
	Zones        []PlanZone        `json:"zones"` // this zone first, then its children
}

// PlanZone is the part of one zone in a dry run.
type PlanZone struct {
	Zone     string     `json:"zone"`    // name of the link, or this zone's own name
	Outcome  string     `json:"outcome"` // answered, late, failed, paused or skipped
	Reason   string     `json:"reason,omitempty"`
	WouldGet int        `json:"would_get"`          // hosts and slots there
	Refusals []Refusals `json:"refusals,omitempty"` // per reservation, for that zone and all below it; absent for this zone itself
}

// ReservationPlan is what one reservation would get.
type ReservationPlan struct {
	ID       api.ReservationID   `json:"id,omitempty"` // only for an update
	Type     api.ReservationType `json:"resource_type"`
	Fits     bool                `json:"fits"`
	Min      int                 `json:"min"` // hosts or slots that it must have
	Max      int                 `json:"max"`
	WouldGet int                 `json:"would_get"`
	Places   []ZoneCount         `json:"zones"` // those with hosts or slots of it
	Refusals Refusals            `json:"refusals"`
}

// ZoneCount is a number of hosts or slots in a zone and all below it.
type ZoneCount struct {
	Zone  string `json:"zone"`
	Count int    `json:"count"`
}

// RefusalsOf returns the body of refusals. It has names of hosts only if whole is set.
func RefusalsOf(r api.Refusals, whole bool) Refusals {
	out := refusalsOf(r)
	for i := range out.Filters {
		if !whole {
			out.Filters[i].Names = nil
		}
	}
	return out
}

// PlanZonesOf returns the parts of zones in a dry run.
func PlanZonesOf(all []api.ZoneOutcome) []PlanZone {
	out := make([]PlanZone, 0, len(all))
	for _, z := range all {
		out = append(out, PlanZone{z.Zone, z.Outcome, z.Reason, z.Taken, each(z.Refusals, refusalsOf)})
	}
	return out
}

// LeaseQuestion asks when a lease would fit.
type LeaseQuestion struct {
	Earliest     LeaseDate         `json:"earliest,omitempty"` // first start; default: now
	Latest       LeaseDate         `json:"latest,omitempty"`   // last end; default: 14 days after the earliest start
	Minutes      int64             `json:"minutes"`            // length of the lease
	Zones        []string          `json:"zones,omitempty"`    // default: all
	Reservations []ReservationSpec `json:"reservations"`       // as of a lease to create
}

// Availability is when a lease would fit. Nothing is held for it.
type Availability struct {
	Earliest     *LeaseTime             `json:"earliest"` // first start that fits and that quotas allow; null for none
	Reason       *string                `json:"reason"`   // why quotas allow none of the starts that fit; null if they do
	Windows      []LeaseWindow          `json:"windows"`  // of starts that fit, each with its start and without its end
	Until        LeaseTime              `json:"looked_until"`
	Complete     bool                   `json:"complete"`     // all starts were looked at, and all zones answered
	Estimate     bool                   `json:"estimate"`     // zones below have a part in it
	Reservations []AvailableReservation `json:"reservations"` // at the earliest start
	Zones        []RoomZone             `json:"zones"`        // this zone first, then its children
	Instead      []AvailabilityInstead  `json:"instead"`      // what would fit if nothing does
}

// LeaseWindow is a window of time: its start is in it, its end is not.
type LeaseWindow struct {
	Start LeaseTime `json:"start_date"`
	End   LeaseTime `json:"end_date"`
}

// AvailableReservation is what a reservation would get at the earliest start.
type AvailableReservation struct {
	Type     api.ReservationType `json:"resource_type"`
	Min      int                 `json:"min"`
	Max      int                 `json:"max"`
	WouldGet int                 `json:"would_get"`
	Places   []ZoneCount         `json:"zones"`
}

// RoomZone is the part of one zone in a search for room.
type RoomZone struct {
	Zone    string     `json:"zone"`    // name of the link, or this zone's own name
	Outcome string     `json:"outcome"` // answered, late, failed, paused or skipped
	Reason  string     `json:"reason,omitempty"`
	Until   *LeaseTime `json:"looked_until"` // null if it did not answer
}

// AvailabilityInstead is a lease that would fit in place of the one that was asked for.
type AvailabilityInstead struct {
	Change string `json:"change"` // fewer, shorter or later
	LeaseWindow
	Amounts []int `json:"amounts,omitempty"` // of each reservation, for fewer
}
