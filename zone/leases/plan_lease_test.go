package leases_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/zone/estimate"
	"berth/zone/leases"
	"berth/zone/zonetest"
)

// planLease makes a dry run of a lease.
func planLease(m *zonetest.Member, t api.LeaseTerms) *leases.Planned {
	m.World.T.Helper()
	ctx, cancel := m.Within(2 * time.Minute)
	defer cancel()
	var p *leases.Planned
	m.World.Unchanged(func() {
		var err error
		p, err = m.Lead().Plan(ctx, zonetest.Caller, t)
		require.NoError(m.World.T, err)
	})
	return p
}

// TestPlannedLeaseOverThreeLevels plans what fits in three zones, and one slot more.
func TestPlannedLeaseOverThreeLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		w.Settle()
		p := planLease(root, zonetest.LeaseOf("all", time.Hour, time.Hour, 6))
		assert.True(t, p.Fits, p.Reason)
		assert.Equal(t, []estimate.ZoneCount{{Zone: "root", Slots: 2}, {Zone: "mid", Slots: 4}}, p.Reservations[0].Places)
		assert.Empty(t, p.Reason)
		p = planLease(root, zonetest.LeaseOf("more", time.Hour, time.Hour, 7))
		assert.False(t, p.Fits)
		assert.Equal(t, 6, p.Reservations[0].Offered)
		assert.Contains(t, p.Reason, "reservation 1 could have 6 of 7 slots")
		for _, m := range []*zonetest.Member{root, mid, leaf} {
			assert.Empty(t, m.View().Leases(""), m.Name)
			assert.Empty(t, m.View().Holds(), m.Name)
		}

		id, err := root.Lease(zonetest.LeaseOf("half", time.Hour, time.Hour, 3))
		require.NoError(t, err)
		root.UntilLease(id, api.LeasePending)
		await.Sleep(5 * time.Second)
		l, _ := root.View().Lease(id)
		later, much := l.Terms.Window.End.Add(time.Hour), 7
		w.Unchanged(func() {
			p, err = root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{End: &later})
			require.NoError(t, err)
			assert.True(t, p.Fits && !p.Held, p.Reason)
			more := []api.ReservationChange{{ID: l.Terms.Reservations[0].ID, Min: &much, Max: &much}}
			p, err = root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{Reservations: more})
			require.NoError(t, err)
			assert.False(t, p.Fits)
			name := "renamed"
			p, err = root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{Name: &name})
			require.NoError(t, err)
			assert.True(t, p.Fits && p.Held)
			_, err = root.Lead().PlanUpdate(w.Ctx, api.Caller{User: "u", Project: "q", Role: api.RoleMember}, id, api.LeaseChange{Name: &name})
			assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
		})
	})
}

// TestPlansAgreeWithLeases plans leases in trees of zones and then makes them: a plan fits if and
// only if the lease can be had, and then it has as many as were planned.
func TestPlansAgreeWithLeases(t *testing.T) {
	fit, short := 0, 0
	seeds := dice.Seeds(t, zonetest.Few(6, 1))
	for n, seed := range seeds {
		levels := (seeds[0] + uint64(n)) % 3 // below the root
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2, 4)
				if levels > 0 {
					child := w.Zone("child", root, 3, 2)
					if levels > 1 {
						w.Zone("leaf", child, 4)
					}
				}
				for range 15 {
					await.Sleep(5007 * time.Millisecond) // for the children to hear of decisions, and off the ticks of all loops
					synctest.Wait()
					terms := zonetest.DrawLease(rnd)
					p := planLease(root, terms)
					id, err := root.Lease(terms)
					require.Equal(t, p.Fits, err == nil, "%+v: %s, but %v", terms, p.Reason, err)
					if err != nil {
						short++
						require.ErrorContains(t, err, p.Reason[:len("Not enough hosts available: reservation 1")])
						continue
					}
					fit++
					l, _ := root.View().Lease(id)
					for i, r := range l.Terms.Reservations {
						n := 0
						for _, s := range root.View().LeaseSlots(l) {
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
	t.Logf("%d fit, %d do not", fit, short)
	if testing.Short() {
		return
	}
	assert.Greater(t, fit, 10)
	assert.Greater(t, short, 15)
}
