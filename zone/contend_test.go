package zone_test

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
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/saga"
)

// contestRounds is how many times boots compete, over all shapes of TestContest.
var contestRounds = flag.Int("contests", 200, "rounds of boots that compete for the same room")

// contestsPerWorld is how many rounds follow each other in one world.
const contestsPerWorld = 20

// shapes are the trees in which boots compete: each returns the zones in which they
// are asked for, the first of which sees all.
var shapes = []struct {
	name string
	make func(w *world, dice *rand.Rand) []*member
}{
	{"one zone", func(w *world, dice *rand.Rand) []*member {
		return []*member{w.zone("root", nil, some(dice), some(dice))}
	}},
	{"two zones", func(w *world, dice *rand.Rand) []*member {
		root := w.zone("root", nil, some(dice))
		return []*member{root, w.zone("kid", root, some(dice))}
	}},
	{"four zones", func(w *world, dice *rand.Rand) []*member {
		root := w.zone("root", nil, some(dice))
		w.zone("a", root, some(dice))
		w.zone("b", root, some(dice))
		w.zone("c", root, some(dice))
		return []*member{root}
	}},
	{"three levels", func(w *world, dice *rand.Rand) []*member {
		root := w.zone("root", nil, some(dice))
		mid := w.zone("mid", root, some(dice))
		leaf := w.zone("leaf", mid, some(dice))
		w.zone("other", root, some(dice))
		return []*member{root, mid, leaf}
	}},
}

func some(dice *rand.Rand) int64 { return 1 + dice.Int64N(4) }

// TestContest has boots compete, all or nothing, for room that is there for some of
// them, in one zone and in several, asked for at one zone and at several. What could
// be had in the end has been had: no boot failed that fits beside those that did not.
func TestContest(t *testing.T) {
	worlds := max(*contestRounds/contestsPerWorld, 1)
	for n := range worlds {
		shape := shapes[n%len(shapes)]
		t.Run(fmt.Sprint(shape.name, " seed ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(uint64(n), 7))
				w := newWorld(t)
				at := shape.make(w, dice)
				w.drawLag(dice)
				for round := range contestsPerWorld {
					c := w.contest(dice, fmt.Sprint("r", round, "-"), at)
					c.run(t, dice)
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
	worlds := max(*contestRounds/contestsPerWorld/2, 1)
	for n := range worlds {
		shape := shapes[1+n%(len(shapes)-1)]
		t.Run(fmt.Sprint(shape.name, " seed ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dice := rand.New(rand.NewPCG(uint64(n), 8))
				w := newWorld(t)
				at := shape.make(w, dice)
				w.drawLag(dice)
				callDice := rand.New(rand.NewPCG(dice.Uint64(), 2))
				for round := range contestsPerWorld {
					w.when(func(call) fault {
						if callDice.IntN(20) > 0 {
							return ""
						}
						return []fault{refused, vanished, silenced, cutOff, repeated}[callDice.IntN(5)]
					})
					c := w.contest(dice, fmt.Sprint("r", round, "-"), at)
					c.run(t, dice)
					w.when(nil)
					c.end()
				}
			})
		})
	}
}

func (w *world) drawLag(dice *rand.Rand) {
	lagDice := rand.New(rand.NewPCG(dice.Uint64(), 3))
	w.delay(func(call) time.Duration { return time.Duration(lagDice.IntN(30)) * time.Millisecond })
}

// contest is some boots that compete.
type contest struct {
	w     *world
	boots []contender
}

type contender struct {
	at     *member
	res    string
	wants  int64
	reason string
	code   api.Code
	took   time.Duration
	active bool
}

// room returns how many slots there are in a zone and below it, and are free.
func (m *member) room() (total, free int64) {
	for _, h := range m.view().AllHosts() {
		total += h.Inventory[api.VCPU].Total
	}
	free = total - m.used()
	for _, l := range m.view().Children() {
		t, f := m.w.at(m, l.ID).room()
		total, free = total+t, free+f
	}
	return total, free
}

// contest draws boots for more than there is.
func (w *world) contest(dice *rand.Rand, name string, at []*member) *contest {
	c := &contest{w: w}
	for n := range 2 + dice.IntN(3) {
		m := at[dice.IntN(len(at))]
		total, _ := m.room()
		c.boots = append(c.boots, contender{at: m, res: fmt.Sprint(name, n), wants: total/2 + 1 + dice.Int64N(total-total/2)})
	}
	return c
}

// run lets the boots compete, and checks what became of them.
func (c *contest) run(t *testing.T, dice *rand.Rand) {
	t.Helper()
	began := time.Now()
	for i := range c.boots {
		b := &c.boots[i]
		b.at.boot(order(b.res, int(b.wants), int(b.wants)))
		time.Sleep(time.Duration(dice.IntN(3)*dice.IntN(40)) * time.Millisecond)
	}
	for i := range c.boots {
		b := &c.boots[i]
		b.at.until("boot "+b.res+" has an outcome", func(v *state.State) bool {
			now, ok := v.Boot("p", api.ReservationID(b.res))
			b.active = ok && now.State() == api.BootActive
			if ok {
				b.code, b.reason = now.Code, now.Reason
			}
			return ok && now.State().Outcome()
		})
		b.took = time.Since(began)
	}
	c.w.settle()
	for i := range c.boots {
		b := &c.boots[i]
		if _, free := b.at.room(); !b.active && !c.ended() && b.code == api.CodeNoCapacity {
			require.Less(t, free, b.wants, "%s failed (%s) though what it wants is free: %v", b.res, b.reason, c.boots)
		}
	}
}

// ended reports whether a zone had started instances of a boot that failed: its lone
// word to commit was lost. They take room until they have ended.
func (c *contest) ended() bool {
	for i := range c.boots {
		for _, m := range c.w.zones {
			if b := &c.boots[i]; !b.active && len(m.view().OfReservation("p", api.ReservationID(b.res))) > 0 {
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
			b.at.release(b.res)
		}
	}
	c.w.settle()
	for _, m := range c.w.zones {
		require.Zero(c.w.t, m.used())
	}
}

// TestResumedBootWaitsForItself ends a leader whose children hold all that the boot
// wants. The next one gives that back, and the children learn of it late: the boot
// does not fail for want of what it has held itself.
func TestResumedBootWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		root.log.when(func(k command.Kind, n int) mishap {
			if k == command.KindHoldParts && n == 1 {
				return unapplied
			}
			return ""
		})
		slow := time.Now().Add(3 * time.Second)
		w.when(func(c call) fault {
			if c.op == "abort" && time.Now().Before(slow) {
				return refused
			}
			return ""
		})
		root.boot(order("b", 4, 4))
		kid.until("it holds", func(v *state.State) bool { return len(v.PreparedHolds()) == 1 })
		root.elect()
		b := root.outcome("b")
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Equal(t, int64(2), kid.used())
		w.settle()
	})
}

// TestContestIsBounded keeps a boot waiting for one that its parent does not decide:
// it ends as contended after its time, or as soon as its owner wants it no more, and
// its record stays small.
func TestContestIsBounded(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"by default": 0, "by its own timeout": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				kid, link, r := selected(w, 2)
				_, err := kid.lead().Hold(t.Context(), link, r)
				require.NoError(t, err)
				w.when(func(call) fault { return vanished }) // nobody says what became of it
				o := order("late", 2, 2)
				o.Timeout = timeout
				kid.boot(order("unwanted", 1, 1))
				time.Sleep(3 * time.Second)
				kid.release("unwanted")
				assert.Equal(t, api.BootReleased, kid.outcome("unwanted").State())
				began := time.Now()
				b := kid.run(o)
				assert.Equal(t, api.BootFailed, b.State())
				assert.Equal(t, cause{api.CodeContended, "the room that it needs is held by others that are not decided yet; repeat the request"}, cause{b.Code, b.Reason})
				assert.InDelta(t, cmp.Or(timeout, saga.BootTimeout).Seconds(), time.Since(began).Seconds(), 2)
				assert.Len(t, b.Attempts, 1)
				assert.True(t, b.Attempts[0].Contended)
				w.when(nil)
				_, err = kid.lead().Decide(t.Context(), link, r.ID, api.DecisionAbort)
				require.NoError(t, err)
				assert.Equal(t, api.BootActive, kid.run(order("then", 2, 2)).State())
			})
		})
	}
}

// TestNobodyWaitsForRoomThatCannotHelp: others hold all the room of this zone, and if
// they gave it back the boot would still lack a second zone. It is not told to wait.
func TestNobodyWaitsForRoomThatCannotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kid, link, r := selected(w, 2)
		w.zone("leaf", kid)
		_, err := kid.lead().Hold(t.Context(), link, r)
		require.NoError(t, err)
		o := order("late", 2, 2)
		o.Request.Zones.MinZones = 2
		began := time.Now()
		b := kid.run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, api.CodeNoCapacity, b.Code, b.Reason)
		assert.Less(t, time.Since(began), 10*time.Second)
		_, err = kid.lead().Decide(t.Context(), link, r.ID, api.DecisionAbort)
		require.NoError(t, err)
	})
}
