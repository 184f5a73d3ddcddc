package sim

import (
	"context"
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

// silence is how long a zone is lost before anybody looks.
const silence = 15 * time.Minute

// perish ends every node of a zone for good when the first one reaches p, and
// closes the channel that it returns.
func (z *zone) perish(p crash.Point) <-chan struct{} {
	gone := make(chan struct{})
	s := &shot{left: 1}
	for _, o := range z.nodes {
		o.bomb.arm(p, 0, func() {
			s.hit(func() {
				for _, every := range z.nodes {
					every.kill()
				}
				close(gone)
			})
		})
	}
	return gone
}

// doomed waits until a zone is gone, and counts it as lost.
func (z *zone) doomed(gone <-chan struct{}) {
	z.w.t.Helper()
	select {
	case <-gone:
		z.lost = true
	case <-time.After(patience):
		require.Fail(z.w.t, "the zone is still there", z.name)
	}
}

// TestParentLostForGood loses the root between hold and decision. Its child holds
// what it was asked to for ever, until an operator decides; then that reaches
// every level, and the room is free again.
func TestParentLostForGood(t *testing.T) {
	for _, d := range []api.Decision{api.DecisionAbort, api.DecisionCommit} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { parentLost(t, d) })
		})
	}
}

func parentLost(t *testing.T, d api.Decision) {
	t.Helper()
	w := newWorld(t, 1, line)
	root, west, edge := w.root(), w.zone("west"), w.zone("edge")
	gone := root.perish(crash.DecisionLogging)
	root.tell("wide", whole, whole)
	root.doomed(gone)

	time.Sleep(silence)
	for _, z := range []*zone{west, edge} {
		held := z.view().PreparedHolds()
		require.Len(t, held, 1, "zone %s must not decide by itself", z.name)
		assert.Len(t, held[0].Slots, 4)
	}
	assert.Zero(t, w.books.count())

	var held []rest.Hold
	west.insist("holds", func(ctx context.Context, c *client.Client) (err error) {
		held, err = c.Holds(ctx)
		return err
	})
	require.Len(t, held, 1)
	west.insist("resolve", func(ctx context.Context, c *client.Client) error { return c.ResolveHold(ctx, held[0].ID, d) })
	w.settle()
	w.check()
	if d == api.DecisionCommit {
		assert.Equal(t, 8, w.books.count(), "what was forced to be, runs")
		return
	}
	assert.Zero(t, w.books.count())
	assert.Equal(t, api.BootActive, west.run("own", 8, 8).State, "the room is free again")
	w.check()
	w.empty()
}

// TestChildLostForGood loses the lowest zone, before it was asked and with
// instances in it. What is elsewhere lives and ends as if nothing was; what is in
// the lost zone is neither given up nor started again.
func TestChildLostForGood(t *testing.T) {
	for _, c := range []struct {
		at   crash.Point
		left int // instances of which nobody can say that they are gone
	}{
		{crash.SelectSealed, 0},
		{crash.HoldAnswering, 0},
		{crash.VerdictLogging, 4},
		{crash.VerdictLogged, 4},
		{crash.ReportLogged, 4},
	} {
		t.Run(string(c.at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { childLost(t, c.at, c.left) })
		})
	}
}

func childLost(t *testing.T, at crash.Point, left int) {
	t.Helper()
	w := newWorld(t, 1, line)
	root, edge := w.root(), w.zone("edge")
	gone := edge.perish(at)
	root.tell("wide", 2, whole)
	edge.doomed(gone)
	// A zone that did not answer in time has no part: the others are enough.
	root.until("the boot is decided, and runs where it can", func(v *state.State) bool {
		b, _ := v.Boot(project, "wide")
		return b.Decision == api.DecisionCommit && b.Counts.Active >= 4
	})
	time.Sleep(silence)
	w.glance()
	w.holds()
	there, err := edge.crews[0].fake.List(w.ctx)
	require.NoError(t, err)

	root.insist("release", func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, "wide", 0)
		return err
	})
	for _, z := range []*zone{root, w.zone("west")} {
		z.until("its room is free", func(v *state.State) bool {
			for _, h := range v.AllHosts() {
				if full, _ := v.Host(h.ID); len(full.Used) > 0 {
					return false
				}
			}
			return true
		})
	}
	assert.Equal(t, len(there), w.books.count(), "nobody ends what is in the lost zone")
	again := root.run("again", 8, 8)
	assert.Equal(t, api.BootActive, again.State)
	b, _ := root.view().Boot(project, "wide")
	assert.Equal(t, left, b.Counts.Deleting, "nobody says that it is gone")
	w.glance()
	w.holds()
}
