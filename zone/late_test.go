package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// lateHolds lets holds at a zone take a time.
func (w *world) lateHolds(name string, d time.Duration) {
	w.delay(func(c call) time.Duration {
		if c.to == name && (c.op == "hold" || c.op == "hold and commit") {
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
				w := newWorld(t)
				root := w.zone("root", nil, 2)
				kid := w.zone("kid", root, 2)
				cheap := int64(-1 << 40)
				l, _ := root.view().LinkByName("kid")
				root.do(command.LinkSet{ID: l.ID, Offset: &cheap})
				w.lateHolds("kid", c.usual)
				assert.Equal(t, api.BootActive, root.run(order("before", 2, 2)).State())
				assert.Equal(t, int64(2), kid.used())
				root.release("before")
				root.outcome("before")
				w.settle()
				w.lateHolds("kid", c.takes)
				began := time.Now()
				root.boot(order("b", c.count, c.count))
				b := root.decided("b")
				took := time.Since(began)
				assert.Equal(t, api.DecisionCommit, b.Decision, b.Reason)
				assert.GreaterOrEqual(t, took, c.after)
				assert.Less(t, took, c.after+100*ms)
				w.delay(nil)
				assert.Equal(t, api.BootActive, root.outcome("b").State())
				w.settle()
				assert.Equal(t, c.there, kid.used())
			})
		})
	}
}

// TestUnconfirmedEndsKeepNoBootBack: a boot that runs where it went on is ACTIVE, although the child that it asked
// first to hold and to decide in one call may run something too. Its end waits until that child confirms that nothing does.
func TestUnconfirmedEndsKeepNoBootBack(t *testing.T) {
	for _, how := range []fault{refused, silenced} { // before or after the child has carried it out
		t.Run(string(how), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 2)
				kid := w.zone("kid", root, 2)
				cheap := int64(-1 << 40)
				l, _ := root.view().LinkByName("kid")
				root.do(command.LinkSet{ID: l.ID, Offset: &cheap})
				w.when(func(now call) fault {
					switch {
					case now.op == "hold and commit":
						return how
					case now.to == "kid" && (now.op == "abort" || now.op == "decisions"):
						return vanished
					}
					return ""
				})
				b := root.run(order("b", 2, 2))
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Equal(t, 2, b.Counts.Active)
				assert.Equal(t, 1, b.Unacked)
				assert.Equal(t, how == silenced, kid.used() > 0, "what it has started")
				root.release("b")
				time.Sleep(time.Minute)
				b, _ = root.view().Boot("p", "b")
				assert.Equal(t, api.BootReleasing, b.State())
				assert.Zero(t, root.used())
				w.when(nil)
				assert.Equal(t, api.BootReleased, root.outcome("b").State())
				w.settle()
				assert.Zero(t, kid.used())
			})
		})
	}
}
