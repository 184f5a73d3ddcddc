package candidates

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
)

func listed(v capacity.View, f Filter) []string {
	out := []string{}
	for row := range Providers(v, &f).All() {
		out = append(out, string(v.ID(row)))
	}
	return sorted(out)
}

func TestProviders(t *testing.T) {
	v := world(t, append([]string{"full DISK_GB:10/8(2,8,2) VCPU:4"}, cloud...)...)
	name := func(s string) *string { return &s }
	for what, c := range map[string]struct {
		f    Filter
		want []string
	}{
		"ids":                     {Filter{IDs: []api.ProviderID{"pool", "cn1", "cn9"}}, []string{"cn1", "pool"}},
		"no ids":                  {Filter{IDs: []api.ProviderID{}}, nil},
		"name":                    {Filter{Name: name("name-gpu01")}, []string{"gpu01"}},
		"nobody's name":           {Filter{Name: name("gpu01")}, nil},
		"no name":                 {Filter{Name: name("")}, nil},
		"member":                  {Filter{MemberOf: [][]string{{"agg1"}}}, []string{"cn1", "cn2", "pool"}},
		"member itself":           {Filter{MemberOf: [][]string{{"agg2"}}}, []string{"cn2", "shelf"}},
		"member of any":           {Filter{MemberOf: [][]string{{"agg3", "agg4"}}}, []string{"cn2-numa1", "shelf"}},
		"member of all":           {Filter{MemberOf: [][]string{{"agg1", "agg3"}, {"agg2"}}}, []string{"cn2"}},
		"member of nobody's":      {Filter{MemberOf: [][]string{{"agg9"}}}, nil},
		"no member":               {Filter{MemberOf: [][]string{{"agg1"}}, NotMemberOf: []string{"agg2", "agg9"}}, []string{"cn1", "pool"}},
		"room":                    {Filter{Resources: api.Resources{api.VCPU: 5}}, []string{"cn1"}},
		"room for all":            {Filter{Resources: api.Resources{api.VCPU: 1, api.DiskGB: 1}}, []string{"cn1"}},
		"room of itself":          {Filter{Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 1}}, []string{"cn1"}},
		"what is left, by units":  {Filter{Resources: api.Resources{api.DiskGB: 2}, Traits: api.Traits{Forbidden: []string{api.TraitShares}}}, []string{"cn1", "full"}},
		"not less than the units": {Filter{Resources: api.Resources{api.DiskGB: 1}, Traits: api.Traits{Forbidden: []string{api.TraitShares}}}, []string{"cn1"}},
		"not more than is left":   {Filter{Resources: api.Resources{api.DiskGB: 4}, Traits: api.Traits{Forbidden: []string{api.TraitShares}}}, []string{"cn1"}},
		"nobody has the class":    {Filter{Resources: api.Resources{"FPGA": 1}}, nil},
		"tree":                    {Filter{InTree: "gpu10"}, []string{"cn2", "cn2-numa0", "cn2-numa1", "gpu00", "gpu01", "gpu10"}},
		"tree of one":             {Filter{InTree: "pool"}, []string{"pool"}},
		"nobody's tree":           {Filter{InTree: "cn9"}, nil},
		"required":                {Filter{Traits: api.Traits{Required: []string{"AVX", "NUMA"}}}, []string{"cn2-numa0"}},
		"any of":                  {Filter{Traits: api.Traits{AnyOf: [][]string{{"FAST", "BIG"}}}}, []string{"cn2", "gpu00"}},
		"any of each":             {Filter{Traits: api.Traits{AnyOf: [][]string{{"AVX", "BIG"}, {"NUMA", "FAST"}}}}, []string{"cn2-numa0"}},
		"forbidden":               {Filter{Traits: api.Traits{Required: []string{"NUMA"}, Forbidden: []string{"AVX"}}}, []string{"cn2-numa1"}},
		"all at once": {Filter{
			InTree: "cn2", Traits: api.Traits{Required: []string{"NUMA"}}, Resources: api.Resources{api.VCPU: 4}, NotMemberOf: []string{"agg3"},
		}, []string{"cn2-numa0"}},
	} {
		require.Equal(t, append([]string{}, c.want...), listed(v, c.f), what)
	}
	require.Len(t, listed(v, Filter{}), len(cloud)+1)
	require.Empty(t, listed(capacity.View{}, Filter{}))
}

// TestReservedHostsAreListed: a host that is reserved as a whole, now or later, is a provider like any other unless
// room is asked for.
func TestReservedHostsAreListed(t *testing.T) {
	for name, start := range map[string]api.Instant{"now": 0, "later": 1000} {
		t.Run(name, func(t *testing.T) {
			table := capacity.NewTable()
			for _, id := range []api.HostID{"free", "leased"} {
				inventory := map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}
				table.Put(capacity.Spec{Up: true, Enabled: true, ID: id, Name: "name-" + string(id), Inventory: inventory})
			}
			_, _, err := table.PlaceWhole("leased", api.Claim{Whole: true, Window: api.Window{Start: start, End: 2000}, Class: api.Firm})
			require.NoError(t, err)
			v := table.View()
			require.Equal(t, []string{"free", "leased"}, listed(v, Filter{}))
			require.Equal(t, []string{"leased"}, listed(v, Filter{Name: new("name-leased")}))
			require.Equal(t, []string{"leased"}, listed(v, Filter{InTree: "leased"}))
			require.Equal(t, []string{"free"}, listed(v, Filter{Resources: api.Resources{api.VCPU: 1}}))
		})
	}
}

// TestProvidersOracle: the providers that match a filter are those that could
// serve a suffixed group of the same wishes.
func TestProvidersOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, facts := drawn(t)
		for range 20 {
			g := wanted(t).Groups[0]
			f := Filter{Resources: g.Resources, Traits: g.Traits, MemberOf: g.MemberOf, NotMemberOf: g.NotMemberOf, InTree: g.InTree}
			want := []string{}
			b := &brute{v: v, facts: facts, q: &Query{Groups: []Group{g}}}
			b.q.Groups[0].Suffix = "1"
			for id := range facts {
				if len(g.Resources) == 0 || b.right(b.root(id), []cell{{by: id}}) {
					want = append(want, string(id))
				}
			}
			if len(g.Resources) > 0 {
				require.Equal(t, sorted(want), listed(v, f), "%+v", f)
			}
		}
	})
}
