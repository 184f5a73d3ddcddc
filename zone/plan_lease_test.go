package zone_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/estimate"
	"berth/zone/leases"
)

// unchanged runs f and checks that no zone's log has a new entry after it.
func (w *world) unchanged(f func()) {
	w.t.Helper()
	before := map[string]uint64{}
	for _, m := range w.zones {
		before[m.name] = m.view().Index()
	}
	f()
	for _, m := range w.zones {
		assert.Equal(w.t, before[m.name], m.view().Index(), "zone %s: what promises to change nothing has written an entry", m.name)
	}
}

// planLease makes a dry run of a lease.
func (m *member) planLease(t api.LeaseTerms) *leases.Planned {
	m.w.t.Helper()
	ctx, cancel := m.within(2 * time.Minute)
	defer cancel()
	var p *leases.Planned
	m.w.unchanged(func() {
		var err error
		p, err = m.lead().Plan(ctx, who, t)
		require.NoError(m.w.t, err)
	})
	return p
}

// TestPlannedLeaseOverThreeLevels plans what fits in three zones, and one slot more.
func TestPlannedLeaseOverThreeLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, mid, leaf := three(w)
		w.settle()
		p := root.planLease(leaseOf("all", time.Hour, time.Hour, 6))
		assert.True(t, p.Fits, p.Reason)
		assert.Equal(t, []estimate.ZoneCount{{Zone: "root", Slots: 2}, {Zone: "mid", Slots: 4}}, p.Reservations[0].Places)
		assert.Empty(t, p.Reason)
		p = root.planLease(leaseOf("more", time.Hour, time.Hour, 7))
		assert.False(t, p.Fits)
		assert.Equal(t, 6, p.Reservations[0].Offered)
		assert.Contains(t, p.Reason, "reservation 1 could have 6 of 7 slots")
		for _, m := range []*member{root, mid, leaf} {
			assert.Empty(t, m.view().Leases(""), m.name)
			assert.Empty(t, m.view().Holds(), m.name)
		}

		id, err := root.lease(leaseOf("half", time.Hour, time.Hour, 3))
		require.NoError(t, err)
		root.untilLease(id, api.LeasePending)
		time.Sleep(5 * time.Second)
		l, _ := root.view().Lease(id)
		later, much := l.Terms.Window.End.Add(time.Hour), 7
		w.unchanged(func() {
			p, err = root.lead().PlanUpdate(w.ctx, who, id, api.LeaseChange{End: &later})
			require.NoError(t, err)
			assert.True(t, p.Fits && !p.Held, p.Reason)
			more := []api.ReservationChange{{ID: l.Terms.Reservations[0].ID, Min: &much, Max: &much}}
			p, err = root.lead().PlanUpdate(w.ctx, who, id, api.LeaseChange{Reservations: more})
			require.NoError(t, err)
			assert.False(t, p.Fits)
			name := "renamed"
			p, err = root.lead().PlanUpdate(w.ctx, who, id, api.LeaseChange{Name: &name})
			require.NoError(t, err)
			assert.True(t, p.Fits && p.Held)
			_, err = root.lead().PlanUpdate(w.ctx, api.Caller{User: "u", Project: "q", Role: api.RoleMember}, id, api.LeaseChange{Name: &name})
			assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
		})
	})
}

// drawLease draws a lease of one or two reservations.
func drawLease(rnd *rand.Rand) api.LeaseTerms {
	t := leaseOf("drawn", time.Duration(rnd.IntN(12)*10)*time.Minute, time.Duration(1+rnd.IntN(12))*10*time.Minute, 1+rnd.IntN(4))
	if rnd.IntN(2) == 0 {
		n := 1 + rnd.IntN(2)
		t.Reservations = append(t.Reservations, api.Reservation{Type: api.ReserveHosts, Min: n, Max: n + rnd.IntN(2)})
	}
	if together := rnd.IntN(2) == 0; rnd.IntN(2) == 0 {
		t.Reservations[0].Affinity = &together
	}
	return t
}

// TestPlansAgreeWithLeases plans leases in trees of zones and then makes them: a plan fits if and
// only if the lease can be had, and then it has as many as were planned.
func TestPlansAgreeWithLeases(t *testing.T) {
	fit, short := 0, 0
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				w := newWorld(t)
				root := w.zone("root", nil, 2, 4)
				if seed%3 > 0 {
					child := w.zone("child", root, 3, 2)
					if seed%3 > 1 {
						w.zone("leaf", child, 4)
					}
				}
				for range 15 {
					time.Sleep(5007 * time.Millisecond) // for the children to hear of decisions, and off the ticks of all loops
					synctest.Wait()
					terms := drawLease(rnd)
					p := root.planLease(terms)
					id, err := root.lease(terms)
					require.Equal(t, p.Fits, err == nil, "%+v: %s, but %v", terms, p.Reason, err)
					if err != nil {
						short++
						require.ErrorContains(t, err, p.Reason[:len("Not enough hosts available: reservation 1")])
						continue
					}
					fit++
					l, _ := root.view().Lease(id)
					for i, r := range l.Terms.Reservations {
						n := 0
						for _, s := range root.view().LeaseSlots(l) {
							if s.Group == string(r.ID) {
								n++
							}
						}
						assert.Equal(t, p.Reservations[i].Offered, n)
					}
				}
			})
		})
	}
	assert.Greater(t, fit, 15)
	assert.Greater(t, short, 15)
}
