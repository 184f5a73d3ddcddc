package reservation

import (
	"net/http"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/openstack"
	"berth/raftstore/state"
)

// allotted returns what leases have of a host; keep chooses among the slots.
func (d *dialect) allotted(v *state.State, h *state.Host, keep func(Slot) bool) rest.LeaseAllocation {
	out := rest.LeaseAllocation{Resource: numberOf(h.ID), Reservations: []rest.LeaseAllotment{}}
	for _, s := range d.book.Slots(v, h.ID) {
		if keep(s) {
			out.Reservations = append(out.Reservations, rest.LeaseAllotment{
				ID: s.Reservation, Lease: s.Lease, Start: rest.LeaseTime(s.Window.Start), End: rest.LeaseTime(s.Window.End),
			})
		}
	}
	return out
}

// slotFilter reads which slots a call asks for; without a parameter, those that have not
// ended. Unknown parameters mean nothing, as in the original.
func slotFilter(now api.Instant, r *http.Request) func(Slot) bool {
	q := r.URL.Query()
	lease, reservation := api.LeaseID(q.Get("lease_id")), api.ReservationID(q.Get("reservation_id"))
	if lease == "" && reservation == "" {
		return func(s Slot) bool { return s.Window.End > now }
	}
	return func(s Slot) bool {
		return (lease == "" || s.Lease == lease) && (reservation == "" || s.Reservation == reservation)
	}
}

// listAllocations is GET /os-hosts/allocations. Hosts without slots are in the list.
func (d *dialect) listAllocations(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	keep := slotFilter(d.Zone.Instant(), r)
	out := []rest.LeaseAllocation{}
	for _, h := range managedHosts(v) {
		out = append(out, d.allotted(v, h, keep))
	}
	return openstack.Answer(w, http.StatusOK, map[string][]rest.LeaseAllocation{"allocations": out})
}

// showAllocation is GET /os-hosts/{id}/allocation.
func (d *dialect) showAllocation(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	h, err := hostOf(v, r)
	if err != nil {
		return err
	}
	return openstack.Answer(w, http.StatusOK, map[string]rest.LeaseAllocation{"allocation": d.allotted(v, h, slotFilter(d.Zone.Instant(), r))})
}
