package buildplan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// The acceptance cases of the 2011 design, restated. Numbers are theirs.

func memoryHosts(mb map[string]int64) capacity.View {
	t := capacity.NewTable()
	for id, n := range mb {
		t.Put(capacity.Spec{
			ID: api.HostID(id), Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: n}},
		})
	}
	return t.View()
}

func boot(count int, mb int64) *api.Request {
	return &api.Request{
		Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever},
		Groups: []api.Group{{Count: count, Resources: api.Resources{api.MemoryMB: mb}}},
	}
}

func weigh(t *testing.T, name string, weight int64) costs.Set {
	t.Helper()
	cs, err := costs.New([]api.CostWeight{{Name: name, Weight: weight}})
	require.NoError(t, err)
	return cs
}

func hostsOf(slots []buildplan.Slot) []string {
	var out []string
	for _, s := range slots {
		out = append(out, string(s.Host))
	}
	return out
}

func place(v capacity.View, req *api.Request, cs costs.Set) []string {
	return hostsOf(buildplan.Select(&buildplan.Inputs{View: v, Filters: filters.Default(), Costs: cs}, req).Groups[0].Slots)
}

// Case 35: weight -1 on fill-first turns packing into spreading.
func TestCase35NegativeWeight(t *testing.T) {
	mb := map[string]int64{}
	for k := range int64(10) {
		mb[fmt.Sprintf("host%02d", k+1)] = 10 * (k + 1)
	}
	v := memoryHosts(mb)
	assert.Equal(t, []string{"host10"}, place(v, boot(1, 10), weigh(t, costs.FillFirst, -1)))
	assert.Equal(t, []string{"host10"}, place(v, boot(1, 10), weigh(t, costs.Spread, 1)))
	assert.Equal(t, []string{"host01"}, place(v, boot(1, 10), weigh(t, costs.FillFirst, 1)))
	assert.Equal(t, []string{"host01"}, place(v, boot(1, 10), weigh(t, costs.Spread, -1)))
}

// Case 36: of two hosts of the same cost the same one wins in every run,
// whatever order they came in. Ids that share a long prefix tie-break too.
func TestCase36Ties(t *testing.T) {
	for range 20 { // map order puts the hosts into other rows each time
		v := memoryHosts(map[string]int64{"long-prefix-b": 9, "long-prefix-a": 9, "z": 9})
		assert.Equal(t, []string{"long-prefix-a", "long-prefix-b", "z"}, place(v, boot(3, 9), weigh(t, costs.Constant, 1)))
	}
}

// Case 37: lower is better, and the scheduler does the ordering.
func TestCase37LowerIsBetter(t *testing.T) {
	v := memoryHosts(map[string]int64{"a": 30, "b": 10, "c": 20})
	plan := buildplan.Select(&buildplan.Inputs{View: v, Filters: filters.Default(), Costs: weigh(t, costs.Spread, 1)}, boot(3, 10))
	assert.True(t, slices.IsSortedFunc(plan.Groups[0].Slots, func(a, b buildplan.Slot) int {
		return int(a.Weight - b.Weight)
	}))
}

// Case 38: A 4096 MB, B 2048 MB, fill-first, 3 x 1024 MB -> B, B, A.
func TestCase38Depletion(t *testing.T) {
	v := memoryHosts(map[string]int64{"A": 4096, "B": 2048})
	assert.Equal(t, []string{"B", "B", "A"}, place(v, boot(3, 1024), weigh(t, costs.FillFirst, 1)))
}

// Case 40: the same hosts, 10 x 1024 MB: exactly 6 are offered, and it is the
// caller who compares that with its minimum.
func TestCase40ExactlySix(t *testing.T) {
	v := memoryHosts(map[string]int64{"A": 4096, "B": 2048})
	assert.Len(t, place(v, boot(10, 1024), weigh(t, costs.FillFirst, 1)), 6)
	assert.Len(t, place(v, boot(10, 1024), costs.Default()), 6)
	req := boot(10, 1024)
	assert.Equal(t, int64(6), fitsOf(&buildplan.Inputs{View: v, Filters: filters.Default()}, req, 100))
}

// kids are the offers of the three children of the reference tree, adjusted by
// their links.
func kids() [][]int64 {
	return [][]int64{
		buildplan.Adjust([]int64{1, 111, 112, 113}, 0, 1),
		buildplan.Adjust([]int64{120, 2, 122, 123}, 1000, 1),
		buildplan.Adjust([]int64{130, 131, 132, 3}, 0, 1000),
	}
}

// Case 53: the adjusted weights are the reference's. Its merged order was a plain
// sort (A B C D F E G H L I J K); ours takes heads only, so F waits for E and L
// for I, J and K, which their weights suppose to be taken.
func TestCase53Kids(t *testing.T) {
	assert.Equal(t, [][]int64{
		{1, 111, 112, 113},
		{1120, 1002, 1122, 1123},
		{130000, 131000, 132000, 3000},
	}, kids())
	letters := [][]string{{"A", "B", "C", "D"}, {"E", "F", "G", "H"}, {"I", "J", "K", "L"}}
	var got string
	for _, s := range mergeOne(100, append([][]int64{nil}, kids()...)...).Order {
		got += letters[s-1][0]
		letters[s-1] = letters[s-1][1:]
	}
	assert.Equal(t, "ABCDEFGHIJKL", got)
}

// Case 54: 4 own slots and the children make 16; without own hosts 12.
func TestCase54OwnAndKids(t *testing.T) {
	v := memoryHosts(map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	var own []int64
	for _, s := range buildplan.Select(&buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default()}, boot(100, 1)).Groups[0].Slots {
		own = append(own, s.Weight)
	}
	assert.Len(t, mergeOne(100, append([][]int64{own}, kids()...)...).Order, 16)
	assert.Len(t, mergeOne(100, append([][]int64{nil}, kids()...)...).Order, 12)
	assert.Len(t, mergeOne(7, append([][]int64{own}, kids()...)...).Order, 7, "never more than were asked for")
}

// Case 55: no hosts and no children is an empty plan that says so, not an error.
func TestCase55Nobody(t *testing.T) {
	for _, v := range []capacity.View{{}, capacity.NewTable().View()} {
		plan := buildplan.Select(&buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: 3}, boot(1, 1))
		assert.Equal(t, buildplan.Plan{Groups: []buildplan.GroupPlan{{}}}, plan)
	}
	assert.Empty(t, mergeOne(1, nil).Order)
}

func TestAlternatesStopAtSpareMax(t *testing.T) {
	mb := map[string]int64{}
	for i := range buildplan.SpareMax + 5 {
		mb[fmt.Sprintf("h%03d", i)] = 10
	}
	v := memoryHosts(mb)
	for spare, want := range map[int]int{
		-1: 0, 0: 0, 2: 2, buildplan.SpareMax: buildplan.SpareMax, buildplan.SpareMax + 1: buildplan.SpareMax,
	} {
		g := buildplan.Select(&buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: spare}, boot(1, 10)).Groups[0]
		assert.Len(t, g.Alternates, want, "spare %d", spare)
		assert.NotContains(t, hostsOf(g.Alternates), "h000")
	}
}

// A count that nobody should send is no reason to fall over.
func TestSelectMindsNoCount(t *testing.T) {
	v := memoryHosts(map[string]int64{"a": 1})
	for _, n := range []int{0, -5} {
		assert.Empty(t, place(v, boot(n, 1), costs.Default()))
	}
	got := place(v, boot(api.CountMax, 0), costs.Default())
	assert.Len(t, got, api.CountMax, "what takes nothing fits as often as it is wanted")
}

func ExampleSelect() {
	v := memoryHosts(map[string]int64{"a": 4096, "b": 2048, "c": 512})
	fillFirst, _ := costs.New([]api.CostWeight{{Name: costs.FillFirst, Weight: 1}}) // a known cost
	plan := buildplan.Select(&buildplan.Inputs{View: v, Filters: filters.Default(), Costs: fillFirst, Spare: 1}, boot(3, 1024))
	for _, s := range plan.Groups[0].Slots {
		fmt.Println(s.Host, s.Weight)
	}
	why := plan.Groups[0].Refusals
	fmt.Println(why.Considered, why.Offering, why.Filters)
	// Output:
	// b 2048
	// b 1024
	// a 4096
	// 3 2 [{size 1 never_fits []}]
}

func ExampleMerge() {
	req := &api.Request{Groups: []api.Group{{Count: 4}}}
	offers := [][][]int64{{{10, 30}, {20, 5}, {20}}} // of this zone and of two children
	m := buildplan.Merge(req, offers, nil, nil)[0]
	fmt.Println(m.Order, m.Weights)
	fmt.Println(m.Prefix(3), m.Taken, m.Costs)
	req.Zones.MaxSkew = 1
	fmt.Println(buildplan.Merge(req, offers, nil, nil)[0].Order)
	req.Zones = api.ZoneRule{Pack: true}
	fmt.Println(buildplan.Merge(req, offers, nil, nil)[0].Order)
	// Output:
	// [0 1 1 2] [10 20 5 20]
	// [1 2 0] [1 2 1] [10 25 20]
	// [0 1 2 1]
	// [1 1]
}

func ExampleAdjust() {
	fmt.Println(buildplan.Adjust([]int64{1, 2}, 1000, 10))
	// Output: [1010 1020]
}
