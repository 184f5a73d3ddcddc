package candidates

import (
	"fmt"
	"strconv"
	"testing"

	"berth/api"
	"berth/capacity"
)

// id spreads ids, so that the order of rows is not theirs.
func id(kind string, i int) api.ProviderID {
	return api.ProviderID(fmt.Sprintf("%08x-%s", uint32(i)*2654435761, kind))
}

// fleet returns n hosts that reach nobody.
func fleet(n int) capacity.View {
	t := capacity.NewTable()
	for i := range n {
		t.Put(capacity.Spec{Up: true, Enabled: true, ID: id("host", i), Traits: []string{fmt.Sprint("T", i%4)}, Aggregates: []string{fmt.Sprint("g", i%10)}, Inventory: map[api.ResourceClass]api.Inventory{
			api.VCPU: {Total: 64}, api.MemoryMB: {Total: 262144}, api.DiskGB: {Total: 4096},
		}})
	}
	return t.View()
}

// forest returns n hosts with two NUMA nodes each, all with one pool for disks.
func forest(n int) capacity.View {
	t := capacity.NewTable()
	t.Put(capacity.Spec{
		Up: true, Enabled: true,
		ID: "pool", Passive: true, Traits: []string{api.TraitShares}, Aggregates: []string{"all"},
		Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 1 << 30}},
	})
	for i := range n {
		t.Put(capacity.Spec{Up: true, Enabled: true, ID: id("host", i), Aggregates: []string{"all"}, Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 262144}}})
		for k := range 2 {
			t.Put(capacity.Spec{Up: true, Enabled: true, ID: id(fmt.Sprint("numa", k), i), Parent: id("host", i), Passive: true, Traits: []string{"HW_NUMA_ROOT"}, Inventory: map[api.ResourceClass]api.Inventory{
				api.VCPU: {Total: 32},
			}})
		}
	}
	return t.View()
}

// wide returns one root with children of one PGPU each.
func wide(children int) capacity.View {
	t := capacity.NewTable()
	t.Put(capacity.Spec{Up: true, Enabled: true, ID: "root"})
	for i := range children {
		t.Put(capacity.Spec{Up: true, Enabled: true, ID: id("gpu", i), Parent: "root", Passive: true, Inventory: map[api.ResourceClass]api.Inventory{"PGPU": {Total: 1}}})
	}
	return t.View()
}

// gpus returns a query for so many groups of one PGPU each.
func gpus(groups int, isolate bool) *Query {
	q := &Query{Isolate: isolate, Work: &Work{}}
	for i := range groups {
		q.Groups = append(q.Groups, Group{Suffix: strconv.Itoa(i + 1), Resources: api.Resources{"PGPU": 1}})
	}
	return q
}

// first takes at most limit candidates, all for 0, and returns how many there were.
func first(v capacity.View, q *Query, limit int) int {
	n := 0
	for range Each(v, q) {
		if n++; n == limit {
			break
		}
	}
	return n
}

func BenchmarkEach(b *testing.B) {
	plain := api.Resources{api.VCPU: 1, api.MemoryMB: 512, api.DiskGB: 10}
	for _, n := range []int{1_000, 10_000} {
		flat, trees := fleet(n), forest(n)
		worlds := []struct {
			name string
			v    capacity.View
			q    *Query
		}{
			{"flat", flat, &Query{Groups: []Group{{Resources: plain}}}},
			{"flat_traits_member", flat, &Query{Groups: []Group{{
				Resources: plain, Traits: api.Traits{Required: []string{"T1"}}, MemberOf: [][]string{{"g1", "g3"}},
			}}}},
			{"numa_pool", trees, &Query{Groups: []Group{{Resources: plain}}}},
			{"numa_pool_groups", trees, &Query{Isolate: true, Groups: []Group{
				{Resources: api.Resources{api.MemoryMB: 512, api.DiskGB: 10}}, {Suffix: "1", Resources: api.Resources{api.VCPU: 1}}, {Suffix: "2", Resources: api.Resources{api.VCPU: 1}},
			}}},
			{"pool_alone", trees, &Query{Groups: []Group{{Resources: api.Resources{api.DiskGB: 10}}}}},
		}
		for _, w := range worlds {
			for _, limit := range []int{100, 0} {
				b.Run(fmt.Sprintf("%s/%d/limit=%d", w.name, n, limit), func(b *testing.B) {
					b.ReportAllocs()
					found := 0
					for b.Loop() {
						found = first(w.v, w.q, limit)
					}
					b.ReportMetric(float64(found), "candidates")
				})
			}
		}
	}
}

func BenchmarkWide(b *testing.B) {
	v := wide(8)
	for groups := 2; groups <= 9; groups++ {
		for _, limit := range []int{100, 1000} {
			b.Run(fmt.Sprintf("groups=%d/limit=%d", groups, limit), func(b *testing.B) {
				found := 0
				for b.Loop() {
					found = first(v, gpus(groups, groups%2 == 0), limit)
				}
				b.ReportMetric(float64(found), "candidates")
			})
		}
	}
	b.Run("impossible_20_of_19", func(b *testing.B) {
		v := wide(19)
		for b.Loop() {
			first(v, gpus(20, true), 0)
		}
	})
}

func BenchmarkProviders(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		for name, v := range map[string]capacity.View{"flat": fleet(n), "numa_pool": forest(n)} {
			f := &Filter{Resources: api.Resources{api.MemoryMB: 512}, MemberOf: [][]string{{"g1", "all"}}, Traits: api.Traits{Forbidden: []string{"T2"}}}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					Providers(v, f)
				}
			})
		}
	}
}
