package buildplan_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// takes is the slow, obvious form of the default filters: may s take a slot of g?
func takes(s capacity.Spec, req *api.Request, g *api.Group) bool {
	pool := s.Pool == api.PoolShared ||
		s.Pool == api.PoolOnDemand && req.Class == api.Firm ||
		s.Pool == api.PoolReservable && req.Class == api.Preemptible
	return s.Up && s.Enabled && pool && (!s.NeedsCommand || hasCommand(g.Flavor))
}

func hasCommand(f api.FlavorID) bool { return f == "web" }

var world = &filters.World{HasCommand: hasCommand}

// slowSelect is the slow, obvious scheduler: for each slot it looks at every host
// again, prices it again, picks the lowest (cost, id) and really claims it.
func slowSelect(table *capacity.Table, specs []capacity.Spec, req *api.Request, cs []api.CostWeight, spare int) []buildplan.GroupPlan {
	var out []buildplan.GroupPlan
	for gi := range req.Groups {
		g := &req.Groups[gi]
		claim := api.Claim{Resources: g.Resources, Window: req.Window, Class: req.Class}
		offers := func(skip map[api.HostID]bool) []buildplan.Slot {
			v := table.View()
			var all []buildplan.Slot
			for _, s := range specs {
				if !takes(s, req, g) || table.Fits(s.ID, claim) != nil || skip[s.ID] {
					continue
				}
				row, _ := v.Row(s.ID)
				free := v.FreeOver(row, api.MemoryMB, req.Window, req.Class)
				all = append(all, buildplan.Slot{Host: s.ID, Weight: slowPrice(cs, free)})
			}
			slices.SortFunc(all, func(a, b buildplan.Slot) int {
				return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Host, b.Host))
			})
			return all
		}
		var p buildplan.GroupPlan
		p.Refusals.Considered, p.Refusals.Offering = len(specs), len(offers(nil))
		used := map[api.HostID]bool{}
		for len(p.Slots) < g.Count {
			all := offers(nil)
			if len(all) == 0 {
				break
			}
			p.Slots = append(p.Slots, all[0])
			used[all[0].Host] = true
			if err := table.Claim(all[0].Host, claim); err != nil {
				panic(err)
			}
		}
		if rest := offers(used); len(rest) > 0 && spare > 0 {
			p.Alternates = rest[:min(spare, len(rest))]
		}
		out = append(out, p)
	}
	return out
}

var oracleClasses = []api.ResourceClass{api.VCPU, api.MemoryMB, "CUSTOM_X"}

func drawWindow(t *rapid.T) api.Window {
	start := api.Instant(rapid.Int64Range(0, 20).Draw(t, "start"))
	if rapid.Bool().Draw(t, "open") {
		return api.Window{Start: start, End: api.Forever}
	}
	return api.Window{Start: start, End: start + api.Instant(rapid.Int64Range(1, 12).Draw(t, "length"))}
}

func drawResources(t *rapid.T, most int64) api.Resources {
	r := api.Resources{}
	for _, c := range oracleClasses {
		if n := rapid.Int64Range(0, most).Draw(t, "amount"); n > 0 {
			r[c] = n
		}
	}
	return r
}

var drawClass = rapid.SampledFrom([]api.Class{api.Firm, api.Firm, api.Preemptible})

// drawFleet returns a random fleet with random claims, and a way to build it again.
func drawFleet(t *rapid.T) (specs []capacity.Spec, build func() *capacity.Table) {
	claims := map[api.HostID][]api.Claim{}
	now := api.Instant(rapid.Int64Range(0, 15).Draw(t, "now"))
	for i := range rapid.SampledFrom([]int{0, 1, 3, 8, 40, 120}).Draw(t, "hosts") {
		s := capacity.Spec{
			ID: api.HostID(fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"", "h", "same-prefix-"}).Draw(t, "prefix"), i)),
			Up: rapid.IntRange(0, 5).Draw(t, "up") > 0, Enabled: rapid.IntRange(0, 5).Draw(t, "enabled") > 0,
			Pool:         rapid.SampledFrom([]api.Pool{api.PoolOnDemand, api.PoolReservable, api.PoolShared}).Draw(t, "pool"),
			NeedsCommand: rapid.IntRange(0, 3).Draw(t, "needs") == 0,
			Gap:          time.Duration(rapid.IntRange(0, 2).Draw(t, "gap")) * time.Millisecond,
			Inventory:    map[api.ResourceClass]api.Inventory{},
		}
		for _, c := range oracleClasses {
			s.Inventory[c] = api.Inventory{
				Total:    rapid.Int64Range(0, 12).Draw(t, "total"),
				StepSize: rapid.SampledFrom([]int64{0, 0, 0, 2}).Draw(t, "step"),
			}
		}
		specs = append(specs, s)
		for range rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "claims") {
			claims[s.ID] = append(claims[s.ID], api.Claim{
				Resources: drawResources(t, 4), Window: drawWindow(t), Class: drawClass.Draw(t, "class"),
			})
		}
	}
	return specs, func() *capacity.Table {
		table := capacity.NewTable()
		for _, s := range specs {
			table.Put(s)
			for _, c := range claims[s.ID] {
				_ = table.Claim(s.ID, c) // as far as it fits
			}
		}
		table.Advance(now)
		return table
	}
}

func drawRequest(t *rapid.T) *api.Request {
	req := &api.Request{Class: drawClass.Draw(t, "class"), Window: drawWindow(t)}
	for range rapid.IntRange(1, 3).Draw(t, "groups") {
		r := drawResources(t, 3)
		if len(r) == 0 {
			r[api.VCPU] = 1
		}
		req.Groups = append(req.Groups, api.Group{
			Count: rapid.SampledFrom([]int{1, 2, 5, 30}).Draw(t, "count"), Resources: r,
			Flavor: rapid.SampledFrom([]api.FlavorID{"", "web"}).Draw(t, "flavor"),
		})
	}
	return req
}

func slowPrice(cs []api.CostWeight, free int64) int64 {
	var sum int64
	free = min(max(free, 0), 1<<30)
	for _, c := range cs {
		switch c.Name {
		case "constant":
			sum += c.Weight
		case "fill_first":
			sum += c.Weight * free
		case "spread":
			sum += c.Weight * (1<<30 - free)
		}
	}
	return sum
}

func drawCosts(t *rapid.T) []api.CostWeight {
	var w []api.CostWeight
	for _, n := range []string{"constant", "fill_first", "spread"} {
		w = append(w, api.CostWeight{Name: n, Weight: rapid.Int64Range(-2, 2).Draw(t, "weight")})
	}
	return w
}

func TestSelectAgreesWithSlowScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs, build := drawFleet(t)
		req, cs, spare := drawRequest(t), drawCosts(t), rapid.IntRange(0, 4).Draw(t, "spare")
		set, err := costs.New(cs)
		require.NoError(t, err)
		fs := filters.Default()
		if rapid.IntRange(0, 4).Draw(t, "no capacity filter") == 0 {
			fs = fs[:len(fs)-1]
		}
		v := build().View()
		got := buildplan.Select(&buildplan.Scene{View: v, World: world, Filters: fs, Costs: set, Spare: spare}, req)
		want := slowSelect(build(), specs, req, cs, spare)
		require.Len(t, got.Groups, len(want))
		for i, g := range got.Groups {
			require.Equal(t, want[i].Slots, g.Slots, "group %d", i)
			require.Equal(t, want[i].Alternates, g.Alternates, "alternates of group %d", i)
			require.Equal(t, want[i].Refusals.Considered, g.Refusals.Considered)
			require.Equal(t, want[i].Refusals.Offering, g.Refusals.Offering)
			sum := g.Refusals.Offering
			for _, f := range g.Refusals.Filters {
				require.Positive(t, f.Hosts)
				sum += f.Hosts
			}
			require.Equal(t, g.Refusals.Considered, sum, "refusals add up")
		}
		require.Equal(t, got, buildplan.Select(&buildplan.Scene{View: v, World: world, Filters: fs, Costs: set, Spare: spare}, req), "again")
	})
}

func TestFitsAgreesWithSlowScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs, build := drawFleet(t)
		req := drawRequest(t)
		req.Groups = req.Groups[:1]
		req.Groups[0].Count = 3000 // more than any fleet here has room for
		want := slowSelect(build(), specs, req, nil, 0)
		n := int64(len(want[0].Slots))
		v, fs := build().View(), filters.Default()
		require.Equal(t, n, buildplan.Fits(&buildplan.Scene{View: v, World: world, Filters: fs}, req, 0, 3000))
		require.Equal(t, min(n, 3), buildplan.Fits(&buildplan.Scene{View: v, World: world, Filters: fs}, req, 0, 3))
	})
}
