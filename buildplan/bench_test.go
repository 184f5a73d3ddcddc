package buildplan_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

// fleet is n hosts of three sizes in three availability zones, half of them with
// a trait, partly used, from a fixed seed.
func fleet(n int) capacity.View {
	dice := rand.New(rand.NewPCG(1, 2))
	t := capacity.NewTable()
	for i := range n {
		size := int64(1) << dice.IntN(3)
		id := api.HostID(fmt.Sprintf("%08x-%04x", dice.Uint32(), dice.Uint32N(1<<16)))
		s := capacity.Spec{
			ID: id, Name: fmt.Sprint("host", i), Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{
				api.VCPU: {Total: 32 * size}, api.MemoryMB: {Total: 65536 * size}, api.DiskGB: {Total: 1000 * size},
			},
			AZ: fmt.Sprint("az", i%3), Attributes: map[string]string{"arch": "x86_64", "price": strconv.Itoa(i % 10)},
		}
		if i%2 == 0 {
			s.Traits = []string{"CUSTOM_SSD"}
		}
		t.Put(s)
		_ = t.Claim(id, api.Claim{ // fits: the host is empty
			Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever},
			Resources: api.Resources{api.VCPU: 1 + dice.Int64N(16), api.MemoryMB: 1 + dice.Int64N(32768)},
		})
	}
	return t.View()
}

// order is a plain request, a demanding one, one of two groups, or one with a
// rule of affinity.
func order(shape string, count int) *api.Request {
	plain := api.Group{Count: count, Resources: api.Resources{api.VCPU: 2, api.MemoryMB: 4096, api.DiskGB: 20}}
	req := &api.Request{
		Reservation: "r", Project: "p", Class: api.Firm, Window: api.Window{Start: 0, End: api.Forever}, Groups: []api.Group{plain},
	}
	switch shape {
	case "demanding":
		g := &req.Groups[0]
		g.Traits.Required, g.AZ = []string{"CUSTOM_SSD"}, "az1"
		g.Hints.Query = `["and", [">=", "$free_ram_mb", 8192], ["<", "$price", 9]]`
		req.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 10, Groups: []int{0}}}
	case "groups":
		req.Groups = append(req.Groups, api.Group{Count: count, Resources: api.Resources{api.VCPU: 4, api.MemoryMB: 16384}})
	case "bundle": // two groups on one host, after another group
		req.Groups = append(req.Groups, plain, plain)
		req.Groups[2].Resources = api.Resources{api.VCPU: 1, api.MemoryMB: 1024, api.DiskGB: 20}
		req.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{1, 2}}}
	case "affinity":
		req.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0}}}
	}
	return req
}

func BenchmarkSelect(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000, 100_000} {
		v := fleet(hosts)
		for _, shape := range []string{"plain", "demanding", "groups", "affinity", "demanding_in_parts"} {
			for _, count := range []int{1, 100, 1000} {
				if shape == "demanding_in_parts" && hosts < filters.SplitHostsMin {
					continue // it is the same
				}
				b.Run(fmt.Sprintf("%s/hosts=%d/count=%d", shape, hosts, count), func(b *testing.B) {
					req := order(strings.TrimSuffix(shape, "_in_parts"), count)
					s := &buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
					if shape == "demanding_in_parts" {
						s.Split = halves
					}
					require.NotEmpty(b, buildplan.Select(s, req).Groups[0].Slots)
					b.ReportAllocs()
					for b.Loop() {
						buildplan.Select(s, req)
					}
				})
			}
		}
	}
}

// BenchmarkSelectAlike plans over hosts that all cost the same, or of which those with the lowest
// ids are used.
func BenchmarkSelectAlike(b *testing.B) {
	for _, hosts := range []int{1_000, 100_000} {
		table := capacity.NewTable()
		for i := range hosts {
			table.Put(capacity.Spec{
				ID: api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761)), Name: fmt.Sprint("host", i), Up: true, Enabled: true, Pool: api.PoolShared, //nolint:gosec // in no order
				Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 32}, api.MemoryMB: {Total: 65536}, api.DiskGB: {Total: 1000}},
			})
		}
		for _, used := range []int{0, hosts / 10} {
			s := &buildplan.Inputs{View: table.View(), Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
			for _, t := range buildplan.Select(s, order("plain", used)).Groups[0].Slots {
				_ = table.Claim(t.Host, api.Claim{Class: api.Firm, Window: api.Window{End: api.Forever}, Resources: order("plain", 1).Groups[0].Resources}) // fits: it was planned
			}
			s.View = table.View()
			for _, count := range []int{1, 20, 1000} {
				b.Run(fmt.Sprintf("hosts=%d/used=%d/count=%d", hosts, used, count), func(b *testing.B) {
					req := order("plain", count)
					b.ReportAllocs()
					for b.Loop() {
						buildplan.Select(s, req)
					}
				})
			}
		}
	}
}

// halves runs two parts at the same time.
func halves(n int, part func(from, to int)) {
	var wg sync.WaitGroup
	wg.Go(func() { part(n/2, n) })
	part(0, n/2)
	wg.Wait()
}

// In two parts at the same time the plan is the same, whatever is asked for.
func TestSelectInParts(t *testing.T) {
	v := fleet(filters.SplitHostsMin)
	for _, shape := range []string{"plain", "demanding", "groups", "bundle", "affinity"} {
		for _, most := range []int64{2, 40, 1000} {
			req := order(shape, 20)
			req.Groups[0].Resources[api.VCPU] = most
			s := &buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
			want := buildplan.Select(s, req)
			s.Split = halves
			require.Equal(t, want, buildplan.Select(s, req), "%s of %d", shape, most)
		}
	}
}

// drawers is n hosts like those of fleet. With pools, none has disk of its own:
// they draw it from so many shared pools, with room for 40 slots each. Each host
// has so many devices below it.
func drawers(n, pools, devices int) capacity.View {
	dice := rand.New(rand.NewPCG(1, 2))
	t := capacity.NewTable()
	for i := range pools {
		t.Put(capacity.Spec{
			ID: api.ProviderID(fmt.Sprint("pool", i)), Passive: true, Traits: []string{api.TraitShares}, Aggregates: []string{fmt.Sprint("g", i)},
			Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 800}},
		})
	}
	for i := range n {
		id := api.HostID(fmt.Sprintf("%08x-%04x", dice.Uint32(), dice.Uint32N(1<<16)))
		s := capacity.Spec{
			ID: id, Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{
				api.VCPU: {Total: 32 << dice.IntN(3)}, api.MemoryMB: {Total: 65536 << dice.IntN(3)}, api.DiskGB: {Total: 1000},
			},
		}
		if pools > 0 {
			delete(s.Inventory, api.DiskGB)
			s.Aggregates = []string{fmt.Sprint("g", i%pools)}
		}
		t.Put(s)
		for k := range devices {
			t.Put(capacity.Spec{
				ID: api.ProviderID(fmt.Sprintf("%s-gpu%d", id, k)), Passive: true, Parent: id,
				Inventory: map[api.ResourceClass]api.Inventory{"PGPU": {Total: 1}},
			})
		}
	}
	return t.View()
}

// BenchmarkDraw plans on 10,000 hosts that draw from others.
func BenchmarkDraw(b *testing.B) {
	for _, x := range []struct {
		name           string
		pools, devices int
	}{{"pools", 100, 0}, {"devices", 0, 8}, {"both", 100, 8}} {
		v := drawers(10_000, x.pools, x.devices)
		for _, shape := range []string{"plain", "groups", "affinity", "bundle", "fits"} {
			for _, count := range []int{1, 1000} {
				b.Run(fmt.Sprintf("%s/%s/count=%d", x.name, shape, count), func(b *testing.B) {
					req := order(shape, count)
					if x.devices > 0 {
						req.Groups[0].Resources["PGPU"] = 1
					}
					s := &buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
					require.NotEmpty(b, buildplan.Select(s, req).Groups[0].Slots)
					b.ReportAllocs()
					for b.Loop() {
						if shape == "fits" {
							buildplan.Sketch(s, req, 0, int64(count))
						} else {
							buildplan.Select(s, req)
						}
					}
				})
			}
		}
	}
}

// BenchmarkMerge merges what this zone and 64 children offer.
func BenchmarkMerge(b *testing.B) {
	for _, zones := range []api.ZoneRule{{}, {MaxSkew: 1, MinZones: 10}, {Pack: true}} {
		for _, count := range []int{100, 1000} {
			b.Run(fmt.Sprintf("skew=%d/zones=%d/pack=%v/count=%d", zones.MaxSkew, zones.MinZones, zones.Pack, count), func(b *testing.B) {
				dice := rand.New(rand.NewPCG(1, 2))
				req := &api.Request{Groups: []api.Group{{Count: count}}, Zones: zones}
				offers := [][][]int64{make([][]int64, 1+api.LinksMax)}
				for s := range offers[0] {
					for range count {
						offers[0][s] = append(offers[0][s], dice.Int64N(1<<30))
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					buildplan.Merge(req, offers, nil, nil)
				}
			})
		}
	}
}

// leased is n hosts with so many standing leases of one host each, one in four of it whole,
// from a fixed seed.
func leased(b *testing.B, n, leases int) capacity.View {
	b.Helper()
	const hour = api.Instant(3_600_000)
	dice := rand.New(rand.NewPCG(3, 4))
	t := capacity.NewTable()
	ids := make([]api.HostID, n)
	for i := range ids {
		ids[i] = api.HostID(fmt.Sprintf("%08x-%04x", dice.Uint32(), dice.Uint32N(1<<16)))
		t.Put(capacity.Spec{
			ID: ids[i], Up: true, Enabled: true, Pool: api.PoolReservable, Gap: 5 * time.Minute,
			Inventory:  map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 32}, api.MemoryMB: {Total: 65536}, api.DiskGB: {Total: 1000}},
			Attributes: map[string]string{"arch": "x86_64", "node_type": strconv.Itoa(i % 10)},
		})
	}
	made := 0
	for made < leases {
		start := hour * api.Instant(1+dice.IntN(2000))
		c := api.Claim{Class: api.Firm, Window: api.Window{Start: start, End: start + hour*api.Instant(1+dice.IntN(48))}}
		id := ids[dice.IntN(n)]
		if dice.IntN(4) == 0 {
			if _, _, err := t.PlaceWhole(id, c); err == nil {
				made++
			}
			continue
		}
		c.Resources = api.Resources{api.VCPU: 1 + dice.Int64N(8), api.MemoryMB: 1 + dice.Int64N(16384), api.DiskGB: 10}
		if t.Claim(id, c) == nil {
			made++
		}
	}
	return t.View()
}

// BenchmarkLease plans one lease among 10,000 others: room for some instances, whole hosts, or
// an update in place of the first.
func BenchmarkLease(b *testing.B) {
	const hour = api.Instant(3_600_000)
	for _, hosts := range []int{1_000, 10_000} {
		v := leased(b, hosts, 10_000)
		for _, shape := range []string{"instances", "whole", "both", "keep"} {
			for _, count := range []int{1, 10} {
				b.Run(fmt.Sprintf("%s/hosts=%d/count=%d", shape, hosts, count), func(b *testing.B) {
					req := &api.Request{
						Reservation: "r", Project: "p", Class: api.Firm, Reserves: true, Window: api.Window{Start: 1000 * hour, End: 1024 * hour},
						Groups: []api.Group{{Name: "a", Count: count, Min: count, Resources: api.Resources{api.VCPU: 4, api.MemoryMB: 8192, api.DiskGB: 20}}},
					}
					s := &buildplan.Inputs{View: v, Filters: filters.Default(), Costs: costs.Default(), Spare: 4}
					whole := api.Group{Name: "b", Count: count, Min: count, Whole: true}
					whole.Hints.Query = `["=", "$node_type", 7]`
					switch shape {
					case "whole":
						req.Groups = []api.Group{whole}
					case "both":
						req.Groups = append(req.Groups, whole)
					case "keep":
						s.View, s.Keep = keepFirst(b, s, req)
					}
					for _, g := range buildplan.Select(s, req).Groups {
						require.Len(b, g.Slots, count)
					}
					b.ReportAllocs()
					for b.Loop() {
						buildplan.Select(s, req)
					}
				})
			}
		}
	}
}

// keepFirst takes the slots that a request gets, and makes it an update that prolongs them.
func keepFirst(b *testing.B, s *buildplan.Inputs, req *api.Request) (capacity.View, [][]buildplan.Keep) {
	b.Helper()
	var keep []buildplan.Keep
	v := s.View.Without(func(t *capacity.Table) {
		for i, slot := range buildplan.Select(s, req).Groups[0].Slots {
			c := api.Claim{Consumer: api.InstanceID(strconv.Itoa(i)), Class: api.Firm, Window: req.Window, Resources: req.Groups[0].Resources}
			require.NoError(b, t.Claim(slot.Host, c))
			keep = append(keep, buildplan.Keep{Host: slot.Host, Claim: c})
		}
	})
	req.Replaces, req.Window.End = "old", req.Window.End+1
	return v, [][]buildplan.Keep{keep}
}

// BenchmarkKeepIdle finds the idle hosts of 10,000 among 10,000 leases.
func BenchmarkKeepIdle(b *testing.B) {
	v := leased(b, 10_000, 10_000)
	for b.Loop() {
		pass := v.Hosts()
		v.KeepStocked(&pass)
		v.KeepIdle(&pass, api.Window{Start: 3_600_000_000, End: 3_700_000_000}, api.Firm)
	}
}
