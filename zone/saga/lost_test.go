package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

func untilDecided(m *zonetest.Member, res string) *state.Boot {
	m.World.T.Helper()
	var out *state.Boot
	m.Until("boot "+res+" is decided", func(v *state.State) bool {
		b, ok := v.Boot("p", api.ReservationID(res))
		out = b
		return ok && b.Decision != api.DecisionPending
	})
	return out
}

// TestChildLostBeforeTheDecision loses a child that was asked to hold. The boot
// ends without it, and when it comes back it gives up what it has.
func TestChildLostBeforeTheDecision(t *testing.T) {
	for _, c := range []struct {
		name string
		how  zonetest.Fault // of the hold: it was taken, or never came
		min  int
		want api.Decision
		then api.BootState // once the child is back
	}{
		{"it holds, all are needed", zonetest.Silenced, 4, api.DecisionAbort, api.BootFailed},
		{"it was never asked, all are needed", zonetest.Vanished, 4, api.DecisionAbort, api.BootFailed},
		{"it holds, the others are enough", zonetest.Silenced, 2, api.DecisionCommit, api.BootActive},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				w.When(func(now zonetest.Call) zonetest.Fault {
					switch now.Op {
					case "hold":
						return c.how
					case "select":
						if now.N == 1 {
							return ""
						}
					}
					return zonetest.Vanished // from now on nothing is heard of it
				})
				root.Boot(zonetest.Order("b", c.min, 4))
				b := untilDecided(root, "b")
				assert.Equal(t, c.want, b.Decision)
				await.Sleep(5 * time.Minute)
				assert.Equal(t, int64(b.Counts.Live()), root.Used(), "what is here does not wait for the child")
				assert.Zero(t, b.Counts.Error)
				if c.want == api.DecisionAbort {
					assert.Zero(t, root.Used())
					assert.Equal(t, api.BootActive, root.Run(zonetest.Order("next", 2, 2)).State(), "the room is free for others")
				}
				w.When(nil)
				w.Settle()
				assert.Equal(t, c.then, root.Outcome("b").State())
				assert.Zero(t, kid.Used())
			})
		})
	}
}

// TestParentLostForGood leaves a child with a hold that nobody decides: it asks
// upward for ever, holds on, and its operator can decide.
func TestParentLostForGood(t *testing.T) {
	for _, c := range []struct {
		ordered, parent api.Decision // what the operator and the parent decided
		kid             int          // instances in the child in the end
		state           api.BootState
	}{
		{api.DecisionAbort, api.DecisionAbort, 0, api.BootReleased},
		{api.DecisionCommit, api.DecisionAbort, 0, api.BootReleased},
		{api.DecisionCommit, api.DecisionCommit, 2, api.BootActive},
		{api.DecisionAbort, api.DecisionCommit, 0, api.BootDegraded},
	} {
		t.Run(string(c.ordered)+" against "+string(c.parent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { parentLost(t, c.ordered, c.parent, c.kid, c.state) })
		})
	}
}

func parentLost(t *testing.T, ordered, parent api.Decision, left int, want api.BootState) {
	t.Helper()
	w := zonetest.NewWorld(t)
	root := w.Zone("root", nil, 2)
	kid := w.Zone("kid", root, 2)
	root.Log.When(func(k command.Kind, _ int) zonetest.Mishap { // the parent dies around its decision
		if k != command.KindBootDecide {
			return ""
		}
		if parent == api.DecisionCommit {
			return zonetest.Deposed
		}
		return zonetest.Unapplied
	})
	w.When(func(now zonetest.Call) zonetest.Fault { // and tells nobody
		if now.Op == "commit" || now.Op == "abort" {
			return zonetest.Vanished
		}
		return ""
	})
	root.Boot(zonetest.Order("b", 4, 4))
	kid.Until("it holds", func(v *state.State) bool { return len(v.PreparedHolds()) == 1 })
	if parent == api.DecisionCommit {
		untilDecided(root, "b")
	}
	root.Depose()
	root.Kill(true)

	await.Sleep(holdAskAfter + 3*time.Second)
	asked := w.Made("decision", "kid", "root")
	assert.Positive(t, asked)
	await.Sleep(15 * time.Minute)
	assert.Greater(t, w.Made("decision", "kid", "root"), asked+100, "it asks for ever")
	held := kid.View().PreparedHolds()
	require.Len(t, held, 1, "and never decides by itself")
	assert.Equal(t, int64(2), kid.Used())

	require.NoError(t, intake.ResolveHold(t.Context(), kid.Lead().Zone, held[0].ID, ordered))
	h, _ := kid.View().Hold(held[0].Origin, held[0].ID)
	assert.True(t, h.Forced, "it is on record that it was forced")
	await.Sleep(time.Minute)
	assert.Equal(t, map[api.Decision]int64{api.DecisionCommit: 2, api.DecisionAbort: 0}[ordered], kid.Used())

	root.Log.When(nil)
	w.When(nil)
	if parent == api.DecisionAbort {
		root.Do(command.BootRelease{Project: "p", Reservation: "b"})
	}
	root.Kill(false)
	root.Elect()
	if want == api.BootDegraded { // the parent's word was broken, and it says so
		root.Until("it knows", func(v *state.State) bool {
			b, _ := v.Boot("p", "b")
			return b.State() == want
		})
		b := root.Outcome("b")
		assert.Equal(t, 2, b.Counts.Error)
		assert.Equal(t, 2, b.Counts.Active)
		return
	}
	await.Sleep(time.Minute)
	assert.Equal(t, want, root.Outcome("b").State())
	assert.Equal(t, int64(left), kid.Used())
	w.Settle()
}

// TestLateHold sends a hold again after its abort, and one that is overtaken by
// its abort: neither takes anything.
func TestLateHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid, link, r := zonetest.SelectedHold(w, 2)
		ctx := t.Context()
		_, err := kid.Lead().Decide(ctx, link, r.ID, api.DecisionAbort)
		require.NoError(t, err, "the abort of what never came is remembered")
		_, err = kid.Lead().Decide(ctx, link, r.ID, api.DecisionCommit)
		assert.Equal(t, api.CodeConflict, api.CodeOf(err))
		a, err := kid.Lead().Hold(ctx, link, r)
		require.NoError(t, err)
		assert.Equal(t, api.HoldReleased, a.State)
		assert.Empty(t, a.Held)
		assert.Zero(t, kid.Used())

		again := *r
		again.ID = "another"
		a, err = kid.Lead().Hold(ctx, link, &again)
		require.NoError(t, err, "the plan itself was never taken up")
		assert.Len(t, a.Held, 2)
		_, err = kid.Lead().Decide(ctx, link, again.ID, api.DecisionAbort)
		require.NoError(t, err)
		a, err = kid.Lead().Hold(ctx, link, &again)
		require.NoError(t, err)
		assert.Equal(t, api.HoldReleased, a.State)
		assert.Zero(t, kid.Used())
	})
}

// TestAbortsAreForgottenWithTheirPlans: the abort of a hold that never came is
// remembered, once, for as long as the hold could still take anything: by then its plan
// has expired.
func TestAbortsAreForgottenWithTheirPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 2)
		kid.Configure(func(c *api.ZoneConfig) { c.PlanTTL = api.PlanTTLMax })
		up, ok := kid.View().Parent()
		require.True(t, ok)
		ctx, cancel := kid.Within(time.Hour)
		defer cancel()
		req := zonetest.Order("b", 2, 2).Request
		a, err := kid.Lead().Select(ctx, up.Zone, &req)
		require.NoError(t, err)
		late := &api.HoldRequest{ID: "late", Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs("b", 2)}, Commit: true}
		_, err = kid.Lead().Decide(ctx, up, late.ID, api.DecisionAbort)
		require.NoError(t, err)
		before := kid.View().Index()
		_, err = kid.Lead().Decide(ctx, up, late.ID, api.DecisionAbort)
		require.NoError(t, err)
		assert.Equal(t, before, kid.View().Index(), "the abort again is no news")

		await.Sleep(api.PlanTTLMax - time.Second)
		got, err := kid.Lead().Hold(ctx, up, late)
		require.NoError(t, err, "its plan is still good")
		assert.Equal(t, api.HoldReleased, got.State)

		await.Sleep(pruneDead - api.PlanTTLMax + 2*pruneEvery)
		_, known := kid.View().Hold(up.ID, late.ID)
		assert.False(t, known)
		_, err = kid.Lead().Hold(ctx, up, late)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		assert.Zero(t, kid.Used())
	})
}

// TestLongSilence cuts a parent off from its child for longer than ended things
// are remembered. In the end it knows what became of its instances.
func TestLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 4, 4)).State())
		w.Settle()
		w.Sever("root", "kid", true)
		await.Sleep(time.Minute)
		gone := kid.Instances("b")
		for _, i := range gone {
			kid.Delete(i.ID)
		}
		kid.Until("they are gone", func(*state.State) bool { return len(kid.Instances("b")) == 0 && kid.Used() == 0 })
		await.Sleep(pruneAfter + 5*pruneEvery)
		w.Sever("root", "kid", false)
		root.Until("it knows that they are gone", func(*state.State) bool { return len(root.Instances("b")) == 2 })
		w.Settle()
	})
}

// TestNewLeaderLosesAPlan ends a boot that came with its plan, because the plan
// was in the memory of the leader that is gone.
func TestNewLeaderLosesAPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		o := zonetest.Order("b", 2, 2)
		req := o.Request
		a, err := root.Lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		o.Blob = a.Blob
		root.Log.When(func(k command.Kind, _ int) zonetest.Mishap {
			if k == command.KindHold {
				return zonetest.NotLeader
			}
			return ""
		})
		root.Boot(o)
		root.Elect()
		b := root.Outcome("b")
		assert.Equal(t, api.BootFailed, b.State())
		assert.Contains(t, b.Reason, "select again")
		w.Settle()
	})
}

// TestBootsAtOnce has several boots want the same last room.
func TestBootsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, _, _ := zonetest.Three(w)
		names := []string{"a", "b", "c", "d"}
		for _, n := range names {
			root.Boot(zonetest.Order(n, 2, 3))
		}
		made := 0
		for _, n := range names {
			if b := root.Outcome(n); b.State() == api.BootActive {
				made += b.Counts.Live()
			}
		}
		assert.LessOrEqual(t, made, 6)
		assert.GreaterOrEqual(t, made, 2)
		w.Settle()
	})
}
