package buildplan

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/costs"
)

// drawPriced returns a view of many words of hosts, of which many are alike and some have a lease to
// come, a preemptible or a failed start.
func drawPriced(t *rapid.T) capacity.View {
	table := capacity.NewTable()
	hosts := rapid.SampledFrom([]int{0, 1, 63, 200, 1100}).Draw(t, "hosts")
	level := rapid.SliceOfN(rapid.Int64Range(0, 2000), hosts, hosts).Draw(t, "memory")
	flat, odd := rapid.Bool().Draw(t, "flat"), rapid.Bool().Draw(t, "odd")
	for i, mb := range level {
		if flat {
			mb = 1000 + mb/1000
		}
		s := capacity.Spec{
			ID: api.HostID(fmt.Sprintf("%04d", (i*7919)%10007)), Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: mb}},
		}
		if odd && i%300 == 0 {
			s.Failures = 1
		}
		table.Put(s)
		if c := (api.Claim{Class: api.Firm, Window: api.Window{Start: 10, End: 20}, Resources: api.Resources{api.MemoryMB: mb/2 + 1}}); odd {
			switch i % 100 {
			case 1:
				c.Class, c.Window.Start = api.Preemptible, 0
				table.Restore(s.ID, c)
			case 2:
				table.Restore(s.ID, c)
			}
		}
	}
	return table.View()
}

// A queue has the cheapest hosts, in the order of price and id, as if all had been sorted, and
// those outside when they are wanted.
func TestCheapestHosts(t *testing.T) {
	const least = 10 // of either; a short run draws few at a time
	outside, all := 0, 0
	check := func(t *rapid.T) {
		p := &planner{view: drawPriced(t)}
		set, err := costs.New([]api.CostWeight{
			{Name: costs.Spread, Weight: rapid.SampledFrom([]int64{1, -1, 1000}).Draw(t, "weight")}, {Name: "build_failures", Weight: rapid.Int64Range(-1, 1).Draw(t, "failures")},
		})
		require.NoError(t, err)
		pass := p.view.Hosts()
		every := rapid.SampledFrom([]int{1, 2, 70}).Draw(t, "every")
		pass.Keep(func(row int) bool { return row%every == 0 })
		kind := rapid.SampledFrom([]api.Class{api.Firm, api.Preemptible}).Draw(t, "kind")
		req := &api.Request{Class: kind, Window: api.Window{End: rapid.SampledFrom([]api.Instant{5, api.Forever}).Draw(t, "end")}, Groups: []api.Group{{Count: 1}}}
		prices := set.For(&costs.Look{View: p.view, Pass: pass, Req: req, Window: req.Window})
		want := slices.Collect(pass.All())
		slices.SortFunc(want, func(a, b int) int {
			return cmp.Or(cmp.Compare(prices.Of(a, 0), prices.Of(b, 0)), cmp.Compare(p.view.ID(a), p.view.ID(b)))
		})
		most := rapid.SampledFrom([]int{0, 1, 5, probeMax, probeMax + 1, 300, 2000}).Draw(t, "most")
		q := p.cheapestHosts(pass, &prices, most)
		require.GreaterOrEqual(t, q.Len(), min(most, len(want)))
		require.Equal(t, q.outside, q.Len() < len(want))
		if q.outside {
			outside++
		} else {
			all++
		}
		for i, row := range want {
			o := q.firstHost()
			require.NotNil(t, o)
			require.Equal(t, row, int(o.Row), "host %d of %d", i, len(want))
			require.Equal(t, prices.Of(row, 0), o.Cost)
			q.Pop()
		}
		require.Nil(t, q.firstHost())
	}
	for rounds := 0; rounds == 0 || rounds < 50 && min(outside, all) <= least; rounds++ {
		rapid.Check(t, check)
	}
	assert.Greater(t, outside, least)
	assert.Greater(t, all, least)
}

// A plan for few looks at few words, however many hosts there are.
func TestFewWordsAreRead(t *testing.T) {
	table := capacity.NewTable()
	for i := range 20_000 {
		table.Put(capacity.Spec{ID: api.HostID(fmt.Sprintf("%05d", i)), Inventory: map[api.ResourceClass]api.Inventory{
			api.MemoryMB: {Total: int64(1000 + i*7919%10007)},
		}})
	}
	v := table.View()
	req := &api.Request{Class: api.Firm, Window: api.Window{End: api.Forever}, Groups: []api.Group{{Count: 1}}}
	prices := costs.Default().For(&costs.Look{View: v, Pass: v.Hosts(), Req: req, Window: req.Window})
	for _, most := range []int{1, 5, probeMax} {
		s := newPriceScan(v.Hosts(), &prices)
		s.probe(most)
		s.sortWords()
		s.readWords(most)
		assert.GreaterOrEqual(t, s.found, most)
		assert.Less(t, s.read, 4*most+4)
	}
}
