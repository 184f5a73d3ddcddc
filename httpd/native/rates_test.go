package native

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/httpd/rates"
	"berth/internal/budget"
)

// TestRatesOfCalls: a member that floods the zone with boots is refused before the log is touched,
// and reads, ends what it has, and leaves room for others and for admins.
func TestRatesOfCalls(t *testing.T) {
	w := newWorld(t)
	w.rates = rates.New(rates.Rates{rates.Writes: 1, rates.Releases: 1, rates.Reads: 1, rates.Admins: 1})
	w.serve(w.store)
	boot := call{method: http.MethodPost, target: "/zones/boot", token: "member:s", body: "{"}
	codes := map[int]int{}
	before := w.store.View().Index()
	for range 100 {
		codes[w.do(boot).Code]++
	}
	assert.Equal(t, map[int]int{http.StatusBadRequest: 2, http.StatusTooManyRequests: 98}, codes)
	assert.Equal(t, before, w.store.View().Index())
	for _, c := range []call{
		{method: http.MethodDelete, target: "/zones/boot/nothing", token: "member:s"},
		{method: http.MethodGet, target: "/zones/boot", token: "member:s"},
		{method: http.MethodGet, target: "/operator/members", token: "admin:s"},
		{method: http.MethodPost, target: "/zones/boot", token: "admin:s", body: "{"},
	} {
		assert.NotEqual(t, http.StatusTooManyRequests, w.do(c).Code, "%s as %s", c, c.token)
	}
	w.now = func() time.Time { return epoch.Add(time.Second) }
	assert.Equal(t, http.StatusBadRequest, w.do(boot).Code)
}

// TestRatesOfJoins: nobody can keep the zone busy with tokens to join.
func TestRatesOfJoins(t *testing.T) {
	w := newWorld(t)
	w.rates = rates.New(rates.Rates{rates.Joins: 1})
	w.serve(w.store)
	codes := map[int]int{}
	for range 100 {
		codes[w.do(call{method: http.MethodPost, target: "/operator/join", body: "{"}).Code]++
	}
	require.Equal(t, map[int]int{http.StatusBadRequest: 8, http.StatusTooManyRequests: 92}, codes)
}

// TestWaitsOfAUser: of reads that wait he has so many at a time, whatever he waits for; what needs no wait is answered.
func TestWaitsOfAUser(t *testing.T) {
	w := newWorld(t)
	w.serve(w.store)
	b, h := budget.New(budget.Limits{budget.Waits: {budget.User: 1}}), w.Handler
	w.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(rw, r.WithContext(budget.With(r.Context(), b.Begin()))) // it stays under way
	})
	ask := func(target, token string) int {
		return w.do(call{method: http.MethodGet, target: target, token: token}).Code
	}
	assert.Equal(t, http.StatusNotFound, ask("/zones/boot/nothing?wait=1ms", "member:s"))
	assert.Equal(t, http.StatusTooManyRequests, ask("/zones/boot/nothing?wait=1ms", "member:s"))
	assert.Equal(t, http.StatusNotFound, ask("/zones/boot/nothing", "member:s"))
	assert.Equal(t, http.StatusNotFound, ask("/zones/boot/nothing?wait=1ms", "admin:s"))
}
