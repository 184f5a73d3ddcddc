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
