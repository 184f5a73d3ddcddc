package zone_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// wholeSaga is everything that the protocol does: a boot over three levels, the end of
// an instance at its far end, a boot that one child takes alone, a boot that is
// too large, and the end of all.
func wholeSaga(w *world) {
	root := w.zones[0]
	if b := root.run(order("wide", 4, 6)); b.State() != api.BootFailed {
		for _, i := range root.instances("wide") {
			if i.Link != "" {
				root.delete(i.ID)
				break
			}
		}
	}
	w.settle()
	root.run(order("single", 1, 1))
	root.run(order("large", 7, 7))
	assert.Equal(w.t, api.BootFailed, root.outcome("large").State())
	w.settle()
	for _, res := range []string{"wide", "single"} {
		if root.outcome(res).State() != api.BootFailed {
			root.release(res)
			assert.Equal(w.t, api.BootReleased, root.outcome(res).State())
		}
	}
	w.settle()
	for _, m := range w.zones {
		for _, h := range m.view().AllHosts() {
			full, _ := m.view().Host(h.ID)
			assert.Empty(w.t, full.Used, "zone %s: host %s", m.name, h.Name)
		}
	}
}

// callsTried bounds how often a call of one kind between two zones is disturbed:
// the first ones are the protocol, the rest is waiting for news.
const callsTried = 6

// TestEveryCallGoesWrongOnce runs the saga once for every call between zones and
// every way in which it can go wrong.
func TestEveryCallGoesWrongOnce(t *testing.T) {
	var made []call
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		three(w)
		wholeSaga(w)
		made = tries(w.allMade())
	})
	require.Greater(t, len(made), 15, "the saga is too short: %v", made)
	for _, c := range made {
		for _, f := range []fault{refused, vanished, silenced, cutOff, repeated, ghost} {
			t.Run(fmt.Sprintf("%s %s to %s %d %s", c.op, c.from, c.to, c.n, f), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					three(w)
					w.when(func(now call) fault {
						if now == c {
							return f
						}
						return ""
					})
					wholeSaga(w)
				})
			})
		}
	}
}

// tries lists the calls to disturb, in order.
func tries(made map[call]int) []call {
	var out []call
	for c, n := range made {
		for c.n = 1; c.n <= min(n, callsTried); c.n++ {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), a.n-b.n)
	})
	return out
}

// TestEveryEntryGoesWrongOnce runs the saga once for every entry of the log of
// each zone that belongs to the protocol, and every way in which its proposal can
// go wrong; a new leader is among them.
func TestEveryEntryGoesWrongOnce(t *testing.T) {
	var counts []map[command.Kind]int
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		three(w)
		wholeSaga(w)
		for _, m := range w.zones {
			counts = append(counts, m.log.counts())
		}
	})
	steps := []command.Kind{
		command.KindBootCreate, command.KindHold, command.KindHoldParts, command.KindHoldDecide, command.KindBootDecide,
		command.KindBootRelease, command.KindPartAck, command.KindInstanceDelete, command.KindInstanceChanges,
		command.KindInstanceTold,
	}
	for i, kinds := range counts {
		for _, k := range steps {
			for n := 1; n <= min(kinds[k], callsTried); n++ {
				for _, what := range []mishap{notLeader, unapplied, unconfirmed, doubled, deposed, delayed} {
					t.Run(fmt.Sprintf("zone %d kind %d entry %d %s", i, k, n, what), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							w := newWorld(t)
							three(w)
							w.entryGoesWrong(w.zones[i], k, n, what)
							wholeSaga(w)
						})
					})
				}
			}
		}
	}
}

// entryGoesWrong has the n-th proposal of a kind go wrong in a zone, from now on.
func (w *world) entryGoesWrong(m *member, k command.Kind, n int, what mishap) {
	fell := make(chan struct{}, 1)
	m.log.recount()
	m.log.when(func(kind command.Kind, count int) mishap {
		if kind != k || count != n {
			return ""
		}
		if what == deposed {
			fell <- struct{}{}
		}
		return what
	})
	w.run(func() {
		select {
		case <-fell:
			time.Sleep(time.Second)
			m.elect()
		case <-w.ctx.Done():
		}
	})
}
