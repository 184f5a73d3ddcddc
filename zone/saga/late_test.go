package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// delayHolds lets holds at a zone take a time.
func delayHolds(w *zonetest.World, name string, d time.Duration) {
	w.Delay(func(c zonetest.Call) time.Duration {
		if c.To == name && (c.Op == "hold" || c.Op == "hold and commit") {
			return d / 2
		}
		return 0
	})
}

// TestLateHoldIsLeft: a boot goes on elsewhere when a child takes much longer than usual to hold, and waits for it
// if it needs it. What the child holds after all it gives back.
func TestLateHoldIsLeft(t *testing.T) {
	const ms = time.Millisecond
	const least = 250 * ms // holdPatienceMin
	for name, c := range map[string]struct {
		usual, takes time.Duration
		count        int
		after        time.Duration // the boot is decided; less than that and a look elsewhere
		there        int64         // instances in the child
	}{
		"in time":                 {0, least - 2*ms, 2, least - 2*ms, 2},
		"too late":                {0, least + 20*ms, 2, least, 0},
		"never":                   {0, time.Hour, 2, least, 0},
		"in time for one so slow": {100 * ms, 700 * ms, 2, 700 * ms, 2},
		"too late for it":         {100 * ms, 900 * ms, 2, 800 * ms, 0},
		"late and needed":         {0, 4 * time.Second, 4, 4 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				cheap := int64(-1 << 40)
				l, _ := root.View().LinkByName("kid")
				root.Do(command.LinkSet{ID: l.ID, Offset: &cheap})
				delayHolds(w, "kid", c.usual)
				assert.Equal(t, api.BootActive, root.Run(zonetest.Order("before", 2, 2)).State())
				assert.Equal(t, int64(2), kid.Used())
				root.Release("before")
				root.Outcome("before")
				w.Settle()
				delayHolds(w, "kid", c.takes)
				began := time.Now()
				root.Boot(zonetest.Order("b", c.count, c.count))
				b := untilDecided(root, "b")
				took := time.Since(began)
				assert.Equal(t, api.DecisionCommit, b.Decision, b.Reason)
				assert.GreaterOrEqual(t, took, c.after)
				assert.Less(t, took, c.after+100*ms)
				w.Delay(nil)
				assert.Equal(t, api.BootActive, root.Outcome("b").State())
				w.Settle()
				assert.Equal(t, c.there, kid.Used())
			})
		})
	}
}

// TestUnconfirmedEndsKeepNoBootBack: a boot that runs where it went on is ACTIVE, although the child that it asked
// first to hold and to decide in one call may run something too. Its end waits until that child confirms that nothing does.
func TestUnconfirmedEndsKeepNoBootBack(t *testing.T) {
	for _, how := range []zonetest.Fault{zonetest.Refused, zonetest.Silenced} { // before or after the child has carried it out
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				cheap := int64(-1 << 40)
				l, _ := root.View().LinkByName("kid")
				root.Do(command.LinkSet{ID: l.ID, Offset: &cheap})
				w.When(func(now zonetest.Call) zonetest.Fault {
					switch {
					case now.Op == "hold and commit":
						return how
					case now.To == "kid" && (now.Op == "abort" || now.Op == "decisions"):
						return zonetest.Vanished
					}
					return ""
				})
				b := root.Run(zonetest.Order("b", 2, 2))
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Equal(t, 2, b.Counts.Active)
				assert.Equal(t, 1, b.Unacked)
				assert.Equal(t, how == zonetest.Silenced, kid.Used() > 0, "what it has started")
				root.Release("b")
				await.Sleep(time.Minute)
				b, _ = root.View().Boot("p", "b")
				assert.Equal(t, api.BootReleasing, b.State())
				assert.Zero(t, root.Used())
				w.When(nil)
				assert.Equal(t, api.BootReleased, root.Outcome("b").State())
				w.Settle()
				assert.Zero(t, kid.Used())
			})
		})
	}
}

// TestLateHoldIsLeftBesideWhatABootHas: what is booted again of a boot in two zones goes on elsewhere when a child is late
// to hold, as any boot does: what was not preempted counts for its rule for zones, so that no second one in its zone is in the way.
func TestLateHoldIsLeftBesideWhatABootHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		west, east := w.Zone("west", root, 4), w.Zone("east", root, 2)
		soft := softOrder("soft", 2, 2)
		soft.Request.Zones.MinZones = 2
		require.Equal(t, api.BootActive, root.Run(soft).State())
		require.Len(t, west.Instances("soft"), 1)
		slow, other := w.Zone("slow", root, 2), w.Zone("other", root, 2)
		for name, cheap := range map[string]int64{"slow": -1 << 40, "west": -1 << 39} { // in any order
			l, _ := root.View().LinkByName(name)
			root.Do(command.LinkSet{ID: l.ID, Offset: &cheap})
		}
		w.Settle()
		delayHolds(w, "slow", time.Hour)
		firm := zonetest.Order("firm", 2, 2)
		firm.Request.Preempt = true
		east.Run(firm)
		root.Until("it waits", func(v *state.State) bool { return v.CountRequeued() == 1 })
		began := time.Now()
		untilAgain(root, "soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
		assert.Less(t, time.Since(began), 3*time.Second, "as long as a pause before it is looked for room, and a moment")
		assert.Len(t, other.Instances("soft"), 1)
		w.Delay(nil)
		w.Settle()
		assert.Zero(t, slow.Used())
	})
}
