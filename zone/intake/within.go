package intake

import (
	"cmp"

	"berth/api"
)

// readReservation reads the hint that names the reservation of a lease. All instances of a
// boot run in one reservation or none does.
func (rd *reading) readReservation(part string, id api.ReservationID) error {
	switch within := &rd.order.Request.Within; {
	case id == "":
		return nil
	case !api.ValidName(string(id)):
		return api.CheckName(part+"reservation", string(id))
	case *within != "" && *within != id:
		return api.Errorf(api.CodeInvalid, "%sreservation: one boot runs in one reservation", part)
	default:
		*within = id
	}
	if l, ok := rd.v.LeaseWith(id); !ok || !l.MayUse(rd.caller.Project) {
		rd.noteMissing("%sreservation: there is no reservation %q; see GET /reservation/v1/leases", part, string(id))
	}
	return nil
}

// flavorFor returns the flavor of a group. The id of a reservation for instances is a flavor
// with its sizes: whoever boots with it runs in the reservation.
func (rd *reading) flavorFor(g *api.Group) (*api.Flavor, bool) {
	if f, ok := rd.v.Flavor(g.Flavor); ok {
		return f, true
	}
	id := api.ReservationID(g.Flavor)
	l, ok := rd.v.LeaseWith(id)
	if !ok || !l.MayUse(rd.caller.Project) {
		return nil, false
	}
	for i := range l.Terms.Reservations {
		r := &l.Terms.Reservations[i]
		if r.ID != id || r.Whole() {
			continue
		}
		if other := cmp.Or(rd.order.Request.Within, rd.reservation, id); other != id {
			rd.noteMissing("flavorRef: one boot runs in one reservation, not in %s and %s", other, id)
		}
		if r.Flavor != "" {
			g.Flavor = r.Flavor
		}
		rd.reservation = id
		return &api.Flavor{ID: g.Flavor, Resources: r.Resources, ExtraSpecs: r.ExtraSpecs}, true
	}
	return nil, false
}
