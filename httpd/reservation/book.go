package reservation

import (
	"cmp"
	"context"
	"slices"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/leases"
)

// Leases are the use cases of leases.
type Leases interface {
	// Create makes a lease for a caller, and allots its ids. It waits until the lease has
	// all its room or is refused; a refused lease leaves nothing behind. A repeat with the
	// same key, if it is not "", returns the first lease.
	Create(ctx context.Context, who api.Caller, terms api.LeaseTerms, key string) (api.LeaseID, error)
	// Update changes a lease that the caller may change, and waits until the change holds
	// or is refused; a refused one changes nothing.
	Update(ctx context.Context, who api.Caller, id api.LeaseID, change api.LeaseChange) error
	// Plan is a dry run of Create, and PlanUpdate of Update: they make the same checks and
	// plan the same room, and change nothing.
	Plan(ctx context.Context, who api.Caller, terms api.LeaseTerms) (*leases.Planned, error)
	PlanUpdate(ctx context.Context, who api.Caller, id api.LeaseID, change api.LeaseChange) (*leases.Planned, error)
	// Find looks for the starts at which a lease would fit, and changes nothing.
	Find(ctx context.Context, who api.Caller, s leases.Search) (*leases.Found, error)
	// Delete ends a lease that the caller may change, at any time, and waits until its
	// record is gone.
	Delete(ctx context.Context, who api.Caller, id api.LeaseID) error
	// CreateSeries makes a lease for every time of a rule, the first with the window of
	// terms, and waits until all of them have all their room or none is left.
	CreateSeries(ctx context.Context, who api.Caller, terms api.LeaseTerms, repeat api.Repeat, key string) (api.SeriesID, error)
	// DeleteSeries ends every lease of a series that the caller may change.
	DeleteSeries(ctx context.Context, who api.Caller, id api.SeriesID) error
}

// Book reads leases from a view of the state.
type Book interface {
	// Lease returns one lease, of any project.
	Lease(v *state.State, id api.LeaseID) (*Lease, bool)
	// List returns the leases that a project may use, or all if it is "", sorted by id.
	List(v *state.State, project api.ProjectID) []*Lease
	// Slots returns the room of leases on a host, sorted by start.
	Slots(v *state.State, host api.HostID) []Slot
	// Room returns the slots of a lease that are not gone, in the order of its reservations,
	// then by zone and host.
	Room(v *state.State, id api.LeaseID) []Room
}

// Records are the leases of a zone, as the state has them.
type Records struct{}

var _ Book = Records{}

// Lease implements Book.
func (Records) Lease(v *state.State, id api.LeaseID) (*Lease, bool) {
	l, ok := v.Lease(id)
	if !ok {
		return nil, false
	}
	return leaseFrom(v, l), true
}

// List implements Book.
func (Records) List(v *state.State, project api.ProjectID) []*Lease {
	records := v.Leases("")
	if project != "" {
		records = v.LeasesFor(project)
	}
	out := make([]*Lease, len(records))
	for i, l := range records {
		out[i] = leaseFrom(v, l)
	}
	return out
}

// Slots implements Book. The lease of a slot that a zone above reserves is not known here.
func (Records) Slots(v *state.State, host api.HostID) []Slot {
	var out []Slot
	for _, i := range v.SlotsOn(host) {
		s := Slot{Reservation: api.ReservationID(i.Group), Window: i.Window}
		if l, ok := v.LeaseWith(s.Reservation); ok && i.Origin == "" {
			s.Lease = l.Terms.ID
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Slot) int { return cmp.Compare(a.Window.Start, b.Window.Start) })
	return out
}

// Room implements Book. A slot of a zone below is in the direct child that leads to it.
func (Records) Room(v *state.State, id api.LeaseID) []Room {
	l, ok := v.Lease(id)
	if !ok {
		return nil
	}
	var out []Room
	for _, i := range v.LeaseSlots(l) {
		r := Room{
			Reservation: api.ReservationID(i.Group), Zone: v.Name, Host: i.Host, Window: i.Window, Changed: i.Replaced,
			Unreachable: v.UnreachableSince(i) > 0, Status: api.ReservationPending,
		}
		if i.Link != "" {
			r.Zone = ""
			if link, ok := v.Link(i.Link); ok {
				r.Zone = link.Name
			}
		}
		switch i.Status {
		case api.StatusActive:
			r.Status = api.ReservationActive
		case api.StatusError:
			r.Status = api.ReservationError
		case api.StatusDeleting, api.StatusDeleted, api.StatusShutoff:
			r.Status = api.ReservationDeleted
		case api.StatusBuild:
		}
		out = append(out, r)
	}
	place := func(id api.ReservationID) int {
		return slices.IndexFunc(l.Terms.Reservations, func(r api.Reservation) bool { return r.ID == id })
	}
	slices.SortStableFunc(out, func(a, b Room) int {
		return cmp.Or(cmp.Compare(place(a.Reservation), place(b.Reservation)), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Host, b.Host))
	})
	return out
}

// leaseFrom returns the lease of a record, with what has become of its reservations.
func leaseFrom(v *state.State, l *state.Lease) *Lease {
	out := &Lease{
		Terms: l.Terms, Status: l.Status, Reason: l.Reason, Events: l.Events, Created: l.Created, Updated: l.Updated,
		Reservations: make([]ReservationState, len(l.Terms.Reservations)),
	}
	slots := v.LeaseSlots(l)
	status := l.Status
	if l.Next != nil {
		status = l.Next.Status
	}
	for i := range l.Terms.Reservations {
		out.Reservations[i] = stateOf(v, &l.Terms.Reservations[i], status, slots)
		if len(l.Terms.Hosts) > 0 {
			out.Reservations[i].Missing = false // hosts in maintenance may be down
		}
	}
	return out
}

// stateOf returns what has become of a reservation of a lease that has a stable status, or
// is on its way to one. A slot is missing as long as it cannot be reached, and while others have
// not left its room in time.
func stateOf(v *state.State, r *api.Reservation, status api.LeaseStatus, slots []*api.Instance) ReservationState {
	var waiting, usable, lost int
	out := ReservationState{Status: api.ReservationPending}
	for _, i := range slots {
		if i.Group != string(r.ID) {
			continue
		}
		out.Changed = out.Changed || i.Replaced
		late := i.Status == api.StatusBuild && i.Window.Start.Add(api.StartWithin) <= v.Now()
		if late || v.UnreachableSince(i) > 0 {
			lost++
		}
		switch i.Status { //nolint:exhaustive // a slot in another status is room of nobody
		case api.StatusBuild:
			waiting++
		case api.StatusActive:
			usable++
		}
	}
	out.Allocated = waiting + usable
	switch status {
	case api.LeaseActive, api.LeaseTerminating:
		out.Status = api.ReservationActive
	case api.LeaseStarting:
		if waiting == 0 {
			out.Status = api.ReservationActive
		}
	case api.LeaseTerminated, api.LeaseDeleting:
		out.Status = api.ReservationDeleted
	case api.LeaseError:
		out.Status = api.ReservationError
	case api.LeaseCreating, api.LeasePending, api.LeaseUpdating:
	}
	stands := status == api.LeasePending || status == api.LeaseStarting || status == api.LeaseActive
	out.Missing = stands && out.Allocated-lost < r.Min
	return out
}

// Lease is the record of a lease.
type Lease struct {
	Terms        api.LeaseTerms
	Status       api.LeaseStatus
	Reason       string // of the status ERROR; "" for none
	Events       []api.LeaseEvent
	Reservations []ReservationState // as many as in Terms, in their order
	Created      api.Instant
	Updated      api.Instant // 0 if it was never changed
}

// ReservationState is what has become of one reservation of a lease.
type ReservationState struct {
	Status    api.ReservationStatus
	Missing   bool // it has less room than it should
	Changed   bool // it has other room than at first
	Allocated int  // hosts or slots that it has
}

// Slot is the room of one reservation on one host: a whole host, or one instance.
type Slot struct {
	Lease       api.LeaseID
	Reservation api.ReservationID
	Window      api.Window
}

// Room is one slot of a lease: a whole host, or room for one instance.
type Room struct {
	Reservation api.ReservationID
	Zone        string     // this zone, or a direct child
	Host        api.HostID // "" in another zone
	Window      api.Window
	Status      api.ReservationStatus
	Changed     bool // it has replaced another one
	Unreachable bool
}
