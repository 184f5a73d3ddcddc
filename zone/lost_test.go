package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// used returns how many processors of a zone are claimed.
func (m *member) used() int64 {
	var sum int64
	v := m.view()
	for _, h := range v.AllHosts() {
		full, _ := v.Host(h.ID)
		sum += full.Used[api.VCPU]
	}
	return sum
}

// made returns how often a call was made.
func (w *world) made(op, from, to string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[call{op: op, from: from, to: to}]
}

func (m *member) decided(res string) *state.Boot {
	m.w.t.Helper()
	var out *state.Boot
	m.until("boot "+res+" is decided", func(v *state.State) bool {
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
		how  fault // of the hold: it was taken, or never came
		min  int
		want api.Decision
		then api.BootState // once the child is back
	}{
		{"it holds, all are needed", silenced, 4, api.DecisionAbort, api.BootFailed},
		{"it was never asked, all are needed", vanished, 4, api.DecisionAbort, api.BootFailed},
		{"it holds, the others are enough", silenced, 2, api.DecisionCommit, api.BootActive},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 2)
				kid := w.zone("kid", root, 2)
				w.when(func(now call) fault {
					switch now.op {
					case "hold":
						return c.how
					case "select":
						if now.n == 1 {
							return ""
						}
					}
					return vanished // from now on nothing is heard of it
				})
				root.boot(order("b", c.min, 4))
				b := root.decided("b")
				assert.Equal(t, c.want, b.Decision)
				time.Sleep(5 * time.Minute)
				assert.Equal(t, int64(b.Counts.Live()), root.used(), "what is here does not wait for the child")
				assert.Zero(t, b.Counts.Error)
				if c.want == api.DecisionAbort {
					assert.Zero(t, root.used())
					assert.Equal(t, api.BootActive, root.run(order("next", 2, 2)).State(), "the room is free for others")
				}
				w.when(nil)
				w.settle()
				assert.Equal(t, c.then, root.outcome("b").State())
				assert.Zero(t, kid.used())
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
	w := newWorld(t)
	root := w.zone("root", nil, 2)
	kid := w.zone("kid", root, 2)
	root.log.when(func(k command.Kind, _ int) mishap { // the parent dies around its decision
		if k != command.KindBootDecide {
			return ""
		}
		if parent == api.DecisionCommit {
			return deposed
		}
		return unapplied
	})
	w.when(func(now call) fault { // and tells nobody
		if now.op == "commit" || now.op == "abort" {
			return vanished
		}
		return ""
	})
	root.boot(order("b", 4, 4))
	kid.until("it holds", func(v *state.State) bool { return len(v.PreparedHolds()) == 1 })
	if parent == api.DecisionCommit {
		root.decided("b")
	}
	root.depose()
	root.kill(true)

	time.Sleep(holdAskAfter + 3*time.Second)
	asked := w.made("decision", "kid", "root")
	assert.Positive(t, asked)
	time.Sleep(15 * time.Minute)
	assert.Greater(t, w.made("decision", "kid", "root"), asked+100, "it asks for ever")
	held := kid.view().PreparedHolds()
	require.Len(t, held, 1, "and never decides by itself")
	assert.Equal(t, int64(2), kid.used())

	require.NoError(t, intake.ResolveHold(t.Context(), kid.lead().Zone, held[0].ID, ordered))
	h, _ := kid.view().Hold(held[0].Origin, held[0].ID)
	assert.True(t, h.Forced, "it is on record that it was forced")
	time.Sleep(time.Minute)
	assert.Equal(t, map[api.Decision]int64{api.DecisionCommit: 2, api.DecisionAbort: 0}[ordered], kid.used())

	root.log.when(nil)
	w.when(nil)
	if parent == api.DecisionAbort {
		root.do(command.BootRelease{Project: "p", Reservation: "b"})
	}
	root.kill(false)
	root.elect()
	if want == api.BootDegraded { // the parent's word was broken, and it says so
		root.until("it knows", func(v *state.State) bool {
			b, _ := v.Boot("p", "b")
			return b.State() == want
		})
		b := root.outcome("b")
		assert.Equal(t, 2, b.Counts.Error)
		assert.Equal(t, 2, b.Counts.Active)
		return
	}
	time.Sleep(time.Minute)
	assert.Equal(t, want, root.outcome("b").State())
	assert.Equal(t, int64(left), kid.used())
	w.settle()
}

// TestLateHold sends a hold again after its abort, and one that is overtaken by
// its abort: neither takes anything.
func TestLateHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kid, link, r := selected(w, 2)
		ctx := t.Context()
		_, err := kid.lead().Decide(ctx, link, r.ID, api.DecisionAbort)
		require.NoError(t, err, "the abort of what never came is remembered")
		_, err = kid.lead().Decide(ctx, link, r.ID, api.DecisionCommit)
		assert.Equal(t, api.CodeConflict, api.CodeOf(err))
		a, err := kid.lead().Hold(ctx, link, r)
		require.NoError(t, err)
		assert.Equal(t, api.HoldReleased, a.State)
		assert.Empty(t, a.Held)
		assert.Zero(t, kid.used())

		again := *r
		again.ID = "another"
		a, err = kid.lead().Hold(ctx, link, &again)
		require.NoError(t, err, "the plan itself was never taken up")
		assert.Len(t, a.Held, 2)
		_, err = kid.lead().Decide(ctx, link, again.ID, api.DecisionAbort)
		require.NoError(t, err)
		a, err = kid.lead().Hold(ctx, link, &again)
		require.NoError(t, err)
		assert.Equal(t, api.HoldReleased, a.State)
		assert.Zero(t, kid.used())
	})
}

// TestAbortsAreForgottenWithTheirPlans: the abort of a hold that never came is
// remembered, once, for as long as the hold could still take anything: by then its plan
// has expired.
func TestAbortsAreForgottenWithTheirPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		kid := w.zone("kid", root, 2)
		kid.config(func(c *api.ZoneConfig) { c.PlanTTL = api.PlanTTLMax })
		up, ok := kid.view().Parent()
		require.True(t, ok)
		ctx, cancel := kid.within(time.Hour)
		defer cancel()
		req := order("b", 2, 2).Request
		a, err := kid.lead().Select(ctx, up.Zone, &req)
		require.NoError(t, err)
		late := &api.HoldRequest{ID: "late", Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{specs("b", 2)}, Commit: true}
		_, err = kid.lead().Decide(ctx, up, late.ID, api.DecisionAbort)
		require.NoError(t, err)
		before := kid.view().Index()
		_, err = kid.lead().Decide(ctx, up, late.ID, api.DecisionAbort)
		require.NoError(t, err)
		assert.Equal(t, before, kid.view().Index(), "the abort again is no news")

		time.Sleep(api.PlanTTLMax - time.Second)
		got, err := kid.lead().Hold(ctx, up, late)
		require.NoError(t, err, "its plan is still good")
		assert.Equal(t, api.HoldReleased, got.State)

		time.Sleep(pruneDead - api.PlanTTLMax + 2*pruneEvery)
		_, known := kid.view().Hold(up.ID, late.ID)
		assert.False(t, known)
		_, err = kid.lead().Hold(ctx, up, late)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		assert.Zero(t, kid.used())
	})
}

// selected returns a child with room for n, its parent's link, and a hold of n
// slots that it has offered.
func selected(w *world, n int) (*member, *api.Link, *api.HoldRequest) {
	root := w.zone("root", nil)
	kid := w.zone("kid", root, int64(n))
	link, ok := kid.view().Parent()
	require.True(w.t, ok)
	req := order("b", n, n).Request
	a, err := kid.lead().Select(w.ctx, link.Zone, &req)
	require.NoError(w.t, err)
	require.Len(w.t, a.Weights[0], n)
	return kid, link, &api.HoldRequest{
		ID: "hold", Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{specs("b", n)},
	}
}

// TestLongSilence cuts a parent off from its child for longer than ended things
// are remembered. In the end it knows what became of its instances.
func TestLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		assert.Equal(t, api.BootActive, root.run(order("b", 4, 4)).State())
		w.settle()
		w.sever("root", "kid", true)
		time.Sleep(time.Minute)
		gone := kid.instances("b")
		for _, i := range gone {
			kid.delete(i.ID)
		}
		kid.until("they are gone", func(*state.State) bool { return len(kid.instances("b")) == 0 && kid.used() == 0 })
		time.Sleep(pruneAfter + 5*pruneEvery)
		w.sever("root", "kid", false)
		root.until("it knows that they are gone", func(*state.State) bool { return len(root.instances("b")) == 2 })
		w.settle()
	})
}

// TestNewLeaderLosesAPlan ends a boot that came with its plan, because the plan
// was in the memory of the leader that is gone.
func TestNewLeaderLosesAPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		o := order("b", 2, 2)
		req := o.Request
		a, err := root.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		o.Blob = a.Blob
		root.log.when(func(k command.Kind, _ int) mishap {
			if k == command.KindHold {
				return notLeader
			}
			return ""
		})
		root.boot(o)
		root.elect()
		b := root.outcome("b")
		assert.Equal(t, api.BootFailed, b.State())
		assert.Contains(t, b.Reason, "select again")
		w.settle()
	})
}

// TestBootsAtOnce has several boots want the same last room.
func TestBootsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, _, _ := three(w)
		names := []string{"a", "b", "c", "d"}
		for _, n := range names {
			root.boot(order(n, 2, 3))
		}
		made := 0
		for _, n := range names {
			if b := root.outcome(n); b.State() == api.BootActive {
				made += b.Counts.Live()
			}
		}
		assert.LessOrEqual(t, made, 6)
		assert.GreaterOrEqual(t, made, 2)
		w.settle()
	})
}
