package reservation

import (
	"net/http"

	"berth/api"
	"berth/httpd/openstack"
	"berth/raftstore/state"
)

// allocation is what leases have of one host: an entry for each slot, so that a
// reservation of two slots on a host has two.
type allocation struct {
	Resource     string      `json:"resource_id"`
	Reservations []allotment `json:"reservations"`
}

// allotment is one slot of a reservation.
type allotment struct {
	ID    api.ReservationID `json:"id"`
	Lease api.LeaseID       `json:"lease_id"`
	Start string            `json:"start_date"`
	End   string            `json:"end_date"`
}

// allotted returns what leases have of a host; keep chooses among the slots.
func (d *dialect) allotted(v *state.State, h *state.Host, keep func(Slot) bool) allocation {
	out := allocation{Resource: numberOf(h.ID), Reservations: []allotment{}}
	for _, s := range d.book.Slots(v, h.ID) {
		if keep(s) {
			out.Reservations = append(out.Reservations, allotment{s.Reservation, s.Lease, showInstant(s.Window.Start), showInstant(s.Window.End)})
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
	out := []allocation{}
	for _, h := range managedHosts(v) {
		out = append(out, d.allotted(v, h, keep))
	}
	return openstack.Answer(w, http.StatusOK, map[string][]allocation{"allocations": out})
}

// showAllocation is GET /os-hosts/{id}/allocation.
func (d *dialect) showAllocation(w http.ResponseWriter, r *http.Request) error {
	v := d.View(w)
	h, err := hostOf(v, r)
	if err != nil {
		return err
	}
	return openstack.Answer(w, http.StatusOK, map[string]allocation{"allocation": d.allotted(v, h, slotFilter(d.Zone.Instant(), r))})
}
