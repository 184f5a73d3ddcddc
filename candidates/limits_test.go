package candidates

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
)

// many returns n lists of one name each.
func many(n int) [][]string {
	out := make([][]string, n)
	for i := range out {
		out[i] = []string{fmt.Sprint("T", i)}
	}
	return out
}

func TestValidate(t *testing.T) {
	one := api.Resources{api.VCPU: 1}
	groups := func(n int) *Query {
		q := &Query{}
		for i := range n {
			q.Groups = append(q.Groups, Group{Suffix: strconv.Itoa(i + 1), Resources: one})
		}
		return q
	}
	of := func(g Group) *Query {
		g.Resources = one
		return &Query{Groups: []Group{g}}
	}
	subtrees := func(n int) *Query {
		q := groups(1)
		q.Subtrees = slices.Repeat([][]string{{"1"}}, n)
		return q
	}
	classes := func(n int) *Query {
		r := api.Resources{}
		for i := range n {
			r[api.ResourceClass(fmt.Sprint("CUSTOM_", i))] = 1
		}
		return &Query{Groups: []Group{{Resources: r}}}
	}
	root := func(n int) *Query {
		q := groups(1)
		q.RootRequired = slices.Repeat([]string{"T"}, n-1)
		q.RootForbidden = []string{"U"}
		return q
	}
	names := func(n int) [][]string { return [][]string{slices.Repeat([]string{"x"}, n)} }
	for name, c := range map[string]struct {
		make func(n int) *Query
		most int
	}{
		"groups":            {groups, GroupsMax},
		"subtrees":          {subtrees, GroupsMax},
		"classes":           {classes, api.ClassesMax},
		"demands":           {func(n int) *Query { return of(Group{Traits: api.Traits{AnyOf: many(n)}}) }, demandsMax},
		"traits":            {func(n int) *Query { return of(Group{Traits: api.Traits{AnyOf: names(n)}}) }, namesMax},
		"forbidden traits":  {func(n int) *Query { return of(Group{Traits: api.Traits{Forbidden: names(n)[0]}}) }, namesMax},
		"aggregates":        {func(n int) *Query { return of(Group{MemberOf: names(n)}) }, namesMax},
		"barred aggregates": {func(n int) *Query { return of(Group{NotMemberOf: names(n)[0]}) }, namesMax},
		"traits of roots":   {root, namesMax},
	} {
		require.NoError(t, c.make(c.most).Validate(), name)
		require.ErrorContains(t, c.make(c.most+1).Validate(), strconv.Itoa(c.most), name)
	}
	for name, q := range map[string]*Query{
		"no group":                  {},
		"two of one suffix":         {Groups: []Group{{Suffix: "1", Resources: one}, {Suffix: "1", Resources: one}}},
		"nothing without a suffix":  {Groups: []Group{{}}},
		"an amount of nothing":      {Groups: []Group{{Resources: api.Resources{api.VCPU: 0}}}},
		"a subtree of nobody":       {Groups: groups(1).Groups, Subtrees: [][]string{{"1", "2"}}},
		"a subtree without a group": {Groups: []Group{{Resources: one}}, Subtrees: [][]string{{""}}},
		"too many groups":           groups(GroupsMax + 1),
	} {
		q.Work = &Work{Found: 7}
		require.Equal(t, api.CodeInvalid, api.CodeOf(q.Validate()), name)
		require.Empty(t, all(world(t, cloud...), q), name)
		require.Equal(t, Work{}, *q.Work, name)
	}
}

// TestDemandsMax: as many demands as may be are each looked at.
func TestDemandsMax(t *testing.T) {
	line := "cn VCPU:1"
	for i := range demandsMax {
		line += fmt.Sprint(" +T", i)
	}
	q := &Query{Groups: []Group{{Resources: api.Resources{api.VCPU: 1}, Traits: api.Traits{AnyOf: many(demandsMax)}}}}
	require.Len(t, all(world(t, line), q), 1)
	q.Groups[0].Traits.AnyOf[demandsMax-1] = []string{"other"}
	require.Empty(t, all(world(t, line), q))
}

// TestCut: past a limit the search ends, and says so.
func TestCut(t *testing.T) {
	v := wide(4)
	took := func(b bounds) Work {
		q := gpus(3, false)
		n := 0
		for range eachCandidate(v, q, b) {
			n++
		}
		require.Equal(t, n, q.Work.Found)
		return *q.Work
	}
	const plenty = 1 << 30
	whole := took(bounds{plenty, plenty, plenty})
	require.Equal(t, 4*3*2, whole.Found)
	require.False(t, whole.Cut)

	require.Equal(t, whole, took(bounds{whole.Found, plenty, plenty}))
	less := took(bounds{whole.Found - 1, plenty, plenty})
	require.Equal(t, whole.Found-1, less.Found)
	require.True(t, less.Cut)
}

// hopeless returns a query and lines of n trees, each of which takes some steps
// until it is clear that it cannot serve: of siblings none is above the other, and
// each has room for one of the groups.
func hopeless(t *testing.T, trees int) ([]string, *Query) {
	t.Helper()
	var lines []string
	for i := range trees {
		lines = append(lines, fmt.Sprintf("h%d", i))
		for k := range 3 {
			lines = append(lines, fmt.Sprintf("h%d-%d <h%d VCPU:1 PGPU:3", i, k, i))
		}
	}
	return lines, ask(t, "resources1=VCPU:1&resources2=VCPU:1&resources3=PGPU:3&same_subtree=1,2&group_policy=none")
}

// TestFruitless: steps are bounded for one tree and in all, and count from the last
// candidate on.
func TestFruitless(t *testing.T) {
	const plenty = 1 << 30
	lines, q := hopeless(t, 3)
	lines = append(lines, "z VCPU:2 PGPU:3", "zz VCPU:2 PGPU:3")
	v := world(t, lines...)
	run := func(tree, all int) Work {
		q.Work = &Work{}
		for range eachCandidate(v, q, bounds{plenty, tree, all}) {
		}
		return *q.Work
	}
	whole := run(plenty, plenty)
	require.Equal(t, 2, whole.Found)
	require.Equal(t, 5, whole.Trees)
	require.False(t, whole.Cut)

	tree, all := 0, 0 // the least that cut nothing
	for run(tree, plenty).Cut {
		tree++
	}
	for run(plenty, all).Cut {
		all++
	}
	require.Equal(t, whole, run(tree, all))
	require.Greater(t, all, 2*tree, "three trees without a candidate, and some of the fourth")
	require.Less(t, all, whole.Steps, "what was done after a candidate does not count")

	cut := run(tree-1, plenty)
	require.True(t, cut.Cut)
	require.Equal(t, 5, cut.Trees, "the next trees are searched all the same")
	require.Equal(t, 2, cut.Found)
	cut = run(plenty, all-1)
	require.True(t, cut.Cut)
	require.Equal(t, 4, cut.Trees)
	require.Zero(t, cut.Found)
}

// TestLazy: who stops after the first few pays for them only.
func TestLazy(t *testing.T) {
	v := fleet(2_000)
	q := &Query{Groups: []Group{{Resources: api.Resources{api.VCPU: 1, api.DiskGB: 1}}}, Work: &Work{}}
	require.Equal(t, 10, first(v, q, 10))
	require.Equal(t, 10, q.Work.Trees)
	require.Less(t, q.Work.Steps, 100)
	require.Equal(t, 2_000, first(v, q, 0))
}

// TestLookAhead: what cannot be is refused without trying.
func TestLookAhead(t *testing.T) {
	for _, isolate := range []bool{false, true} {
		q := gpus(20, isolate)
		require.Zero(t, first(wide(19), q, 0))
		require.Less(t, q.Work.Steps, 10_000)
		require.False(t, q.Work.Cut)

		require.Equal(t, 1_000, first(wide(20), q, 1_000))
		require.Less(t, q.Work.Steps, 1_000_000)
	}
	// Seven groups for six of the eight, which nobody finds out by counting all.
	q := gpus(8, true)
	for i := range 7 {
		q.Groups[i].Traits.Required = []string{"FEW"}
	}
	lines := []string{"root"}
	for i := range 8 {
		lines = append(lines, fmt.Sprintf("gpu%d <root PGPU:1 %s", i, []string{"+FEW", ""}[i/6]))
	}
	require.Zero(t, first(world(t, lines...), q, 0))
	require.Less(t, q.Work.Steps, 1_000)
}

// TestMasks: trees that cannot serve are not searched.
func TestMasks(t *testing.T) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("h%02d MEMORY_MB:64 @g%d", i, i%2), fmt.Sprintf("h%02d-0 <h%02d VCPU:%d", i, i, 1+i%10))
	}
	lines = append(lines, "pool - DISK_GB:10 +MISC_SHARES_VIA_AGGREGATE +SSD @g1", "h99-1 <h99 PGPU:1 +FAST")
	v := world(t, lines...)
	for query, trees := range map[string]int{
		"resources=VCPU:10,MEMORY_MB:1":                                      10,
		"resources=VCPU:1,DISK_GB:1":                                         50,
		"resources=VCPU:1,DISK_GB:1&required=SSD":                            50,
		"resources=VCPU:1,PGPU:1&required=FAST":                              1,
		"resources=VCPU:1,PGPU:1&required=SSD":                               0,
		"resources=VCPU:1&resources1=DISK_GB:1&member_of=g0":                 50,
		"resources=VCPU:1&in_tree=h07-0":                                     1,
		"resources1=VCPU:1&in_tree1=h07":                                     1,
		"resources=VCPU:1&member_of=!g0":                                     50,
		"resources1=VCPU:10&resources2=DISK_GB:1&required2=SSD&in_tree1=h09": 1,
	} {
		q := ask(t, query)
		q.Work = &Work{}
		for range Each(v, q) {
		}
		require.Equal(t, trees, q.Work.Trees, query)
	}
}
