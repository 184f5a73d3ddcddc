package capacity

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// TestStock holds the sums of a table and of its views against the inventories.
func TestStock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table, want := NewTable(), map[api.HostID]int64{}
		var views []View
		var sums []int64
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			id := api.HostID(fmt.Sprint("h", rapid.IntRange(0, 5).Draw(rt, "host")))
			switch n := rapid.Int64Range(-3, 9).Draw(rt, "what"); {
			case n < -1:
				table.Remove(id)
				delete(want, id)
			case n < 0:
				views, sums = append(views, table.View()), append(sums, totalOf(want))
			default:
				s := Spec{ID: id, Passive: n%2 == 0, Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: n + 1, AllocationRatio: 2 * api.RatioOne}}}
				if want[id] = 2 * (n + 1); n == 9 {
					s.Inventory, want[id] = nil, 0
				}
				table.Put(s)
			}
			require.Equal(rt, totalOf(want), table.Stock(api.VCPU))
			require.Zero(rt, table.Stock(api.DiskGB))
		}
		for n, v := range views {
			require.Equal(rt, sums[n], v.Stock(api.VCPU))
			require.Equal(rt, sums[n], v.Copy().Stock(api.VCPU))
		}
	})
}

func totalOf(of map[api.HostID]int64) (sum int64) {
	for n := range maps.Values(of) {
		sum += n
	}
	return sum
}

// TestStockStopsAtALimit: one provider counts with stockMax at most, whatever becomes of it.
func TestStockStopsAtALimit(t *testing.T) {
	table := NewTable()
	put := func(total int64) {
		table.Put(Spec{ID: "h", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: total}}})
	}
	for _, n := range []int64{stockMax - 1, stockMax, stockMax + 1, 5} {
		put(n)
		require.Equal(t, min(n, stockMax), table.Stock(api.VCPU))
	}
	put(stockMax + 1)
	table.Remove("h")
	require.Zero(t, table.Stock(api.VCPU))
}
