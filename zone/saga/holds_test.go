package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/zone/zonetest"
)

// TestHoldsThatTakeACallOfTheirOwn: of holds that share a call only those are answered that this zone answers alone. What it
// refuses, also what only its log refuses, is left out, whatever the others are.
func TestHoldsThatTakeACallOfTheirOwn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *zonetest.World, up *api.Link, good, odd *api.HoldRequest) // odd becomes what is not answered
		both   bool                                                              // the good one is not answered either
	}{
		"the plan of another in the call": {func(_ *zonetest.World, _ *api.Link, good, odd *api.HoldRequest) {
			*odd, odd.ID, odd.Instances = *good, "odd", [][]api.InstanceSpec{zonetest.Specs("odd", 1)}
		}, false},
		"the instances of another in the call": {func(_ *zonetest.World, _ *api.Link, good, odd *api.HoldRequest) {
			odd.Instances = good.Instances
		}, false},
		"the id of another in the call": {func(_ *zonetest.World, _ *api.Link, good, odd *api.HoldRequest) { odd.ID = good.ID }, false},
		"malformed":                     {func(_ *zonetest.World, _ *api.Link, _, odd *api.HoldRequest) { odd.Attempt = 0 }, false},
		"no plan":                       {func(_ *zonetest.World, _ *api.Link, _, odd *api.HoldRequest) { odd.Blob = nil }, false},
		"made before": {func(w *zonetest.World, up *api.Link, _, odd *api.HoldRequest) {
			_, err := w.Zones[1].Lead().Hold(w.Ctx, up, odd)
			require.NoError(w.T, err)
		}, false},
		"made before, of another plan": {func(w *zonetest.World, up *api.Link, _, odd *api.HoldRequest) {
			kid := w.Zones[1].Lead()
			_, err := kid.Hold(w.Ctx, up, odd)
			require.NoError(w.T, err)
			a, err := kid.Select(w.Ctx, up.Zone, &odd.Request)
			require.NoError(w.T, err)
			odd.Blob = a.Blob
		}, false},
		"expired": {func(*zonetest.World, *api.Link, *api.HoldRequest, *api.HoldRequest) { await.Sleep(time.Hour) }, true},
		"paused":  {func(_ *zonetest.World, up *api.Link, _, _ *api.HoldRequest) { up.State = api.LinkPaused }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				kid := w.Zone("kid", w.Zone("root", nil), 8)
				back, _ := kid.View().Link(kidLink)
				up := *back
				ask := func(id string) api.HoldRequest {
					req := zonetest.Order(id, 1, 1).Request
					a, err := kid.Lead().Select(w.Ctx, up.Zone, &req)
					require.NoError(t, err)
					return api.HoldRequest{ID: api.HoldID(id), Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs(id, 1)}}
				}
				good, odd := ask("good"), ask("odd")
				c.change(w, &up, &good, &odd)
				out, err := kid.Lead().HoldAll(w.Ctx, &up, []api.HoldRequest{good, odd})
				require.NoError(t, err)
				require.Len(t, out.Items, 2)
				if a := out.Items[0].Answer; c.both {
					assert.Nil(t, a)
				} else if assert.NotNil(t, a) {
					assert.Equal(t, api.HoldHeld, a.State)
					assert.Len(t, a.Held, 1)
				}
				assert.Nil(t, out.Items[1].Answer)
				if name != "the instances of another in the call" { // only the log knows of them
					w.Unchanged(func() {
						again, err := kid.Lead().HoldAll(w.Ctx, &up, []api.HoldRequest{odd})
						require.NoError(t, err)
						assert.Nil(t, again.Items[0].Answer)
					})
				}
			})
		})
	}
}

// TestDecisionsThatShareACall: each has its own answer, whatever the others are, and what is known already costs no entry.
func TestDecisionsThatShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid := w.Zone("kid", w.Zone("root", nil), 8)
		up, _ := kid.View().Link(kidLink)
		for _, id := range []string{"commits", "aborts", "aborted"} {
			req := zonetest.Order(id, 1, 1).Request
			a, err := kid.Lead().Select(w.Ctx, up.Zone, &req)
			require.NoError(t, err)
			h := api.HoldRequest{ID: api.HoldID(id), Attempt: 1, Request: req, Blob: a.Blob, Instances: [][]api.InstanceSpec{zonetest.Specs(id, 1)}}
			_, err = kid.Lead().Hold(w.Ctx, up, &h)
			require.NoError(t, err)
		}
		_, err := kid.Lead().Decide(w.Ctx, up, "aborted", api.DecisionAbort)
		require.NoError(t, err)
		decide := func(ds ...api.HoldDecision) []api.Code {
			out, err := kid.Lead().DecideAll(w.Ctx, up, ds)
			require.NoError(t, err)
			return out.Codes
		}
		assert.Equal(t, []api.Code{"", api.CodeConflict, "", "", api.CodeNotFound}, decide(
			api.HoldDecision{ID: "aborted", Decision: api.DecisionAbort},
			api.HoldDecision{ID: "aborted", Decision: api.DecisionCommit},
			api.HoldDecision{ID: "commits", Decision: api.DecisionCommit},
			api.HoldDecision{ID: "aborts", Decision: api.DecisionAbort},
			api.HoldDecision{ID: "unknown", Decision: api.DecisionCommit},
		))
		for id, state := range map[api.HoldID]api.HoldState{"commits": api.HoldCommitted, "aborts": api.HoldReleased, "aborted": api.HoldReleased} {
			h, _ := kid.View().Hold(kidLink, id)
			assert.Equal(t, state, h.State, "%s", id)
		}
		assert.Equal(t, []api.Code{"", "", api.CodeConflict}, decide( // an abort may follow, and is final
			api.HoldDecision{ID: "commits", Decision: api.DecisionCommit},
			api.HoldDecision{ID: "commits", Decision: api.DecisionAbort},
			api.HoldDecision{ID: "commits", Decision: api.DecisionCommit},
		))
		synctest.Wait() // for what the agent says of the one that ended
		aborts := []api.HoldDecision{{ID: "aborts", Decision: api.DecisionAbort}, {ID: "aborted", Decision: api.DecisionAbort}}
		w.Unchanged(func() { assert.Equal(t, []api.Code{"", ""}, decide(aborts...)) })
	})
}
