package candidates

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/capacity"
)

// cloud has a flat host, a host with two NUMA nodes and devices below them, and
// pools that share.
var cloud = []string{
	"cn1 VCPU:8 MEMORY_MB:64 DISK_GB:100 +AVX @agg1",
	"cn2 MEMORY_MB:64 +BIG @agg1 @agg2",
	"cn2-numa0 <cn2 VCPU:4 +NUMA +AVX",
	"cn2-numa1 <cn2 VCPU:4 +NUMA @agg3",
	"gpu00 <cn2-numa0 PGPU:1 +FAST",
	"gpu01 <cn2-numa0 PGPU:1",
	"gpu10 <cn2-numa1 PGPU:1",
	"pool - DISK_GB:1000 +MISC_SHARES_VIA_AGGREGATE +SSD @agg1",
	"shelf - DISK_GB:1000 +MISC_SHARES_VIA_AGGREGATE @agg2 @agg4",
}

type example struct {
	name, query string
	want        []string
}

var resourceExamples = []example{
	{"each class from anybody in the tree", "resources=VCPU:1,MEMORY_MB:1", []string{
		"cn1[MEMORY_MB=1,VCPU=1]", "cn2[MEMORY_MB=1] cn2-numa0[VCPU=1]", "cn2[MEMORY_MB=1] cn2-numa1[VCPU=1]",
	}},
	{"a suffixed group from one provider", "resources1=VCPU:1,MEMORY_MB:1", []string{"1:cn1[MEMORY_MB=1,VCPU=1]"}},
	{"no class is split", "resources=VCPU:5", []string{"cn1[VCPU=5]"}},
	{"too much", "resources=VCPU:9", nil},
	{"nobody has the class", "resources=FPGA:1", nil},
	{"sharing providers give to trees they reach", "resources=MEMORY_MB:1,DISK_GB:1", []string{
		"cn1[DISK_GB=1,MEMORY_MB=1]", "cn1[MEMORY_MB=1] pool[DISK_GB=1]", "cn2[MEMORY_MB=1] pool[DISK_GB=1]", "cn2[MEMORY_MB=1] shelf[DISK_GB=1]",
	}},
	{"and to suffixed groups", "resources1=VCPU:1&resources2=DISK_GB:1", []string{
		"1:cn1[VCPU=1] 2:cn1[DISK_GB=1]", "1:cn1[VCPU=1] 2:pool[DISK_GB=1]",
		"1:cn2-numa0[VCPU=1] 2:pool[DISK_GB=1]", "1:cn2-numa1[VCPU=1] 2:pool[DISK_GB=1]",
		"1:cn2-numa0[VCPU=1] 2:shelf[DISK_GB=1]", "1:cn2-numa1[VCPU=1] 2:shelf[DISK_GB=1]",
	}},
	{"what needs no tree is given once", "resources=DISK_GB:1", []string{"cn1[DISK_GB=1]", "pool[DISK_GB=1]", "shelf[DISK_GB=1]"}},
	{"amounts add up", "resources1=VCPU:4&resources2=VCPU:4", []string{
		"1:cn1[VCPU=4] 2:cn1[VCPU=4]", "1:cn2-numa0[VCPU=4] 2:cn2-numa1[VCPU=4]", "1:cn2-numa1[VCPU=4] 2:cn2-numa0[VCPU=4]",
	}},
	{"and must fit together", "resources=VCPU:5&resources1=VCPU:4", nil},
	{"a class of the group without a suffix adds to those of others", "resources=VCPU:4&resources1=VCPU:4,MEMORY_MB:1", []string{
		"cn1[VCPU=4] 1:cn1[MEMORY_MB=1,VCPU=4]",
	}},
}

var traitExamples = []example{
	{"providers have what is required together", "resources=VCPU:1,MEMORY_MB:1&required=AVX,BIG", []string{"cn2[MEMORY_MB=1] cn2-numa0[VCPU=1]"}},
	{"only those that give something count", "resources=VCPU:1&required=BIG", nil},
	{"none of them has what is forbidden", "resources=VCPU:1,MEMORY_MB:1&required=!AVX", []string{"cn2[MEMORY_MB=1] cn2-numa1[VCPU=1]"}},
	{"of others in the tree it does not matter", "resources=VCPU:1&required=!BIG", []string{"cn1[VCPU=1]", "cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"any of some", "resources=VCPU:1&required=in:NUMA,NONE", []string{"cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"any of some, and another", "resources=VCPU:1&required=in:NUMA,NONE&required=AVX", []string{"cn2-numa0[VCPU=1]"}},
	{"any of some of which one is forbidden", "resources=VCPU:1&required=in:NUMA,AVX&required=!AVX", []string{"cn2-numa1[VCPU=1]"}},
	{"any of nobody's", "resources=VCPU:1&required=in:NONE", nil},
	{"a suffixed group has them at its provider", "resources1=VCPU:1&required1=AVX,NUMA", []string{"1:cn2-numa0[VCPU=1]"}},
	{"and not elsewhere in the tree", "resources1=VCPU:1&required1=BIG", nil},
	{"and is without what is forbidden", "resources1=VCPU:1&required1=!NUMA", []string{"1:cn1[VCPU=1]"}},
	{"a sharing provider's count too", "resources=VCPU:1,DISK_GB:1&required=SSD,NUMA", []string{"cn2-numa0[VCPU=1] pool[DISK_GB=1]", "cn2-numa1[VCPU=1] pool[DISK_GB=1]"}},
	{"the root has", "resources=VCPU:1&root_required=BIG", []string{"cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"the root has not", "resources=VCPU:1&root_required=!BIG", []string{"cn1[VCPU=1]"}},
	{"both", "resources=VCPU:1&root_required=AVX,!BIG", []string{"cn1[VCPU=1]"}},
	{"others than the root do not count", "resources=VCPU:1&root_required=NUMA", nil},
	{"the root of the anchor, which a sharing provider may not be", "resources=DISK_GB:1&root_required=BIG", []string{"pool[DISK_GB=1]", "shelf[DISK_GB=1]"}},
	{"a suffixed group's likewise", "resources1=DISK_GB:1&root_required=BIG", []string{"1:pool[DISK_GB=1]", "1:shelf[DISK_GB=1]"}},
}

var aggregateExamples = []example{
	{"the root is a member for its tree", "resources=VCPU:1&member_of=agg2", []string{"cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"or the provider is", "resources=VCPU:1&member_of=agg3", []string{"cn2-numa1[VCPU=1]"}},
	{"but not one for one list and the other for the other", "resources=VCPU:1&member_of=agg3&member_of=agg2", nil},
	{"any of some", "resources=VCPU:1&member_of=in:agg3,agg1", []string{"cn1[VCPU=1]", "cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"all of some", "resources=MEMORY_MB:1&member_of=agg1&member_of=agg2", []string{"cn2[MEMORY_MB=1]"}},
	{"of nobody's", "resources=VCPU:1&member_of=agg9", nil},
	{"a sharing provider is one itself", "resources=MEMORY_MB:1,DISK_GB:1&member_of=agg2", []string{"cn2[MEMORY_MB=1] shelf[DISK_GB=1]"}},
	{"a root outside bars its tree", "resources=VCPU:1&member_of=!agg2", []string{"cn1[VCPU=1]"}},
	{"so does the provider", "resources=VCPU:1&member_of=!agg3", []string{"cn1[VCPU=1]", "cn2-numa0[VCPU=1]"}},
	{"and the root bars sharing ones", "resources=DISK_GB:1&member_of=!agg4&root_required=BIG", []string{"pool[DISK_GB=1]"}},
	{"and the root of the anchor too", "resources=DISK_GB:1&member_of=!agg2&root_required=BIG", nil},
	{"the provider of a suffixed group is a member itself", "resources1=VCPU:1&member_of1=agg2", nil},
	{"itself", "resources1=VCPU:1&member_of1=agg3", []string{"1:cn2-numa1[VCPU=1]"}},
	{"or is not", "resources1=VCPU:1&member_of1=!agg2", []string{"1:cn1[VCPU=1]", "1:cn2-numa0[VCPU=1]", "1:cn2-numa1[VCPU=1]"}},
}

var treeExamples = []example{
	{"in the tree of a root", "resources=VCPU:1&in_tree=cn2", []string{"cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"in the tree of another", "resources=VCPU:1&in_tree=gpu00", []string{"cn2-numa0[VCPU=1]", "cn2-numa1[VCPU=1]"}},
	{"of nobody", "resources=VCPU:1&in_tree=cn9", nil},
	{"which shuts out sharing ones", "resources=MEMORY_MB:1,DISK_GB:1&in_tree=cn2", nil},
	{"one group's is not another's", "resources=MEMORY_MB:1&in_tree=cn2&resources1=DISK_GB:1", []string{
		"cn2[MEMORY_MB=1] 1:pool[DISK_GB=1]", "cn2[MEMORY_MB=1] 1:shelf[DISK_GB=1]",
	}},
	{"of a sharing provider, which others may anchor", "resources=MEMORY_MB:1&resources1=DISK_GB:1&in_tree1=shelf", []string{"cn2[MEMORY_MB=1] 1:shelf[DISK_GB=1]"}},
	{"which a sharing provider has of its own", "resources=DISK_GB:1&in_tree=shelf", []string{"shelf[DISK_GB=1]"}},
	{"then nobody else may anchor it", "resources=DISK_GB:1&in_tree=shelf&resources1=MEMORY_MB:1", nil},
	{"of two trees", "resources1=VCPU:1&in_tree1=cn1&resources2=VCPU:1&in_tree2=cn2", nil},
}

var policyExamples = []example{
	{"together", "resources1=PGPU:1&resources2=VCPU:1&required2=AVX&in_tree1=cn2", []string{
		"1:gpu00[PGPU=1] 2:cn2-numa0[VCPU=1]", "1:gpu01[PGPU=1] 2:cn2-numa0[VCPU=1]", "1:gpu10[PGPU=1] 2:cn2-numa0[VCPU=1]",
	}},
	{"apart", "resources1=VCPU:1&resources2=MEMORY_MB:1&group_policy=isolate", []string{
		"2:cn2[MEMORY_MB=1] 1:cn2-numa0[VCPU=1]", "2:cn2[MEMORY_MB=1] 1:cn2-numa1[VCPU=1]",
	}},
	{"but the group without a suffix is nobody's rival", "resources=MEMORY_MB:1&resources1=VCPU:1&required1=!NUMA&group_policy=isolate", []string{"cn1[MEMORY_MB=1] 1:cn1[VCPU=1]"}},
	{"nothing of both is apart too", "resources1=VCPU:1&required2=NUMA&same_subtree=1,2&group_policy=isolate", nil},
	{"below one of them", "resources1=VCPU:1&resources2=PGPU:1&same_subtree=1,2", []string{
		"1:cn2-numa0[VCPU=1] 2:gpu00[PGPU=1]", "1:cn2-numa0[VCPU=1] 2:gpu01[PGPU=1]", "1:cn2-numa1[VCPU=1] 2:gpu10[PGPU=1]",
	}},
	{"a group that takes nothing is above", "resources1=PGPU:1&resources2=PGPU:1&required3=NUMA&same_subtree=1,2,3&group_policy=none", []string{
		"1:gpu00[PGPU=1] 2:gpu01[PGPU=1] 3:cn2-numa0[]", "1:gpu01[PGPU=1] 2:gpu00[PGPU=1] 3:cn2-numa0[]",
	}},
	{"a common ancestor that nobody names is not enough", "resources1=PGPU:1&resources2=PGPU:1&same_subtree=1,2", nil},
	{"two subtrees", "resources1=PGPU:1&resources2=PGPU:1&required3=AVX&required4=NUMA&required4=!AVX&same_subtree=1,3&same_subtree=2,4", []string{
		"1:gpu00[PGPU=1] 2:gpu10[PGPU=1] 3:cn2-numa0[] 4:cn2-numa1[]", "1:gpu01[PGPU=1] 2:gpu10[PGPU=1] 3:cn2-numa0[] 4:cn2-numa1[]",
	}},
	{"one alone is in its own subtree", "resources1=PGPU:1&required1=FAST&same_subtree=1", []string{"1:gpu00[PGPU=1]"}},
	{"one is in the subtree of itself", "resources1=VCPU:1&required2=AVX&same_subtree=1,2&required1=NUMA", []string{"1:cn2-numa0[VCPU=1] 2:cn2-numa0[]"}},
	{"a member names a provider", "resources1=PGPU:1&member_of2=agg3&same_subtree=1,2", []string{"1:gpu10[PGPU=1] 2:cn2-numa1[]"}},
	{"what is forbidden alone names nobody", "resources1=PGPU:1&required2=!AVX&same_subtree=1,2", nil},
	{"nor does a tree", "resources1=PGPU:1&in_tree2=cn2&same_subtree=1,2", nil},
}

func TestRules(t *testing.T) {
	v := world(t, cloud...)
	for kind, list := range map[string][]example{
		"resources": resourceExamples, "traits": traitExamples, "aggregates": aggregateExamples, "trees": treeExamples, "policies": policyExamples,
	} {
		for _, e := range list {
			t.Run(kind+"/"+e.name, func(t *testing.T) {
				q := ask(t, e.query)
				require.NoError(t, q.Validate())
				want := make([]string, len(e.want))
				for i, c := range e.want {
					want[i] = fmt.Sprint(sorted(strings.Fields(c)))
				}
				got := []string{}
				for c := range Each(v, q) {
					got = append(got, canonical(v, q, c))
				}
				require.Equal(t, sorted(want), sorted(got))
			})
		}
	}
}

// TestUnits: each amount alone, and all of one provider together, are what one
// claim may have.
func TestUnits(t *testing.T) {
	v := world(t, "cn VCPU:100(2,8,2) DISK_GB:1000(5,0,10) MEMORY_MB:10/7")
	for query, fits := range map[string]bool{
		"resources=VCPU:1":                              false,
		"resources=VCPU:2":                              true,
		"resources=VCPU:3":                              false,
		"resources=VCPU:8":                              true,
		"resources=VCPU:10":                             false,
		"resources1=VCPU:4&resources2=VCPU:4":           true,
		"resources1=VCPU:4&resources2=VCPU:6":           false,
		"resources1=VCPU:1&resources2=VCPU:1":           false,
		"resources1=DISK_GB:5&resources2=DISK_GB:5":     true,  // 10
		"resources1=DISK_GB:5&resources2=DISK_GB:10":    false, // 15
		"resources=MEMORY_MB:3":                         true,
		"resources=MEMORY_MB:4":                         false,
		"resources1=MEMORY_MB:1&resources2=MEMORY_MB:2": true,
		"resources1=MEMORY_MB:1&resources2=MEMORY_MB:3": false, // 3 are left of 10
	} {
		require.Equal(t, fits, len(all(v, ask(t, query))) == 1, query)
	}
}

// TestRoom: only what is free from now on for good counts.
func TestRoom(t *testing.T) {
	window := func(start, end api.Instant) api.Window { return api.Window{Start: start, End: end} }
	for name, c := range map[string]struct {
		kind api.Class
		w    api.Window
		left int64
	}{
		"firm and now":               {api.Firm, window(0, api.Forever), 4},
		"firm and later":             {api.Firm, window(500, 600), 4},
		"preemptible and now":        {api.Preemptible, window(0, 600), 4},
		"preemptible that has ended": {api.Preemptible, window(0, 50), 10},
		"firm that has ended":        {api.Firm, window(0, 50), 10},
	} {
		table := capacity.NewTable()
		table.Put(capacity.Spec{Up: true, Enabled: true, ID: "cn", Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 10}}})
		require.NoError(t, table.Claim("cn", api.Claim{Resources: api.Resources{api.VCPU: 6}, Window: c.w, Class: c.kind}), name)
		table.Advance(100)
		v := table.View()
		for _, n := range []int64{c.left, c.left + 1} {
			q := &Query{Groups: []Group{{Resources: api.Resources{api.VCPU: n}}}}
			require.Equal(t, n == c.left, len(all(v, q)) == 1, "%s: %d", name, n)
			got := Providers(v, &Filter{Resources: q.Groups[0].Resources})
			require.Equal(t, n == c.left, got.Len() == 1, "%s: %d", name, n)
		}
	}
}

// TestFlat: before trees were told, a candidate had no two providers of one tree.
func TestFlat(t *testing.T) {
	v := world(t, cloud...)
	for query, want := range map[string][]string{
		"resources=VCPU:1,MEMORY_MB:1":               {"cn1[MEMORY_MB=1,VCPU=1]"},
		"resources=PGPU:1&required=FAST":             {"gpu00[PGPU=1]"},
		"resources=MEMORY_MB:1,DISK_GB:1":            {"cn1[DISK_GB=1,MEMORY_MB=1]", "cn1[MEMORY_MB=1] pool[DISK_GB=1]", "cn2[MEMORY_MB=1] pool[DISK_GB=1]", "cn2[MEMORY_MB=1] shelf[DISK_GB=1]"},
		"resources1=PGPU:1&resources2=PGPU:1":        nil,
		"resources1=VCPU:1&resources2=VCPU:1":        {"1:cn1[VCPU=1] 2:cn1[VCPU=1]", "1:cn2-numa0[VCPU=1] 2:cn2-numa0[VCPU=1]", "1:cn2-numa1[VCPU=1] 2:cn2-numa1[VCPU=1]"},
		"resources=VCPU:1,DISK_GB:1&required=NUMA":   {"cn2-numa0[VCPU=1] pool[DISK_GB=1]", "cn2-numa1[VCPU=1] pool[DISK_GB=1]", "cn2-numa0[VCPU=1] shelf[DISK_GB=1]", "cn2-numa1[VCPU=1] shelf[DISK_GB=1]"},
		"resources1=MEMORY_MB:1&resources2=PGPU:1":   nil,
		"resources1=DISK_GB:600&resources2=VCPU:1":   {"2:cn1[VCPU=1] 1:pool[DISK_GB=600]", "2:cn2-numa0[VCPU=1] 1:pool[DISK_GB=600]", "2:cn2-numa1[VCPU=1] 1:pool[DISK_GB=600]", "2:cn2-numa0[VCPU=1] 1:shelf[DISK_GB=600]", "2:cn2-numa1[VCPU=1] 1:shelf[DISK_GB=600]"},
		"resources1=VCPU:1,MEMORY_MB:1&required1=!X": {"1:cn1[MEMORY_MB=1,VCPU=1]"},
	} {
		q := ask(t, query)
		q.Flat = true
		got := []string{}
		for c := range Each(v, q) {
			got = append(got, canonical(v, q, c))
		}
		for i, c := range want {
			want[i] = fmt.Sprint(sorted(strings.Fields(c)))
		}
		require.Equal(t, sorted(append([]string{}, want...)), sorted(got), query)
	}
}

// TestAnchors: what sharing providers give alone belongs to any tree that they
// reach, even to one that gives another group something.
func TestAnchors(t *testing.T) {
	v := world(t,
		"a VCPU:1 @x", "b VCPU:1 @x", "c VCPU:1 @y", "p - DISK_GB:10 +MISC_SHARES_VIA_AGGREGATE @x", "lone - DISK_GB:10 +MISC_SHARES_VIA_AGGREGATE",
	)
	require.Equal(t, []string{"p[DISK_GB=1]", "lone[DISK_GB=1]"}, all(v, ask(t, "resources=DISK_GB:1")), "p is found at a, before lone")
	require.Equal(t, []string{"p[DISK_GB=1] 1:a[VCPU=1]", "p[DISK_GB=1] 1:b[VCPU=1]"}, all(v, ask(t, "resources=DISK_GB:1&resources1=VCPU:1")))
	require.Equal(t, []string{"1:p[DISK_GB=1] 2:a[VCPU=1]", "1:p[DISK_GB=1] 2:b[VCPU=1]"}, all(v, ask(t, "resources1=DISK_GB:1&resources2=VCPU:1")))

	nested := world(t, "a VCPU:1", "a0 <a @x", "h", "p <h DISK_GB:10 +MISC_SHARES_VIA_AGGREGATE @x")
	require.Equal(t, []string{"a[VCPU=1] p[DISK_GB=1]"}, all(nested, ask(t, "resources=DISK_GB:1,VCPU:1")), "any member of a tree reaches, and a nested one may share")
}

// TestOrder: trees by the ids of their roots, whatever the order of rows.
func TestOrder(t *testing.T) {
	lines := slices.Clone(cloud)
	q := ask(t, "resources=VCPU:1,DISK_GB:1&resources1=PGPU:1&required1=!FAST&same_subtree=1,2&required2=NUMA")
	flat := ask(t, "resources=VCPU:1,DISK_GB:1")
	want, wantFlat := all(world(t, lines...), q), all(world(t, lines...), flat)
	require.Len(t, want, 8)
	for range 5 {
		slices.Reverse(lines)
		lines = append(lines[2:], lines[:2]...)
		v := world(t, lines...)
		require.Equal(t, want, all(v, q))
		require.Equal(t, wantFlat, all(v, flat))
	}
	require.True(t, strings.HasPrefix(wantFlat[0], "cn1"), wantFlat)
	require.True(t, strings.HasPrefix(wantFlat[len(wantFlat)-1], "cn2"), wantFlat)
}

// TestClosedHosts leaves out hosts that take nothing new, with all that is part of them.
func TestClosedHosts(t *testing.T) {
	inv := map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}}
	for name, host := range map[string]capacity.Spec{
		"open": {Up: true, Enabled: true}, "down": {Enabled: true}, "disabled": {Up: true}, "in maintenance": {Up: true, Enabled: true, Maintenance: true},
	} {
		table := capacity.NewTable()
		host.ID = "host"
		table.Put(host)
		table.Put(capacity.Spec{ID: "part", Parent: "host", Passive: true, Inventory: inv})
		found := 0
		for range Each(table.View(), &Query{Groups: []Group{{Resources: api.Resources{api.VCPU: 1}}}}) {
			found++
		}
		assert.Equal(t, name == "open", found == 1, name)
	}
}
