package leases

import (
	"fmt"

	"berth/api"
	"berth/raftstore/command"
)

// allotIDs gives a new lease and its reservations their ids.
func allotIDs(t *api.LeaseTerms) {
	t.ID = api.LeaseID(api.NewUUID())
	own := make([]api.Reservation, len(t.Reservations))
	for i, r := range t.Reservations {
		r.ID = api.ReservationID(api.NewUUID())
		own[i] = r
	}
	t.Reservations = own
}

// orderOf returns the order for the room of a lease: a group for each reservation. replaces
// is the order that it takes the place of, "" for a new lease. A lease without
// reservations needs none.
func orderOf(t *api.LeaseTerms, replaces api.ReservationID) (*command.BootTerms, error) {
	if len(t.Reservations) == 0 {
		return nil, nil //nolint:nilnil // no order, and nothing is wrong
	}
	o := &command.BootTerms{Name: string(t.ID), Request: api.Request{
		Reservation: api.NewReservationID(), Project: t.Project, User: t.User, Window: t.Window, Class: api.Firm,
		Zones: t.Zones, Reserves: true, Replaces: replaces, Shared: t.Shared, Maintenance: len(t.Hosts) > 0,
		Grace: t.Grace,
	}}
	for i := range t.Reservations {
		r := &t.Reservations[i]
		o.Request.Groups = append(o.Request.Groups, api.Group{
			Name: string(r.ID), Count: r.Max, Min: r.Min, ShareIdle: r.ShareIdle, Resources: r.Resources, Whole: r.Whole(), Flavor: r.Flavor,
			ExtraSpecs: r.ExtraSpecs, Traits: r.Traits, Hints: api.Hints{Query: r.Query, ForceHosts: t.Hosts},
		})
		if r.Affinity != nil {
			o.Request.Rules = append(o.Request.Rules, ruleOf(i, *r.Affinity))
		}
		o.Min += r.Min
		for n, id := range api.NewInstanceIDs(r.Max) {
			o.Instances = append(o.Instances, api.InstanceSpec{ID: id, Name: fmt.Sprintf("%s-%d", r.ID, n+1)})
		}
	}
	return o, o.Request.Validate()
}

// ruleOf returns the rule that puts all slots of a group on one host, or each on another.
func ruleOf(group int, together bool) api.Rule {
	if together {
		return api.Rule{Policy: api.Affinity, Groups: []int{group}}
	}
	return api.Rule{Policy: api.AntiAffinity, Groups: []int{group}, Max: 1}
}
