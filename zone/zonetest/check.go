package zonetest

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/state"
)

// Settle waits until no zone has anything left to do.
func (w *World) Settle() {
	w.T.Helper()
	for began := time.Now(); time.Since(began) < patience; await.Sleep(time.Second) {
		if !slices.ContainsFunc(w.Zones, func(m *Member) bool { return busy(m.View()) }) && w.agrees() {
			break
		}
	}
	w.Check()
}

// busy reports whether a zone has something left to do.
func busy(v *state.State) bool {
	if len(v.UndecidedBoots())+len(v.UntoldHolds())+len(v.PreparedHolds())+len(v.UnendedInstances()) > 0 {
		return true
	}
	n := v.CountByStatus()
	return n[api.StatusBuild]+n[api.StatusDeleting] > 0 || slices.ContainsFunc(v.BootsPage("p", state.Page{Limit: api.PageMax}), func(b *state.Boot) bool {
		return b.Request.Reserves && !b.State().Outcome() && b.Request.Window.Start <= v.Now() // its slots are not among n
	})
}

// agrees reports whether every parent knows of its children's instances what they
// know themselves.
func (w *World) agrees() bool {
	for _, m := range w.Zones {
		for _, i := range AllInstances(m.View()) {
			if i.Link == "" || !i.Live() {
				continue
			}
			there, ok := w.At(m, i.Link).View().Instance(i.ID)
			if !ok || there.Status != i.Status {
				return false
			}
		}
	}
	return true
}

// At returns the zone at the other end of a link.
func (w *World) At(m *Member, id api.LinkID) *Member {
	l, _ := m.View().Link(id)
	i := slices.IndexFunc(w.Zones, func(o *Member) bool { return o.ID == l.Zone })
	return w.Zones[i]
}

// AllInstances returns the live instances that a zone knows.
func AllInstances(v *state.State) []*api.Instance {
	return v.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}})
}

// Check holds the invariants of a world that has come to rest.
func (w *World) Check() {
	w.T.Helper()
	owner := map[api.InstanceID]string{}
	for _, m := range w.Zones {
		v := m.View()
		assert.Empty(w.T, v.UndecidedBoots(), "zone %s: undecided boots", m.Name)
		assert.Empty(w.T, v.UntoldHolds(), "zone %s: children were not told", m.Name)
		assert.Empty(w.T, v.PreparedHolds(), "zone %s: undecided holds", m.Name)
		assert.Empty(w.T, v.UnendedInstances(), "zone %s: instances that should end", m.Name)
		m.checkClaims(v)
		for _, i := range AllInstances(v) {
			m.checkInstance(v, i, owner)
		}
		for _, b := range v.BootsPage("p", state.Page{Limit: api.PageMax}) {
			m.checkBoot(v, b)
		}
	}
}

// checkClaims holds that what is used is what instances and begun slots use: nothing is held, and
// what is within a slot uses nothing more.
func (m *Member) checkClaims(v *state.State) {
	m.World.T.Helper()
	want := map[api.ProviderID]api.Resources{}
	for _, p := range v.Providers() {
		want[p.ID] = api.Resources{}
	}
	for _, h := range v.AllHosts() {
		for _, i := range append(v.OnHost(h.ID), v.SlotsOn(h.ID)...) {
			if i.Within != "" || i.Window.Start > v.Now() {
				continue
			}
			own := maps.Clone(i.Resources)
			for _, sh := range i.Shares {
				for c := range sh.Resources {
					delete(own, c)
				}
			}
			for _, sh := range append(i.Shares, api.Share{Provider: h.ID, Resources: own}) {
				for c, n := range sh.Resources {
					want[sh.Provider][c] += n
				}
			}
		}
	}
	for _, p := range v.Providers() {
		assert.True(m.World.T, want[p.ID].Equal(p.Used), "zone %s: provider %s: used %v, instances use %v", m.Name, p.Name, p.Used, want[p.ID])
	}
}

// checkInstance holds that an instance lives in one place, which is known above
// and below.
func (m *Member) checkInstance(v *state.State, i *api.Instance, owner map[api.InstanceID]string) {
	m.World.T.Helper()
	if i.Host != "" {
		assert.Empty(m.World.T, owner[i.ID], "instance %s lives in %s too", i.ID, m.Name)
		owner[i.ID] = m.Name
	}
	if i.Link != "" {
		there, ok := m.World.At(m, i.Link).View().Instance(i.ID)
		if assert.True(m.World.T, ok && there.Live(), "zone %s: instance %s is not below", m.Name, i.ID) {
			assert.Equal(m.World.T, i.Status, there.Status, "zone %s: instance %s", m.Name, i.ID)
		}
	}
	if i.Origin != "" {
		above, ok := m.World.At(m, i.Origin).View().Instance(i.ID)
		assert.True(m.World.T, ok && above.Live(), "zone %s: nobody above knows instance %s", m.Name, i.ID)
		return
	}
	b, ok := v.Boot(i.Project, i.Reservation)
	assert.True(m.World.T, ok && b.Decision == api.DecisionCommit, "zone %s: instance %s was not decided", m.Name, i.ID)
}

// checkBoot holds that a boot is all or nothing, and that its attempts add up.
func (m *Member) checkBoot(v *state.State, b *state.Boot) {
	m.World.T.Helper()
	res := b.Request.Reservation
	made := v.OfReservation(b.Request.Project, res)
	switch st := b.State(); {
	case st == api.BootBuilding && b.Request.Reserves && b.Request.Window.Start > v.Now():
		assert.Equal(m.World.T, b.Counts.Build, b.Counts.Live(), "lease %s waits for its window", res)
	case st == api.BootBuilding && b.Counts.Build == 0 && b.Queued > 0:
		assert.LessOrEqual(m.World.T, b.Counts.Live()+b.Queued, b.Request.Count(), "boot %s waits for too many", res)
	case st == api.BootActive, st == api.BootDegraded, st == api.BootError:
		assert.GreaterOrEqual(m.World.T, len(made), b.Min, "boot %s made too few", res)
		assert.LessOrEqual(m.World.T, b.Counts.Live()+b.Queued, b.Request.Count(), "boot %s made too many", res)
		assert.True(m.World.T, b.Refills > 0 || len(made) <= b.Request.Count(), "boot %s made too many", res)
		assert.Len(m.World.T, made, b.Counts.Live()+b.Counts.Deleted, "boot %s", res)
	case st == api.BootFailed, st == api.BootReleased:
		assert.False(m.World.T, slices.ContainsFunc(made, (*api.Instance).Live), "boot %s left instances", res)
	default:
		assert.Fail(m.World.T, "boot is not at rest", "%s: %s %+v", res, b.State(), b)
	}
	assert.LessOrEqual(m.World.T, len(b.Attempts), api.AttemptsKept, "boot %s", res)
	for _, a := range b.Attempts {
		m.checkTale(b, &a)
	}
}

func (m *Member) checkTale(b *state.Boot, a *api.BootAttempt) {
	m.World.T.Helper()
	h, ok := attemptOf(m.View(), b, a.Attempt)
	if !ok || !slices.ContainsFunc(h.Parts, unanswered) {
		assert.Equal(m.World.T, a.Wanted, a.Held+a.Refused+a.Short, "attempt %+v", *a)
	}
	for _, z := range a.Zones {
		assert.Equal(m.World.T, z.Wanted, z.Offered+z.Short, "outcome %+v", z)
	}
	for _, r := range a.Refusals {
		sum := r.Offering
		for _, f := range r.Filters {
			sum += f.Hosts
		}
		assert.Equal(m.World.T, r.Considered, sum, "refusals %+v", r)
	}
}

// attemptOf returns the hold of one attempt of a boot.
func attemptOf(v *state.State, b *state.Boot, attempt int) (*state.Hold, bool) {
	for _, id := range b.Holds {
		if h, ok := v.Hold("", id); ok && h.Attempt == attempt {
			return h, true
		}
	}
	return nil, false
}

// unanswered reports whether a child never reported its slots: its part of the
// attempt is not known.
func unanswered(p state.Part) bool { return !p.Answered }
