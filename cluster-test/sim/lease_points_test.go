package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
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
// half, keeps what was acknowledged, starts once and ends once, and leaves nothing. The leaders of the
// root end at two points in each story.
func TestEveryPointOfALease(t *testing.T) {
	roots, wests := leasePoints["root"], leasePoints["west"]
	half := (len(roots) + 1) / 2
	require.LessOrEqual(t, len(wests), half, "each point is in some story")
	var stories []map[string][]crash.Point
	for i, p := range roots[:half] {
		at := map[string][]crash.Point{"root": {p}, "west": {wests[i%len(wests)]}}
		if i+half < len(roots) {
			at["root"] = append(at["root"], roots[i+half])
		}
		stories = append(stories, at)
	}
	for _, at := range dice.Part(t, stories, 1) {
		t.Run(fmt.Sprint(at["root"], " and ", at["west"]), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { leasePointStory(t, at) })
		})
	}
}

// leasePointStory ends a leader of each zone in at at each of its points.
func leasePointStory(t *testing.T, at map[string][]crash.Point) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), three)
	root, ten := w.root(), newTenancy()
	type place struct {
		zone  string
		point crash.Point
	}
	arm := func() map[place]*shot {
		shots := map[place]*shot{}
		for name, points := range at {
			for _, p := range points {
				s := &shot{left: 1}
				shots[place{name, p}] = s
				for _, o := range w.zone(name).nodes {
					o.bomb.arm(p, 0, func() { s.hit(func() { o.down(pointRest) }) })
				}
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
		u := rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{ID: root.reservation(ten.made[0]), Amount: new(14)}}}
		return ten.calls(root).Update(ctx, c, ten.made[0], u)
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
	w.judgeCalls(ten)
	w.empty()
	for p := range first {
		require.LessOrEqual(t, min(first[p].remains(), second[p].remains()), 0, "%s of %s was not reached", p.point, p.zone)
	}
	assert.Equal(t, counts{1, 1}, ten.seen[ten.made[0]])
}

// rest waits a while, and looks at the leases meanwhile.
func (w *world) rest(t *tenancy) {
	w.t.Helper()
	for range 6 {
		await.Sleep(pointRest)
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
		err := t.calls(z).End(ctx, c, id)
		if api.CodeOf(err) == api.CodeNotFound {
			return nil // an answer was lost
		}
		return err
	})
	t.made = slices.DeleteFunc(slices.Clone(t.made), func(o api.LeaseID) bool { return o == id })
}
