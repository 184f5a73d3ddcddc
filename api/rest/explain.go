package rest

import "berth/api"

// Explanation says, for one request, which zones were asked and why hosts that
// took no slot were refused.
type Explanation struct {
	Request     api.RequestID      `json:"request_id"`
	Reservation api.ReservationID  `json:"reservation_id"`
	Project     api.ProjectID      `json:"project_id"`
	Zone        string             `json:"zone"` // the zone that explains
	At          api.Instant        `json:"at"`
	State       api.BootState      `json:"state,omitempty"`  // of a boot
	Code        api.Code           `json:"code,omitempty"`   // of a boot that failed
	Reason      string             `json:"reason,omitempty"` // of a boot
	Groups      []GroupExplanation `json:"groups"`
	Zones       []ZoneOutcome      `json:"zones"`              // this zone first, then its children
	Attempts    []BootAttempt      `json:"attempts,omitempty"` // of a boot, all of them; groups and zones are of the last one
	Faults      []FaultCount       `json:"faults,omitempty"`   // of a boot: why instances are in ERROR
}

// FaultCount is how many live instances of a boot have one fault.
type FaultCount struct {
	Fault     string         `json:"fault"`
	Instances int            `json:"instances"`
	Example   api.InstanceID `json:"example"` // one of them
}

// GroupExplanation is what this zone's own hosts had for one group.
type GroupExplanation struct {
	Name     string       `json:"name,omitempty"`
	Flavor   api.FlavorID `json:"flavor,omitempty"`
	Wanted   int          `json:"wanted"`  // slots that were looked for
	Offered  int          `json:"offered"` // slots of the plan, in all zones
	Refusals Refusals     `json:"refusals"`
}

// BootAttempt is one attempt to hold slots. wanted == held + refused + short:
// refused by zones that had offered, or short because nobody offered.
type BootAttempt struct {
	Attempt   int           `json:"attempt"`
	Wanted    int           `json:"wanted"`
	Held      int           `json:"held"`
	Refused   int           `json:"refused"`
	Short     int           `json:"short"`
	Zones     []ZoneOutcome `json:"zones"`
	Refusals  []Refusals    `json:"refusals"`            // per group, of this zone's own hosts
	Offered   []Offer       `json:"offered,omitempty"`   // per group
	Contended bool          `json:"contended,omitempty"` // others, not decided yet, held room that was wanted
}

// Offer is how many slots one group wanted in an attempt, and how many the plan
// had.
type Offer struct {
	Wanted  int `json:"wanted"`
	Offered int `json:"offered"`
}

// ZoneOutcome is what one zone had for a request.
type ZoneOutcome struct {
	Zone     string     `json:"zone"`    // name of the link, or this zone's own name
	Outcome  string     `json:"outcome"` // answered, late, failed, paused or skipped
	Reason   string     `json:"reason,omitempty"`
	Wanted   int        `json:"wanted"`
	Offered  int        `json:"offered"`
	Short    int        `json:"short"`
	Taken    int        `json:"taken"`              // slots of the plan in that zone
	Cost     int64      `json:"cost"`               // the sum of their weights, as this zone sees them
	Refusals []Refusals `json:"refusals,omitempty"` // per group, of that zone and all below it; absent for this zone itself
}

// Refusals count, for one group, the hosts that each filter refused.
type Refusals struct {
	Considered int           `json:"considered"` // hosts looked at
	Offering   int           `json:"offering"`   // hosts that passed every filter
	Filters    []FilterCount `json:"filters,omitempty"`
	Advice     []Advice      `json:"advice,omitempty"` // changes that would have worked, the smallest first
	Limits     []FilterCount `json:"limits,omitempty"` // what keeps hosts that offered some slots from offering more
}

// FilterCount is how many hosts one filter refused.
type FilterCount struct {
	Filter string   `json:"filter"`
	Hosts  int      `json:"hosts"`
	Tier   api.Tier `json:"tier,omitempty"`          // invalid, not_allowed, never_fits, not_now or not_asked
	Names  []string `json:"hosts_by_name,omitempty"` // some of them, for admins of the zone only
}

// Advice is a change of a request that would have worked.
type Advice struct {
	Change string            `json:"change"`                   // count, amount, zone or drop
	Class  api.ResourceClass `json:"resource_class,omitempty"` // of amount
	Value  int64             `json:"value,omitempty"`          // the count, or the amount
	Name   string            `json:"name,omitempty"`           // the zone, or the filter whose demand to drop
}

// ExplanationOf returns the body of an explanation. Names of hosts are left out
// unless whole.
func ExplanationOf(e *api.Explanation, whole bool) Explanation {
	out := Explanation{
		Request: e.Request, Reservation: e.Reservation, Project: e.Project, Zone: e.Zone, At: e.At,
		State: e.State, Code: e.Code, Reason: e.Reason,
		Groups: each(e.Groups, func(g api.GroupTale) GroupExplanation {
			return GroupExplanation{g.Name, g.Flavor, g.Wanted, g.Offered, refusalsOf(g.Refusals)}
		}),
		Zones: each(e.Zones, zoneOutcomeOf), Attempts: each(e.Attempts, BootAttemptOf),
		Faults: each(e.Faults, func(f api.FaultCount) FaultCount { return FaultCount(f) }),
	}
	if whole {
		return out
	}
	for _, g := range out.Groups {
		for i := range g.Refusals.Filters {
			g.Refusals.Filters[i].Names = nil
		}
	}
	return out
}

// BootAttemptOf returns the body of one attempt of a boot.
func BootAttemptOf(a api.BootAttempt) BootAttempt {
	return BootAttempt{
		a.Attempt, a.Wanted, a.Held, a.Refused, a.Short, each(a.Zones, zoneOutcomeOf), each(a.Refusals, refusalsOf),
		each(a.Offered, func(o api.Offer) Offer { return Offer(o) }), a.Contended,
	}
}

func zoneOutcomeOf(o api.ZoneOutcome) ZoneOutcome {
	return ZoneOutcome{
		o.Zone, o.Outcome, o.Reason, o.Wanted, o.Offered, o.Short, o.Taken, o.Cost, each(o.Refusals, refusalsOf),
	}
}

func refusalsOf(r api.Refusals) Refusals {
	return Refusals{
		r.Considered, r.Offering, each(r.Filters, filterCountOf),
		each(r.Advice, func(a api.Advice) Advice { return Advice(a) }), each(r.Limits, filterCountOf),
	}
}

func filterCountOf(c api.FilterCount) FilterCount { return FilterCount(c) }

// each returns the bodies of a list of records, nil for nil.
func each[From, To any](list []From, of func(From) To) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i := range list {
		out[i] = of(list[i])
	}
	return out
}
