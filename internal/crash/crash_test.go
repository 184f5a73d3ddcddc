package crash_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/internal/crash"
)

func TestPointsAreNamedOnce(t *testing.T) {
	seen := map[crash.Point]bool{}
	for _, p := range slices.Concat(crash.Points(), crash.WebhookPoints(), crash.LeasePoints(), crash.RequeuePoints(), crash.LeaseEndPoints(), crash.AgentPoints()) {
		assert.False(t, seen[p], "%s is listed twice", p)
		seen[p] = true
	}
}

func TestHook(t *testing.T) {
	var none crash.Hook
	none.At(crash.LogWriting) // nothing happens
	var got []crash.Point
	crash.Hook(func(p crash.Point) { got = append(got, p) }).At(crash.LogWritten)
	assert.Equal(t, []crash.Point{crash.LogWritten}, got)
}
