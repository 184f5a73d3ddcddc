package reservation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"berth/api"
	rules "berth/lease"
	"berth/raftstore/state"
	"berth/zone/leases"
)

// fakeLeases are leases without a life: they have all their room at once, and never begin.
// A lease for whole hosts has the first managed hosts, and one for instances has all its
// room on the first one.
type fakeLeases struct {
	view   func() *state.State
	now    func() api.Instant
	number int
	leases map[api.LeaseID]*Lease
	slots  map[api.HostID][]Slot
	keys   map[string]api.LeaseID
}

func newFake(view func() *state.State, now func() api.Instant) *fakeLeases {
	return &fakeLeases{view: view, now: now, leases: map[api.LeaseID]*Lease{}, slots: map[api.HostID][]Slot{}, keys: map[string]api.LeaseID{}}
}

func (f *fakeLeases) nextID() string {
	f.number++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", f.number)
}

func (f *fakeLeases) Create(_ context.Context, _ api.Caller, t api.LeaseTerms, key string) (api.LeaseID, error) {
	if id, ok := f.keys[key]; ok {
		return id, nil
	}
	before := f.number
	t.ID = api.LeaseID(f.nextID())
	for i := range t.Reservations {
		t.Reservations[i].ID = api.ReservationID(f.nextID())
	}
	l := &Lease{Terms: t, Status: api.LeasePending, Created: f.now(), Reservations: make([]ReservationState, len(t.Reservations))}
	err := rules.CheckTerms(&t, f.now(), rules.Limits{})
	if err == nil {
		err = f.allot(l)
	}
	if err != nil {
		f.number = before
		return "", err
	}
	l.Events = rules.Events(&t, 0, f.now(), rules.EventIDs{Start: f.nextID(), BeforeEnd: f.nextID(), End: f.nextID()})
	f.leases[t.ID] = l
	if key != "" {
		f.keys[key] = t.ID
	}
	return t.ID, nil
}

// CreateSeries is not faked: the tests of series run on a zone.
func (f *fakeLeases) CreateSeries(context.Context, api.Caller, api.LeaseTerms, api.Repeat, string) (api.SeriesID, error) {
	return "", api.Errorf(api.CodeNoCapacity, "the fake has no series")
}

// DeleteSeries is not faked.
func (f *fakeLeases) DeleteSeries(_ context.Context, _ api.Caller, id api.SeriesID) error {
	return api.Errorf(api.CodeNotFound, "no series of leases %q", string(id))
}

// allot gives a lease room, or refuses and changes nothing.
func (f *fakeLeases) allot(l *Lease) error {
	hosts := managedHosts(f.view())
	for i := range l.Terms.Reservations {
		if r := &l.Terms.Reservations[i]; r.Whole() && r.Min > len(hosts) || len(hosts) == 0 {
			return api.Errorf(api.CodeNoCapacity, "Not enough hosts available: %d of %d", len(hosts), r.Min)
		}
	}
	for i := range l.Terms.Reservations {
		r := &l.Terms.Reservations[i]
		n := r.Max
		if r.Whole() {
			n = min(n, len(hosts))
		}
		l.Reservations[i] = ReservationState{Status: api.ReservationPending, Allocated: n}
		for k := range n {
			on := hosts[0].ID
			if r.Whole() {
				on = hosts[k].ID
			}
			f.slots[on] = append(f.slots[on], Slot{Lease: l.Terms.ID, Reservation: r.ID, Window: l.Terms.Window})
		}
	}
	return nil
}

func (f *fakeLeases) release(id api.LeaseID) {
	for host, list := range f.slots {
		f.slots[host] = slices.DeleteFunc(list, func(s Slot) bool { return s.Lease == id })
	}
}

func (f *fakeLeases) Update(_ context.Context, _ api.Caller, id api.LeaseID, c api.LeaseChange) error {
	l := *f.leases[id]
	next, err := rules.Change(&rules.Current{Terms: l.Terms, Status: l.Status, Events: l.Events}, &c, rules.Limits{}, f.now(), rules.EventIDs{})
	if err != nil {
		return err
	}
	l.Terms, l.Events, l.Updated = next.Terms, next.Events, f.now()
	l.Reservations = slices.Clone(l.Reservations)
	old := maps.Clone(f.slots)
	f.release(id)
	if err = f.allot(&l); err != nil {
		f.slots = old
		return err
	}
	f.leases[id] = &l
	return nil
}

// Plan, PlanUpdate and Find are for zones whose leases live.
func (*fakeLeases) Plan(context.Context, api.Caller, api.LeaseTerms) (*leases.Planned, error) {
	return nil, api.Errorf(api.CodeUnavailable, "leases without a life have no plans")
}

func (*fakeLeases) PlanUpdate(context.Context, api.Caller, api.LeaseID, api.LeaseChange) (*leases.Planned, error) {
	return nil, api.Errorf(api.CodeUnavailable, "leases without a life have no plans")
}

func (*fakeLeases) Find(context.Context, api.Caller, leases.Search) (*leases.Found, error) {
	return nil, api.Errorf(api.CodeUnavailable, "leases without a life are nowhere")
}

func (f *fakeLeases) Delete(_ context.Context, _ api.Caller, id api.LeaseID) error {
	f.release(id)
	delete(f.leases, id)
	return nil
}

func (f *fakeLeases) Lease(_ *state.State, id api.LeaseID) (*Lease, bool) {
	l, ok := f.leases[id]
	return l, ok
}

func (f *fakeLeases) List(_ *state.State, p api.ProjectID) []*Lease {
	var out []*Lease
	for _, l := range f.leases {
		if p == "" || l.Terms.Project == p || slices.Contains(l.Terms.Shared, p) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *Lease) int { return cmp.Compare(a.Terms.ID, b.Terms.ID) })
	return out
}

func (f *fakeLeases) Slots(_ *state.State, host api.HostID) []Slot {
	return f.slots[host]
}

// Room is for zones whose leases live.
func (*fakeLeases) Room(*state.State, api.LeaseID) []Room { return nil }

var (
	_ Leases = (*fakeLeases)(nil)
	_ Book   = (*fakeLeases)(nil)
)
