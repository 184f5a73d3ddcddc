package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
)

// TestLifetimeEnds boots for an hour: the instances end by themselves, in both
// zones, and the reservation is released.
func TestLifetimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		o := order("b", 4, 4)
		o.Request.Lifetime = time.Hour
		began := time.Now()
		require.Equal(t, api.BootActive, root.run(o).State())
		time.Sleep(time.Hour - time.Minute)
		assert.Equal(t, 4, root.lead().View().CountByStatus()[api.StatusActive])
		root.until("it is over", func(v *state.State) bool {
			b, _ := v.Boot("p", "b")
			return b.State() == api.BootReleased
		})
		assert.GreaterOrEqual(t, time.Since(began), time.Hour)
		assert.Less(t, time.Since(began), time.Hour+time.Minute)
		assert.Empty(t, kid.instances("b"))
		assert.Equal(t, api.BootActive, root.run(order("next", 4, 4)).State(), "the room is free again")
		w.settle()
	})
}

// TestBootTimesOut gives a boot that cannot be decided up at its time.
func TestBootTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		w.zone("kid", root, 2)
		w.when(func(now call) fault {
			if now.op == "hold" {
				return silenced
			}
			return ""
		})
		o := order("b", 3, 3)
		o.Timeout = 4 * time.Second
		began := time.Now()
		b := root.run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, cause{api.CodeTimeout, "it was not decided within 4s"}, cause{b.Code, b.Reason})
		assert.Less(t, time.Since(began), 20*time.Second)
		w.when(nil)
		w.settle()
	})
}
