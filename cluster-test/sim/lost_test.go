package sim

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// tellDoomed boots in a zone that perishes by that, maybe before it has answered, and waits until it is gone.
func (z *zone) tellDoomed(gone <-chan struct{}, res string) {
	z.w.t.Helper()
	z.w.ops.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(z.w.ctx, callTimeout)
			_, err := z.client(z.nodes[0]).Boot(ctx, order(res, whole, whole), "")
			cancel()
			z.w.tally.op("boot", err)
			select {
			case <-gone:
				return
			default:
			}
			if err == nil || z.w.ctx.Err() != nil {
				return
			}
			await.Sleep(time.Second)
		}
	})
	z.doomed(gone)
}

// TestParentLostForGood loses the root between hold and decision. Its child holds
// what it was asked to for ever, until an operator decides; then that reaches
// every level, and the room is free again.
func TestParentLostForGood(t *testing.T) {
	for _, d := range dice.Part(t, []api.Decision{api.DecisionAbort, api.DecisionCommit}, 1) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { parentLost(t, d) })
		})
	}
}

func parentLost(t *testing.T, d api.Decision) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), line)
	root, west, edge := w.root(), w.zone("west"), w.zone("edge")
	gone := root.perish(crash.DecisionLogging)
	root.tellDoomed(gone, "wide")

	await.Sleep(silence)
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
	type story struct {
		at   crash.Point
		left int // instances of which nobody can say that they are gone
	}
	for _, c := range dice.Part(t, []story{
		{crash.SelectSealed, 0},
		{crash.HoldAnswering, 0},
		{crash.VerdictLogging, 4},
		{crash.VerdictLogged, 4},
		{crash.ReportLogged, 4},
	}, 1) {
		t.Run(string(c.at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { childLost(t, c.at, c.left) })
		})
	}
}

func childLost(t *testing.T, at crash.Point, left int) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), line)
	root, edge := w.root(), w.zone("edge")
	gone := edge.perish(at)
	root.tell("wide", 2, whole)
	edge.doomed(gone)
	// A zone that did not answer in time has no part: the others are enough.
	root.until("the boot is decided, and runs where it can", func(v *state.State) bool {
		b, _ := v.Boot(project, "wide")
		return b.Decision == api.DecisionCommit && b.Counts.Active >= 4
	})
	await.Sleep(silence)
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

// writeOff pauses a linked zone and writes it off. What a dry run says is lost must be what is lost.
func (z *zone) writeOff(other *zone, endWork bool) (lost rest.Losses) {
	z.w.t.Helper()
	l, linked := z.view().LinkByZone(other.id)
	require.True(z.w.t, linked)
	ref, paused := string(l.ID), api.LinkPaused
	z.insist("pause", func(ctx context.Context, c *client.Client) error {
		_, err := c.UpdateZone(ctx, ref, rest.ZoneSpec{State: &paused})
		return err
	})
	z.insist("write off", func(ctx context.Context, c *client.Client) error {
		tried, err := c.WriteOffZone(ctx, ref, rest.WriteOff{EndWork: endWork, DryRun: true})
		if err != nil {
			return err
		}
		if lost, err = c.WriteOffZone(ctx, ref, rest.WriteOff{EndWork: endWork}); err == nil {
			tried.DryRun = false
			assert.Equal(z.w.t, tried, lost)
		}
		return err
	})
	return lost
}

// TestLostChildWrittenOff loses the lowest zone with instances in it, decided there or not. Once its
// parent has written it off, whatever waited for it ends, on every level, and a new boot gets what is left.
func TestLostChildWrittenOff(t *testing.T) {
	for _, at := range dice.Part(t, []crash.Point{crash.VerdictLogging, crash.ReportLogged}, 1) {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { childWrittenOff(t, at) })
		})
	}
}

func childWrittenOff(t *testing.T, at crash.Point) {
	t.Helper()
	w := newWorld(t, dice.Seed(t), line)
	root, west, edge := w.root(), w.zone("west"), w.zone("edge")
	gone := edge.perish(at)
	root.tell("wide", 2, whole)
	edge.doomed(gone)
	root.until("the boot is decided, and runs where it can", func(v *state.State) bool {
		b, _ := v.Boot(project, "wide")
		return b.Decision == api.DecisionCommit && b.Counts.Active >= 4
	})
	await.Sleep(silence)
	root.insist("release", func(ctx context.Context, c *client.Client) error {
		_, err := c.Release(ctx, "wide", 0)
		return err
	})
	await.Sleep(silence)
	b, _ := root.view().Boot(project, "wide")
	require.False(t, b.Final(), "nobody says that what is in the lost zone is gone")

	lost := west.writeOff(edge, false)
	assert.Equal(t, 4, lost.Instances)
	assert.Positive(t, lost.Parts)
	assert.True(t, lost.Unlinked)
	root.until("all of the boot is gone", func(v *state.State) bool {
		b, _ := v.Boot(project, "wide")
		return b.Final() && b.Counts.Deleting == 0
	})
	assert.Equal(t, api.BootActive, root.run("again", 8, 8).State)
	w.settle()
	w.glance()
}

// TestLostParentWrittenOff loses the root before or after its decision. Once its child has written it off,
// what the root has there ends on every level, and the room is the child's own.
func TestLostParentWrittenOff(t *testing.T) {
	stories := map[string]func(t *testing.T, w *world){
		"undecided": func(t *testing.T, w *world) {
			t.Helper()
			gone := w.root().perish(crash.DecisionLogging)
			w.root().tellDoomed(gone, "wide")
			await.Sleep(silence)
			lost := w.zone("west").writeOff(w.root(), false)
			assert.Equal(t, 1, lost.Holds)
			assert.True(t, lost.Unlinked)
		},
		"committed": func(t *testing.T, w *world) {
			t.Helper()
			root, west := w.root(), w.zone("west")
			require.Equal(t, api.BootActive, root.run("wide", whole, whole).State)
			for _, p := range root.nodes {
				p.kill()
			}
			root.lost = true
			await.Sleep(silence)
			lost := west.writeOff(root, true)
			assert.Equal(t, 8, lost.Ending, "what is below as well")
			assert.False(t, lost.Unlinked)
			west.until("what the root had has ended", func(v *state.State) bool { return len(all(v)) == 0 })
			assert.True(t, west.writeOff(root, false).Unlinked)
		},
	}
	for _, name := range dice.Part(t, slices.Sorted(maps.Keys(stories)), 1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, dice.Seed(t), line)
				stories[name](t, w)
				assert.Equal(t, api.BootActive, w.zone("west").run("own", 8, 8).State, "the room is free again")
				w.settle()
				w.check()
			})
		})
	}
}
