package estimate_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/costs"
	"berth/internal/await"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// Limits of estimates that these tests wait for.
const (
	failuresToPause = 3                // selects or holds in a row
	probeEvery      = 2 * time.Second  // how long a failing child is left alone at first
	digestAgeMax    = 30 * time.Second // how old a digest may be and still rule a child out
)

// TestGroupsAreHadTogether boots 3 and 2 over two zones, and then 3 and 4 where
// there is room for 3 and 3: nothing is made.
func TestGroupsAreHadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 3)
		w.Zone("kid", root, 3)
		b := root.Run(zonetest.Groups("five", zonetest.Group("web", 3, 3), zonetest.Group("db", 2, 2)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		names := map[string]bool{}
		for _, i := range root.Instances("five") {
			names[i.Name] = true
		}
		assert.Equal(t, map[string]bool{"five-web-1": true, "five-web-2": true, "five-web-3": true, "five-db-1": true, "five-db-2": true}, names)
		root.Release("five")
		root.Outcome("five")
		w.Settle()

		b = root.Run(zonetest.Groups("seven", zonetest.Group("web", 3, 3), zonetest.Group("db", 4, 4)))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, api.CodeNoCapacity, b.Code)
		assert.Equal(t, "3 of 4 of group db could be had, 4 are needed", b.Reason)
		assert.Empty(t, root.Instances("seven"))
		assert.Equal(t, []api.Offer{{Wanted: 3, Offered: 3}, {Wanted: 4, Offered: 3}}, b.Attempts[0].Offered)

		b = root.Run(zonetest.Groups("six", zonetest.Group("web", 3, 3), zonetest.Group("db", 2, 4)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, root.Instances("six"), 6, "each group has its minimum, and what there is beyond it")
		w.Settle()
	})
}

// TestGroupsShareManyZones fills four zones of different sizes to the last slot with
// four groups: each zone offers all of its room for the first group at first.
func TestGroupsShareManyZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		for i, cpus := range []int64{2, 3, 4} {
			w.Zone(fmt.Sprint("kid", i), root, cpus)
		}
		b := root.Run(zonetest.Groups("b", zonetest.Group("a", 4, 4), zonetest.Group("b", 3, 3), zonetest.Group("c", 2, 2), zonetest.Group("d", 1, 1)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, root.Instances("b"), 10)
		assert.Len(t, b.Attempts, 1, "the plan was right at once")
		assert.Zero(t, b.Attempts[0].Refused)
		w.Settle()
	})
}

// TestRulesAcrossGroups keeps web and db apart, each pair on a host of its own, in
// two zones.
func TestRulesAcrossGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 8, 8)
		kid := w.Zone("kid", root, 8, 8)
		o := zonetest.Groups("b", zonetest.Group("web", 2, 2), zonetest.Group("db", 2, 2))
		o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}}
		b := root.Run(o)
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		for _, m := range []*zonetest.Member{root, kid} {
			assert.Len(t, m.OnHosts("b"), 2, m.Name)
			for h, n := range m.OnHosts("b") {
				assert.Equal(t, 1, n, "%s %s", m.Name, h)
			}
		}
		o = zonetest.Groups("five", zonetest.Group("web", 3, 3), zonetest.Group("db", 2, 2))
		o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}}
		assert.Equal(t, api.BootFailed, root.Run(o).State(), "five hosts are not there")
		w.Settle()
	})
}

// TestAffinityStaysTogether boots a group into one host of one zone, and finds it
// there again with a second boot into the same server group; what does not fit
// beside it is refused.
func TestAffinityStaysTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2, 6)
		root.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "sg", Policy: api.Affinity}})
		bound := func(res string, n int) *intake.BootOrder {
			o := zonetest.Order(res, n, n)
			o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.Affinity, Groups: []int{0}}}
			return o
		}
		for _, res := range []string{"first", "second"} {
			b := root.Run(bound(res, 3))
			require.Equal(t, api.BootActive, b.State(), b.Reason)
			assert.Equal(t, map[api.LinkID]int{"link-kid": 3}, root.Spread(res, ""))
		}
		hosts := kid.OnHosts("first")
		require.Len(t, hosts, 1)
		for h := range hosts {
			assert.Equal(t, map[api.HostID]int{h: 3}, kid.OnHosts("second"))
		}
		assert.Equal(t, api.BootFailed, root.Run(bound("third", 1)).State())
		w.Settle()
	})
}

// TestAChildIsAskedForWhatMayLieThere: a group that must stay where its members are is
// not wanted of a child, however cheap it is there, and the others are.
func TestAChildIsAskedForWhatMayLieThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		w.Zone("west", root, 4)
		root.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "sg", Policy: api.Affinity}})
		together := func(res string) *intake.BootOrder {
			o := zonetest.Order(res, 1, 1)
			o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.Affinity, Groups: []int{0}}}
			return o
		}
		first := together("first")
		first.Request.Zones.Allowed = []string{"root"}
		require.Equal(t, api.BootActive, root.Run(first).State())
		l, _ := root.View().LinkByName("west")
		cheap := -int64(1) << 50
		root.Do(command.LinkSet{ID: l.ID, Offset: &cheap})
		next := together("next")
		next.Request.Groups = append(next.Request.Groups, next.Request.Groups[0])
		b := root.Run(next)
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, b.Attempts, 1)
		for _, i := range root.Instances("next") {
			assert.Equal(t, len(i.Rules) > 0, i.Host != "", "one here, one in the child")
		}
		w.Settle()
	})
}

// TestZoneRules says where slots may lie.
func TestZoneRules(t *testing.T) {
	for name, c := range map[string]struct {
		rule api.ZoneRule
		n    int
		want map[api.LinkID]int // nil for a boot that fails
	}{
		"anywhere":         {api.ZoneRule{}, 3, map[api.LinkID]int{"": 3}},
		"allowed":          {api.ZoneRule{Allowed: []string{"east"}}, 3, map[api.LinkID]int{"link-east": 3}},
		"allowed below":    {api.ZoneRule{Allowed: []string{"leaf"}}, 3, nil}, // names are seen from the root
		"allowed, all of":  {api.ZoneRule{Allowed: []string{"west"}}, 8, map[api.LinkID]int{"link-west": 8}},
		"excluded":         {api.ZoneRule{Excluded: []string{"root", "west"}}, 4, map[api.LinkID]int{"link-east": 4}},
		"excluded, all":    {api.ZoneRule{Excluded: []string{"root", "west"}}, 5, nil},
		"excluded below":   {api.ZoneRule{Excluded: []string{"root", "leaf", "east"}}, 4, map[api.LinkID]int{"link-west": 4}},
		"excluded below 2": {api.ZoneRule{Excluded: []string{"root", "leaf", "east"}}, 5, nil},
		"nowhere":          {api.ZoneRule{Allowed: []string{"north"}}, 1, nil},
		"tag":              {api.ZoneRule{AllowedTags: []string{"cold"}}, 4, map[api.LinkID]int{"link-east": 4}},
		"not tagged":       {api.ZoneRule{ExcludedTags: []string{"cold"}, Excluded: []string{"root"}}, 8, map[api.LinkID]int{"link-west": 8}},
		"even":             {api.ZoneRule{MaxSkew: 1}, 9, map[api.LinkID]int{"": 3, "link-east": 3, "link-west": 3}},
		"even, no more":    {api.ZoneRule{MaxSkew: 1}, 14, nil},
		"two zones":        {api.ZoneRule{MinZones: 2, Excluded: []string{"west"}}, 2, map[api.LinkID]int{"": 1, "link-east": 1}},
		"four zones":       {api.ZoneRule{MinZones: 4}, 8, nil},
		"pack":             {api.ZoneRule{Pack: true, Excluded: []string{"leaf"}}, 4, map[api.LinkID]int{"": 4}},
		"pack too many":    {api.ZoneRule{Pack: true}, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 4)
				east := w.Zone("east", root, 4)
				west := w.Zone("west", root, 4)
				w.Zone("leaf", west, 4)
				east.Do(command.ConfigSet{Config: api.ZoneConfig{Tags: []string{"cold"}}})
				o := zonetest.Order("b", c.n, c.n)
				o.Request.Zones = c.rule
				planned := o.Request
				a, err := root.Lead().Select(w.Ctx, "", &planned)
				require.NoError(t, err)
				b := root.Run(o)
				if c.want == nil {
					assert.Equal(t, api.BootFailed, b.State())
					assert.Empty(t, root.Instances("b"))
					assert.Equal(t, b.Reason, a.Short, "a plan says what the boot says")
				} else {
					assert.Empty(t, a.Short)
					require.Equal(t, api.BootActive, b.State(), b.Reason)
					assert.Equal(t, c.want, root.Spread("b", ""))
				}
				w.Settle()
			})
		})
	}
}

// TestBesideAnInstance asks for the host of an instance that lies in a child, and
// for any other.
func TestBesideAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 8)
		kid := w.Zone("kid", root, 8, 8)
		o := zonetest.Order("first", 1, 1)
		o.Request.Zones.Allowed = []string{"kid"}
		require.Equal(t, api.BootActive, root.Run(o).State())
		first := root.Instances("first")[0].ID
		o = zonetest.Order("same", 3, 3)
		o.Request.Groups[0].Hints.SameHost = []api.InstanceID{first}
		require.Equal(t, api.BootActive, root.Run(o).State())
		o = zonetest.Order("other", 3, 3)
		o.Request.Groups[0].Hints.DifferentHost = []api.InstanceID{first}
		o.Request.Zones.Excluded = []string{"root"}
		require.Equal(t, api.BootActive, root.Run(o).State())
		at := slices.Collect(maps.Keys(kid.OnHosts("first")))
		assert.Equal(t, at, slices.Collect(maps.Keys(kid.OnHosts("same"))))
		assert.NotContains(t, kid.OnHosts("other"), at[0])
		w.Settle()
	})
}

// TestNamesAndAddressesStay asks for hosts by name and by address: no child is asked,
// and a parent that asks is refused.
func TestNamesAndAddressesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		for name, hint := range map[string]api.Hints{
			"force":  {ForceHosts: []string{"kid-host-1"}},
			"ignore": {IgnoreHosts: []string{"kid-host-1"}},
			"near":   {Near: "192.0.2.0/24"},
		} {
			o := zonetest.Order("b", 1, 1)
			o.Request.Groups[0].Hints = hint
			req := o.Request
			asked := w.Made("select", "root", "kid")
			a, err := root.Lead().Select(w.Ctx, "", &req)
			require.NoError(t, err)
			if name == "ignore" { // of this zone's own
				assert.Len(t, a.Weights[0], 1)
			} else {
				assert.Empty(t, a.Weights[0], name)
				got, _ := zonetest.OutcomesOf(a)
				assert.Equal(t, api.OutcomeSkipped, got["kid"], name)
				assert.Equal(t, asked+1, w.Made("select", "root", "kid"), "%s: only for what works without it", name)
			}
			_, err = kid.Lead().Select(w.Ctx, root.ID, &req)
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err), name)
		}
		w.Settle()
	})
}

// TestFailingChildrenAreLeftAlone pauses a child after three failures, tries it
// now and then, and has it back after one success.
func TestFailingChildrenAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		w.Zone("kid", root, 2)
		broken := func(now zonetest.Call) zonetest.Fault {
			if now.Op == "select" {
				return zonetest.Refused
			}
			return ""
		}
		w.When(broken)
		outcome := func() string {
			got, _ := zonetest.OutcomesOf(root.Pick(3, time.Second))
			return got["kid"]
		}
		for range failuresToPause {
			assert.Equal(t, api.OutcomeFailed, outcome())
		}
		for range 5 { // selects that were under way
			root.Lead().NoteFailure("link-kid")
		}
		assert.Equal(t, api.OutcomePaused, outcome())
		await.Sleep(probeEvery)
		assert.Equal(t, api.OutcomeFailed, outcome(), "one try")
		assert.Equal(t, api.OutcomePaused, outcome())
		w.When(nil)
		await.Sleep(2*probeEvery - time.Millisecond)
		assert.Equal(t, api.OutcomePaused, outcome())
		await.Sleep(time.Millisecond)
		assert.Equal(t, api.OutcomeAnswered, outcome())
		assert.Equal(t, api.OutcomeAnswered, outcome())
		w.Settle()
	})
}

// TestRequestThatComesBack is refused at another depth by a zone that is still
// working on it; a hedge comes at the same depth.
func TestRequestThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		w.Zone("kid", root, 1)
		z := root.Lead()
		req := zonetest.Order("b", 2, 2).Request
		at := func(depth int) error {
			_, err := z.Select(zone.WithDepth(requestid.With(w.Ctx, "req-1"), depth), "", &req)
			return err
		}
		w.Delay(func(zonetest.Call) time.Duration { return 200 * time.Millisecond }) // to kid, and back
		var first, again sync.WaitGroup
		first.Go(func() { assert.NoError(t, at(0)) })
		await.Sleep(100 * time.Millisecond)
		again.Go(func() { assert.NoError(t, at(0), "the same again") })
		assert.Equal(t, api.CodeConflict, api.CodeOf(at(2)))
		first.Wait()
		assert.Equal(t, api.CodeConflict, api.CodeOf(at(2)), "one is under way still")
		again.Wait()
		w.Delay(nil)
		require.NoError(t, at(2), "after the answer the id is free again")
		w.Settle()
	})
}

// TestPlanBreaksNoZoneRule finds enough slots in too few zones: there is no plan,
// and it says why.
func TestPlanBreaksNoZoneRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		w.Zone("kid", root, 4)
		o := zonetest.Order("b", 4, 4)
		o.Request.Zones.MinZones = 3
		req := o.Request
		a, err := root.Lead().Select(w.Ctx, "", &req)
		require.NoError(t, err)
		assert.Empty(t, a.Weights[0])
		assert.Equal(t, "zones with slots for it: 2; 3 are needed", a.Short)
		for _, z := range a.Zones {
			assert.Zero(t, z.Taken, z.Zone)
			assert.Equal(t, 4, z.Offered, z.Zone)
		}
		assert.Equal(t, []api.Advice{{Change: api.AdviceDrop, Name: "min_zones"}}, a.Refusals[0].Advice)
		b := root.Run(o)
		assert.Equal(t, api.CodeNoCapacity, b.Code)
		assert.Equal(t, "zones with slots for it: 2; 3 are needed", b.Reason)
		o = zonetest.Order("c", 4, 4)
		o.Request.Zones.Allowed = []string{"kid"}
		o.Request.Groups[0].Count, o.Request.Groups[0].Min = 5, 5
		b = root.Run(o)
		assert.Contains(t, b.Attempts[0].Refusals[0].Advice, api.Advice{Change: api.AdviceZone, Name: "root"})
		w.Settle()
	})
}

// TestNoSchedulerIsTheDefault empties the configuration: filters and costs are those
// of a zone that was told none.
func TestNoSchedulerIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2)
		m.Do(command.SchedulerSet{})
		assert.Equal(t, []int64{costs.ScaleMax - 2048}, m.Pick(1, time.Second).Weights[0], "the emptier the cheaper")
		assert.Len(t, m.Pick(3, time.Second).Weights[0], 2, "and no more than fit")
	})
}

func namesIn(r *api.Refusals) []string {
	var out []string
	for _, f := range r.Filters {
		out = append(out, f.Names...)
	}
	return out
}

// TestExplanations finds what became of an estimate by the id of its call, and of
// a boot by either id, also after the node's memory is gone.
func TestExplanations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		w.Zone("kid", root, 2)
		root.Drain(root.Host("root-host-1"), api.DrainWait)
		req := zonetest.Order("est", 5, 5).Request
		_, err := root.Lead().Select(requestid.With(w.Ctx, "req-1"), "", &req)
		require.NoError(t, err)
		e, ok := root.Lead().Explanation("p", "req-1")
		require.True(t, ok)
		assert.Equal(t, 5, e.Groups[0].Wanted)
		assert.Equal(t, 2, e.Groups[0].Offered)
		assert.Equal(t, []api.Advice{{Change: api.AdviceCount, Value: 2}}, e.Groups[0].Refusals.Advice[:1])
		for _, z := range e.Zones {
			for _, r := range z.Refusals {
				sum := r.Offering
				for _, f := range r.Filters {
					sum += f.Hosts
				}
				assert.Equal(t, r.Considered, sum)
			}
		}
		assert.Equal(t, []string{"root-host-1"}, namesIn(&e.Groups[0].Refusals), "the zone's own hosts by name")
		require.Len(t, e.Zones, 2)
		assert.Empty(t, namesIn(&e.Zones[1].Refusals[0]), "and no other's")
		assert.Equal(t, 1, e.Zones[1].Refusals[0].Considered, "what the child says of its hosts")
		_, ok = root.Lead().Explanation("q", "req-1")
		assert.False(t, ok, "another project's")
		_, err = root.Lead().Select(requestid.With(w.Ctx, "req-3"), "zone-parent", &req)
		require.NoError(t, err)
		_, ok = root.Lead().Explanation("p", "req-3")
		assert.False(t, ok, "a project of the parent, whatever its name")
		_, ok = root.Lead().Explanation("", "req-3")
		assert.True(t, ok)

		o := zonetest.Order("boot", 5, 5)
		o.Call = "req-2"
		require.Equal(t, api.BootFailed, root.Run(o).State())
		for _, id := range []string{"req-2", "boot"} {
			e, ok := root.Lead().Explanation("p", id)
			require.True(t, ok, id)
			assert.Equal(t, api.BootFailed, e.State)
			assert.Equal(t, 2, e.Groups[0].Offered)
		}
		await.Sleep(api.ExplainKept + time.Second)
		_, ok = root.Lead().Explanation("p", "req-1")
		assert.False(t, ok, "it was kept for its time")
		root.Elect()
		e, ok = root.Lead().Explanation("p", "req-2")
		require.True(t, ok)
		assert.Equal(t, 2, e.Groups[0].Offered, "a boot's is on record")
		w.Settle()
	})
}
