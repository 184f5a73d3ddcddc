package sim

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/internal/dice"
	"berth/raftstore/state"
)

// order gives all instances of a reservation an order, at any node of the zone that has booted it.
func (z *zone) order(o api.PowerOrder, res string) {
	z.w.t.Helper()
	for _, i := range z.view().OfReservation(project, api.ReservationID(res)) {
		z.insist("order", func(ctx context.Context, c *client.Client) error {
			_, err := c.OrderServer(ctx, i.ID, o)
			return err
		})
	}
}

// untilAre waits until the zone shows all instances of a reservation with a status.
func (z *zone) untilAre(st api.Status, res string) {
	z.w.t.Helper()
	z.until("all are "+string(st), func(v *state.State) bool {
		for _, i := range v.OfReservation(project, api.ReservationID(res)) {
			if i.Status != st {
				return false
			}
		}
		return true
	})
}

// starts returns how often agents of a zone have started anything.
func (z *zone) starts() (n int) {
	for _, c := range z.crews {
		n += c.fake.Starts()
	}
	return n
}

// TestOrdersSurviveLeadersAndAgents stops and starts servers of a child at its parent, while the leader of the
// child is killed after the order and its agents before they have carried it out. Each order is carried out
// once, and the room is kept.
func TestOrdersSurviveLeadersAndAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), plot{"root", 1, nil, []plot{{"west", 3, []int{1, 1}, nil}}})
		root, west := w.root(), w.zone("west")
		require.Equal(t, api.BootActive, root.run("r", 4, 4).State)
		require.Equal(t, 4, west.starts())
		disturbed := func(o api.PowerOrder, is api.Status) {
			for _, c := range west.crews {
				c.kill()
				c.reap()
			}
			root.order(o, "r")
			old := west.leader()
			old.stop()
			old.reap()
			for _, c := range west.crews {
				c.start()
			}
			root.untilAre(is, "r")
			old.start()
		}
		disturbed(api.PowerStop, api.StatusShutoff)
		assert.Equal(t, 4, west.starts())
		assert.Equal(t, api.BootFailed, root.run("more", 5, 5).State, "the room is kept")
		disturbed(api.PowerStart, api.StatusActive)
		assert.Equal(t, 8, west.starts())
		disturbed(api.PowerRestart, api.StatusActive)
		assert.Equal(t, 12, west.starts(), "once for each order")
		w.settle()
		w.check()
		w.journals()
	})
}
