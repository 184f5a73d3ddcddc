package costs_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/capacity"
	"berth/costs"
)

// BenchmarkCosts prices 10,000 hosts by one cost each.
func BenchmarkCosts(b *testing.B) {
	s := newScene(memory(512))
	s.req.Rules = []api.Rule{{Policy: api.SoftAntiAffinity, Groups: []int{0}}}
	s.census.tenancy, s.census.members = map[api.HostID]int{}, map[string]map[api.HostID]int{"#0": {}}
	for i := range 10_000 {
		id := api.HostID(fmt.Sprint("h", i))
		s.host(capacity.Spec{ID: id, Failures: i % 3, Attributes: map[string]string{"price": strconv.Itoa(i % 9)}},
			api.Resources{api.MemoryMB: 4096, "PGPU": 1})
		if i%100 == 0 {
			s.census.tenancy[id], s.census.members["#0"][id] = 1, 1
		}
	}
	l := s.look()
	var out [capacity.WordRows]int64
	for _, name := range costs.Names() {
		w := weight(name, 1)
		if name == "attribute" {
			w = weight(name, 1, "attribute=price")
		}
		set, err := costs.New([]api.CostWeight{w})
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := set.For(l)
				for n := range l.Pass.Words() {
					p.Word(n, &out)
				}
			}
		})
	}
}
