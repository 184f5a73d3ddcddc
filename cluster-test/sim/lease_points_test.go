package sim

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/crash"
	"berth/raftstore/state"
)

// leasePoints are the points on the way of a lease over three zones, by the zone whose leader is
// ended there: those of its own, and those of the boots whose way its room takes.
var leasePoints = map[string][]crash.Point{
	"root": append(crash.LeasePoints(), crash.HoldLogged, crash.HoldAsked, crash.PartsLogged, crash.DecisionLogging, crash.DecisionLogged,
		crash.DecisionTelling, crash.AckLogged, crash.FollowLogged),
	"west": {
		crash.HoldLogged, crash.HoldAnswering, crash.VerdictLogging, crash.VerdictLogged, crash.TickLogging, crash.TickLogged, crash.ReportLogged,
	},
}

// TestEveryPointOfALease ends leaders of two zones at each point on the way of a lease over three
// zones, twice: once while it is made, and once while it is changed, starts or ends. It is never
// half, keeps what was acknowledged, starts once and ends once, and leaves nothing.
func TestEveryPointOfALease(t *testing.T) {
	require.LessOrEqual(t, len(leasePoints["west"]), len(leasePoints["root"]), "each point is in some story")
	for i, p := range leasePoints["root"] {
		at := map[string]crash.Point{"root": p, "west": leasePoints["west"][i%len(leasePoints["west"])]}
		t.Run(string(p)+" and "+string(at["west"]), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { leasePointStory(t, at) })
		})
	}
}

// leasePointStory ends a leader of each zone in at there.
func leasePointStory(t *testing.T, at map[string]crash.Point) {
	t.Helper()
	w := newWorld(t, 1, three)
	root, ten := w.root(), newTenancy()
	arm := func() map[string]*shot {
		shots := map[string]*shot{}
		for name, p := range at {
			s := &shot{left: 1}
			shots[name] = s
			for _, o := range w.zone(name).nodes {
				o.bomb.arm(p, 0, func() { s.hit(func() { o.down(pointRest) }) })
			}
		}
		return shots
	}
	first := arm()
	root.insistLease(ten, leaseOf("a", 13, 3, 4))
	root.insistLease(ten, leaseOf("b", 13, 7, 3)) // it begins where the other one ends
	w.rest(ten)
	second := arm()
	root.insist("update", func(ctx context.Context, c *client.Client) error {
		_, err := c.UpdateLease(ctx, ten.made[0], rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{ID: root.reservation(ten.made[0]), Amount: new(14)}}})
		return err
	})
	w.rest(ten)
	root.until("it is active", func(v *state.State) bool {
		l, ok := v.Lease(ten.made[0])
		return ok && l.Status == api.LeaseActive
	})
	o := order("inside", 14, 14) // in every zone
	o.Hints = &rest.SchedulerHints{Reservation: root.reservation(ten.made[0])}
	root.insist("boot", func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, o, "")
		return err
	})
	w.rest(ten)
	root.until("the next one is active", func(v *state.State) bool {
		l, ok := v.Lease(ten.made[1])
		return ok && l.Status == api.LeaseActive
	})
	root.end(ten, ten.made[1])
	alone := leaseOf("c", 4, 2, 2) // nothing else moves the time on when it is due
	alone.Zones = []string{"root"}
	root.insistLease(ten, alone)
	w.rest(ten)
	root.until("the last one is active", func(v *state.State) bool {
		l, ok := v.Lease(ten.made[1])
		return ok && l.Status == api.LeaseActive
	})
	w.heal()
	w.outlive(ten)
	w.empty()
	for name, p := range at {
		require.LessOrEqual(t, min(first[name].remains(), second[name].remains()), 0, "%s of %s was not reached", p, name)
	}
	assert.Equal(t, counts{1, 1}, ten.seen[ten.made[0]])
}

// rest waits a while, and looks at the leases meanwhile.
func (w *world) rest(t *tenancy) {
	w.t.Helper()
	for range 6 {
		time.Sleep(pointRest)
		w.glance()
		w.glanceAtLeases(t)
		w.holds()
	}
}

// reservation returns the one reservation of a lease.
func (z *zone) reservation(id api.LeaseID) api.ReservationID {
	z.w.t.Helper()
	l, ok := z.view().Lease(id)
	require.True(z.w.t, ok)
	return l.Terms.Reservations[0].ID
}

// end ends a lease, and repeats that until nobody knows it any more.
func (z *zone) end(t *tenancy, id api.LeaseID) {
	z.w.t.Helper()
	t.ended[id] = true
	z.insist("end", func(ctx context.Context, c *client.Client) error {
		err := c.DeleteLease(ctx, id)
		if api.CodeOf(err) == api.CodeNotFound {
			return nil // an answer was lost
		}
		return err
	})
	t.made = slices.DeleteFunc(slices.Clone(t.made), func(o api.LeaseID) bool { return o == id })
}
