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
