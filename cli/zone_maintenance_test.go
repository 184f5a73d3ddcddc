package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMaintenanceShowsWhoMovesAndAsks: nothing is changed before it is confirmed, and the end of a
// maintenance needs no confirmation.
func TestMaintenanceShowsWhoMovesAndAsks(t *testing.T) {
	on := []string{"zone", "maintenance", "west", "on"}
	z := newFakeZone(t)
	r := z.berth(t.Context(), on...)
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "shop of zone world", "who would move is shown first")
	assert.Contains(t, r.errOut, "--yes")
	r = z.onTerminal(t.Context(), "n\n", on...)
	assert.Equal(t, exitFailed, r.exit)
	assert.Contains(t, r.errOut, `send no new work to zone "west", and move 2 bindings. Continue? [y/N]`)
	assert.Empty(t, z.asked("PUT"))

	assert.Zero(t, z.onTerminal(t.Context(), "y\n", on...).exit)
	if put := z.asked("PUT"); assert.Len(t, put, 1) {
		assert.JSONEq(t, `{"zone": {"maintenance": true}}`, put[0].body)
	}
	r = z.berth(t.Context(), append(on, "--yes", "-o", "json")...)
	assert.Zero(t, r.exit, r.errOut)
	assert.JSONEq(t, canned["PUT /zones/west"], r.out, "the plan is for people, on the error output")

	z = newFakeZone(t)
	assert.Zero(t, z.berth(t.Context(), "zone", "maintenance", "west", "off").exit)
	assert.Len(t, z.asked("PUT"), 1)
	assert.Equal(t, exitUsage, z.berth(t.Context(), "zone", "maintenance", "west", "maybe").exit)
	assert.Len(t, z.asked("PUT"), 1)
}
