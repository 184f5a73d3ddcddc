package cli

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRelinkShowsTheReturnAndAsks: the incarnation that was shown is the one that is confirmed, and nothing else.
func TestRelinkShowsTheReturnAndAsks(t *testing.T) {
	z := newFakeZone(t)
	r := z.onTerminal(t.Context(), "no\n", "zone", "relink", "west")
	assert.NotZero(t, r.exit)
	assert.Contains(t, r.errOut, "zone west was brought back from a backup at 2026-06-01T12:00:00Z, as incarnation 1780315200; 4 instances of this zone there")
	r = z.berth(t.Context(), "zone", "relink", "west", "--gateway", "10.0.0.9:7601", "--yes", "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.out, `"incarnation": 1780315200`)
	z.on("POST /zones/west/relink", answer{status: http.StatusConflict, body: refusalOf("conflict", `there is nothing to confirm`)})
	r = z.berth(t.Context(), "zone", "relink", "west", "--yes")
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "nothing to confirm")
}

// TestAnUnconfirmedZoneIsShown: the list and the zone say that it was brought back and what to do.
func TestAnUnconfirmedZoneIsShown(t *testing.T) {
	z := newFakeZone(t)
	const west = `{"id": "l-1", "name": "west", "role": "child", "state": "paused", "health": "up", "unconfirmed_incarnation": 1780315200}`
	z.on("GET /zones", answer{status: http.StatusOK, body: `{"zones": [` + west + `, {"id": "l-2", "name": "up", "role": "parent", "state": "active"}]}`})
	z.on("GET /zones/west", answer{status: http.StatusOK, body: `{"zone": ` + west + `}`})
	for _, args := range [][]string{{"zone", "list"}, {"zone", "show", "west"}} {
		r := z.berth(t.Context(), args...)
		assert.Contains(t, r.out, "paused, unconfirmed: berth zone relink west", args)
		assert.NotContains(t, r.out, "relink up", args)
		r = z.berth(t.Context(), append(args, "-o", "json")...)
		assert.Contains(t, r.out, `"unconfirmed_incarnation": 1780315200`, args)
	}
}
