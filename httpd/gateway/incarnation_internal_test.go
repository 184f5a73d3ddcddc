package gateway

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/state"
	"berth/zone"
)

// TestIncarnations: a call counts only if each zone knows in which incarnation the other one is. Zones that were never brought
// back send no headers.
func TestIncarnations(t *testing.T) {
	for _, c := range []struct {
		from, meant, own, theirs api.Incarnation
		says                     string // "" for accepted
	}{
		{0, 0, 0, 0, ""},
		{5, 7, 7, 5, ""},
		{5, 0, 0, 0, "has not confirmed it"},    // the caller came back
		{0, 0, 0, 5, "stop it for good"},        // an old node of a caller that was confirmed
		{4, 7, 7, 5, "stop it for good"},        // the same, of a caller that came back twice
		{0, 0, 7, 0, "confirm it with"},         // this zone came back, and the caller does not know
		{0, 6, 7, 0, "confirm it with"},         // it knows of an earlier return
		{0, 7, 0, 0, "from a backup elsewhere"}, // this is an old node
		{5, 0, 7, 0, "has not confirmed it"},    // both came back
	} {
		h := http.Header{}
		if c.from > 0 {
			h.Set(api.HeaderIncarnation, c.from.String())
		}
		if c.meant > 0 {
			h.Set(api.HeaderMeant, c.meant.String())
		}
		err := checkIncarnations(h, c.own, c.theirs)
		if c.says == "" {
			assert.NoError(t, err, c)
			continue
		}
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), c)
		assert.ErrorContains(t, err, c.says, c)
	}
	h := http.Header{api.HeaderIncarnation: {"-1"}}
	assert.NoError(t, checkIncarnations(h, 0, 0), "a malformed one is none")
}

// TestAnswersNameTheIncarnation, refusals as well, unless the zone was never brought back.
func TestAnswersNameTheIncarnation(t *testing.T) {
	w := newWorld(t)
	calls := []call{
		{method: "GET", target: "/zones/info", peer: "zone-up", head: map[string]string{api.HeaderMeant: "0"}},
		{method: "GET", target: "/zones/info", peer: "zone-else"}, {method: "POST", target: enrolPath, body: api.Enrolment{}},
	}
	for _, c := range calls {
		assert.NotContains(t, w.do(t, c).Header(), api.HeaderIncarnation)
	}
	var backup bytes.Buffer
	require.NoError(t, w.store.View().Save(&backup))
	s, err := state.Load(&backup, api.FormNewest)
	require.NoError(t, err)
	own := api.Incarnation(w.now().Unix())
	require.NoError(t, s.BringBack(state.Return{Incarnation: own, At: api.InstantOf(w.now()), Admin: api.Token{ID: "t"}, Sum: make([]byte, 32)}))
	c := w.config(zone.New(zone.Config{Store: memstore.NewPast(w.store, s, false), Now: w.now, Log: w.log}))
	w.Handler, w.enrol = New(c), Enrol(c)
	for _, c := range calls {
		assert.Equal(t, own.String(), w.do(t, c).Header().Get(api.HeaderIncarnation))
	}
}

// TestAReturnIsPassedOn: a caller that names an incarnation which nobody has confirmed is refused, and made known; one that was never
// brought back is not, nor is a zone that is not linked.
func TestAReturnIsPassedOn(t *testing.T) {
	w := newWorld(t)
	info := call{method: "GET", target: "/zones/info", peer: "zone-up"}
	w.answered(t, info, http.StatusOK, nil)
	assert.Empty(t, w.returned)
	info.head = map[string]string{api.HeaderIncarnation: "5"}
	assert.Contains(t, w.refused(t, info, api.CodeUnavailable), "has not confirmed it")
	assert.Equal(t, []string{"zone-up 5"}, w.returned)
	info.peer = "zone-strange"
	w.refused(t, info, api.CodeForbidden)
	assert.Len(t, w.returned, 1)
}
