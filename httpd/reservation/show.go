package reservation

import (
	"encoding/json"

	"berth/api"
)

// lease is a lease in answers.
type lease struct {
	ID           api.LeaseID     `json:"id"`
	Name         string          `json:"name"`
	User         api.UserID      `json:"user_id"`
	Project      api.ProjectID   `json:"project_id"`
	Start        string          `json:"start_date"`
	End          string          `json:"end_date"`
	Status       api.LeaseStatus `json:"status"`
	Reason       *string         `json:"status_reason"`
	Degraded     bool            `json:"degraded"`
	Trust        *string         `json:"trust_id"` // there are no trusts
	Shared       []api.ProjectID `json:"shared_with"`
	Zones        []string        `json:"zones"`
	Reservations []any           `json:"reservations"`
	Events       []event         `json:"events"`
	Created      *string         `json:"created_at"`
	Updated      *string         `json:"updated_at"`
}

// event is an event of a lease in answers.
type event struct {
	ID      string               `json:"id"`
	Lease   api.LeaseID          `json:"lease_id"`
	Type    api.LeaseEventType   `json:"event_type"`
	Time    string               `json:"time"`
	Status  api.LeaseEventStatus `json:"status"`
	Created *string              `json:"created_at"`
	Updated *string              `json:"updated_at"`
}

// reservation is the part of a reservation that all types have.
type reservation struct {
	ID        api.ReservationID     `json:"id"`
	Lease     api.LeaseID           `json:"lease_id"`
	Resource  api.ReservationID     `json:"resource_id"`
	Type      api.ReservationType   `json:"resource_type"`
	Status    api.ReservationStatus `json:"status"`
	Missing   bool                  `json:"missing_resources"`
	Changed   bool                  `json:"resources_changed"`
	Allocated int                   `json:"allocated"` // hosts or slots that it has
	Created   *string               `json:"created_at"`
	Updated   *string               `json:"updated_at"`
}

// hostReservation is a reservation of whole hosts in answers.
type hostReservation struct {
	reservation
	Min                  int    `json:"min"`
	Max                  int    `json:"max"`
	HypervisorProperties string `json:"hypervisor_properties"`
	ResourceProperties   string `json:"resource_properties"`
	BeforeEnd            string `json:"before_end"`
}

// instanceReservation is a reservation of room for instances in answers. An instance asks
// for its room by the flavor, whose id is that of the reservation. There is neither a
// server group nor an aggregate.
type instanceReservation struct {
	reservation
	VCPUs              int64             `json:"vcpus"`
	Memory             int64             `json:"memory_mb"`
	Disk               int64             `json:"disk_gb"`
	Amount             int               `json:"amount"`
	Affinity           *bool             `json:"affinity"`
	ResourceProperties string            `json:"resource_properties"`
	Flavor             api.ReservationID `json:"flavor_id"`
	ServerGroup        *string           `json:"server_group_id"`
	Aggregate          *int64            `json:"aggregate_id"`
}

// flavorText is the flavor of a reservation, as its resource_properties have it.
type flavorText struct {
	ID         api.FlavorID      `json:"id"`
	VCPUs      int64             `json:"vcpus"`
	RAM        int64             `json:"ram"`
	Disk       int64             `json:"disk"`
	ExtraSpecs map[string]string `json:"extra_specs"`
}

// showLease returns a lease as answers have it.
func showLease(l *Lease) lease {
	t := &l.Terms
	out := lease{
		ID: t.ID, Name: t.Name, User: t.User, Project: t.Project, Start: showInstant(t.Window.Start), End: showInstant(t.Window.End),
		Status: l.Status, Shared: append([]api.ProjectID{}, t.Shared...), Zones: append([]string{}, t.Zones.Allowed...),
		Reservations: make([]any, 0, len(t.Reservations)), Events: make([]event, 0, len(l.Events)),
		Created: showRecord(l.Created), Updated: showRecord(l.Updated),
	}
	if l.Reason != "" {
		out.Reason = &l.Reason
	}
	for i := range t.Reservations {
		s := l.Reservations[i]
		out.Degraded = out.Degraded || s.Missing || s.Changed
		out.Reservations = append(out.Reservations, showReservation(l, &t.Reservations[i], s))
	}
	for _, e := range l.Events {
		out.Events = append(out.Events, event{
			ID: e.ID, Lease: t.ID, Type: e.Type, Time: showInstant(e.Time), Status: e.Status, Created: showRecord(e.Created), Updated: showRecord(e.Updated),
		})
	}
	return out
}

// showReservation returns a reservation as answers have it, by its type.
func showReservation(l *Lease, r *api.Reservation, s ReservationState) any {
	base := reservation{
		ID: r.ID, Lease: l.Terms.ID, Resource: r.ID, Type: r.Type, Status: s.Status, Missing: s.Missing, Changed: s.Changed,
		Allocated: s.Allocated, Created: showRecord(l.Created), Updated: showRecord(l.Updated),
	}
	if r.Whole() {
		return hostReservation{base, r.Min, r.Max, r.HypervisorProperties, r.ResourceProperties, r.BeforeEnd}
	}
	out := instanceReservation{
		reservation: base, VCPUs: r.Resources[api.VCPU], Memory: r.Resources[api.MemoryMB], Disk: r.Resources[api.DiskGB],
		Amount: r.Max, Affinity: r.Affinity, ResourceProperties: r.ResourceProperties, Flavor: r.ID,
	}
	if r.Type == api.ReserveFlavor {
		specs := r.ExtraSpecs
		if specs == nil {
			specs = map[string]string{}
		}
		text, _ := json.Marshal(flavorText{r.Flavor, out.VCPUs, out.Memory, out.Disk, specs}) // numbers and texts can always be encoded
		out.ResourceProperties = string(text)
	}
	return out
}
