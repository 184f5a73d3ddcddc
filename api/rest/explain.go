package rest

import "berth/api"

// Explanation lists the zones that took part in one request, and the reasons why hosts
// were refused.
type Explanation struct {
	Request     api.RequestID      `json:"request_id"`
	Reservation api.ReservationID  `json:"reservation_id"`
	Project     api.ProjectID      `json:"project_id"`
	Zone        string             `json:"zone"` // the zone that explains
	At          api.Instant        `json:"at"`
	State       api.BootState      `json:"state,omitempty"`  // only for a boot
	Code        api.Code           `json:"code,omitempty"`   // reason of a failed boot, for programs
	Reason      string             `json:"reason,omitempty"` // reason of a failed boot, for people
	Groups      []GroupExplanation `json:"groups"`
	Zones       []ZoneOutcome      `json:"zones"`              // this zone first, then its children
	Attempts    []BootAttempt      `json:"attempts,omitempty"` // all attempts of a boot; groups and zones are about the last one
	Faults      []FaultCount       `json:"faults,omitempty"`   // faults of the instances of a boot that are in ERROR
	Bindings    []BindingUse       `json:"bindings,omitempty"` // of what the project is bound for
}

// BindingUse is the zone that the project is bound to for new work, as the request used, made or
// moved it.
type BindingUse struct {
	AZ      string            `json:"availability_zone,omitempty"`
	Tags    []string          `json:"tags,omitempty"`
	Zone    string            `json:"zone"`
	Outcome string            `json:"outcome"`       // used, made or moved
	Was     string            `json:"was,omitempty"` // the zone before
	Why     api.BindingReason `json:"why,omitempty"` // of a change
}

func bindingUseOf(b api.BindingUse) BindingUse {
	out := BindingUse{AZ: b.Key.AZ, Tags: b.Key.Tags, Zone: b.Zone, Outcome: "used", Was: b.Was, Why: b.Why}
	switch {
	case b.Was != "":
		out.Outcome = "moved"
	case b.Why != "":
		out.Outcome = "made"
	}
	return out
}

// FaultCount counts the live instances of a boot with one fault.
type FaultCount struct {
	Fault     string         `json:"fault"`
	Instances int            `json:"instances"`
	Example   api.InstanceID `json:"example"` // one of them
}

// GroupExplanation describes the offer of this zone's own hosts for one group.
type GroupExplanation struct {
	Name     string       `json:"name,omitempty"`
	Flavor   api.FlavorID `json:"flavor,omitempty"`
	Wanted   int          `json:"wanted"`  // slots requested
	Offered  int          `json:"offered"` // slots of the plan, in all zones
	Refusals Refusals     `json:"refusals"`
}

// BootAttempt is one attempt to hold slots. wanted == held + refused + short: refused
// slots were offered by a zone that then refused them, short ones were not offered.
type BootAttempt struct {
	Attempt   int           `json:"attempt"`
	Wanted    int           `json:"wanted"`
	Held      int           `json:"held"`
	Refused   int           `json:"refused"`
	Short     int           `json:"short"`
	Zones     []ZoneOutcome `json:"zones"`
	Refusals  []Refusals    `json:"refusals"`            // per group, of this zone's own hosts
	Offered   []Offer       `json:"offered,omitempty"`   // per group
	Contended bool          `json:"contended,omitempty"` // undecided requests of others held some of the room
}

// Offer is the number of slots that one group wanted in an attempt, and the number in
// the plan.
type Offer struct {
	Wanted  int `json:"wanted"`
	Offered int `json:"offered"`
}

// ZoneOutcome is the part of one zone in a request.
type ZoneOutcome struct {
	Zone     string     `json:"zone"`    // name of the link, or this zone's own name
	Outcome  string     `json:"outcome"` // answered, late, failed, paused or skipped
	Reason   string     `json:"reason,omitempty"`
	Wanted   int        `json:"wanted"`
	Offered  int        `json:"offered"`
	Short    int        `json:"short"`
	Taken    int        `json:"taken"`              // slots of the plan in that zone
	Cost     int64      `json:"cost"`               // sum of their weights, as this zone sees them
	Refusals []Refusals `json:"refusals,omitempty"` // per group, for that zone and all below it; absent for this zone itself
}

// Refusals count, for one group, the hosts that each filter refused.
type Refusals struct {
	Considered int           `json:"considered"` // hosts examined
	Offering   int           `json:"offering"`   // hosts that passed every filter
	Filters    []FilterCount `json:"filters,omitempty"`
	Advice     []Advice      `json:"advice,omitempty"` // changes that would have worked, the smallest first
	Limits     []FilterCount `json:"limits,omitempty"` // reasons why hosts that offered some slots did not offer more

	Promised api.Instant `json:"promised_from,omitzero"` // when the first of the hosts counted as promised is promised to others; not for zones below
}

// FilterCount counts the hosts that one filter refused.
type FilterCount struct {
	Filter string   `json:"filter"`
	Hosts  int      `json:"hosts"`
	Tier   api.Tier `json:"tier,omitempty"`          // invalid, not_allowed, never_fits, not_now or not_asked
	Names  []string `json:"hosts_by_name,omitempty"` // some of them, for admins of the zone only
}

// Advice is a change of a request with which it would have succeeded.
type Advice struct {
	Change string            `json:"change"`                   // count, lifetime, amount, zone or drop
	Class  api.ResourceClass `json:"resource_class,omitempty"` // for the change amount
	Value  int64             `json:"value,omitempty"`          // the count, the amount, or seconds of the lifetime
	Name   string            `json:"name,omitempty"`           // the zone, or the filter whose condition to drop
}

// ExplanationOf returns the body of an explanation. It has names of hosts only if whole is
// set.
func ExplanationOf(e *api.Explanation, whole bool) Explanation {
	out := Explanation{
		Request: e.Request, Reservation: e.Reservation, Project: e.Project, Zone: e.Zone, At: e.At,
		State: e.State, Code: e.Code, Reason: e.Reason,
		Groups: each(e.Groups, func(g api.GroupTale) GroupExplanation {
			return GroupExplanation{g.Name, g.Flavor, g.Wanted, g.Offered, refusalsOf(g.Refusals)}
		}),
		Zones: each(e.Zones, zoneOutcomeOf), Attempts: each(e.Attempts, BootAttemptOf),
		Faults: each(e.Faults, func(f api.FaultCount) FaultCount { return FaultCount(f) }), Bindings: each(e.Bindings, bindingUseOf),
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
		each(r.Advice, func(a api.Advice) Advice { return Advice(a) }), each(r.Limits, filterCountOf), r.Promised,
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
