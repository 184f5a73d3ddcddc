package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/await"
	"berth/zone/zonetest"
)

// TestChildAsksForTheDecision keeps every word of a decision from a child. It asks,
// and does what was decided.
func TestChildAsksForTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		w.When(func(now zonetest.Call) zonetest.Fault {
			if now.Op == string(api.DecisionCommit) {
				return zonetest.Vanished
			}
			return ""
		})
		root.Boot(zonetest.Order("b", 4, 4))
		assert.Equal(t, api.DecisionCommit, untilDecided(root, "b").Decision)
		await.Sleep(holdAskAfter + time.Minute)
		assert.Equal(t, int64(2), kid.Used(), "it did not give up by itself")
		assert.Positive(t, w.Made("decision", "kid", "root"))
		w.When(nil)
		w.Settle()
		assert.Equal(t, api.BootActive, root.Outcome("b").State())
		assert.Equal(t, int64(2), kid.Used())
	})
}
