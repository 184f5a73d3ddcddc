package zone_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/raftstore/command"
)

// TestABootOfOneZoneIsOneEntry: a zone without children plans a boot before it records it,
// and what it has room for is recorded, held and decided together.
func TestABootOfOneZoneIsOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		before := root.view().Index()
		root.boot(order("b", 2, 2))
		b, ok := root.view().Boot("p", "b")
		require.True(t, ok)
		assert.Equal(t, api.DecisionCommit, b.Decision)
		assert.Equal(t, before+1, root.log.last(command.KindBootCreate))
		assert.Equal(t, before+1, root.log.last(command.KindHold))
		assert.Len(t, b.Attempts, 1)
		assert.Equal(t, api.BootActive, root.outcome("b").State())
		assert.Equal(t, 1, root.log.count(command.KindBootCreate))
		assert.Equal(t, 1, root.log.count(command.KindHold))
		assert.Zero(t, root.log.count(command.KindBootDecide))
		e, known := root.lead().Explanation("p", "b")
		require.True(t, known)
		assert.Equal(t, 2, e.Groups[0].Offered)
		w.settle()

		root.run(order("more", 3, 3))
		assert.Equal(t, 2, root.log.count(command.KindBootCreate))
		assert.Equal(t, 1, root.log.count(command.KindHold), "there is no room for all of it: it is recorded alone")
		assert.Equal(t, 1, root.log.count(command.KindBootDecide))
		w.settle()
	})
}

// TestABootOfAZoneWithChildrenIsRecordedFirst: others are asked only for what is in the log.
func TestABootOfAZoneWithChildrenIsRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		w.zone("kid", root, 4)
		before := root.view().Index()
		root.boot(order("b", 2, 2))
		b, _ := root.view().Boot("p", "b")
		assert.Equal(t, before+1, b.ModIndex)
		assert.Equal(t, api.DecisionPending, b.Decision)
		assert.Equal(t, api.BootActive, root.outcome("b").State())
		w.settle()
	})
}

// TestAPlannedBootGoesWrongOnce lets everything befall the entry of a boot that was planned
// first: it comes to one end, and a repeat of the call is not another boot.
func TestAPlannedBootGoesWrongOnce(t *testing.T) {
	for _, what := range []mishap{notLeader, unapplied, unconfirmed, doubled, deposed, delayed} {
		t.Run(string(what), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 4)
				w.entryGoesWrong(root, command.KindHold, 1, what)
				o := order("b", 2, 2)
				root.boot(o)
				assert.Equal(t, api.BootActive, root.outcome("b").State())
				assert.Len(t, root.instances("b"), 2)
				w.settle()
			})
		})
	}
}

// TestBootsOfOneMoment boots from many callers at the same moment: each gets all that it wants,
// until there is no more, and no attempt is refused.
func TestBootsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, each, calls = 60, 2, 40
		w := newWorld(t)
		root := w.zone("root", nil, room/3, room/3, room/3)
		var wg sync.WaitGroup
		for n := range calls {
			wg.Go(func() { root.boot(order(fmt.Sprint("b", n), each, each)) })
		}
		wg.Wait()
		states := map[api.BootState]int{}
		for n := range calls {
			b := root.outcome(fmt.Sprint("b", n))
			states[b.State()]++
			for _, a := range b.Attempts {
				assert.Zero(t, a.Refused, "no two claims on one room")
			}
		}
		assert.Equal(t, map[api.BootState]int{api.BootActive: room / each, api.BootFailed: calls - room/each}, states)
		w.settle()
	})
}

// TestPlanAlike: requests that are planned together get the hosts that they get when each is
// booted after the one before.
func TestPlanAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.SliceOfN(rapid.Int64Range(0, 6), 1, 8).Draw(rt, "hosts")
		counts := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 8).Draw(rt, "counts")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			root := w.zone("root", nil, hosts...)
			reqs := make([]*api.Request, len(counts))
			for i, n := range counts {
				o := order(fmt.Sprint("b", i), n, n)
				reqs[i] = &o.Request
			}
			plans := root.lead().PlanAlike(t.Context(), root.view(), reqs)
			for i, n := range counts {
				if plans[i] == nil {
					continue // those behind it have its room
				}
				want := map[api.HostID]int{}
				for _, sl := range plans[i].Layer.Groups[0].Slots {
					want[sl.Host]++
				}
				res := fmt.Sprint("b", i)
				root.run(order(res, n, n))
				assert.Equal(t, want, root.onHosts(res), "hosts %v, counts %v, request %d", hosts, counts, i)
			}
		})
	})
}
