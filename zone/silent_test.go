package zone_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone"
)

// silencePatience is for how long a boot waits for a zone that was heard lately.
const silencePatience = 10 * time.Second

// awayFor has nobody listen at a zone for a time from now on.
func (w *world) awayFor(name string, d time.Duration) {
	began := time.Now()
	w.when(func(c call) fault {
		if c.to == name && time.Since(began) < d {
			return refused
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
				w := newWorld(t)
				root := w.zone("root", nil)
				west := w.zone("west", root, 2)
				east := w.zone("east", root, 2)
				if c.late {
					time.Sleep(zone.LinkFresh + 1)
				}
				if c.age >= 0 {
					w.hear(west, c.age)
					w.hear(east, 0)
				}
				w.awayFor("west", c.away)
				began := time.Now()
				o := order("b", 4, 4)
				o.Timeout = c.timeout
				root.boot(o)
				b := root.decided("b")
				took := time.Since(began)
				root.outcome("b")
				assert.Equal(t, c.want == api.BootActive, b.Decision == api.DecisionCommit, b.Reason)
				assert.LessOrEqual(t, took, c.took+time.Millisecond) // what calls and entries take
				if c.want == api.BootFailed {
					assert.Equal(t, api.CodeUnreached, b.Code, b.Reason)
				} else {
					assert.GreaterOrEqual(t, took, c.away)
				}
				w.settle()
			})
		})
	}
}

// TestWaitingBootsDoNotStopOthers: so many boots as a leader works on at once wait for a zone, and one that needs
// another zone is made.
func TestWaitingBootsDoNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bootsAtOnce = 64
		w := newWorld(t)
		root := w.zone("root", nil)
		w.hear(w.zone("west", root, 2), 0)
		w.hear(w.zone("east", root, 2), 0)
		w.awayFor("west", time.Hour)
		for i := range bootsAtOnce {
			root.boot(order(fmt.Sprint("b", i), 4, 4))
		}
		time.Sleep(time.Second) // all of them wait
		began := time.Now()
		assert.Equal(t, api.BootActive, root.run(order("other", 2, 2)).State())
		assert.Less(t, time.Since(began), 2*time.Second)
		for i := range bootsAtOnce {
			assert.Equal(t, api.CodeUnreached, root.outcome(fmt.Sprint("b", i)).Code)
		}
		w.when(nil)
		w.settle()
	})
}

// TestSlowZonesDoNotStopOthers: so many boots as a leader works on at once wait for the answer of a zone, and those that
// need another zone are made.
func TestSlowZonesDoNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bootsAtOnce = 64
		w := newWorld(t)
		root := w.zone("root", nil)
		w.hear(w.zone("west", root, bootsAtOnce), 0)
		w.hear(w.zone("east", root, 4), 0)
		w.lateHolds("west", 4*time.Second)
		for i := range bootsAtOnce {
			o := order(fmt.Sprint("b", i), 1, 1)
			o.Request.Zones.Allowed = []string{"west"}
			root.boot(o)
		}
		time.Sleep(10 * time.Millisecond) // all of them ask
		began := time.Now()
		o := order("other", 2, 2)
		o.Request.Zones.Allowed = []string{"east"}
		assert.Equal(t, api.BootActive, root.run(o).State())
		assert.Less(t, time.Since(began), time.Second)
		for i := range bootsAtOnce {
			assert.Equal(t, api.BootActive, root.outcome(fmt.Sprint("b", i)).State())
		}
		assert.GreaterOrEqual(t, time.Since(began), 2*time.Second, "they had to wait")
		w.delay(nil)
		w.settle()
	})
}

// TestBootWaitsForAZoneBelowAChild: whether it is waited for depends on what the child has heard of it.
func TestBootWaitsForAZoneBelowAChild(t *testing.T) {
	for _, heard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			root, _, leaf := three(w)
			time.Sleep(zone.LinkFresh + 1)
			w.hearAll()
			if !heard {
				w.hear(leaf, zone.LinkFresh+1)
			}
			w.awayFor("leaf", 5*time.Second)
			began := time.Now()
			b := root.run(order("b", 6, 6))
			if heard {
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
			} else {
				assert.Equal(t, api.CodeUnreached, b.Code, b.Reason)
				assert.Less(t, time.Since(began), time.Second)
			}
			w.settle()
		})
	}
}

// TestWaitingForASilentZoneHoldsNothing: others get the room of a boot that waits for a zone.
func TestWaitingForASilentZoneHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		west := w.zone("west", root, 2)
		east := w.zone("east", root, 2)
		w.hear(west, 0)
		w.hear(east, 0)
		held := false
		w.when(func(c call) fault {
			held = held || c == call{op: "hold", from: "root", to: "west", n: 1}
			if c.to == "west" && held {
				return vanished // its hold, and everything after it
			}
			return ""
		})
		root.boot(order("b", 4, 4))
		time.Sleep(holdTimeout + 2*api.SelectTimeout - 1)
		require.Equal(t, int64(2), east.used())
		time.Sleep(api.SelectTimeout)
		require.Zero(t, east.used())
		began := time.Now()
		assert.Equal(t, api.BootActive, root.run(order("other", 2, 2)).State())
		assert.Less(t, time.Since(began), api.SelectTimeout, "it asks the silent zone, and waits for nothing else")
		assert.Equal(t, api.BootFailed, root.outcome("b").State())
		w.when(nil)
		w.settle()
	})
}
