package saga_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/saga"
	"berth/zone/zonetest"
)

// contestRounds is how many times boots compete, over all shapes of TestContest.
var contestRounds = flag.Int("contests", 200, "rounds of boots that compete for the same room")

// contestsPerWorld is how many rounds follow each other in one world.
const contestsPerWorld = 20

// shapes are the trees in which boots compete: each returns the zones in which they
// are asked for, the first of which sees all.
var shapes = []struct {
	name string
	make func(w *zonetest.World, rnd *rand.Rand) []*zonetest.Member
}{
	{"one zone", func(w *zonetest.World, rnd *rand.Rand) []*zonetest.Member {
		return []*zonetest.Member{w.Zone("root", nil, some(rnd), some(rnd))}
	}},
	{"two zones", func(w *zonetest.World, rnd *rand.Rand) []*zonetest.Member {
		root := w.Zone("root", nil, some(rnd))
		return []*zonetest.Member{root, w.Zone("kid", root, some(rnd))}
	}},
	{"four zones", func(w *zonetest.World, rnd *rand.Rand) []*zonetest.Member {
		root := w.Zone("root", nil, some(rnd))
		w.Zone("a", root, some(rnd))
		w.Zone("b", root, some(rnd))
		w.Zone("c", root, some(rnd))
		return []*zonetest.Member{root}
	}},
	{"three levels", func(w *zonetest.World, rnd *rand.Rand) []*zonetest.Member {
		root := w.Zone("root", nil, some(rnd))
		mid := w.Zone("mid", root, some(rnd))
		leaf := w.Zone("leaf", mid, some(rnd))
		w.Zone("other", root, some(rnd))
		return []*zonetest.Member{root, mid, leaf}
	}},
}

func some(rnd *rand.Rand) int64 { return 1 + rnd.Int64N(4) }

// TestContest has boots compete, all or nothing, for room that is there for some of
// them, in one zone and in several, asked for at one zone and at several. What could
// be had in the end has been had: no boot failed that fits beside those that did not.
func TestContest(t *testing.T) {
	seeds := dice.Seeds(t, zonetest.Few(max(*contestRounds/contestsPerWorld, 1), 2))
	for n, seed := range seeds {
		shape := shapes[(uint64(n)+seeds[0])%uint64(len(shapes))]
		t.Run(fmt.Sprint(shape.name, " seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				w := zonetest.NewWorld(t)
				at := shape.make(w, rnd)
				drawLag(w, rnd)
				for round := range contestsPerWorld {
					c := newContest(w, rnd, fmt.Sprint("r", round, "-"), at)
					c.run(t, rnd)
					for i := range c.boots {
						assert.NotContains(t, c.boots[i].reason, "contended", "nothing was lost, so nobody had to wait that long")
						assert.Less(t, c.boots[i].took, 20*time.Second)
					}
					c.end()
				}
			})
		})
	}
}

// TestContestWithLostCalls is TestContest with calls between zones that go wrong.
func TestContestWithLostCalls(t *testing.T) {
	seeds := dice.Seeds(t, zonetest.Few(max(*contestRounds/contestsPerWorld/2, 1), 2))
	for n, seed := range seeds {
		shape := shapes[1+(uint64(n)+seeds[0])%uint64(len(shapes)-1)]
		t.Run(fmt.Sprint(shape.name, " seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 8))
				w := zonetest.NewWorld(t)
				at := shape.make(w, rnd)
				drawLag(w, rnd)
				callDice := rand.New(rand.NewPCG(rnd.Uint64(), 2))
				for round := range contestsPerWorld {
					w.When(func(zonetest.Call) zonetest.Fault {
						if callDice.IntN(20) > 0 {
							return ""
						}
						return []zonetest.Fault{zonetest.Refused, zonetest.Vanished, zonetest.Silenced, zonetest.CutOff, zonetest.Repeated}[callDice.IntN(5)]
					})
					c := newContest(w, rnd, fmt.Sprint("r", round, "-"), at)
					c.run(t, rnd)
					w.When(nil)
					c.end()
				}
			})
		})
	}
}

func drawLag(w *zonetest.World, rnd *rand.Rand) {
	lagDice := rand.New(rand.NewPCG(rnd.Uint64(), 3))
	w.Delay(func(zonetest.Call) time.Duration { return time.Duration(lagDice.IntN(30)) * time.Millisecond })
}

// contest is some boots that compete.
type contest struct {
	w     *zonetest.World
	boots []contender
}

type contender struct {
	at     *zonetest.Member
	res    string
	wants  int64
	reason string
	code   api.Code
	took   time.Duration
	active bool
}

// roomOf returns how many slots there are in a zone and below it, and are free.
func roomOf(m *zonetest.Member) (total, free int64) {
	for _, h := range m.View().AllHosts() {
		total += h.Inventory[api.VCPU].Total
	}
	free = total - m.Used()
	for _, l := range m.View().Children() {
		t, f := roomOf(m.World.At(m, l.ID))
		total, free = total+t, free+f
	}
	return total, free
}

// newContest draws boots for more than there is.
func newContest(w *zonetest.World, rnd *rand.Rand, name string, at []*zonetest.Member) *contest {
	c := &contest{w: w}
	for n := range 2 + rnd.IntN(3) {
		m := at[rnd.IntN(len(at))]
		total, _ := roomOf(m)
		c.boots = append(c.boots, contender{at: m, res: fmt.Sprint(name, n), wants: total/2 + 1 + rnd.Int64N(total-total/2)})
	}
	return c
}

// run lets the boots compete, and checks what became of them.
func (c *contest) run(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	began := time.Now()
	for i := range c.boots {
		b := &c.boots[i]
		b.at.Boot(zonetest.Order(b.res, int(b.wants), int(b.wants)))
		await.Sleep(time.Duration(rnd.IntN(3)*rnd.IntN(40)) * time.Millisecond)
	}
	for i := range c.boots {
		b := &c.boots[i]
		b.at.Until("boot "+b.res+" has an outcome", func(v *state.State) bool {
			now, ok := v.Boot("p", api.ReservationID(b.res))
			b.active = ok && now.State() == api.BootActive
			if ok {
				b.code, b.reason = now.Code, now.Reason
			}
			return ok && now.State().Outcome()
		})
		b.took = time.Since(began)
	}
	c.w.Settle()
	for i := range c.boots {
		b := &c.boots[i]
		if _, free := roomOf(b.at); !b.active && !c.ended() && b.code == api.CodeNoCapacity {
			require.Less(t, free, b.wants, "%s failed (%s) though what it wants is free: %v", b.res, b.reason, c.boots)
		}
	}
}

// ended reports whether a zone had started instances of a boot that failed: its lone
// word to commit was lost. They take room until they have ended.
func (c *contest) ended() bool {
	for i := range c.boots {
		for _, m := range c.w.Zones {
			if b := &c.boots[i]; !b.active && len(m.View().OfReservation("p", api.ReservationID(b.res))) > 0 {
				return true
			}
		}
	}
	return false
}

// end gives everything back.
func (c *contest) end() {
	for i := range c.boots {
		if b := &c.boots[i]; b.active {
			b.at.Release(b.res)
		}
	}
	c.w.Settle()
	for _, m := range c.w.Zones {
		require.Zero(c.w.T, m.Used())
	}
}

// TestResumedBootWaitsForItself ends a leader whose children hold all that the boot
// wants. The next one gives that back, and the children learn of it late: the boot
// does not fail for want of what it has held itself.
func TestResumedBootWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		root.Log.When(func(k command.Kind, n int) zonetest.Mishap {
			if k == command.KindHoldParts && n == 1 {
				return zonetest.Unapplied
			}
			return ""
		})
		slow := time.Now().Add(3 * time.Second)
		w.When(func(c zonetest.Call) zonetest.Fault {
			if c.Op == "abort" && time.Now().Before(slow) {
				return zonetest.Refused
			}
			return ""
		})
		root.Boot(zonetest.Order("b", 4, 4))
		kid.Until("it holds", func(v *state.State) bool { return len(v.PreparedHolds()) == 1 })
		root.Elect()
		b := root.Outcome("b")
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Equal(t, int64(2), kid.Used())
		w.Settle()
	})
}

// TestContestIsBounded keeps a boot waiting for one that its parent does not decide:
// it ends as contended after its time, or as soon as its owner wants it no more, and
// its record stays small.
func TestContestIsBounded(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"by default": 0, "by its own timeout": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				kid, link, r := zonetest.SelectedHold(w, 2)
				_, err := kid.Lead().Hold(t.Context(), link, r)
				require.NoError(t, err)
				w.When(func(zonetest.Call) zonetest.Fault { return zonetest.Vanished }) // nobody says what became of it
				o := zonetest.Order("late", 2, 2)
				o.Timeout = timeout
				kid.Boot(zonetest.Order("unwanted", 1, 1))
				await.Sleep(3 * time.Second)
				kid.Release("unwanted")
				assert.Equal(t, api.BootReleased, kid.Outcome("unwanted").State())
				began := time.Now()
				b := kid.Run(o)
				assert.Equal(t, api.BootFailed, b.State())
				assert.Equal(t, cause{api.CodeContended, "the room that it needs is held by others that are not decided yet; repeat the request"}, cause{b.Code, b.Reason})
				assert.InDelta(t, cmp.Or(timeout, saga.BootTimeout).Seconds(), time.Since(began).Seconds(), 2)
				assert.Len(t, b.Attempts, 1)
				assert.True(t, b.Attempts[0].Contended)
				w.When(nil)
				_, err = kid.Lead().Decide(t.Context(), link, r.ID, api.DecisionAbort)
				require.NoError(t, err)
				assert.Equal(t, api.BootActive, kid.Run(zonetest.Order("then", 2, 2)).State())
			})
		})
	}
}

// TestAHoldWithoutAnAnswerIsNotInItsOwnWay loses a child's answer to a hold: the child holds a slot that the boot does not know
// of, others take all but one of the child's slots, and the last one is the boot's own. It gives back what it has, and gets all.
func TestAHoldWithoutAnAnswerIsNotInItsOwnWay(t *testing.T) {
	for _, f := range []zonetest.Fault{zonetest.Silenced, zonetest.CutOff} {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil, 3)
			kid := w.Zone("kid", root, 3)
			lost := 0
			w.When(func(c zonetest.Call) zonetest.Fault {
				if c.Op != "hold" || lost > 0 && f == zonetest.Silenced || lost > 9 {
					return ""
				}
				lost++
				return f
			})
			root.Boot(zonetest.Order("b", 4, 4))
			kid.Until("it holds", func(v *state.State) bool { return len(v.PreparedHolds()) == 1 })
			require.Equal(t, api.BootActive, kid.Run(zonetest.Order("other", 2, 2)).State())
			b := root.Outcome("b")
			assert.Equal(t, api.BootActive, b.State(), "%s: %s", f, b.Reason)
			w.Settle()
			assert.Equal(t, int64(3), kid.Used())
		})
	}
}

// TestNobodyWaitsForRoomThatCannotHelp: others hold all the room of this zone, and if
// they gave it back the boot would still lack a second zone. It is not told to wait.
func TestNobodyWaitsForRoomThatCannotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		kid, link, r := zonetest.SelectedHold(w, 2)
		w.Zone("leaf", kid)
		_, err := kid.Lead().Hold(t.Context(), link, r)
		require.NoError(t, err)
		o := zonetest.Order("late", 2, 2)
		o.Request.Zones.MinZones = 2
		began := time.Now()
		b := kid.Run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, api.CodeNoCapacity, b.Code, b.Reason)
		assert.Less(t, time.Since(began), 10*time.Second)
		_, err = kid.Lead().Decide(t.Context(), link, r.ID, api.DecisionAbort)
		require.NoError(t, err)
	})
}
