package saga_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/zone"
	"berth/zone/zonetest"
)

// silencePatience is for how long a boot waits for a zone that was heard lately.
const silencePatience = 10 * time.Second

// awayFor has nobody listen at a zone for a time from now on.
func awayFor(w *zonetest.World, name string, d time.Duration) {
	began := time.Now()
	w.When(func(c zonetest.Call) zonetest.Fault {
		if c.To == name && time.Since(began) < d {
			return zonetest.Refused
		}
		return ""
	})
}

// TestBootWaitsForAZoneThatRestarts: a boot that needs a zone which does not answer waits for it if it was heard
// lately, and no longer than that helps.
func TestBootWaitsForAZoneThatRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		away    time.Duration // how long the zone does not answer
		age     time.Duration // of what is heard from it; negative for nothing
		late    bool          // the zone that asks has run for long
		timeout time.Duration // of the boot
		want    api.BootState
		took    time.Duration // at the most
	}{
		"a moment":                {2 * time.Second, 0, true, 0, api.BootActive, 4 * time.Second},
		"as long as is waited":    {silencePatience, 0, true, 0, api.BootActive, silencePatience},
		"longer":                  {silencePatience + time.Millisecond, 0, true, 0, api.BootFailed, silencePatience},
		"heard long ago":          {2 * time.Second, zone.LinkFresh, true, 0, api.BootActive, 4 * time.Second},
		"heard too long ago":      {2 * time.Second, zone.LinkFresh + 1, true, 0, api.BootFailed, 0},
		"not heard":               {2 * time.Second, -1, true, 0, api.BootFailed, time.Second},
		"not heard, a young node": {2 * time.Second, -1, false, 0, api.BootActive, 4 * time.Second},
		"the boot has less time":  {5 * time.Second, 0, true, 4 * time.Second, api.BootFailed, 4*time.Second - 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				west := w.Zone("west", root, 2)
				east := w.Zone("east", root, 2)
				if c.late {
					await.Sleep(zone.LinkFresh + 1)
				}
				if c.age >= 0 {
					w.Hear(west, c.age)
					w.Hear(east, 0)
				}
				awayFor(w, "west", c.away)
				began := time.Now()
				o := zonetest.Order("b", 4, 4)
				o.Timeout = c.timeout
				root.Boot(o)
				b := untilDecided(root, "b")
				took := time.Since(began)
				root.Outcome("b")
				assert.Equal(t, c.want == api.BootActive, b.Decision == api.DecisionCommit, b.Reason)
				assert.LessOrEqual(t, took, c.took+time.Millisecond) // what calls and entries take
				if c.want == api.BootFailed {
					assert.Equal(t, api.CodeUnreached, b.Code, b.Reason)
				} else {
					assert.GreaterOrEqual(t, took, c.away)
				}
				w.Settle()
			})
		})
	}
}

// TestWaitingBootsDoNotStopOthers: so many boots as a leader works on at once wait for a zone, and one that needs
// another zone is made.
func TestWaitingBootsDoNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bootsAtOnce = 64
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		w.Hear(w.Zone("west", root, 2), 0)
		w.Hear(w.Zone("east", root, 2), 0)
		awayFor(w, "west", time.Hour)
		for i := range bootsAtOnce {
			root.Boot(zonetest.Order(fmt.Sprint("b", i), 4, 4))
		}
		await.Sleep(time.Second) // all of them wait
		began := time.Now()
		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("other", 2, 2)).State())
		assert.Less(t, time.Since(began), 2*time.Second)
		for i := range bootsAtOnce {
			assert.Equal(t, api.CodeUnreached, root.Outcome(fmt.Sprint("b", i)).Code)
		}
		w.When(nil)
		w.Settle()
	})
}

// TestSlowZonesDoNotStopOthers: so many boots as a leader works on at once wait for the answer of a zone, and those that
// need another zone are made. While processors are short they wait: then all zones are slow, and the more boots are under
// way, the fewer are made.
func TestSlowZonesDoNotStopOthers(t *testing.T) {
	for _, share := range []float64{1, 0} {
		synctest.Test(t, func(t *testing.T) { bootBesideASlowZone(t, share) })
	}
}

// bootBesideASlowZone boots with a share of the processors.
func bootBesideASlowZone(t *testing.T, share float64) {
	t.Helper()
	const bootsAtOnce = 64
	w := zonetest.NewWorld(t)
	w.Share = func() float64 { return share }
	root := w.Zone("root", nil)
	w.Hear(w.Zone("west", root, bootsAtOnce), 0)
	w.Hear(w.Zone("east", root, 4), 0)
	delayHolds(w, "west", 4*time.Second)
	for i := range bootsAtOnce {
		o := zonetest.Order(fmt.Sprint("b", i), 1, 1)
		o.Request.Zones.Allowed = []string{"west"}
		root.Boot(o)
	}
	await.Sleep(10 * time.Millisecond) // all of them ask
	began := time.Now()
	o := zonetest.Order("other", 2, 2)
	o.Request.Zones.Allowed = []string{"east"}
	assert.Equal(t, api.BootActive, root.Run(o).State())
	assert.Equal(t, share > 0, time.Since(began) < time.Second, "it took %v", time.Since(began))
	for i := range bootsAtOnce {
		assert.Equal(t, api.BootActive, root.Outcome(fmt.Sprint("b", i)).State())
	}
	assert.GreaterOrEqual(t, time.Since(began), 2*time.Second, "they had to wait")
	w.Delay(nil)
	w.Settle()
}

// TestBootWaitsForAZoneBelowAChild: whether it is waited for depends on what the child has heard of it.
func TestBootWaitsForAZoneBelowAChild(t *testing.T) {
	for _, heard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root, _, leaf := zonetest.Three(w)
			await.Sleep(zone.LinkFresh + 1)
			w.HearAll()
			if !heard {
				w.Hear(leaf, zone.LinkFresh+1)
			}
			awayFor(w, "leaf", 5*time.Second)
			began := time.Now()
			b := root.Run(zonetest.Order("b", 6, 6))
			if heard {
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
			} else {
				assert.Equal(t, api.CodeUnreached, b.Code, b.Reason)
				assert.Less(t, time.Since(began), time.Second)
			}
			w.Settle()
		})
	}
}

// TestWaitingForASilentZoneHoldsNothing: others get the room of a boot that waits for a zone.
func TestWaitingForASilentZoneHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		west := w.Zone("west", root, 2)
		east := w.Zone("east", root, 2)
		w.Hear(west, 0)
		w.Hear(east, 0)
		held := false
		w.When(func(c zonetest.Call) zonetest.Fault {
			held = held || c == zonetest.Call{Op: "hold", From: "root", To: "west", N: 1}
			if c.To == "west" && held {
				return zonetest.Vanished // its hold, and everything after it
			}
			return ""
		})
		root.Boot(zonetest.Order("b", 4, 4))
		await.Sleep(holdTimeout + 2*api.SelectTimeout - 1)
		require.Equal(t, int64(2), east.Used())
		await.Sleep(api.SelectTimeout)
		require.Zero(t, east.Used())
		began := time.Now()
		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("other", 2, 2)).State())
		assert.Less(t, time.Since(began), api.SelectTimeout, "it asks the silent zone, and waits for nothing else")
		assert.Equal(t, api.BootFailed, root.Outcome("b").State())
		w.When(nil)
		w.Settle()
	})
}
