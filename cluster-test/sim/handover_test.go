package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/internal/dice"
)

// TestAStoppedLeaderHandsOverAtOnce: another node leads before the one that is stopped has said its goodbyes, which take a second
// or more.
func TestAStoppedLeaderHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dice.Seed(t), plot{"root", 3, nil, nil})
		z := w.root()
		z.leads()
		old := z.leader()
		old.stop()
		for began := time.Now(); z.leader() == old || z.leader() == nil; await.Sleep(10 * time.Millisecond) {
			require.Less(t, time.Since(began), 500*time.Millisecond)
		}
		old.reap()
		old.start()
		w.settle()
		w.check()
	})
}
