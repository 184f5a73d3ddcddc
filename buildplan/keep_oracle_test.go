package buildplan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
)

// drawKeep deals some slots of the zone to the groups of a request, which it makes more like
// them.
func drawKeep(t *rapid.T, z *zone, req *api.Request) [][]buildplan.Keep {
	_, _, slots := z.buildSlots()
	out := make([][]buildplan.Keep, len(req.Groups))
	if len(slots) == 0 {
		return out
	}
	req.Class = api.Firm
	if w := slots[0].Claim.Window; rapid.Bool().Draw(t, "like the first") && w.End > z.now {
		req.Window, req.Lifetime = w, 0
	}
	for _, k := range rapid.Permutation(slots).Draw(t, "slots") {
		g := rapid.IntRange(-1, len(req.Groups)-1).Draw(t, "group")
		if g >= 0 && (k.Claim.Whole == req.Groups[g].Whole || rarely(t, 10)) {
			if grp := &req.Groups[g]; !grp.Whole && len(out[g]) == 0 && len(k.Claim.Resources) > 0 && rapid.Bool().Draw(t, "as large") {
				grp.Resources = maps.Clone(k.Claim.Resources)
			}
			k.Fixed = rarely(t, 8)
			out[g] = append(out[g], k)
		}
	}
	return out
}

// mayKeep is whether a slot may stay on its host, before anybody looks at the room.
func (z *slowZone) mayKeep(k *buildplan.Keep, g int) bool {
	i := slices.IndexFunc(z.specs, func(s capacity.Spec) bool { return s.ID == k.Host })
	for _, p := range z.placed {
		if p.host != k.Host && slices.Contains(priceBound(z.req, g), p.group) {
			return false
		}
	}
	for _, f := range z.filters {
		switch {
		case f.Name == "host_state" || f.Name == "instances" || f.Name == "capacity":
		case k.Fixed && f.Name != "server_group":
		case z.refuses(f, &z.specs[i], g) != "":
			return false
		}
	}
	return true
}

// keep keeps what it may of each group, and returns its slots, nil for a group that is
// stuck. What is left to place is in z.req.
func (z *slowZone) keep(list [][]buildplan.Keep) (kept [][]buildplan.Slot, stuck []bool) {
	kept, stuck = make([][]buildplan.Slot, len(z.req.Groups)), make([]bool, len(z.req.Groups))
	bare := z.base // without any of the slots
	z.base = rebuilt(z)
	for _, k := range slices.Concat(list...) {
		release(bare, &k)
	}
	rest := *z.req
	rest.Groups = slices.Clone(z.req.Groups)
	for _, g := range wholeFirst(z.req) {
		if z.req.Groups[g].Count < 1 {
			continue
		}
		before := len(z.placed)
		var undo []func()
		for _, k := range list[g] {
			grp := &z.req.Groups[g]
			full := z.base
			z.base = bare
			ok := len(kept[g]) < grp.Count && z.mayKeep(&k, g)
			z.base = full
			to := z.claim(grp.Resources)
			to.Consumer, to.Whole = k.Claim.Consumer, grp.Whole
			for _, table := range []*capacity.Table{z.base, z.now} {
				if !ok {
					break
				}
				shares, all, err := table.ExtendSlot(k.Host, k.Claim, k.Shares, to)
				if ok = err == nil; ok {
					done := to
					done.Resources = all
					undo = append(undo, func() { table.ShrinkSlot(k.Host, done, shares, k.Claim, k.Shares) })
				}
			}
			if ok {
				kept[g] = append(kept[g], buildplan.Slot{Host: k.Host, Weight: kept0, Keeps: k.Claim.Consumer})
				z.placed = append(z.placed, put{group: g, host: k.Host, whole: grp.Whole, kept: true})
			} else if k.Fixed {
				for _, f := range slices.Backward(undo) {
					f()
				}
				kept[g], stuck[g], z.placed = nil, true, z.placed[:before]
				rest.Groups[g].Count = 0
				break
			}
		}
		if !stuck[g] {
			rest.Groups[g].Count -= len(kept[g])
		}
	}
	z.req = &rest
	return kept, stuck
}

const kept0 = -64 * 1000 << 30

// rebuilt is another table like z.now.
func rebuilt(z *slowZone) *capacity.Table {
	table, _ := z.zone.build()
	return table
}

func release(t *capacity.Table, k *buildplan.Keep) {
	t.Release(k.Host, capacity.OwnPart(k.Claim, k.Shares))
	for _, sh := range k.Shares {
		part := k.Claim
		part.Resources = sh.Resources
		t.Return(sh.Provider, part)
	}
}

// What is kept in place, and what is placed beside it, is what the slow scheduler says.
func TestSelectKeepsLikeSlowScheduler(t *testing.T) {
	keeps, moved, stucks, wholes := 0, 0, 0, 0
	enough := func() bool {
		return keeps > floorOf(20) && moved > floorOf(200) && stucks > floorOf(500) && wholes > 0
	}
	checkUntil(t, enough, func(t *rapid.T) {
		z, req := drawZone(t, 1, 3, 8, 20), drawRequest(t)
		list := drawKeep(t, z, req)
		s := z.scene(t)
		s.Keep = list
		got := buildplan.Select(s, req)
		require.Equal(t, got, buildplan.Select(s, req), "again")
		slow := z.slow(req)
		kept, stuck := slow.keep(list)
		want := slow.plan()
		for g := range got.Groups {
			plan := got.Groups[g]
			if stuck[g] {
				stucks++
				require.Empty(t, plan.Slots)
				require.Equal(t, []api.FilterCount{{Filter: buildplan.RefusedInPlace, Hosts: len(z.specs), Tier: api.TierNotNow}}, plan.Refusals.Filters)
				continue
			}
			require.Equal(t, slices.Concat(kept[g], want[g].slots), plan.Slots, "group %d", g)
			alternates := slices.DeleteFunc(want[g].alternates, func(a buildplan.Slot) bool {
				return slices.ContainsFunc(kept[g], func(k buildplan.Slot) bool { return k.Host == a.Host })
			})
			require.Len(t, plan.Alternates, len(alternates), "alternates of group %d", g)
			require.Subset(t, alternates, plan.Alternates)
			keeps += len(kept[g])
			if len(kept[g]) < min(len(list[g]), len(plan.Slots)) {
				moved++
			}
			if req.Groups[g].Whole {
				wholes += len(kept[g])
			}
			if n := len(plan.Slots); n > 0 && n < req.Groups[g].Count {
				require.Equal(t, api.Advice{Change: api.AdviceCount, Value: int64(n)}, plan.Refusals.Advice[0])
			}
		}
	})
	t.Logf("%d kept, of whole hosts %d, %d groups moved some, %d are stuck", keeps, wholes, moved, stucks)
	require.Greater(t, keeps, floorOf(20))
	require.Greater(t, moved, floorOf(200))
	require.Greater(t, stucks, floorOf(500))
	require.Positive(t, wholes)
}
