package rest

import "berth/api"

// Event is one change that the log of a zone has made. Fields that its kind does not use are
// absent.
type Event struct {
	ID          string            `json:"id"`   // the same on every node of the zone; see Last-Event-ID
	Kind        string            `json:"kind"` // such as instance.active; see docs/events.md
	At          api.Instant       `json:"at"`
	Project     api.ProjectID     `json:"project_id,omitempty"`
	Reservation api.ReservationID `json:"reservation_id,omitempty"`
	Server      api.InstanceID    `json:"server_id,omitempty"` // of a server, or of a slot of a lease
	LeaseID     api.LeaseID       `json:"lease_id,omitempty"`
	Lease       *EventLease       `json:"lease,omitempty"`      // the lease as it is when the event is read; absent once it is gone
	Was         string            `json:"was,omitempty"`        // status before
	Is          string            `json:"is,omitempty"`         // status or decision now; why a binding began or ended
	Code        api.Code          `json:"code,omitempty"`       // why a boot failed, or slots were refused
	Fault       string            `json:"fault,omitempty"`      // why a server is in ERROR, as long as it is
	Zone        string            `json:"zone,omitempty"`       // direct child that leads to the server, the child that went up or down, or that a project is bound to
	Hold        api.HoldID        `json:"hold_id,omitempty"`    // only for admins
	Host        string            `json:"host,omitempty"`       // name of a host of this zone, or its id once it is gone; only for admins
	Origin      string            `json:"origin,omitempty"`     // name of the parent zone that it was for; only for admins
	Binding     api.BindingID     `json:"binding_id,omitempty"` // only for admins
	Eviction    *Eviction         `json:"eviction,omitempty"`   // why a preemptible instance must leave; only of kind instance.evicted
	Reason      api.RestartReason `json:"reason,omitempty"`     // why its agent started a server anew; only of kind instance.restarted
	Gap         *EventGap         `json:"gap,omitempty"`        // only of kind gap
}

// EventGap says that events may be missing before those that follow.
type EventGap struct {
	After  string `json:"after"`  // id of the last event before the gap, or the id that the caller sent
	Reason string `json:"reason"` // dropped: the zone keeps them no more; restored: a backup has replaced the state of the zone
}

// EventLease is a lease in an event.
type EventLease struct {
	Name         string             `json:"name"`
	User         api.UserID         `json:"user_id"`
	Start        api.Instant        `json:"start_date"`
	End          api.Instant        `json:"end_date"`
	Status       api.LeaseStatus    `json:"status"`
	Reason       string             `json:"reason,omitempty"` // of an ERROR, or why the last update failed
	Reservations []EventReservation `json:"reservations"`
	Events       []EventStep        `json:"events"`
	Created      api.Instant        `json:"created_at"`
	Updated      api.Instant        `json:"updated_at,omitzero"` // of the last change by its owner
}

// EventReservation is one reservation of a lease in an event.
type EventReservation struct {
	ID   api.ReservationID   `json:"id"`
	Type api.ReservationType `json:"resource_type"`
	Min  int                 `json:"min"`
	Max  int                 `json:"max"`

	BeforeEnd string `json:"before_end,omitempty"` // what its owner wants at before_end_lease, such as notify; absent for nothing
}

// EventStep is one step in the life of a lease in an event.
type EventStep struct {
	Type   api.LeaseEventType   `json:"event_type"`
	Time   api.Instant          `json:"time"`
	Status api.LeaseEventStatus `json:"status"`
}

// EventLeaseOf returns a lease for an event.
func EventLeaseOf(t *api.LeaseTerms, events []api.LeaseEvent) *EventLease {
	out := &EventLease{Name: t.Name, User: t.User, Start: t.Window.Start, End: t.Window.End, Reservations: []EventReservation{}, Events: []EventStep{}}
	for i := range t.Reservations {
		r := &t.Reservations[i]
		out.Reservations = append(out.Reservations, EventReservation{r.ID, r.Type, r.Min, r.Max, r.BeforeEnd})
	}
	for _, e := range events {
		out.Events = append(out.Events, EventStep{e.Type, e.Time, e.Status})
	}
	return out
}
