package saga_test

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
	"berth/zone/zonetest"
)

// TestABootOfOneZoneIsOneEntry: a zone without children plans a boot before it records it,
// and what it has room for is recorded, held and decided together.
func TestABootOfOneZoneIsOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		before := root.View().Index()
		root.Boot(zonetest.Order("b", 2, 2))
		b, ok := root.View().Boot("p", "b")
		require.True(t, ok)
		assert.Equal(t, api.DecisionCommit, b.Decision)
		assert.Equal(t, before+1, root.Log.Last(command.KindBootCreate))
		assert.Equal(t, before+1, root.Log.Last(command.KindHold))
		assert.Len(t, b.Attempts, 1)
		assert.Equal(t, api.BootActive, root.Outcome("b").State())
		assert.Equal(t, 1, root.Log.Count(command.KindBootCreate))
		assert.Equal(t, 1, root.Log.Count(command.KindHold))
		assert.Zero(t, root.Log.Count(command.KindBootDecide))
		e, known := root.Lead().Explanation("p", "b")
		require.True(t, known)
		assert.Equal(t, 2, e.Groups[0].Offered)
		w.Settle()

		root.Run(zonetest.Order("more", 3, 3))
		assert.Equal(t, 2, root.Log.Count(command.KindBootCreate))
		assert.Equal(t, 1, root.Log.Count(command.KindHold), "there is no room for all of it: it is recorded alone")
		assert.Equal(t, 1, root.Log.Count(command.KindBootDecide))
		w.Settle()
	})
}

// TestABootOfAZoneWithChildrenIsRecordedFirst: others are asked only for what is in the log.
func TestABootOfAZoneWithChildrenIsRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		w.Zone("kid", root, 4)
		before := root.View().Index()
		root.Boot(zonetest.Order("b", 2, 2))
		b, _ := root.View().Boot("p", "b")
		assert.Equal(t, before+1, b.ModIndex)
		assert.Equal(t, api.DecisionPending, b.Decision)
		assert.Equal(t, api.BootActive, root.Outcome("b").State())
		w.Settle()
	})
}

// TestAPlannedBootGoesWrongOnce lets everything befall the entry of a boot that was planned
// first: it comes to one end, and a repeat of the call is not another boot.
func TestAPlannedBootGoesWrongOnce(t *testing.T) {
	for _, what := range []zonetest.Mishap{zonetest.NotLeader, zonetest.Unapplied, zonetest.Unconfirmed, zonetest.Doubled, zonetest.Deposed, zonetest.Delayed} {
		t.Run(string(what), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 4)
				w.EntryGoesWrong(zonetest.EntryMishap{Kind: command.KindHold, N: 1, Mishap: what})
				o := zonetest.Order("b", 2, 2)
				root.Boot(o)
				assert.Equal(t, api.BootActive, root.Outcome("b").State())
				assert.Len(t, root.Instances("b"), 2)
				w.Settle()
			})
		})
	}
}

// TestBootsOfOneMoment boots from many callers at the same moment: each gets all that it wants,
// until there is no more, and no attempt is refused.
func TestBootsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, each, calls = 60, 2, 40
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, room/3, room/3, room/3)
		var wg sync.WaitGroup
		for n := range calls {
			wg.Go(func() { root.Boot(zonetest.Order(fmt.Sprint("b", n), each, each)) })
		}
		wg.Wait()
		states := map[api.BootState]int{}
		for n := range calls {
			b := root.Outcome(fmt.Sprint("b", n))
			states[b.State()]++
			for _, a := range b.Attempts {
				assert.Zero(t, a.Refused, "no two claims on one room")
			}
		}
		assert.Equal(t, map[api.BootState]int{api.BootActive: room / each, api.BootFailed: calls - room/each}, states)
		w.Settle()
	})
}

// TestPlanAlike: requests that are planned together get the hosts that they get when each is
// booted after the one before.
func TestPlanAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.SliceOfN(rapid.Int64Range(0, 6), 1, 8).Draw(rt, "hosts")
		counts := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 8).Draw(rt, "counts")
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil, hosts...)
			reqs := make([]*api.Request, len(counts))
			for i, n := range counts {
				o := zonetest.Order(fmt.Sprint("b", i), n, n)
				reqs[i] = &o.Request
			}
			plans := root.Lead().PlanAlike(t.Context(), root.View(), reqs)
			for i, n := range counts {
				if plans[i] == nil {
					continue // those behind it have its room
				}
				want := map[api.HostID]int{}
				for _, sl := range plans[i].Layer.Groups[0].Slots {
					want[sl.Host]++
				}
				res := fmt.Sprint("b", i)
				root.Run(zonetest.Order(res, n, n))
				assert.Equal(t, want, root.OnHosts(res), "hosts %v, counts %v, request %d", hosts, counts, i)
			}
		})
	})
}
