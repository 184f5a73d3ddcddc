package estimate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/zone/zonetest"
)

// adviceFor returns what a zone advises for the first group of a request.
func adviceFor(m *zonetest.Member, r *api.Request) []api.Advice {
	m.World.T.Helper()
	ctx, cancel := m.Within(api.SelectTimeout)
	defer cancel()
	a, err := m.Lead().Select(ctx, "", r)
	require.NoError(m.World.T, err)
	return a.Refusals[0].Advice
}

// TestAdviceIsTrue names only what would have worked: no zone that was asked and has
// nothing, none that is paused, and none where what the request must lie beside is not.
func TestAdviceIsTrue(t *testing.T) {
	toZone := func(n string) api.Advice { return api.Advice{Change: api.AdviceZone, Name: n} }
	less := func(n int64) api.Advice { return api.Advice{Change: api.AdviceCount, Value: n} }
	drop := func(n string) api.Advice { return api.Advice{Change: api.AdviceDrop, Name: n} }
	for _, c := range []struct {
		name string
		n    int
		edit func(r *api.Request, here api.InstanceID)
		want []api.Advice
	}{
		{"same host elsewhere", 1, func(r *api.Request, here api.InstanceID) {
			r.Groups[0].Hints.SameHost, r.Zones.Allowed = []api.InstanceID{here}, []string{"east"}
		}, []api.Advice{toZone("root"), drop("same_host")}},
		{"same host elsewhere, and full", 4, func(r *api.Request, here api.InstanceID) {
			r.Groups[0].Hints.SameHost, r.Zones.Allowed = []api.InstanceID{here}, []string{"east"}
		}, nil},
		{"together and apart", 1, func(r *api.Request, here api.InstanceID) {
			r.Groups[0].Hints.SameHost, r.Groups[0].Hints.DifferentHost = []api.InstanceID{here}, []api.InstanceID{here}
		}, []api.Advice{drop("same_host"), drop("different_host")}},
		{"a host by its name", 1, func(r *api.Request, _ api.InstanceID) {
			r.Groups[0].Hints.ForceHosts, r.Zones.Excluded = []string{"east-host-1"}, []string{"root"}
		}, []api.Advice{drop("forced_hosts")}},
		{"near an address", 1, func(r *api.Request, _ api.InstanceID) {
			r.Groups[0].Hints.Near, r.Zones.Allowed = "192.0.2.0/24", []string{"east"}
		}, []api.Advice{drop("near")}},
		{
			"a zone that has none", 1, func(r *api.Request, _ api.InstanceID) { r.Zones.Allowed = []string{"none"} },
			[]api.Advice{toZone("root"), toZone("east")},
		},
		{
			"all but one", 3, func(r *api.Request, _ api.InstanceID) { r.Zones.Excluded = []string{"east", "none", "shut"} },
			[]api.Advice{less(2), toZone("east")},
		},
		{"too many anywhere", 9, func(r *api.Request, _ api.InstanceID) { r.Zones.Excluded = []string{"east"} }, []api.Advice{less(2)}},
		{
			"on one host", 3, func(r *api.Request, _ api.InstanceID) {
				r.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}}
			},
			[]api.Advice{less(2), drop("server_group")},
		},
		{
			"too even", 4, func(r *api.Request, _ api.InstanceID) { r.Zones.MaxSkew, r.Zones.Excluded = 1, []string{"root"} },
			[]api.Advice{less(2), toZone("root")},
		},
		{"in one zone", 4, func(r *api.Request, _ api.InstanceID) { r.Zones.Pack = true }, []api.Advice{less(2), drop("pack")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 3)
				w.Zone("east", root, 2)
				w.Zone("none", root)
				w.Zone("shut", root, 8)
				paused := api.LinkPaused
				root.Do(command.LinkSet{ID: "link-shut", State: &paused})
				first := zonetest.Order("first", 1, 1)
				first.Request.Zones.Allowed = []string{"root"}
				require.Equal(t, api.BootActive, root.Run(first).State())
				o := zonetest.Order("b", c.n, c.n)
				c.edit(&o.Request, root.Instances("first")[0].ID)
				assert.Equal(t, c.want, adviceFor(root, &o.Request))
			})
		})
	}
}

// TestEveryAdviceWorks draws requests that come out short, and asks again for each
// thing that was advised: it is had.
func TestEveryAdviceWorks(t *testing.T) {
	rnd := dice.Rand(t)
	tried := map[string]int{}
	changes := []string{api.AdviceCount, api.AdviceAmount, api.AdviceZone, api.AdviceDrop}
	missing := func() bool { return slices.ContainsFunc(changes, func(c string) bool { return tried[c] == 0 }) }
	for n := 0; n < zonetest.Few(*federations/2, *federations/12) || missing() && n < 500; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil, 1+rnd.Int64N(4), 1+rnd.Int64N(4))
			kid := w.Zone("kid", root, 1+rnd.Int64N(4), 1+rnd.Int64N(4))
			w.Zone("leaf", kid, 1+rnd.Int64N(4))
			w.Zone("other", root, 1+rnd.Int64N(4))
			var kinds []kind
			for range 1 + rnd.IntN(2) {
				least := 1 + rnd.IntN(8)
				kinds = append(kinds, kind{1 + rnd.Int64N(5), least, least})
			}
			req := kindsOf(fmt.Sprint("b", n), kinds...).Request
			drawWishes(rnd, &req)
			if req.Validate() != nil {
				return
			}
			a, err := root.Lead().Select(w.Ctx, "", &req)
			require.NoError(t, err)
			for g, r := range a.Refusals {
				for _, idea := range r.Advice {
					tried[idea.Change]++
					now := taken(t, &req, g, idea)
					got, err := root.Lead().Select(w.Ctx, "", now)
					require.NoError(t, err)
					assert.Len(t, got.Weights[g], now.Groups[g].Count, "case %d: %+v of group %d of %+v, rules %+v, %+v\nbefore %+v\nnow %+v", n, idea, g, kinds, req.Rules, req.Zones, a.Zones, got.Zones)
					for other := range a.Weights {
						if other != g {
							assert.GreaterOrEqual(t, len(got.Weights[other]), len(a.Weights[other]), "case %d: %+v", n, idea)
						}
					}
				}
			}
		})
	}
	t.Logf("advice that was followed: %v", tried)
	for _, change := range changes {
		assert.NotZero(t, tried[change], change)
	}
}

// drawWishes adds rules and wishes to a request.
func drawWishes(rnd *rand.Rand, r *api.Request) {
	switch rnd.IntN(4) {
	case 0:
		r.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1 + rnd.IntN(2), Groups: []int{0}}}
	case 1:
		r.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}}
	}
	names := []string{"root", "kid", "leaf", "other"}
	switch rnd.IntN(6) {
	case 0:
		r.Zones.Allowed = []string{names[rnd.IntN(4)]}
	case 1:
		r.Zones.Excluded = []string{names[rnd.IntN(4)]}
	case 2:
		r.Zones.MinZones = 2
	case 3:
		r.Zones.MaxSkew = 1
	case 4:
		r.Zones.Pack = true
	}
	switch rnd.IntN(6) {
	case 0:
		r.Groups[0].AZ = names[rnd.IntN(4)]
	case 1:
		r.Groups[0].Traits.Required = []string{"CUSTOM_NONE"}
	case 2:
		r.Groups[0].Hints.Query = `["=", "$name", "root-host-1"]`
	}
}

// taken returns a request as advice on one of its groups would have it.
func taken(t *testing.T, req *api.Request, g int, idea api.Advice) *api.Request {
	t.Helper()
	now := *req
	now.Groups, now.Rules = slices.Clone(req.Groups), slices.Clone(req.Rules)
	group := &now.Groups[g]
	switch idea.Change {
	case api.AdviceCount:
		group.Count = int(idea.Value)
		group.Min = min(group.Min, group.Count)
	case api.AdviceLifetime:
		now.Lifetime = time.Duration(idea.Value) * time.Second
	case api.AdviceAmount:
		group.Resources = maps.Clone(group.Resources)
		group.Resources[idea.Class] = idea.Value
	case api.AdviceZone:
		if now.Zones.Allowed != nil {
			now.Zones.Allowed = append(slices.Clone(now.Zones.Allowed), idea.Name)
		}
		now.Zones.Excluded = nil // at most this one
	case api.AdviceDrop:
		switch idea.Name {
		case "min_zones", "max_skew", "pack":
			now.Zones.MinZones, now.Zones.MaxSkew, now.Zones.Pack = 0, 0, false // at most one is set
		case "availability_zone":
			group.AZ = ""
		case "traits":
			group.Traits = api.Traits{}
		case "query":
			group.Hints.Query = ""
		case "server_group":
			now.Rules[0].Policy, now.Rules[0].Max = map[api.Policy]api.Policy{
				api.Affinity: api.SoftAffinity, api.AntiAffinity: api.SoftAntiAffinity,
			}[now.Rules[0].Policy], 0
		default:
			require.Fail(t, "advice to drop "+idea.Name)
		}
	}
	return &now
}

// TestExplainTellsRulesAndFaults names the rule that keeps hosts from offering more,
// in the zone that was asked and below, and shows all attempts and the faults of what
// did not start.
func TestExplainTellsRulesAndFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 8, 8, 1)
		w.Zone("kid", root, 8)
		o := zonetest.Order("apart", 12, 12)
		o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 2, Groups: []int{0}}}
		require.Equal(t, api.BootFailed, root.Run(o).State())
		e, ok := root.Lead().Explanation("p", "apart")
		require.True(t, ok)
		assert.Equal(t, []api.FilterCount{
			{Filter: "server_group", Hosts: 2, Tier: api.TierNotNow}, {Filter: "capacity", Hosts: 1, Tier: api.TierNotNow},
		}, e.Groups[0].Refusals.Limits)
		assert.Equal(t, []api.FilterCount{{Filter: "server_group", Hosts: 1, Tier: api.TierNotNow}}, e.Zones[1].Refusals[0].Limits)
		assert.Contains(t, e.Groups[0].Refusals.Advice, api.Advice{Change: api.AdviceDrop, Name: "server_group"})
		assert.Len(t, e.Attempts, 1)

		o = zonetest.Order("b", 2, 2)
		o.Request.Zones.Allowed = []string{"root"}
		require.Equal(t, api.BootActive, root.Run(o).State())
		i := root.Instances("b")[0]
		failWith(root, i, "flavor has no command in this zone")
		e, ok = root.Lead().Explanation("p", "b")
		require.True(t, ok)
		assert.Equal(t, []api.FaultCount{{Fault: "flavor has no command in this zone", Instances: 1, Example: i.ID}}, e.Faults)
	})
}

// failWith reports that an instance has ended badly.
func failWith(m *zonetest.Member, i *api.Instance, fault string) {
	m.Do(command.InstanceReport{Stamp: m.Lead().Stamp(), Agent: api.AgentID("agent-" + m.Name), Items: []api.InstanceReport{
		{Instance: i.ID, Host: i.Host, Status: api.StatusError, Fault: fault},
	}})
}

// TestRefusedForWhatIsToCome: who is refused for a lease that begins later is told so, and with which lifetime it would
// be placed. Of a zone below only the number of hosts is told.
func TestRefusedForWhatIsToCome(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name     string
		lease    time.Duration // until all hosts of root are leased
		below    time.Duration // until all hosts of kid are
		zones    []string
		lifetime time.Duration
		want     time.Duration // advised; 0 for none
		from     bool          // the zone says from when on
	}{
		{name: "in a week", lease: 7 * day, zones: []string{"root"}, want: 6*day + 23*time.Hour, from: true},
		{name: "in a week, and longer", lease: 7 * day, zones: []string{"root"}, lifetime: 200 * time.Hour, want: 6*day + 23*time.Hour, from: true},
		{name: "in three hours", lease: 3 * time.Hour, zones: []string{"root"}, want: 2*time.Hour + 57*time.Minute, from: true},
		{name: "below, in three days", below: 3 * day, zones: []string{"kid"}, want: day},
		{name: "below, in half an hour", below: 30 * time.Minute, zones: []string{"kid"}},
		{name: "here and below", lease: 3 * time.Hour, below: 2 * day, want: day, from: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2, 2)
				kid := w.Zone("kid", root, 2, 2)
				for m, in := range map[*zonetest.Member]time.Duration{root: c.lease, kid: c.below} {
					if in == 0 {
						continue
					}
					terms := zonetest.LeaseOf("all", in, time.Hour, 4)
					terms.Project, terms.Zones.Allowed = "others", []string{m.View().Name}
					_, err := m.Lease(terms)
					require.NoError(t, err)
				}
				req := zonetest.Order("b", 1, 1).Request
				req.Zones.Allowed, req.Lifetime = c.zones, c.lifetime
				ctx, cancel := root.Within(api.SelectTimeout)
				defer cancel()
				a, err := root.Lead().Select(ctx, "", &req)
				require.NoError(t, err)
				require.Empty(t, a.Weights[0])
				var got []api.Advice
				for _, i := range a.Refusals[0].Advice {
					if i.Change == api.AdviceLifetime {
						got = append(got, i)
					}
				}
				if c.want == 0 {
					assert.Empty(t, got)
				} else {
					assert.Equal(t, []api.Advice{{Change: api.AdviceLifetime, Value: int64(c.want / time.Second)}}, got)
				}
				assert.Equal(t, c.from, a.Refusals[0].Promised > 0, "%+v", a.Refusals[0])
				if c.from {
					assert.Contains(t, a.Short, "; hosts that are free at first and promised to others later: ")
					assert.Contains(t, a.Short, ", from 20")
				}
				promised := api.FilterCount{Filter: "promised", Hosts: 2, Tier: api.TierNotNow}
				if c.lease > 0 {
					assert.Contains(t, a.Refusals[0].Filters, promised)
				}
				for _, z := range a.Zones {
					for _, r := range z.Refusals {
						assert.Zero(t, r.Promised, "a zone below does not say when others come")
						if c.below > 0 {
							assert.Contains(t, r.Filters, promised)
						}
					}
				}
				if c.want > 0 {
					req.Lifetime = c.want
					a, err = root.Lead().Select(ctx, "", &req)
					require.NoError(t, err)
					assert.Len(t, a.Weights[0], 1, "what is advised is had")
				}
			})
		})
	}
}
