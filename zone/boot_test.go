package zone_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// three returns a root, a middle and a leaf zone, with room for two each.
func three(w *world) (root, mid, leaf *member) {
	root = w.zone("root", nil, 2)
	mid = w.zone("mid", root, 2)
	leaf = w.zone("leaf", mid, 2)
	return root, mid, leaf
}

// TestBootOverThreeLevels takes all the room of three zones with one boot, and
// gives it back.
func TestBootOverThreeLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, mid, leaf := three(w)
		b := root.run(order("all", 6, 6))
		assert.Equal(t, api.BootActive, b.State())
		assert.Len(t, root.instances("all"), 6)
		assert.Len(t, mid.instances("all"), 4)
		assert.Len(t, leaf.instances("all"), 2)
		w.settle()
		root.release("all")
		assert.Equal(t, api.BootReleased, root.outcome("all").State())
		w.settle()
	})
}

// cause is why a boot failed.
type cause struct {
	code api.Code
	text string
}

// sumTale returns what the attempts of a boot add up to.
func sumTale(b *state.Boot) (sum api.BootAttempt) {
	for _, a := range b.Attempts {
		sum.Held += a.Held
		sum.Refused += a.Refused
		sum.Short += a.Short
	}
	return sum
}

// TestBootWithoutRoom is all or nothing: one too many, and nothing is touched;
// with a minimum that can be had, just what there is is made (case 40).
func TestBootWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, mid, leaf := three(w)
		b := root.run(order("seven", 7, 7))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, cause{api.CodeNoCapacity, "6 of 7 could be had, 7 are needed"}, cause{b.Code, b.Reason})
		assert.Len(t, b.Attempts, 1)
		assert.Equal(t, 7, b.Attempts[0].Short, "nothing was asked to be held")
		for _, m := range []*member{root, mid, leaf} {
			assert.Empty(t, m.view().Holds(), m.name)
		}
		w.settle()

		assert.Equal(t, api.BootActive, root.run(order("some", 5, 7)).State())
		assert.Len(t, root.instances("some"), 6, "max_count is wanted, min_count is needed")
		w.settle()
		assert.Equal(t, api.BootFailed, root.run(order("none", 1, 1)).State())
		w.settle()
	})
}

// TestRefusedSlotsAreWantedAgain lets a host shrink between select and hold: the
// shortfall is selected and held again under fresh ids, as often as attempts go,
// and if the minimum is not met everything is undone (case 72).
func TestRefusedSlotsAreWantedAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		refusals int // holds for which the child has shrunk
		least    int
		want     api.BootState
		made     int
		attempts int
	}{
		{"once", 1, 4, api.BootActive, 4, 2},
		{"all but the last", api.AttemptsMax - 1, 4, api.BootActive, 4, api.AttemptsMax},
		{"always", api.AttemptsMax, 4, api.BootFailed, 0, api.AttemptsMax},
		{"always, but some are enough", api.AttemptsMax, 2, api.BootActive, 2, api.AttemptsMax},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 2)
				kid := w.zone("kid", root, 2)
				asked := 0
				w.when(func(now call) fault {
					switch now.op {
					case "select":
						kid.resize(2)
					case "hold":
						if asked++; asked <= c.refusals {
							kid.resize(0)
						}
					}
					return ""
				})
				b := root.run(order("b", c.least, 4))
				assert.Equal(t, c.want, b.State(), b.Reason)
				assert.Len(t, root.instances("b"), c.made)
				assert.Len(t, b.Attempts, c.attempts)
				sum := sumTale(b)
				assert.Equal(t, 2*min(c.refusals, c.attempts), sum.Refused)
				if c.want == api.BootActive {
					assert.Equal(t, c.made, sum.Held)
				}
				kid.resize(2)
				w.settle()
				assert.True(t, freshIDs(kid), "an id that was asked for before was used again")
			})
		})
	}
}

// freshIDs reports whether no two holds of a zone were asked for the same id.
func freshIDs(m *member) bool {
	seen := map[api.InstanceID]bool{}
	for _, h := range m.view().Holds() {
		for _, id := range append(h.Held(), h.Refused...) {
			if seen[id] {
				return false
			}
			seen[id] = true
		}
	}
	return true
}

// TestLoneChildRefuses has the only zone that takes part shrink between select
// and hold, which are decided there in one step, all or nothing.
func TestLoneChildRefuses(t *testing.T) {
	for _, depth := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			root := w.zone("root", nil)
			at := root
			for i := range depth {
				hosts := []int64{}
				if i == depth-1 {
					hosts = append(hosts, 3)
				}
				at = w.zone([]string{"mid", "leaf"}[i], at, hosts...)
			}
			shrunk := false
			w.when(func(now call) fault {
				if now.op == "hold and commit" && now.to == at.name && !shrunk {
					at.resize(1)
					shrunk = true
				}
				return ""
			})
			b := root.run(order("two", 1, 2))
			assert.True(t, shrunk)
			assert.Equal(t, api.BootActive, b.State(), b.Reason)
			assert.Len(t, root.instances("two"), 1)
			assert.Equal(t, 1, b.Counts.Live())
			assert.Zero(t, b.Counts.Error, "an instance that nobody made")
			w.settle()
			b = root.run(order("more", 1, 1))
			assert.Equal(t, api.BootFailed, b.State())
			w.settle()
		})
	}
}

// TestAttemptLoggedAfterAll has an attempt reach the log only when its leader,
// which was told that nobody knows, tries again and wants something else.
func TestAttemptLoggedAfterAll(t *testing.T) {
	for _, at := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			root := w.zone("root", nil, 1)
			kid := w.zone("kid", root, 3)
			root.log.when(func(k command.Kind, n int) mishap {
				if k == command.KindHold && n == at {
					return delayed
				}
				return ""
			})
			holds := 0
			w.when(func(now call) fault {
				switch {
				case now.op == "hold":
					if holds++; holds <= 2 {
						kid.resize(1)
					}
				case now.op == "select" && now.n == at+1:
					kid.resize(2) // another offer than for the try before
				case now.op == "select":
					kid.resize(3)
				}
				return ""
			})
			b := root.run(order("b", 1, 4))
			assert.Equal(t, api.BootActive, b.State(), b.Reason)
			kid.resize(3)
			w.settle()
			assert.True(t, freshIDs(kid))
		})
	}
}
