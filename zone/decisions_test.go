package zone_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// togetherBoots is how many boots are decided at the same time.
const togetherBoots = 5

// manyDecisions boots at the root and two levels below it, several boots at once, and
// releases them all at once. Calls take time, so that decisions on several of them are due
// for the same child.
func manyDecisions(w *world) {
	w.delay(func(call) time.Duration { return 20 * time.Millisecond })
	root := w.zones[0]
	name := func(n int) string { return fmt.Sprint("together-", n) }
	for n := range togetherBoots {
		o := order(name(n), 2, 2)
		o.Request.Zones.MinZones = 2
		root.boot(o)
	}
	for n := range togetherBoots {
		assert.Equal(w.t, api.BootActive, root.outcome(name(n)).State(), root.outcome(name(n)).Reason)
	}
	w.settle()
	for n := range togetherBoots {
		root.release(name(n))
	}
	for n := range togetherBoots {
		assert.Equal(w.t, api.BootReleased, root.outcome(name(n)).State())
	}
	w.settle()
	for _, m := range w.zones {
		for _, h := range m.view().AllHosts() {
			full, _ := m.view().Host(h.ID)
			assert.Empty(w.t, full.Used, "zone %s: host %s", m.name, h.Name)
		}
	}
}

func threeWide(w *world) {
	mid := w.zone("mid", w.zone("root", nil, togetherBoots))
	w.zone("leaf", mid, togetherBoots)
}

// TestDecisionsShareACall: decisions that are due for one child while a call to it is
// under way are in the next one, and in one entry of its log.
func TestDecisionsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		threeWide(w)
		manyDecisions(w)
		for _, link := range [][2]string{{"root", "mid"}, {"mid", "leaf"}} {
			at := func(op string) int { return w.made(op, link[0], link[1]) }
			assert.Positive(t, at("decisions"), "%v", link)
			assert.Less(t, at("decisions")+at("commit")+at("abort"), 2*togetherBoots, "%v: calls for %d decisions", link, 2*togetherBoots)
		}
	})
}

// TestHoldsShareACall: holds that are asked of one child while a call to it is under way are in the next
// one, and in one entry of its log. Those that the child asks others for have a call of their own then.
func TestHoldsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		threeWide(w)
		manyDecisions(w)
		at := func(from, to, op string) int { return w.made(op, from, to) }
		assert.Positive(t, at("root", "mid", "holds"))
		assert.Positive(t, at("mid", "leaf", "holds"))
		assert.Less(t, at("mid", "leaf", "holds")+at("mid", "leaf", "hold")+at("mid", "leaf", "hold and commit"), togetherBoots)
		for _, m := range w.zones[1:] {
			for _, h := range m.view().AllHosts() {
				full, _ := m.view().Host(h.ID)
				assert.Empty(t, full.Used)
			}
		}
	})
}

// TestSharedDecisionsGoWrongOnce runs the boots once for every call with several decisions,
// and every way in which it can go wrong; and once for every entry that carries them out or
// notes that, and every way in which its proposal can.
func TestSharedDecisionsGoWrongOnce(t *testing.T) {
	goWrongOnce(t, "decisions", 3, command.KindHoldDecide, command.KindPartAck)
}

// TestSharedHoldsGoWrongOnce does the same with calls that have several holds, and the entries of holds.
func TestSharedHoldsGoWrongOnce(t *testing.T) {
	goWrongOnce(t, "holds", 2, command.KindHold, command.KindHoldParts)
}

// goWrongOnce runs many boots for each call of a kind, of which there are some at the least, and for each
// entry of some kinds.
func goWrongOnce(t *testing.T, op string, least int, entries ...command.Kind) {
	t.Helper()
	var made []call
	var counts []map[command.Kind]int
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		threeWide(w)
		manyDecisions(w)
		for _, c := range tries(w.allMade()) {
			if c.op == op {
				made = append(made, c)
			}
		}
		for _, m := range w.zones {
			counts = append(counts, m.log.counts())
		}
	})
	require.GreaterOrEqual(t, len(made), least, "to mid and to leaf: %v", made)
	for _, c := range made {
		for _, f := range []fault{refused, vanished, silenced, cutOff, repeated, ghost} {
			t.Run(fmt.Sprintf("%s to %s %d %s", c.from, c.to, c.n, f), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					threeWide(w)
					w.when(func(now call) fault {
						if now == c {
							return f
						}
						return ""
					})
					manyDecisions(w)
				})
			})
		}
	}
	for i, kinds := range counts {
		for _, k := range entries {
			for n := 1; n <= min(kinds[k], callsTried); n++ {
				for _, what := range []mishap{notLeader, unapplied, unconfirmed, doubled, deposed, delayed} {
					t.Run(fmt.Sprintf("zone %d kind %d entry %d %s", i, k, n, what), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							w := newWorld(t)
							threeWide(w)
							w.entryGoesWrong(w.zones[i], k, n, what)
							manyDecisions(w)
						})
					})
				}
			}
		}
	}
}

// TestARefusedDecisionIsItsOwn: of decisions that share a call, one that the child refuses
// because it gave the hold up is noted so, and the others are carried out.
func TestARefusedDecisionIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		threeWide(w)
		w.delay(func(call) time.Duration { return 20 * time.Millisecond })
		root, mid := w.zones[0], w.zones[1]
		resolved := false
		w.when(func(c call) fault { // before mid hears the first of the decisions that share a call
			if c.op == "decisions" && c.to == "mid" && !resolved {
				resolved = true
				last := mid.view().PreparedHolds()
				h := last[len(last)-1]
				mid.do(command.HoldDecide{
					Stamp: mid.lead().Stamp(), ID: h.ID, Origin: h.Origin, Decision: api.DecisionAbort, Forced: true,
				})
			}
			return ""
		})
		for n := range togetherBoots {
			o := order(fmt.Sprint("b-", n), 2, 2)
			o.Request.Zones.MinZones = 2
			root.boot(o)
		}
		count := func(v *state.State) map[api.Status]int {
			out := map[api.Status]int{}
			for n := range togetherBoots {
				b, ok := v.Boot("p", api.ReservationID(fmt.Sprint("b-", n)))
				if !ok {
					continue
				}
				for _, spec := range b.Instances {
					if i, ok := v.Instance(spec.ID); ok {
						out[i.Status]++
					}
				}
			}
			return out
		}
		root.until("all but one run", func(v *state.State) bool {
			return maps.Equal(count(v), map[api.Status]int{api.StatusActive: 2*togetherBoots - 1, api.StatusError: 1})
		})
		assert.True(t, resolved)
	})
}

// TestWhatACallCausesHasItsID: what zones below are asked and told for a boot has the id of the call that made it, so
// that they log it under that id.
func TestWhatACallCausesHasItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		threeWide(w)
		o := order("mine", 2, 2)
		o.Request.Zones.MinZones, o.Call = 2, "req-7"
		w.zones[0].boot(o)
		require.Equal(t, api.BootActive, w.zones[0].outcome("mine").State())
		w.settle()
		mine := map[api.RequestID]bool{"req-7": true}
		for _, op := range []string{"select", "hold", "commit"} {
			assert.Equal(t, mine, w.idsOf(call{op: op, from: "root", to: "mid"}), op)
		}
		assert.Equal(t, mine, w.idsOf(call{op: "select", from: "mid", to: "leaf"}))
	})
}
