package buildplan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// paired makes the first two groups of a request pairs, or all of both one host's.
func paired(req *api.Request, pairs bool) *api.Request {
	out := *req
	out.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: pairs}}
	return &out
}

// TestPairsAreThoseOfOneAfterAnother: each pair is where it would be alone, beside those before, and there are as many as
// there is room for.
func TestPairsAreThoseOfOneAfterAnother(t *testing.T) {
	var pairs, short int
	defer func() {
		require.Greater(t, pairs, floorOf(60))
		require.Greater(t, short, floorOf(60))
	}()
	check(t, 3, func(t *rapid.T) {
		z, n := drawZone(t, 1, 2, 5, 9), rapid.IntRange(1, 6).Draw(t, "pairs")
		req := &api.Request{Class: api.Firm, Project: "p", Reservation: "r", Window: drawWindow(t)}
		for range 2 {
			req.Groups = append(req.Groups, api.Group{Count: n, Resources: drawResources(t, 4)})
		}
		if rapid.Bool().Draw(t, "traits") {
			req.Groups[1].Traits.Required = []string{"CUSTOM_A"}
		}
		z.census.elsewhere = nil
		s := z.scene(t)
		got := buildplan.Select(s, paired(req, true))
		z.census.members = nil // those of earlier attempts bind no other pair
		one := paired(req, false)
		one.Groups = []api.Group{req.Groups[0], req.Groups[1]}
		one.Groups[0].Count, one.Groups[1].Count = 1, 1
		one.Groups[0].Min, one.Groups[1].Min = 1, 1
		table := s.View.Copy()
		for i := range n {
			s.View = table.View()
			next := buildplan.Select(s, one)
			if len(next.Groups[0].Slots) == 0 || len(next.Groups[1].Slots) == 0 {
				short++
				require.Len(t, got.Groups[0].Slots, i)
				require.Len(t, got.Groups[1].Slots, i)
				return
			}
			for g := range 2 {
				require.Greater(t, len(got.Groups[g].Slots), i)
				require.Equal(t, next.Groups[g].Slots[0].Host, got.Groups[g].Slots[i].Host, "slot %d of group %d", i, g)
				c := api.Claim{Resources: req.Groups[g].Resources, Window: req.WindowAt(z.now), Class: req.ClaimClass()}
				if _, err := table.Place(next.Groups[g].Slots[0].Host, c); err != nil {
					t.Skip("what several hosts draw from went another way")
				}
			}
			pairs++
		}
	})
}

// TestPairsSpread: servers with a volume each go where costs have them, and are more than one host has room for.
func TestPairsSpread(t *testing.T) {
	table := capacity.NewTable()
	for _, id := range []api.HostID{"h1", "h2", "h3"} {
		table.Put(capacity.Spec{
			ID: id, Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 800}, api.DiskGB: {Total: 40}},
		})
	}
	s := &buildplan.Inputs{View: table.View(), Filters: filters.Default(), Costs: weigh(t, costs.Spread, 1)}
	req := paired(boot(10, 100), true)
	req.Groups = append(req.Groups, api.Group{Count: 10, Min: 10, Resources: api.Resources{api.DiskGB: 10}}, api.Group{Count: 8, Min: 2, Resources: api.Resources{api.MemoryMB: 200}})
	req.Groups[0].Min = 10
	plan := buildplan.Select(s, req)
	on := map[string]int{}
	for i, h := range hostsOf(plan.Groups[0].Slots) {
		on[h]++
		assert.Equal(t, h, string(plan.Groups[1].Slots[i].Host))
	}
	assert.Equal(t, map[string]int{"h1": 4, "h2": 3, "h3": 3}, on)
	assert.Len(t, plan.Groups[2].Slots, 6, "beside them")
	for g := range plan.Groups {
		r := plan.Groups[g].Refusals
		n := r.Offering
		for _, f := range r.Filters {
			n += f.Hosts
		}
		assert.Equal(t, r.Considered, n, "group %d", g)
	}

	req.Groups[0].Min, req.Groups[1].Min = 1, 1
	for _, tt := range []struct{ least, pairs, others int }{{2, 10, 2}, {6, 10, 6}, {8, 8, 8}, {11, 2, 11}, {12, 10, 6}} { // what all pairs leave is not always enough
		req.Groups[2].Count, req.Groups[2].Min = tt.least, tt.least
		plan = buildplan.Select(s, req)
		assert.Len(t, plan.Groups[0].Slots, tt.pairs, "beside %d", tt.least)
		assert.Len(t, plan.Groups[1].Slots, tt.pairs, "beside %d", tt.least)
		assert.Len(t, plan.Groups[2].Slots, tt.others, "of %d", tt.least)
	}
}
