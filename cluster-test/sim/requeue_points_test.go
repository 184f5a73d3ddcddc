package sim

import (
	"context"
	"maps"
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

// requeuePoints are the points on the way of preempted instances until they run again, by the zone
// whose leader is ended there.
var requeuePoints = map[string][]crash.Point{
	"root": append(crash.RequeuePoints(), crash.HoldLogged, crash.DecisionLogging, crash.DecisionLogged, crash.FollowLogged),
	"west": {crash.ReportLogged, crash.VerdictLogged},
}

// TestEveryPointOfARequeue ends leaders at each point on the way of instances over two zones that
// leave for firm ones and are booted again: when they leave, and when there is room again. Each
// is booted once, and not before it has ended.
func TestEveryPointOfARequeue(t *testing.T) {
	type place struct {
		zone  string
		point crash.Point
	}
	var places []place
	for _, zone := range slices.Sorted(maps.Keys(requeuePoints)) {
		for _, p := range requeuePoints[zone] {
			places = append(places, place{zone, p})
		}
	}
	for _, at := range dice.Part(t, places, 4) {
		t.Run(at.zone+" "+string(at.point), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { requeuePointStory(t, at.zone, at.point) })
		})
	}
}

func requeuePointStory(t *testing.T, zone string, p crash.Point) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), plot{"root", 3, []int{1}, []plot{{"west", 1, []int{1}, nil}}})
	root := w.root()
	arm := func() *shot {
		s := &shot{left: 1}
		for _, o := range w.zone(zone).nodes {
			o.bomb.arm(p, 0, func() { s.hit(func() { o.down(pointRest) }) })
		}
		return s
	}
	soft := order("soft", 8, 8) // all room
	soft.Hints, soft.OnPreempt = &rest.SchedulerHints{Preemptible: new(rest.Flag(true))}, api.PreemptRequeue
	root.bootUntil(soft, api.BootActive)
	w.settle()
	first := arm()
	firm := order("firm", 6, 6)
	firm.Preempt = true
	root.bootUntil(firm, api.BootActive)
	root.until("they wait to be booted again", func(v *state.State) bool { return v.CountRequeued() == 6 })
	await.Sleep(pointRest)
	second := arm()
	root.giveBack("firm")
	root.until("they are booted again", func(v *state.State) bool { return v.CountRequeued() == 0 })
	w.heal()
	w.awaitRequeued()
	w.check()
	w.journals()
	w.checkRooms()
	assert.Equal(t, 8, w.books.count(), "each runs once")
	w.empty()
	require.LessOrEqual(t, min(first.remains(), second.remains()), 0, "%s was not reached", p)
}

// bootUntil boots, and waits until that has come to a state.
func (z *zone) bootUntil(o rest.ServerCreate, is api.BootState) {
	z.w.t.Helper()
	z.insist("boot", func(ctx context.Context, c *client.Client) error {
		_, err := c.Boot(ctx, o, "")
		return err
	})
	z.until("boot "+o.Reservation+" is "+string(is), func(v *state.State) bool {
		b, ok := v.Boot(project, api.ReservationID(o.Reservation))
		return ok && b.State() == is
	})
}
