package buildplan_test

import (
	"flag"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// federationShare is how many times rarer whole trees of zones are played: they
// take longer.
const federationShare = 3

var requests = flag.Int("requests", 1500, "how many random requests each oracle plays; that of federations a third of them")

// check runs a property on as many random requests as the flag says, or one of
// share of them.
func check(t *testing.T, share int, prop func(*rapid.T)) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	require.NoError(t, f.Value.Set(strconv.Itoa(*requests/share)))
	defer func() { require.NoError(t, f.Value.Set(before)) }()
	rapid.Check(t, prop)
}

// checkUntil is check, and goes on for up to 20 times as many requests until it has seen enough of what is rare.
func checkUntil(t *testing.T, enough func() bool, prop func(*rapid.T)) {
	t.Helper()
	for round := 0; round == 0 || round < 20 && !enough(); round++ {
		check(t, 1, prop)
	}
}

// floorOf returns how often something is seen at least that one of n requests or more meet.
func floorOf(n int) int {
	if testing.Short() {
		n *= 10 // fewer are played
	}
	return *requests / n
}

// wholeSlots counts the whole hosts that were planned.
var wholeSlots int

func TestSelectAgreesWithSlowScheduler(t *testing.T) {
	defer func() { require.Greater(t, wholeSlots, floorOf(50), "whole hosts were planned") }()
	checkUntil(t, func() bool { return wholeSlots > floorOf(50) }, func(t *rapid.T) {
		z, req := drawZone(t, 0, 1, 3, 8, 20, 60), drawRequest(t)
		s := z.scene(t)
		got := buildplan.Select(s, req)
		sameAsSlow(t, got, z.slow(req).plan(), z, req)
		require.Equal(t, got, buildplan.Select(s, req), "again")
		table, _ := z.build()
		for _, g := range wholeFirst(req) {
			c := api.Claim{Resources: req.Groups[g].Resources, Window: req.WindowAt(z.now), Class: req.ClaimClass()}
			for i, slot := range got.Groups[g].Slots {
				_, err := table.Place(slot.Host, c)
				if req.Groups[g].Whole {
					table.Release(slot.Host, c) // of nothing
					_, _, err = table.PlaceWhole(slot.Host, c)
					wholeSlots++
				}
				require.NoError(t, err, "slot %d of group %d can be had", i, g)
			}
		}
	})
}

// A pool that a hundred hosts share is promised once, over all groups, whatever
// rules they have, and the cheapest hosts go first.
func TestSharedPoolIsPromisedOnce(t *testing.T) {
	table := capacity.NewTable()
	table.Put(capacity.Spec{
		ID: "pool", Passive: true, Aggregates: []string{"g"}, Traits: []string{api.TraitShares},
		Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 100}},
	})
	for i := range int64(100) {
		table.Put(capacity.Spec{
			ID: api.HostID(fmt.Sprintf("h%02d", i)), Up: true, Enabled: true, Pool: api.PoolShared, Aggregates: []string{"g"},
			Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 1000 - i}},
		})
	}
	g := api.Group{Count: 6, Resources: api.Resources{api.MemoryMB: 900, api.DiskGB: 10}}
	req := &api.Request{Class: api.Firm, Window: api.Window{End: api.Forever}, Groups: []api.Group{g, g, g}}
	s := &buildplan.Inputs{View: table.View(), Filters: filters.Default(), Costs: weigh(t, costs.Spread, 1), Spare: 8}
	plan := buildplan.Select(s, req)
	require.Equal(t, []string{"h00", "h01", "h02", "h03", "h04", "h05"}, hostsOf(plan.Groups[0].Slots))
	require.Len(t, plan.Groups[0].Alternates, 8, "there still is room beside the first group")
	require.Equal(t, []string{"h06", "h07", "h08", "h09"}, hostsOf(plan.Groups[1].Slots))
	require.Empty(t, plan.Groups[1].Alternates)
	require.Empty(t, plan.Groups[2].Slots)
	require.Equal(t, []api.FilterCount{{Filter: buildplan.RefusedRoom, Hosts: 100, Tier: api.TierNotNow}}, plan.Groups[2].Refusals.Filters)
	fits, price := buildplan.Sketch(s, req, 0, 1000)
	require.Equal(t, [2]int64{10, costs.ScaleMax - 1000}, [2]int64{fits, price})
	req.Groups[0].Resources[api.MemoryMB] = 10 // of all groups: they share the map
	for _, rule := range []api.Rule{{Policy: api.Affinity}, {Policy: api.AntiAffinity, Max: 1}} {
		rule.Groups = []int{0, 1, 2}
		req.Rules = []api.Rule{rule}
		sum := 0
		for _, g := range buildplan.Select(s, req).Groups {
			sum += len(g.Slots)
		}
		require.Equal(t, 10, sum, rule.Policy)
	}
}

// sameAsSlow compares a plan with that of the slow scheduler.
func sameAsSlow(t *rapid.T, got buildplan.Plan, want []slowGroup, z *zone, req *api.Request) {
	require.Len(t, got.Groups, len(want))
	for i, g := range got.Groups {
		require.Equal(t, want[i].slots, g.Slots, "group %d", i)
		require.Equal(t, want[i].alternates, g.Alternates, "alternates of group %d", i)
		if req.Groups[i].Count == 0 {
			require.Equal(t, buildplan.GroupPlan{}, g, "nothing was asked")
			continue
		}
		refused, sum := map[string]int{}, g.Refusals.Offering
		for _, f := range g.Refusals.Filters {
			require.Positive(t, f.Hosts)
			require.NotContains(t, refused, f.Filter)
			require.NotEmpty(t, f.Tier)
			refused[f.Filter] = f.Hosts
			sum += f.Hosts
		}
		require.Equal(t, want[i].refused, refused, "group %d", i)
		require.Equal(t, len(z.specs), g.Refusals.Considered)
		require.Equal(t, g.Refusals.Considered, sum, "refusals add up")
		switch n := len(g.Slots); {
		case n == req.Groups[i].Count:
			require.Empty(t, g.Refusals.Advice, "no advice for who has all")
		case n > 0:
			require.Equal(t, api.Advice{Change: api.AdviceCount, Value: int64(n)}, g.Refusals.Advice[0])
		}
	}
}

func TestSketchAgreesWithSlowScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		z, req := drawZone(t, 0, 1, 3, 8, 20), drawRequest(t)
		req.Groups, req.Rules = req.Groups[:1], nil
		req.Groups[0].Count = 500 // more than any fleet here has room for
		want := z.slow(req).fill(0)
		s := z.scene(t)
		require.Equal(t, want, fitsOf(s, req, 500))
		require.Equal(t, min(want, 3), fitsOf(s, req, 3))
		require.Zero(t, fitsOf(s, req, 0))
		if _, price := buildplan.Sketch(s, req, 0, 500); want > 0 {
			require.Equal(t, buildplan.Select(s, req).Groups[0].Slots[0].Weight, price, "of the slot that is offered first")
		}
	})
}

// fitsOf returns how many slots of the first group fit, at most limit.
func fitsOf(s *buildplan.Inputs, req *api.Request, limit int64) int64 {
	n, _ := buildplan.Sketch(s, req, 0, limit)
	return n
}

// The slow scheduler knows every filter that there is.
func TestSlowSchedulerKnowsAll(t *testing.T) {
	z := &zone{census: &census{}, filters: nil}
	for _, f := range filters.Known() {
		if f.Name == filters.NameAllHosts {
			continue // it does nothing
		}
		z.specs = append(z.specs[:0], capacity.Spec{ID: "h", Pool: api.PoolShared})
		s := z.slow(boot(1, 1))
		require.NotPanics(t, func() { s.refuses(f.Example, &z.specs[0], 0) }, f.Name)
	}
}
