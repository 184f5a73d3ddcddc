package buildplan_test

import (
	"fmt"
	"slices"
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

// cpuHosts is alike hosts with so many processors each.
func cpuHosts(cpus ...int64) capacity.View {
	t := capacity.NewTable()
	for i, n := range cpus {
		t.Put(capacity.Spec{
			ID: api.HostID(fmt.Sprintf("h%04d", i)), Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: n}, api.MemoryMB: {Total: n << 10}},
		})
	}
	return t.View()
}

// wants is a group of instances with so many processors.
func wants(cpus int64, count, least int) api.Group {
	return api.Group{Count: count, Min: least, Resources: api.Resources{api.VCPU: cpus, api.MemoryMB: 256 * cpus}}
}

// sizes returns how many slots each group of a plan has.
func sizes(p buildplan.Plan) []int {
	out := make([]int, len(p.Groups))
	for g := range out {
		out[g] = len(p.Groups[g].Slots)
	}
	return out
}

func repeat(n int, cpus int64) []int64 { return slices.Repeat([]int64{cpus}, n) }

// TestMinimaFirst plans groups that do not fit in their order, to their maxima, and
// spread: every minimum is had, and the maxima as far as there is room beside them.
func TestMinimaFirst(t *testing.T) {
	apart := []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	for _, c := range []struct {
		name   string
		hosts  []int64
		groups []api.Group
		rules  []api.Rule
		want   []int
	}{
		{"all fit at their maxima", repeat(2, 8), []api.Group{wants(2, 4, 1), wants(8, 1, 1)}, nil, []int{4, 1}},
		{"the first is spread over all", repeat(4, 8), []api.Group{wants(1, 4, 1), wants(8, 1, 1)}, nil, []int{4, 1}},
		{"so it is, and needs all", repeat(4, 8), []api.Group{wants(1, 4, 4), wants(8, 1, 1)}, nil, []int{4, 1}},
		{"the last comes first", repeat(4, 8), []api.Group{wants(8, 1, 1), wants(1, 4, 4)}, nil, []int{1, 4}},
		{"the first takes all", repeat(8, 8), []api.Group{wants(1, 60, 1), wants(1, 10, 10)}, nil, []int{54, 10}},
		{"all room is needed", repeat(2, 8), []api.Group{wants(3, 2, 2), wants(5, 2, 2)}, nil, []int{2, 2}},
		{"two in the way of one", []int64{4, 6}, []api.Group{wants(2, 2, 2), wants(3, 2, 2)}, nil, []int{2, 2}},
		{"a rule keeps them apart", repeat(3, 8), []api.Group{wants(1, 2, 2), wants(8, 1, 1)}, apart, []int{2, 1}},
		{"a rule leaves too few", repeat(2, 8), []api.Group{wants(1, 2, 2), wants(8, 1, 1)}, apart, []int{2, 0}},
		{"more than there is", repeat(2, 8), []api.Group{wants(1, 9, 9), wants(8, 2, 2)}, nil, []int{9, 0}},
		{"no minimum", repeat(1, 8), []api.Group{wants(1, 9, 0), wants(8, 2, 0)}, nil, []int{8, 0}},
		{"one minimum", repeat(1, 8), []api.Group{wants(1, 9, 0), wants(8, 2, 1)}, nil, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &api.Request{Class: api.Firm, Window: api.Window{End: api.Forever}, Groups: c.groups, Rules: c.rules}
			s := &buildplan.Inputs{View: cpuHosts(c.hosts...), Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
			plan := buildplan.Select(s, req)
			assert.Equal(t, c.want, sizes(plan))
			assert.Equal(t, plan, buildplan.Select(s, req), "again")
		})
	}
}

// TestMinimaOfManyHosts finds room for minima that need nearly all of a large fleet,
// and gives up in good time where there is none.
func TestMinimaOfManyHosts(t *testing.T) {
	s := &buildplan.Inputs{View: cpuHosts(repeat(2000, 8)...), Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
	req := &api.Request{Class: api.Firm, Window: api.Window{End: api.Forever}}
	req.Groups = []api.Group{wants(1, 4000, 1000), wants(3, 2000, 500), wants(8, 1500, 1500)}
	plan := buildplan.Select(s, req)
	require.GreaterOrEqual(t, len(plan.Groups[0].Slots), 1000)
	require.GreaterOrEqual(t, len(plan.Groups[1].Slots), 500)
	require.Len(t, plan.Groups[2].Slots, 1500)
	req.Groups = []api.Group{wants(3, 2000, 2000), wants(5, 2001, 2001)} // of each 8, one of both
	plan = buildplan.Select(s, req)
	require.Equal(t, []int{2000, 2000}, sizes(plan))
}

// drawLeast draws minima for a request, and keeps its counts small.
func drawLeast(t *rapid.T, req *api.Request, most int) {
	for g := range req.Groups {
		g := &req.Groups[g]
		g.Count = rapid.IntRange(0, 3).Draw(t, "count")
		g.Min = rapid.IntRange(0, min(g.Count, most)).Draw(t, "least")
		most -= g.Min
		if rarely(t, 3) {
			g.Count += 5
		}
	}
}

// fits tries every way to put the least slots of each group on the hosts, group after
// group: would one of them do? It stops after so many steps.
func (z *slowZone) fits(g, placed, from int, steps *int) bool {
	switch {
	case g == len(z.req.Groups):
		return true
	case placed >= min(z.req.Groups[g].Min, z.req.Groups[g].Count):
		return z.fits(g+1, 0, 0, steps)
	}
	for i := from; i < len(z.specs) && *steps > 0; i++ {
		*steps--
		if z.why(&z.specs[i], g) != "" {
			continue
		}
		before := len(z.placed)
		z.put(g, z.specs[i].ID)
		ok := z.fits(g, placed+1, i, steps)
		z.takeBack(before)
		if ok {
			return true
		}
	}
	return false
}

// allows checks that slots can be taken in the order of the plan, by all rules.
func (z *slowZone) allows(t *rapid.T, p buildplan.Plan) {
	for _, g := range wholeFirst(z.req) {
		for n, slot := range p.Groups[g].Slots {
			i := slices.IndexFunc(z.specs, func(s capacity.Spec) bool { return s.ID == slot.Host })
			require.Empty(t, z.why(&z.specs[i], g), "slot %d of group %d", n, g)
			z.put(g, slot.Host)
		}
	}
}

// TestWhatFitsIsHad compares with an exhaustive search: no minima are refused that
// have room in some way.
func TestWhatFitsIsHad(t *testing.T) {
	fitted, searched, refused, hard := 0, 0, 0, 0
	check(t, 3, func(t *rapid.T) {
		z, req := drawZone(t, 1, 2, 3, 4), drawRequest(t)
		drawLeast(t, req, 6)
		if req.Count() == 0 {
			return
		}
		plan := buildplan.Select(z.scene(t), req)
		z.slow(req).allows(t, plan)
		had := true
		for g := range plan.Groups {
			grp := &req.Groups[g]
			require.LessOrEqual(t, len(plan.Groups[g].Slots), grp.Count)
			had = had && len(plan.Groups[g].Slots) >= grp.Min
			r := plan.Groups[g].Refusals
			sum := r.Offering
			for _, f := range r.Filters {
				sum += f.Hosts
			}
			require.Equal(t, r.Considered, sum, "refusals add up")
			for _, a := range plan.Groups[g].Alternates {
				require.False(t, slices.ContainsFunc(plan.Groups[g].Slots, func(s buildplan.Slot) bool { return s.Host == a.Host }))
			}
		}
		steps := 20_000
		fits := z.slow(req).fits(0, 0, 0, &steps)
		if steps <= 0 && !fits {
			hard++
			return
		}
		require.Equal(t, fits, had, "exhaustive search, plan")
		switch plain := plainly(z.scene(t), req); {
		case !fits:
			refused++
		case plain:
			fitted++
		default:
			searched++
		}
	})
	t.Logf("%d had as they come, %d had by a search, %d refused, %d not decided by the exhaustive search", fitted, searched, refused, hard)
}

// plainly reports whether the minima are had without being placed first.
func plainly(s *buildplan.Inputs, req *api.Request) bool {
	its := *req
	its.Groups = slices.Clone(req.Groups)
	for g := range its.Groups {
		its.Groups[g].Min = 0
	}
	for g, n := range sizes(buildplan.Select(s, &its)) {
		if n < req.Groups[g].Min {
			return false
		}
	}
	return true
}
