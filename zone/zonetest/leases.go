package zonetest

import (
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/state"
)

// Caller makes the leases of these tests.
var Caller = api.Caller{User: "u", Project: "p", Role: api.RoleMember}

// LeaseOf asks for n slots of the flavor of these tests, from some time from now on.
func LeaseOf(name string, from, long time.Duration, n int) api.LeaseTerms {
	start := api.InstantOf(time.Now().Truncate(time.Minute).Add(from))
	return api.LeaseTerms{
		Name: name, Window: api.Window{Start: start, End: start.Add(long)},
		Reservations: []api.Reservation{{Type: api.ReserveInstances, Min: n, Max: n, Resources: Flavor.Resources}},
	}
}

// Lease makes a lease.
func (m *Member) Lease(t api.LeaseTerms) (api.LeaseID, error) {
	ctx, cancel := m.Within(2 * time.Minute)
	defer cancel()
	return m.Lead().Create(ctx, Caller, t, "")
}

// UntilLease waits until a lease has a status.
func (m *Member) UntilLease(id api.LeaseID, st api.LeaseStatus) *state.Lease {
	m.World.T.Helper()
	var out *state.Lease
	defer func() {
		if m.World.T.Failed() && out != nil {
			b, _ := m.View().Boot(out.Terms.Project, out.Order)
			m.World.T.Logf("%+v %+v %+v", out, b.Counts, b.Unacked)
		}
	}()
	m.Until("the lease is "+string(st), func(v *state.State) bool {
		l, ok := v.Lease(id)
		out = l
		return ok && l.Status == st
	})
	return out
}

// Unchanged runs f and checks that no zone's log has a new entry after it.
func (w *World) Unchanged(f func()) {
	w.T.Helper()
	before := map[string]uint64{}
	for _, m := range w.Zones {
		before[m.Name] = m.View().Index()
	}
	f()
	for _, m := range w.Zones {
		assert.Equal(w.T, before[m.Name], m.View().Index(), "zone %s: what promises to change nothing has written an entry", m.Name)
	}
}

// DrawLease draws a lease of one or two reservations.
func DrawLease(rnd *rand.Rand) api.LeaseTerms {
	t := LeaseOf("drawn", time.Duration(rnd.IntN(12)*10)*time.Minute, time.Duration(1+rnd.IntN(12))*10*time.Minute, 1+rnd.IntN(4))
	if rnd.IntN(2) == 0 {
		n := 1 + rnd.IntN(2)
		t.Reservations = append(t.Reservations, api.Reservation{Type: api.ReserveHosts, Min: n, Max: n + rnd.IntN(2)})
	}
	if together := rnd.IntN(2) == 0; rnd.IntN(2) == 0 {
		t.Reservations[0].Affinity = &together
	}
	return t
}
