package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestChildAsksForTheDecision keeps every word of a decision from a child. It asks,
// and does what was decided.
func TestChildAsksForTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		w.when(func(now call) fault {
			if now.op == string(api.DecisionCommit) {
				return vanished
			}
			return ""
		})
		root.boot(order("b", 4, 4))
		assert.Equal(t, api.DecisionCommit, root.decided("b").Decision)
		time.Sleep(holdAskAfter + time.Minute)
		assert.Equal(t, int64(2), kid.used(), "it did not give up by itself")
		assert.Positive(t, w.made("decision", "kid", "root"))
		w.when(nil)
		w.settle()
		assert.Equal(t, api.BootActive, root.outcome("b").State())
		assert.Equal(t, int64(2), kid.used())
	})
}
