package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestLifetimeEnds boots for an hour: the instances end by themselves, in both
// zones, and the reservation is released.
func TestLifetimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		o := zonetest.Order("b", 4, 4)
		o.Request.Lifetime = time.Hour
		began := time.Now()
		require.Equal(t, api.BootActive, root.Run(o).State())
		await.Sleep(time.Hour - time.Minute)
		assert.Equal(t, 4, root.Lead().View().CountByStatus()[api.StatusActive])
		root.Until("it is over", func(v *state.State) bool {
			b, _ := v.Boot("p", "b")
			return b.State() == api.BootReleased
		})
		assert.GreaterOrEqual(t, time.Since(began), time.Hour)
		assert.Less(t, time.Since(began), time.Hour+time.Minute)
		assert.Empty(t, kid.Instances("b"))
		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("next", 4, 4)).State(), "the room is free again")
		w.Settle()
	})
}

// TestBootTimesOut gives a boot that cannot be decided up at its time.
func TestBootTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		w.Zone("kid", root, 2)
		w.When(func(now zonetest.Call) zonetest.Fault {
			if now.Op == "hold" {
				return zonetest.Silenced
			}
			return ""
		})
		o := zonetest.Order("b", 3, 3)
		o.Timeout = 4 * time.Second
		began := time.Now()
		b := root.Run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, cause{api.CodeTimeout, "it was not decided within 4s"}, cause{b.Code, b.Reason})
		assert.Less(t, time.Since(began), 20*time.Second)
		w.When(nil)
		w.Settle()
	})
}
