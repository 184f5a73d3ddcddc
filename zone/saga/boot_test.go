package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestBootOverThreeLevels takes all the room of three zones with one boot, and
// gives it back.
func TestBootOverThreeLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		b := root.Run(zonetest.Order("all", 6, 6))
		assert.Equal(t, api.BootActive, b.State())
		assert.Len(t, root.Instances("all"), 6)
		assert.Len(t, mid.Instances("all"), 4)
		assert.Len(t, leaf.Instances("all"), 2)
		w.Settle()
		root.Release("all")
		assert.Equal(t, api.BootReleased, root.Outcome("all").State())
		w.Settle()
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
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		b := root.Run(zonetest.Order("seven", 7, 7))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, cause{api.CodeNoCapacity, "6 of 7 could be had, 7 are needed"}, cause{b.Code, b.Reason})
		assert.Len(t, b.Attempts, 1)
		assert.Equal(t, 7, b.Attempts[0].Short, "nothing was asked to be held")
		for _, m := range []*zonetest.Member{root, mid, leaf} {
			assert.Empty(t, m.View().Holds(), m.Name)
		}
		w.Settle()

		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("some", 5, 7)).State())
		assert.Len(t, root.Instances("some"), 6, "max_count is wanted, min_count is needed")
		w.Settle()
		assert.Equal(t, api.BootFailed, root.Run(zonetest.Order("none", 1, 1)).State())
		w.Settle()
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
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				asked := 0
				w.When(func(now zonetest.Call) zonetest.Fault {
					switch now.Op {
					case "select":
						kid.Resize(2)
					case "hold":
						if asked++; asked <= c.refusals {
							kid.Resize(0)
						}
					}
					return ""
				})
				b := root.Run(zonetest.Order("b", c.least, 4))
				assert.Equal(t, c.want, b.State(), b.Reason)
				assert.Len(t, root.Instances("b"), c.made)
				assert.Len(t, b.Attempts, c.attempts)
				sum := sumTale(b)
				assert.Equal(t, 2*min(c.refusals, c.attempts), sum.Refused)
				if c.want == api.BootActive {
					assert.Equal(t, c.made, sum.Held)
				}
				kid.Resize(2)
				w.Settle()
				assert.True(t, freshIDs(kid), "an id that was asked for before was used again")
			})
		})
	}
}

// freshIDs reports whether no two holds of a zone were asked for the same id.
func freshIDs(m *zonetest.Member) bool {
	seen := map[api.InstanceID]bool{}
	for _, h := range m.View().Holds() {
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
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil)
			at := root
			for i := range depth {
				hosts := []int64{}
				if i == depth-1 {
					hosts = append(hosts, 3)
				}
				at = w.Zone([]string{"mid", "leaf"}[i], at, hosts...)
			}
			shrunk := false
			w.When(func(now zonetest.Call) zonetest.Fault {
				if now.Op == "hold and commit" && now.To == at.Name && !shrunk {
					at.Resize(1)
					shrunk = true
				}
				return ""
			})
			b := root.Run(zonetest.Order("two", 1, 2))
			assert.True(t, shrunk)
			assert.Equal(t, api.BootActive, b.State(), b.Reason)
			assert.Len(t, root.Instances("two"), 1)
			assert.Equal(t, 1, b.Counts.Live())
			assert.Zero(t, b.Counts.Error, "an instance that nobody made")
			w.Settle()
			b = root.Run(zonetest.Order("more", 1, 1))
			assert.Equal(t, api.BootFailed, b.State())
			w.Settle()
		})
	}
}

// TestAttemptLoggedAfterAll has an attempt reach the log only when its leader,
// which was told that nobody knows, tries again and wants something else.
func TestAttemptLoggedAfterAll(t *testing.T) {
	for _, at := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil, 1)
			kid := w.Zone("kid", root, 3)
			root.Log.When(func(k command.Kind, n int) zonetest.Mishap {
				if k == command.KindHold && n == at {
					return zonetest.Delayed
				}
				return ""
			})
			holds := 0
			w.When(func(now zonetest.Call) zonetest.Fault {
				switch {
				case now.Op == "hold":
					if holds++; holds <= 2 {
						kid.Resize(1)
					}
				case now.Op == "select" && now.N == at+1:
					kid.Resize(2) // another offer than for the try before
				case now.Op == "select":
					kid.Resize(3)
				}
				return ""
			})
			b := root.Run(zonetest.Order("b", 1, 4))
			assert.Equal(t, api.BootActive, b.State(), b.Reason)
			kid.Resize(3)
			w.Settle()
			assert.True(t, freshIDs(kid))
		})
	}
}
