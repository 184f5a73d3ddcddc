package filters_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

// splitAt returns a Split with the given cuts, that runs the last part first.
func splitAt(calls *int, cuts ...int) func(int, func(from, to int)) {
	return func(n int, part func(from, to int)) {
		*calls++
		list := append(slices.DeleteFunc(slices.Clone(cuts), func(at int) bool { return at >= n }), 0, n)
		slices.Sort(list)
		list = slices.Compact(list)
		for i := len(list) - 1; i > 0; i-- {
			part(list[i-1], list[i])
		}
	}
}

// In parts the same hosts pass, and the same counts come in the same order, whatever is asked for
// and wherever the parts begin; and there are parts from SplitHostsMin hosts on.
func TestRunInParts(t *testing.T) {
	v, calls, dropped := park(filters.SplitHostsMin), 0, map[string]int{}
	var names []string
	for _, k := range filters.Known() {
		if k.Default {
			names = append(names, k.Name)
		}
	}
	world := &filters.World{
		Aggregates: []*api.Aggregate{{ID: "g1", Metadata: map[string]string{"disk": "ssd", api.MetaProjects: "q"}}},
		Census:     &census{hosts: map[api.InstanceID]api.HostID{"i1": "00000000-host"}, here: map[string]map[api.HostID]int{"sg": {"3c6ef362-host": 2}}},
	}
	compare := func(t require.TestingT, vcpu, memory int64, asks []string, cuts ...int) {
		req := request(api.Firm, api.Forever, api.Resources{api.VCPU: vcpu, api.MemoryMB: memory})
		l := filters.NewLook(v, world, req, 0)
		for _, name := range asks {
			busy(l, name)
		}
		fs := filters.Default()
		want, why := filters.Run(fs, l)
		again := filters.NewLook(v, world, req, 0)
		again.Split = splitAt(&calls, cuts...)
		got, parts := filters.Run(fs, again)
		require.Equal(t, want, got)
		require.Equal(t, why, parts)
		for _, f := range why.Filters {
			dropped[f.Filter]++
		}
	}
	for _, name := range names {
		compare(t, 4, 65536, []string{name}, 7)
	}
	rapid.Check(t, func(t *rapid.T) {
		compare(
			t, rapid.SampledFrom([]int64{4, 65}).Draw(t, "vcpu"), rapid.SampledFrom([]int64{1, 65536, 100_000}).Draw(t, "memory"),
			rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "asks"),
			rapid.SliceOfN(rapid.IntRange(1, 60), 0, 4).Draw(t, "cuts")...,
		)
	})
	for _, name := range []string{"size", "host_state", filters.NameQuery, filters.NameServerGroup} {
		assert.NotZero(t, dropped[name], name)
	}
	before := calls
	require.NotZero(t, before)
	smaller := v.Copy()
	smaller.Remove("00000000-host")
	l := filters.NewLook(smaller.View(), world, request(api.Firm, api.Forever, nil), 0)
	l.Split = splitAt(&calls)
	filters.Run(filters.Default(), l)
	assert.Equal(t, before, calls, "there are %d hosts", filters.SplitHostsMin-1)
}

// A filter that is not asked for is not called, and however many there are and however many hosts,
// nothing is allocated but the set that passes and its words.
func TestNotAskedCostsNothing(t *testing.T) {
	for _, hosts := range []int{1000, 3000} {
		l := filters.NewLook(park(hosts), &filters.World{HasCommand: func(api.FlavorID) bool { return true }}, request(api.Firm, api.Forever, nil), 0)
		l.Req.Maintenance = true
		var fs []filters.Filter
		for _, f := range filters.Default() {
			if f.Name != filters.NameCapacity {
				f.Keep = func(*filters.Look, *capacity.Set) { assert.Fail(t, "it is called", f.Name) }
				fs = append(fs, f)
			}
		}
		assert.Len(t, fs, 16)
		assert.LessOrEqual(t, testing.AllocsPerRun(10, func() { filters.Run(fs, l) }), 2.0)
	}
}
