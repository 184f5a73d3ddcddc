package zone_test

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
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/intake"
)

// groups asks for several kinds of instances at once.
func groups(res string, gs ...api.Group) *intake.BootOrder {
	o := order(res, 1, 1)
	o.Request.Groups = gs
	return o
}

// spread returns how many live instances of a reservation lie where, by direct
// child or "" for the zone itself, of one group or "" for all.
func (m *member) spread(res, group string) map[api.LinkID]int {
	out := map[api.LinkID]int{}
	for _, i := range m.instances(res) {
		if group == "" || i.Group == group {
			out[i.Link]++
		}
	}
	return out
}

// onHosts counts the live instances of a reservation by own host.
func (m *member) onHosts(res string) map[api.HostID]int {
	out := map[api.HostID]int{}
	for _, i := range m.instances(res) {
		if i.Host != "" {
			out[i.Host]++
		}
	}
	return out
}

// TestGroupsAreHadTogether boots 3 and 2 over two zones, and then 3 and 4 where
// there is room for 3 and 3: nothing is made.
func TestGroupsAreHadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 3)
		w.zone("kid", root, 3)
		b := root.run(groups("five", group("web", 3, 3), group("db", 2, 2)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		names := map[string]bool{}
		for _, i := range root.instances("five") {
			names[i.Name] = true
		}
		assert.Equal(t, map[string]bool{"five-web-1": true, "five-web-2": true, "five-web-3": true, "five-db-1": true, "five-db-2": true}, names)
		root.release("five")
		root.outcome("five")
		w.settle()

		b = root.run(groups("seven", group("web", 3, 3), group("db", 4, 4)))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, api.CodeNoCapacity, b.Code)
		assert.Equal(t, "3 of 4 of group db could be had, 4 are needed", b.Reason)
		assert.Empty(t, root.instances("seven"))
		assert.Equal(t, []api.Offer{{Wanted: 3, Offered: 3}, {Wanted: 4, Offered: 3}}, b.Attempts[0].Offered)

		b = root.run(groups("six", group("web", 3, 3), group("db", 2, 4)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, root.instances("six"), 6, "each group has its minimum, and what there is beyond it")
		w.settle()
	})
}

// TestGroupsShareManyZones fills four zones of different sizes to the last slot with
// four groups: each zone offers all of its room for the first group at first.
func TestGroupsShareManyZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		for i, cpus := range []int64{2, 3, 4} {
			w.zone(fmt.Sprint("kid", i), root, cpus)
		}
		b := root.run(groups("b", group("a", 4, 4), group("b", 3, 3), group("c", 2, 2), group("d", 1, 1)))
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, root.instances("b"), 10)
		assert.Len(t, b.Attempts, 1, "the plan was right at once")
		assert.Zero(t, b.Attempts[0].Refused)
		w.settle()
	})
}

// TestRulesAcrossGroups keeps web and db apart, each pair on a host of its own, in
// two zones.
func TestRulesAcrossGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 8, 8)
		kid := w.zone("kid", root, 8, 8)
		o := groups("b", group("web", 2, 2), group("db", 2, 2))
		o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}}
		b := root.run(o)
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		for _, m := range []*member{root, kid} {
			assert.Len(t, m.onHosts("b"), 2, m.name)
			for h, n := range m.onHosts("b") {
				assert.Equal(t, 1, n, "%s %s", m.name, h)
			}
		}
		o = groups("five", group("web", 3, 3), group("db", 2, 2))
		o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}}
		assert.Equal(t, api.BootFailed, root.run(o).State(), "five hosts are not there")
		w.settle()
	})
}

// TestAffinityStaysTogether boots a group into one host of one zone, and finds it
// there again with a second boot into the same server group; what does not fit
// beside it is refused.
func TestAffinityStaysTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2, 6)
		bound := func(res string, n int) *intake.BootOrder {
			o := order(res, n, n)
			o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.Affinity, Groups: []int{0}}}
			return o
		}
		for _, res := range []string{"first", "second"} {
			b := root.run(bound(res, 3))
			require.Equal(t, api.BootActive, b.State(), b.Reason)
			assert.Equal(t, map[api.LinkID]int{"link-kid": 3}, root.spread(res, ""))
		}
		hosts := kid.onHosts("first")
		require.Len(t, hosts, 1)
		for h := range hosts {
			assert.Equal(t, map[api.HostID]int{h: 3}, kid.onHosts("second"))
		}
		assert.Equal(t, api.BootFailed, root.run(bound("third", 1)).State())
		w.settle()
	})
}

// TestAChildIsAskedForWhatMayLieThere: a group that must stay where its members are is
// not wanted of a child, however cheap it is there, and the others are.
func TestAChildIsAskedForWhatMayLieThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		w.zone("west", root, 4)
		together := func(res string) *intake.BootOrder {
			o := order(res, 1, 1)
			o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.Affinity, Groups: []int{0}}}
			return o
		}
		first := together("first")
		first.Request.Zones.Allowed = []string{"root"}
		require.Equal(t, api.BootActive, root.run(first).State())
		l, _ := root.view().LinkByName("west")
		cheap := -int64(1) << 50
		root.do(command.LinkSet{ID: l.ID, Offset: &cheap})
		next := together("next")
		next.Request.Groups = append(next.Request.Groups, next.Request.Groups[0])
		b := root.run(next)
		require.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, b.Attempts, 1)
		for _, i := range root.instances("next") {
			assert.Equal(t, len(i.Rules) > 0, i.Host != "", "one here, one in the child")
		}
		w.settle()
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
				w := newWorld(t)
				root := w.zone("root", nil, 4)
				east := w.zone("east", root, 4)
				west := w.zone("west", root, 4)
				w.zone("leaf", west, 4)
				east.do(command.ConfigSet{Config: api.ZoneConfig{Tags: []string{"cold"}}})
				o := order("b", c.n, c.n)
				o.Request.Zones = c.rule
				b := root.run(o)
				if c.want == nil {
					assert.Equal(t, api.BootFailed, b.State())
					assert.Empty(t, root.instances("b"))
				} else {
					require.Equal(t, api.BootActive, b.State(), b.Reason)
					assert.Equal(t, c.want, root.spread("b", ""))
				}
				w.settle()
			})
		})
	}
}

// TestBesideAnInstance asks for the host of an instance that lies in a child, and
// for any other.
func TestBesideAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 8)
		kid := w.zone("kid", root, 8, 8)
		o := order("first", 1, 1)
		o.Request.Zones.Allowed = []string{"kid"}
		require.Equal(t, api.BootActive, root.run(o).State())
		first := root.instances("first")[0].ID
		o = order("same", 3, 3)
		o.Request.Groups[0].Hints.SameHost = []api.InstanceID{first}
		require.Equal(t, api.BootActive, root.run(o).State())
		o = order("other", 3, 3)
		o.Request.Groups[0].Hints.DifferentHost = []api.InstanceID{first}
		o.Request.Zones.Excluded = []string{"root"}
		require.Equal(t, api.BootActive, root.run(o).State())
		at := slices.Collect(maps.Keys(kid.onHosts("first")))
		assert.Equal(t, at, slices.Collect(maps.Keys(kid.onHosts("same"))))
		assert.NotContains(t, kid.onHosts("other"), at[0])
		w.settle()
	})
}

// TestNamesAndAddressesStay asks for hosts by name and by address: no child is asked,
// and a parent that asks is refused.
func TestNamesAndAddressesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		for name, hint := range map[string]api.Hints{
			"force":  {ForceHosts: []string{"kid-host-1"}},
			"ignore": {IgnoreHosts: []string{"kid-host-1"}},
			"near":   {Near: "192.0.2.0/24"},
		} {
			o := order("b", 1, 1)
			o.Request.Groups[0].Hints = hint
			req := o.Request
			asked := w.made("select", "root", "kid")
			a, err := root.lead().Select(w.ctx, "", &req)
			require.NoError(t, err)
			if name == "ignore" { // of this zone's own
				assert.Len(t, a.Weights[0], 1)
			} else {
				assert.Empty(t, a.Weights[0], name)
				got, _ := told(a)
				assert.Equal(t, api.OutcomeSkipped, got["kid"], name)
				assert.Equal(t, asked+1, w.made("select", "root", "kid"), "%s: only for what works without it", name)
			}
			_, err = kid.lead().Select(w.ctx, root.id, &req)
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err), name)
		}
		w.settle()
	})
}

// TestFailingChildrenAreLeftAlone pauses a child after three failures, tries it
// now and then, and has it back after one success.
func TestFailingChildrenAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		w.zone("kid", root, 2)
		broken := func(now call) fault {
			if now.op == "select" {
				return refused
			}
			return ""
		}
		w.when(broken)
		outcome := func() string {
			got, _ := told(root.pick(3, time.Second))
			return got["kid"]
		}
		for range failuresToPause {
			assert.Equal(t, api.OutcomeFailed, outcome())
		}
		for range 5 { // selects that were under way
			root.lead().NoteFailure("link-kid")
		}
		assert.Equal(t, api.OutcomePaused, outcome())
		time.Sleep(probeEvery)
		assert.Equal(t, api.OutcomeFailed, outcome(), "one try")
		assert.Equal(t, api.OutcomePaused, outcome())
		w.when(nil)
		time.Sleep(2*probeEvery - time.Millisecond)
		assert.Equal(t, api.OutcomePaused, outcome())
		time.Sleep(time.Millisecond)
		assert.Equal(t, api.OutcomeAnswered, outcome())
		assert.Equal(t, api.OutcomeAnswered, outcome())
		w.settle()
	})
}

// TestRequestThatComesBack is refused at another depth by a zone that is still
// working on it; a hedge comes at the same depth.
func TestRequestThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		w.zone("kid", root, 1)
		z := root.lead()
		req := order("b", 2, 2).Request
		at := func(depth int) error {
			_, err := z.Select(zone.WithDepth(requestid.With(w.ctx, "req-1"), depth), "", &req)
			return err
		}
		w.delay(func(call) time.Duration { return 200 * time.Millisecond }) // to kid, and back
		var first, again sync.WaitGroup
		first.Go(func() { assert.NoError(t, at(0)) })
		time.Sleep(100 * time.Millisecond)
		again.Go(func() { assert.NoError(t, at(0), "the same again") })
		assert.Equal(t, api.CodeConflict, api.CodeOf(at(2)))
		first.Wait()
		assert.Equal(t, api.CodeConflict, api.CodeOf(at(2)), "one is under way still")
		again.Wait()
		w.delay(nil)
		require.NoError(t, at(2), "after the answer the id is free again")
		w.settle()
	})
}

// TestPlanBreaksNoZoneRule finds enough slots in too few zones: there is no plan,
// and it says why.
func TestPlanBreaksNoZoneRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		w.zone("kid", root, 4)
		o := order("b", 4, 4)
		o.Request.Zones.MinZones = 3
		req := o.Request
		a, err := root.lead().Select(w.ctx, "", &req)
		require.NoError(t, err)
		assert.Empty(t, a.Weights[0])
		for _, z := range a.Zones {
			assert.Zero(t, z.Taken, z.Zone)
			assert.Equal(t, 4, z.Offered, z.Zone)
		}
		assert.Equal(t, []api.Advice{{Change: api.AdviceDrop, Name: "min_zones"}}, a.Refusals[0].Advice)
		b := root.run(o)
		assert.Equal(t, api.CodeNoCapacity, b.Code)
		assert.Equal(t, "zones with slots for it: 2; 3 are needed", b.Reason)
		o = order("c", 4, 4)
		o.Request.Zones.Allowed = []string{"kid"}
		o.Request.Groups[0].Count, o.Request.Groups[0].Min = 5, 5
		b = root.run(o)
		assert.Contains(t, b.Attempts[0].Refusals[0].Advice, api.Advice{Change: api.AdviceZone, Name: "root"})
		w.settle()
	})
}

// TestNoSchedulerIsTheDefault empties the configuration: filters and costs are those
// of a zone that was told none.
func TestNoSchedulerIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil, 2)
		m.do(command.SchedulerSet{})
		assert.Equal(t, []int64{costs.ScaleMax - 2048}, m.pick(1, time.Second).Weights[0], "the emptier the cheaper")
		assert.Len(t, m.pick(3, time.Second).Weights[0], 2, "and no more than fit")
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
		w := newWorld(t)
		root := w.zone("root", nil, 1)
		w.zone("kid", root, 2)
		root.drain(root.host("root-host-1"), api.DrainWait)
		req := order("est", 5, 5).Request
		_, err := root.lead().Select(requestid.With(w.ctx, "req-1"), "", &req)
		require.NoError(t, err)
		e, ok := root.lead().Explanation("p", "req-1")
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
		_, ok = root.lead().Explanation("q", "req-1")
		assert.False(t, ok, "another project's")
		_, err = root.lead().Select(requestid.With(w.ctx, "req-3"), "zone-parent", &req)
		require.NoError(t, err)
		_, ok = root.lead().Explanation("p", "req-3")
		assert.False(t, ok, "a project of the parent, whatever its name")
		_, ok = root.lead().Explanation("", "req-3")
		assert.True(t, ok)

		o := order("boot", 5, 5)
		o.Call = "req-2"
		require.Equal(t, api.BootFailed, root.run(o).State())
		for _, id := range []string{"req-2", "boot"} {
			e, ok := root.lead().Explanation("p", id)
			require.True(t, ok, id)
			assert.Equal(t, api.BootFailed, e.State)
			assert.Equal(t, 2, e.Groups[0].Offered)
		}
		time.Sleep(api.ExplainKept + time.Second)
		_, ok = root.lead().Explanation("p", "req-1")
		assert.False(t, ok, "it was kept for its time")
		root.elect()
		e, ok = root.lead().Explanation("p", "req-2")
		require.True(t, ok)
		assert.Equal(t, 2, e.Groups[0].Offered, "a boot's is on record")
		w.settle()
	})
}
