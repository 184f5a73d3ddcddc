package gateway

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/rates"
	"berth/internal/budget"
)

// TestRatesOfALink: a zone that calls too often is refused before its bodies are read, and may
// still decide what is held. Other zones are served.
func TestRatesOfALink(t *testing.T) {
	w := newWorld(t)
	w.rates = rates.New(rates.Rates{rates.Peers: 1, rates.Decisions: 1, rates.Joins: 1})
	c := w.config(w.zone)
	w.Handler, w.enrol = New(c), Enrol(c)
	flood := func(c call) map[int]int {
		t.Helper()
		codes := map[int]int{}
		for range 100 {
			rec := w.do(t, c)
			assert.Equal(t, rec.Code == http.StatusTooManyRequests, rec.Header().Get("Retry-After") == "1")
			codes[rec.Code]++
		}
		return codes
	}
	bad := []byte("nonsense")
	assert.Equal(t, map[int]int{http.StatusBadRequest: 2, http.StatusTooManyRequests: 98},
		flood(call{method: http.MethodPost, target: "/zones/holds", peer: "zone-up", body: bad}))
	assert.Equal(t, map[int]int{http.StatusBadRequest: 2, http.StatusTooManyRequests: 98},
		flood(call{method: http.MethodPost, target: "/zones/decisions", peer: "zone-up", body: bad}))
	assert.NotEqual(t, http.StatusTooManyRequests, w.do(t, call{method: http.MethodPost, target: "/zones/hello", peer: "zone-east", body: bad}).Code)
	assert.Equal(t, map[int]int{http.StatusForbidden: 100}, flood(call{method: http.MethodPost, target: "/zones/hello", body: bad}), "nobody's calls are not counted together")
	assert.Equal(t, map[int]int{http.StatusBadRequest: 8, http.StatusTooManyRequests: 92},
		flood(call{method: http.MethodPost, target: "/links/enrol", peer: "zone-new", body: bad}))
	c.Address = func(*http.Request) string { return "" }
	w.enrol = Enrol(c)
	assert.Equal(t, map[int]int{http.StatusBadRequest: 100}, flood(call{method: http.MethodPost, target: "/links/enrol", peer: "zone-new", body: bad}), "another node has counted it")
}

// TestClassesOfCalls: what ends or decides something has a class of its own.
func TestClassesOfCalls(t *testing.T) {
	var decisions []string
	for _, r := range new(peerDoor).listRoutes() {
		if r.class() == rates.Decisions {
			decisions = append(decisions, r.Method+" "+r.Path)
		}
	}
	assert.Equal(t, []string{
		"POST /zones/holds/{id}/commit", "DELETE /zones/holds/{id}", "POST /zones/decisions", "GET /zones/holds/{id}/decision", "DELETE /servers/{id}",
	}, decisions)
}

// TestWhatIsUnderWayOfALink is counted for its zone, and that of zones which enrol for all of these together.
func TestWhatIsUnderWayOfALink(t *testing.T) {
	w := newWorld(t)
	c := w.config(w.zone)
	h, enrol := New(c), Enrol(c)
	b := budget.New(budget.Limits{budget.Calls: {budget.Link: 1, budget.Strangers: 1}})
	ask := func(target string, peer api.ZoneID) int {
		a := b.Begin()
		require.NoError(t, a.Take(budget.Calls, 1)) // it stays under way
		held := func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(rw, r.WithContext(budget.With(r.Context(), a)))
			})
		}
		w.Handler, w.enrol = held(h), held(enrol)
		return w.do(t, call{method: http.MethodPost, target: target, peer: peer, body: []byte("nonsense")}).Code
	}
	assert.Equal(t, http.StatusBadRequest, ask("/zones/holds", "zone-up"))
	assert.Equal(t, http.StatusTooManyRequests, ask("/zones/holds", "zone-up"))
	assert.Equal(t, http.StatusTooManyRequests, ask("/zones/decisions", "zone-up"))
	assert.NotEqual(t, http.StatusTooManyRequests, ask("/zones/hello", "zone-east"))
	assert.Equal(t, http.StatusBadRequest, ask("/links/enrol", "zone-new"))
	assert.Equal(t, http.StatusServiceUnavailable, ask("/links/enrol", "zone-other"))
}
