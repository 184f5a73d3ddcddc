package check

import (
	"maps"
	"reflect"
	"slices"

	"berth/api"
	"berth/cluster-test/check/model"
	"berth/cluster-test/check/promise"
	"berth/quota"
	"berth/raftstore/state"
)

// leaseFacts are the kinds of events about leases, as the model calls them.
var leaseFacts = map[state.EventKind]string{
	state.EventLeaseCreated: "created", state.EventLeaseFailed: "failed", state.EventLeaseStatus: "status",
	state.EventLeaseUpdated: "updated", state.EventLeaseUpdateFailed: "update failed", state.EventLeaseStarted: "started",
	state.EventLeaseStartsSoon: "starts soon", state.EventLeaseEndsSoon: "ends soon", state.EventLeaseEnded: "ended",
	state.EventLeaseDeleted: "deleted",
}

// countedFacts are the kinds of events that are counted for Floor, beside those about leases.
var countedFacts = map[state.EventKind]string{
	state.EventEvicted: "instance evicted", state.EventInstanceQueued: "instance queued", state.EventBootRequeued: "boot requeued",
	state.EventBindingBegan: "binding began", state.EventBindingEnded: "binding ended",
}

// happened counts what has happened once in the life of a lease.
type happened struct{ started, ended int }

// compareLeases compares the leases that a command has changed, and what those who watch
// were told of leases since a position. restored says that the command took up a backup.
func (r *replay) compareLeases(index uint64, since api.EventID, restored bool) {
	for id := range r.m.HitLeases {
		r.compareLease(index, id)
	}
	if slot := r.m.Crowded(); slot != "" {
		r.addViolation(promise.Within, index, "more is within slot %s than it has, or at another time", slot)
	}
	r.compareFacts(index, since, restored)
}

// compareFacts compares the events about leases, and judges them by themselves: a lease starts
// once and ends once, after its start, and neither before its time.
//
// Events before a backup was taken up cannot be compared with those after it: then this is counted, and
// otherwise it is a violation that some are missing.
func (r *replay) compareFacts(index uint64, since api.EventID, restored bool) {
	list, whole := r.s.Events(since, 1<<20)
	if !whole {
		r.sum.Untold++
		if !restored {
			r.addViolation(promise.Undecided, index, "not all events after %v are there: what those who watch are told of leases was not compared", since)
		}
		return
	}
	got, want := map[api.LeaseID][]model.LeaseFact{}, map[api.LeaseID][]model.LeaseFact{}
	for _, e := range list {
		if what := countedFacts[e.Kind]; what != "" {
			r.sum.Outcomes[what]++
		}
		if e.Lease != "" {
			got[e.Lease] = append(got[e.Lease], model.LeaseFact{
				Lease: e.Lease, What: leaseFacts[e.Kind], Was: api.LeaseStatus(e.Was), Is: api.LeaseStatus(e.Is), At: e.At,
			})
			r.countFact(index, e)
		}
	}
	for _, f := range r.m.Facts {
		want[f.Lease] = append(want[f.Lease], f)
		r.sum.Outcomes["lease "+f.What]++
	}
	for id := range got {
		if !slices.Equal(got[id], want[id]) {
			r.addViolation(promise.Lease, index, "of lease %s those who watch are told %v, not %v", id, got[id], want[id])
		}
	}
	for id := range want {
		if got[id] == nil {
			r.addViolation(promise.Lease, index, "of lease %s those who watch are not told %v", id, want[id])
		}
	}
}

// countFact counts the starts and ends of a lease.
func (r *replay) countFact(index uint64, e *state.Event) {
	was := r.happened[e.Lease]
	if e.At < r.lastFact {
		r.addViolation(promise.Lease, index, "what happened to lease %s at %d is told after what happened at %d", e.Lease, e.At, r.lastFact)
	}
	r.lastFact = e.At
	switch e.Kind { //nolint:exhaustive // the others may happen again
	case state.EventLeaseStarted:
		was.started++
	case state.EventLeaseEnded:
		was.ended++
	}
	if was.started > 1 || was.ended > 1 || e.Kind == state.EventLeaseStarted && was.ended > 0 {
		r.addViolation(promise.Lease, index, "lease %s has started %d times and ended %d times", e.Lease, was.started, was.ended)
	}
	r.happened[e.Lease] = was
}

// compareLease compares one lease, and judges it.
func (r *replay) compareLease(index uint64, id api.LeaseID) {
	want := r.m.Leases[id]
	got, ok := r.s.Lease(id)
	if !ok || want == nil {
		if ok || want != nil {
			r.addViolation(promise.Lease, index, "lease %s is there: %v, and should be: %v", id, ok, want != nil)
		}
		return
	}
	r.sum.Outcomes["lease "+string(want.Status)]++
	switch {
	case got.Status != want.Status:
		r.addViolation(promise.Lease, index, "lease %s is %s, not %s", id, got.Status, want.Status)
	case !slices.Equal(got.Events, want.Events):
		r.addViolation(promise.Lease, index, "lease %s has the events %+v, not %+v", id, got.Events, want.Events)
	case got.Order != want.Order || !slices.Equal(got.Replaced, want.Replaced):
		r.addViolation(promise.Lease, index, "lease %s has the order %q after %q, not %q after %q", id, got.Order, got.Replaced, want.Order, want.Replaced)
	case !reflect.DeepEqual(got.Terms, want.Terms) || got.Updated != want.Updated:
		r.addViolation(promise.Lease, index, "lease %s has the terms %+v, not %+v", id, got.Terms, want.Terms)
	case !sameUpdate(got.Next, want.Next):
		r.addViolation(promise.Lease, index, "lease %s is being updated to %+v, not to %+v", id, got.Next, want.Next)
	case got.Held != want.Held:
		r.addViolation(promise.Lease, index, "lease %s has its room before its series: %v, not %v", id, got.Held, want.Held)
	case got.ModIndex != want.Mod:
		r.addViolation(promise.Lease, index, "lease %s was changed at %d, not at %d", id, got.ModIndex, want.Mod)
	}
	if why := r.m.Half(want); why != "" {
		r.addViolation(promise.Lease, index, "lease %s is %s and %s", id, want.Status, why)
	}
}

func sameUpdate(got *state.LeaseUpdate, want *model.LeaseUpdate) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	return got.Order == want.Order && got.Status == want.Was && slices.Equal(got.Events, want.Events) && reflect.DeepEqual(got.Terms, want.Terms)
}

// compareAllLeases compares all leases, and what readers return about them.
func (r *replay) compareAllLeases(index uint64) {
	if n := len(r.s.Leases("")); n != len(r.m.Leases) {
		r.addViolation(promise.Lease, index, "there are %d leases, not %d", n, len(r.m.Leases))
	}
	for id, l := range r.m.Leases {
		r.compareLease(index, id)
		if !slices.ContainsFunc(r.s.Leases(l.Terms.Project), func(got *state.Lease) bool { return got.Terms.ID == id }) {
			r.addViolation(promise.Lease, index, "project %s does not list lease %s", l.Terms.Project, id)
		}
		for i := range l.Terms.Reservations {
			r.compareReservation(index, l, l.Terms.Reservations[i].ID)
		}
	}
	r.compareSeries(index)
	r.compareLeaseEnds(index)
	if got := r.s.NextDue(); r.form >= api.FormFourth && got != r.m.NextDue() {
		r.addViolation(promise.Lease, index, "something is due at %d, not at %d", got, r.m.NextDue())
	}
	r.compareInside(index)
	r.compareQuotas(index)
}

// compareQuotas compares the limits of projects, and what each of them has from now on.
func (r *replay) compareQuotas(index uint64) {
	for _, p := range append(r.s.QuotaProjects(state.Page{Limit: api.PageMax}), "") {
		if got, want := limitsOf(r.s.Quota(p)), r.m.Limits[p]; !maps.Equal(got, want) {
			r.addViolation(promise.Quota, index, "project %q has the limits %v, not %v", p, got, want)
		}
		uses := r.m.Uses(p)
		for _, at := range model.Instants(uses, r.m.Now) {
			if got, want := r.s.Usage(p).At(at), model.UsedAt(uses, at); !sameUse(got, want) {
				r.addViolation(promise.Quota, index, "project %q has %v at %d, not %v", p, got, at, want)
			}
		}
	}
}

func sameUse(got quota.Amounts, want map[model.Item]int64) bool {
	for i, n := range got {
		if want[model.Item(i)] != n {
			return false
		}
	}
	return len(got) == len(want)
}

// compareLeaseEnds compares the ends of leases that the external service is to be told.
func (r *replay) compareLeaseEnds(index uint64) {
	got := r.s.LeaseEnds(api.LeaseEndName{}, api.LeaseEndsMax+1)
	want := r.m.OwedEnds()
	if len(got) != len(want) {
		r.addViolation(promise.Lease, index, "%d ends of leases are to be told, not %d", len(got), len(want))
		return
	}
	for i, e := range got {
		if e.Name() != want[i] || e.Outcome != r.m.Ends[want[i]] {
			r.addViolation(promise.Lease, index, "the end of lease %s at %d as %s is to be told, not that of %v as %s",
				e.Terms.ID, e.At, e.Outcome, want[i], r.m.Ends[want[i]])
		}
	}
}

// compareSeries compares the series of leases.
func (r *replay) compareSeries(index uint64) {
	if n := len(r.s.AllSeries("")); n != len(r.m.Series) {
		r.addViolation(promise.Lease, index, "there are %d series of leases, not %d", n, len(r.m.Series))
	}
	for id, want := range r.m.Series {
		if got, ok := r.s.OneSeries(id); !ok || got.Status != want.Status || got.Status == api.SeriesCreating && got.Waiting != r.m.Waiting(id) {
			r.addViolation(promise.Lease, index, "series %s is %+v, not %s", id, got, want.Status)
		}
	}
}

// compareInside compares what is within slots.
func (r *replay) compareInside(index uint64) {
	for _, slot := range r.m.Occupied() {
		inside := []api.InstanceID{}
		for _, c := range r.m.Inside(slot) {
			if i := r.m.Instances[c.Consumer]; i != nil && i.Live() {
				inside = append(inside, c.Consumer)
			}
		}
		if got := idsOf(r.s.Within(slot)); !slices.Equal(got, inside) {
			r.addViolation(promise.Within, index, "slot %s lists %v within it, not %v", slot, got, inside)
		}
	}
}

// compareReservation compares the slots of a reservation, and those that are free.
func (r *replay) compareReservation(index uint64, l *model.Lease, id api.ReservationID) {
	if got, ok := r.s.LeaseWith(id); !ok || got.Terms.ID != l.Terms.ID {
		r.addViolation(promise.Lease, index, "reservation %s does not lead to lease %s", id, l.Terms.ID)
	}
	if got, want := idsOf(r.s.SlotsOf("", id)), r.m.Slots("", id); !slices.Equal(got, want) {
		r.addViolation(promise.Lease, index, "reservation %s has the slots %v, not %v", id, got, want)
	}
	for _, p := range []api.ProjectID{l.Terms.Project, "nobody", "q"} {
		if got, want := idsOf(r.s.FreeSlots("", id, p)), r.m.FreeSlots("", id, p); !slices.Equal(got, want) {
			r.addViolation(promise.Within, index, "project %s may use the slots %v of reservation %s, not %v", p, got, id, want)
		}
	}
}
