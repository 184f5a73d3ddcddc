package reservation

import (
	"net/http"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/zone/estimate"
	"berth/zone/leases"
)

// planLease is POST /leases/plan: a dry run of POST /leases.
func (d *dialect) planLease(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	who := door.Caller(r)
	t, err := d.newTerms(d.Zone.View()).readLease(body)
	if err != nil {
		return err
	}
	p, err := d.leases.Plan(r.Context(), who, t)
	if err != nil {
		return err
	}
	d.View(w)
	return sendPlan(w, p, false, who.Allows(api.RoleAdmin))
}

// planUpdate is POST /leases/{id}/plan: a dry run of PUT /leases/{id}.
func (d *dialect) planUpdate(w http.ResponseWriter, r *http.Request) error {
	body, err := openstack.ReadFields(r)
	if err != nil {
		return err
	}
	v := d.Zone.View()
	l, err := d.ownLeaseOf(v, r)
	if err != nil {
		return err
	}
	change, err := d.newTerms(v).readChange(body, &l.Terms)
	if err != nil {
		return err
	}
	who := door.Caller(r)
	p, err := d.leases.PlanUpdate(r.Context(), who, l.Terms.ID, *change)
	if err != nil {
		return err
	}
	d.View(w)
	return sendPlan(w, p, true, who.Allows(api.RoleAdmin))
}

// sendPlan answers with a dry run; with whole it names hosts that were turned away.
func sendPlan(w http.ResponseWriter, p *leases.Planned, named, whole bool) error {
	out := rest.LeasePlan{
		Fits: p.Fits, Start: rest.LeaseTime(p.Terms.Window.Start), End: rest.LeaseTime(p.Terms.Window.End), Held: p.Held, Contended: p.Contended,
		Unasked:      p.Unasked,
		Reservations: make([]rest.ReservationPlan, 0, len(p.Reservations)), Zones: rest.PlanZonesOf(p.Zones),
	}
	if p.Reason != "" {
		out.Reason = &p.Reason
	}
	for i, got := range p.Reservations {
		r := &p.Terms.Reservations[i]
		one := rest.ReservationPlan{
			Type: r.Type, Fits: got.Offered >= r.Min, Min: r.Min, Max: r.Max, WouldGet: got.Offered,
			Places: placesOf(got.Places), Refusals: rest.RefusalsOf(got.Refusals, whole),
		}
		if named {
			one.ID = r.ID
		}
		out.Reservations = append(out.Reservations, one)
	}
	return openstack.Answer(w, http.StatusOK, map[string]rest.LeasePlan{"plan": out})
}

// placesOf returns in which zones a reservation would be.
func placesOf(places []estimate.ZoneCount) []rest.ZoneCount {
	out := make([]rest.ZoneCount, 0, len(places))
	for _, z := range places {
		out = append(out, rest.ZoneCount{Zone: z.Zone, Count: z.Slots})
	}
	return out
}
