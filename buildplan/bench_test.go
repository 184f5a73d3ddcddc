package buildplan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// fleet is n hosts of three sizes, partly used, from a fixed seed.
func fleet(n int) capacity.View {
	dice := rand.New(rand.NewPCG(1, 2))
	t := capacity.NewTable()
	for range n {
		size := int64(1) << dice.IntN(3)
		id := api.HostID(fmt.Sprintf("%08x-%04x", dice.Uint32(), dice.Uint32N(1<<16)))
		t.Put(capacity.Spec{
			ID: id, Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{
				api.VCPU: {Total: 32 * size}, api.MemoryMB: {Total: 65536 * size}, api.DiskGB: {Total: 1000 * size},
			},
		})
		_ = t.Claim(id, api.Claim{ // fits: the host is empty
			Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever},
			Resources: api.Resources{api.VCPU: 1 + dice.Int64N(16), api.MemoryMB: 1 + dice.Int64N(32768)},
		})
	}
	return t.View()
}

func BenchmarkSelect(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000, 100_000} {
		v := fleet(hosts)
		for _, count := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("hosts=%d/count=%d", hosts, count), func(b *testing.B) {
				req := &api.Request{
					Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever},
					Groups: []api.Group{{
						Count:     count,
						Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 4096, api.DiskGB: 20},
					}},
				}
				fs, cs := filters.Default(), costs.Default()
				b.ReportAllocs()
				for b.Loop() {
					buildplan.Select(&buildplan.Scene{View: v, Filters: fs, Costs: cs, Spare: 4}, req)
				}
			})
		}
	}
}
