package gateway

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// past returns a gateway of a node that led once: it has seen nothing of the zone
// but its name, or all that old has.
func (w *world) past(old *state.State, deposed bool) http.Handler {
	store := memstore.NewPast(w.store, old, deposed)
	z := zone.New(zone.Config{Store: store, Now: w.now, Log: w.log})
	return New(w.config(z))
}

// nameAlone returns the state of a zone that has a name, and nothing else.
func nameAlone(tb testing.TB) *state.State {
	tb.Helper()
	s := memstore.New()
	s.Must(tb, command.Init{Zone: "zone-mid", Name: "mid"})
	return s.View()
}

// TestNothingIsGoneInThePast asks a node that led once for what decides something
// at the zone that asks: an instance that is gone, a hold that was aborted or that
// cannot be had, a link that is no more.
func TestNothingIsGoneInThePast(t *testing.T) {
	held := func(t *testing.T) (*world, api.HoldRequest, *state.State) {
		t.Helper()
		w := newWorld(t)
		before := w.store.View()
		h := w.plan(t, 1)
		return w, h, before
	}
	for name, c := range map[string]struct {
		call
		plan   bool // the call is the hold of a plan, which another node has taken up
		status int  // of a node that catches up
		past   func(t *testing.T, before *state.State) *state.State
	}{
		"an instance":       {call: call{method: "DELETE", target: "/servers/i-0", peer: "zone-up"}, status: http.StatusNoContent},
		"a decision":        {call: call{method: "GET", target: "/zones/holds/hold-1/decision", peer: "zone-east"}, status: http.StatusOK},
		"a hold to commit":  {call: call{method: "POST", target: "/zones/holds/hold-1/commit", peer: "zone-up"}, status: http.StatusOK},
		"a hold to abort":   {call: call{method: "DELETE", target: "/zones/holds/hold-2", peer: "zone-up"}, status: http.StatusOK},
		"decisions":         {call: call{method: "POST", target: "/zones/decisions", peer: "zone-up", body: decisions("hold-1", api.DecisionCommit)}, status: http.StatusOK},
		"a repeated hold":   {call: call{method: "POST", target: "/servers", peer: "zone-up"}, plan: true, status: http.StatusOK},
		"changes":           {call: call{method: "GET", target: "/zones/changes?after=0&confirmed=true", peer: "zone-up"}, status: http.StatusOK},
		"holds":             {call: call{method: "POST", target: "/zones/holds/many", peer: "zone-up", body: api.Holds{}}, plan: true, status: http.StatusOK},
		"an output":         {call: call{method: "POST", target: "/zones/output", peer: "zone-up", body: rows["POST /zones/output"].body}, status: http.StatusNotFound},
		"a run":             {call: call{method: "POST", target: "/servers/power", peer: "zone-up", body: api.PowerCall{Instance: "i-0"}, head: map[string]string{api.HeaderForm: api.FormNewest.String()}}, status: http.StatusOK},
		"a volume":          {call: call{method: "POST", target: "/volumes/attach", peer: "zone-up", body: api.VolumeCall{Volume: "v-0", Instance: "i-0"}}, status: http.StatusNoContent},
		"a volume to free":  {call: call{method: "POST", target: "/volumes/detach", peer: "zone-up", body: api.VolumeCall{Volume: "v-0"}}, status: http.StatusNoContent},
		"a link":            {call: call{method: "DELETE", target: "/servers/i-0", peer: "zone-up"}, status: http.StatusNoContent, past: func(t *testing.T, _ *state.State) *state.State { t.Helper(); return nameAlone(t) }},
		"a link of a child": {call: call{method: "GET", target: "/zones/holds/hold-1/decision", peer: "zone-east"}, status: http.StatusOK, past: func(t *testing.T, _ *state.State) *state.State { t.Helper(); return nameAlone(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			for deposed, want := range map[bool]int{true: http.StatusServiceUnavailable, false: c.status} {
				w, h, before := held(t)
				w.answered(t, call{method: "POST", target: "/servers", peer: "zone-up", body: h}, http.StatusOK, nil)
				w.makeVolume(t, hostOf(t, w, "i-0"))
				if c.plan {
					if _, many := c.body.(api.Holds); many {
						c.body = api.Holds{Items: []api.HoldRequest{h}}
					} else {
						c.body = h
					}
				}
				if c.past != nil {
					before = c.past(t, before)
				}
				w.Handler = w.past(before, deposed)
				assert.Equal(t, want, w.do(t, c.call).Code, "deposed: %v", deposed)
			}
		})
	}
}

// TestAPastRepeatDoesNotCountAsHeld repeats a hold that was aborted since, at a node
// that led once.
func TestAPastRepeatDoesNotCountAsHeld(t *testing.T) {
	w := newWorld(t)
	h := w.plan(t, 1)
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, http.StatusOK, nil)
	before := w.store.View()
	w.answered(t, call{method: "DELETE", target: "/zones/holds/hold-1", peer: "zone-up"}, http.StatusOK, nil)
	w.Handler = w.past(before, true)
	assert.Equal(t, http.StatusServiceUnavailable, w.do(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}).Code)
	w.Handler = w.past(before, false)
	var a api.HoldAnswer
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, http.StatusOK, &a)
	assert.NotEqual(t, api.HoldHeld, a.State)
}
