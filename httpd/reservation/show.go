package reservation

import (
	"encoding/json"

	"berth/api"
	"berth/api/rest"
)

// showLease returns a lease as answers have it.
func showLease(l *Lease) rest.Lease {
	t := &l.Terms
	out := rest.Lease{
		ID: t.ID, Name: t.Name, User: t.User, Project: t.Project, Start: rest.LeaseTime(t.Window.Start), End: rest.LeaseTime(t.Window.End),
		Status: l.Status, Maintenance: len(t.Hosts) > 0, Shared: append([]api.ProjectID{}, t.Shared...), Zones: append([]string{}, t.Zones.Allowed...),
		Reservations: make([]rest.LeaseReservation, 0, len(t.Reservations)), Events: make([]rest.LeaseEvent, 0, len(l.Events)),
		Created: rest.RecordTime(l.Created), Updated: rest.RecordTime(l.Updated),
	}
	if l.Reason != "" {
		out.Reason = &l.Reason
	}
	if t.Grace != 0 {
		out.Grace = new(rest.Duration(t.Grace))
	}
	if t.Series != "" {
		out.Series = &t.Series
	}
	for i := range t.Reservations {
		s := l.Reservations[i]
		out.Degraded = out.Degraded || s.Missing || s.Changed
		out.Reservations = append(out.Reservations, showReservation(l, &t.Reservations[i], s))
	}
	for _, e := range l.Events {
		out.Events = append(out.Events, rest.LeaseEvent{
			ID: e.ID, Lease: t.ID, Type: e.Type, Time: rest.LeaseTime(e.Time), Status: e.Status,
			Created: rest.RecordTime(e.Created), Updated: rest.RecordTime(e.Updated),
		})
	}
	return out
}

// showReservation returns a reservation as answers have it, by its type.
func showReservation(l *Lease, r *api.Reservation, s ReservationState) rest.LeaseReservation {
	out := rest.LeaseReservation{
		ID: r.ID, Lease: l.Terms.ID, Resource: r.ID, Type: r.Type, Status: s.Status, Missing: s.Missing, Changed: s.Changed,
		Allocated: s.Allocated, Created: rest.RecordTime(l.Created), Updated: rest.RecordTime(l.Updated), ResourceProperties: r.ResourceProperties,
		ShareIdle: r.ShareIdle,
	}
	if r.Whole() {
		out.ReservedHosts = &rest.ReservedHosts{Min: r.Min, Max: r.Max, HypervisorProperties: r.HypervisorProperties, BeforeEnd: r.BeforeEnd}
		return out
	}
	out.ReservedInstances = &rest.ReservedInstances{
		VCPUs: r.Resources[api.VCPU], Memory: r.Resources[api.MemoryMB], Disk: r.Resources[api.DiskGB],
		Amount: r.Max, Affinity: r.Affinity, Flavor: r.ID,
	}
	if r.Type == api.ReserveFlavor {
		specs := r.ExtraSpecs
		if specs == nil {
			specs = map[string]string{}
		}
		text, _ := json.Marshal(rest.ReservedFlavor{
			ID: r.Flavor, VCPUs: out.VCPUs, RAM: out.Memory, Disk: out.Disk, ExtraSpecs: specs,
		}) // numbers and texts can always be encoded
		out.ResourceProperties = string(text)
	}
	return out
}
