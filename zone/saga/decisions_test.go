package saga_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// togetherBoots is how many boots are decided at the same time.
const togetherBoots = 5

// manyDecisions boots at the root and two levels below it, several boots at once, and
// releases them all at once. Calls take time, so that decisions on several of them are due
// for the same child.
func manyDecisions(w *zonetest.World) {
	w.Delay(func(zonetest.Call) time.Duration { return 20 * time.Millisecond })
	root := w.Zones[0]
	name := func(n int) string { return fmt.Sprint("together-", n) }
	for n := range togetherBoots {
		o := zonetest.Order(name(n), 2, 2)
		o.Request.Zones.MinZones = 2
		root.Boot(o)
	}
	for n := range togetherBoots {
		assert.Equal(w.T, api.BootActive, root.Outcome(name(n)).State(), root.Outcome(name(n)).Reason)
	}
	w.Settle()
	for n := range togetherBoots {
		root.Release(name(n))
	}
	for n := range togetherBoots {
		assert.Equal(w.T, api.BootReleased, root.Outcome(name(n)).State())
	}
	w.Settle()
	for _, m := range w.Zones {
		for _, h := range m.View().AllHosts() {
			full, _ := m.View().Host(h.ID)
			assert.Empty(w.T, full.Used, "zone %s: host %s", m.Name, h.Name)
		}
	}
}

func threeWide(w *zonetest.World) {
	mid := w.Zone("mid", w.Zone("root", nil, togetherBoots))
	w.Zone("leaf", mid, togetherBoots)
}

// TestDecisionsShareACall: decisions that are due for one child while a call to it is
// under way are in the next one, and in one entry of its log.
func TestDecisionsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		threeWide(w)
		manyDecisions(w)
		for _, link := range [][2]string{{"root", "mid"}, {"mid", "leaf"}} {
			at := func(op string) int { return w.Made(op, link[0], link[1]) }
			assert.Positive(t, at("decisions"), "%v", link)
			assert.Less(t, at("decisions")+at("commit")+at("abort"), 2*togetherBoots, "%v: calls for %d decisions", link, 2*togetherBoots)
		}
	})
}

// TestHoldsShareACall: holds that are asked of one child while a call to it is under way are in the next
// one, and in one entry of its log. Those that the child asks others for have a call of their own then.
func TestHoldsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		threeWide(w)
		manyDecisions(w)
		at := func(from, to, op string) int { return w.Made(op, from, to) }
		assert.Positive(t, at("root", "mid", "holds"))
		assert.Positive(t, at("mid", "leaf", "holds"))
		assert.Less(t, at("mid", "leaf", "holds")+at("mid", "leaf", "hold")+at("mid", "leaf", "hold and commit"), togetherBoots)
		for _, m := range w.Zones[1:] {
			for _, h := range m.View().AllHosts() {
				full, _ := m.View().Host(h.ID)
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
	var made []zonetest.Call
	var counts []map[command.Kind]int
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		threeWide(w)
		manyDecisions(w)
		for _, c := range zonetest.Tries(w.AllMade()) {
			if c.Op == op {
				made = append(made, c)
			}
		}
		for _, m := range w.Zones {
			counts = append(counts, m.Log.Counts())
		}
	})
	require.GreaterOrEqual(t, len(made), least, "to mid and to leaf: %v", made)
	for _, c := range dice.Part(t, zonetest.EachCall(made), 4) {
		t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				threeWide(w)
				w.CallGoesWrong(c)
				manyDecisions(w)
			})
		})
	}
	for _, e := range dice.Part(t, zonetest.EachEntry(counts, entries, zonetest.CallsTried), 12) {
		t.Run(e.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				threeWide(w)
				w.EntryGoesWrong(e)
				manyDecisions(w)
			})
		})
	}
}

// TestARefusedDecisionIsItsOwn: of decisions that share a call, one that the child refuses
// because it gave the hold up is noted so, and the others are carried out.
func TestARefusedDecisionIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		threeWide(w)
		w.Delay(func(zonetest.Call) time.Duration { return 20 * time.Millisecond })
		root, mid := w.Zones[0], w.Zones[1]
		resolved := false
		w.When(func(c zonetest.Call) zonetest.Fault { // before mid hears the first of the decisions that share a call
			if c.Op == "decisions" && c.To == "mid" && !resolved {
				resolved = true
				last := mid.View().PreparedHolds()
				h := last[len(last)-1]
				mid.Do(command.HoldDecide{
					Stamp: mid.Lead().Stamp(), ID: h.ID, Origin: h.Origin, Decision: api.DecisionAbort, Forced: true,
				})
			}
			return ""
		})
		for n := range togetherBoots {
			o := zonetest.Order(fmt.Sprint("b-", n), 2, 2)
			o.Request.Zones.MinZones = 2
			root.Boot(o)
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
		root.Until("all but one run", func(v *state.State) bool {
			return maps.Equal(count(v), map[api.Status]int{api.StatusActive: 2*togetherBoots - 1, api.StatusError: 1})
		})
		assert.True(t, resolved)
	})
}

// TestWhatACallCausesHasItsID: what zones below are asked and told for a boot has the id of the call that made it, so
// that they log it under that id.
func TestWhatACallCausesHasItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		threeWide(w)
		o := zonetest.Order("mine", 2, 2)
		o.Request.Zones.MinZones, o.Call = 2, "req-7"
		w.Zones[0].Boot(o)
		require.Equal(t, api.BootActive, w.Zones[0].Outcome("mine").State())
		w.Settle()
		mine := map[api.RequestID]bool{"req-7": true}
		for _, op := range []string{"select", "hold", "commit"} {
			assert.Equal(t, mine, w.IDsOf(zonetest.Call{Op: op, From: "root", To: "mid"}), op)
		}
		assert.Equal(t, mine, w.IDsOf(zonetest.Call{Op: "select", From: "mid", To: "leaf"}))
	})
}
