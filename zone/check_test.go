package zone_test

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/state"
)

// settle waits until no zone has anything left to do.
func (w *world) settle() {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Second) {
		if !slices.ContainsFunc(w.zones, func(m *member) bool { return busy(m.view()) }) && w.agrees() {
			break
		}
	}
	w.check()
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
func (w *world) agrees() bool {
	for _, m := range w.zones {
		for _, i := range all(m.view()) {
			if i.Link == "" || !i.Live() {
				continue
			}
			there, ok := w.at(m, i.Link).view().Instance(i.ID)
			if !ok || there.Status != i.Status {
				return false
			}
		}
	}
	return true
}

func (w *world) at(m *member, id api.LinkID) *member {
	l, _ := m.view().Link(id)
	i := slices.IndexFunc(w.zones, func(o *member) bool { return o.id == l.Zone })
	return w.zones[i]
}

func all(v *state.State) []*api.Instance {
	return v.InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}})
}

// check holds the invariants of a world that has come to rest.
func (w *world) check() {
	w.t.Helper()
	owner := map[api.InstanceID]string{}
	for _, m := range w.zones {
		v := m.view()
		assert.Empty(w.t, v.UndecidedBoots(), "zone %s: undecided boots", m.name)
		assert.Empty(w.t, v.UntoldHolds(), "zone %s: children were not told", m.name)
		assert.Empty(w.t, v.PreparedHolds(), "zone %s: undecided holds", m.name)
		assert.Empty(w.t, v.UnendedInstances(), "zone %s: instances that should end", m.name)
		m.checkClaims(v)
		for _, i := range all(v) {
			m.checkInstance(v, i, owner)
		}
		for _, b := range v.BootsPage("p", state.Page{Limit: api.PageMax}) {
			m.checkBoot(v, b)
		}
	}
}

// checkClaims holds that what is used is what instances and begun slots use: nothing is held, and
// what is within a slot uses nothing more.
func (m *member) checkClaims(v *state.State) {
	m.w.t.Helper()
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
		assert.True(m.w.t, want[p.ID].Equal(p.Used), "zone %s: provider %s: used %v, instances use %v", m.name, p.Name, p.Used, want[p.ID])
	}
}

// checkInstance holds that an instance lives in one place, which is known above
// and below.
func (m *member) checkInstance(v *state.State, i *api.Instance, owner map[api.InstanceID]string) {
	m.w.t.Helper()
	if i.Host != "" {
		assert.Empty(m.w.t, owner[i.ID], "instance %s lives in %s too", i.ID, m.name)
		owner[i.ID] = m.name
	}
	if i.Link != "" {
		there, ok := m.w.at(m, i.Link).view().Instance(i.ID)
		if assert.True(m.w.t, ok && there.Live(), "zone %s: instance %s is not below", m.name, i.ID) {
			assert.Equal(m.w.t, i.Status, there.Status, "zone %s: instance %s", m.name, i.ID)
		}
	}
	if i.Origin != "" {
		above, ok := m.w.at(m, i.Origin).view().Instance(i.ID)
		assert.True(m.w.t, ok && above.Live(), "zone %s: nobody above knows instance %s", m.name, i.ID)
		return
	}
	b, ok := v.Boot(i.Project, i.Reservation)
	assert.True(m.w.t, ok && b.Decision == api.DecisionCommit, "zone %s: instance %s was not decided", m.name, i.ID)
}

// checkBoot holds that a boot is all or nothing, and that its attempts add up.
func (m *member) checkBoot(v *state.State, b *state.Boot) {
	m.w.t.Helper()
	res := b.Request.Reservation
	made := v.OfReservation(b.Request.Project, res)
	switch st := b.State(); {
	case st == api.BootBuilding && b.Request.Reserves && b.Request.Window.Start > v.Now():
		assert.Equal(m.w.t, b.Counts.Build, b.Counts.Live(), "lease %s waits for its window", res)
	case st == api.BootActive, st == api.BootDegraded, st == api.BootError:
		assert.GreaterOrEqual(m.w.t, len(made), b.Min, "boot %s made too few", res)
		assert.LessOrEqual(m.w.t, len(made), b.Request.Count(), "boot %s made too many", res)
		assert.Len(m.w.t, made, b.Counts.Live()+b.Counts.Deleted, "boot %s", res)
	case st == api.BootFailed, st == api.BootReleased:
		assert.False(m.w.t, slices.ContainsFunc(made, (*api.Instance).Live), "boot %s left instances", res)
	default:
		assert.Fail(m.w.t, "boot is not at rest", "%s: %s %+v", res, b.State(), b)
	}
	assert.LessOrEqual(m.w.t, len(b.Attempts), api.AttemptsKept, "boot %s", res)
	for _, a := range b.Attempts {
		m.checkTale(b, &a)
	}
}

func (m *member) checkTale(b *state.Boot, a *api.BootAttempt) {
	m.w.t.Helper()
	h, ok := attemptOf(m.view(), b, a.Attempt)
	if !ok || !slices.ContainsFunc(h.Parts, unanswered) {
		assert.Equal(m.w.t, a.Wanted, a.Held+a.Refused+a.Short, "attempt %+v", *a)
	}
	for _, z := range a.Zones {
		assert.Equal(m.w.t, z.Wanted, z.Offered+z.Short, "outcome %+v", z)
	}
	for _, r := range a.Refusals {
		sum := r.Offering
		for _, f := range r.Filters {
			sum += f.Hosts
		}
		assert.Equal(m.w.t, r.Considered, sum, "refusals %+v", r)
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
