package filters_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

// park returns a fleet whose hosts differ in what filters read.
func park(n int) capacity.View {
	t := capacity.NewTable()
	for i := range n {
		s := capacity.Spec{
			ID: api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761)), Name: fmt.Sprint("host-", i),
			Up: i%50 != 0, Enabled: i%70 != 0, Maintenance: i%90 == 0, Pool: api.PoolShared, AZ: fmt.Sprint("az", i%3),
			Aggregates: []string{fmt.Sprint("g", i%10)}, Traits: []string{fmt.Sprint("T", i%4)},
			Inventory: map[api.ResourceClass]api.Inventory{
				api.VCPU: {Total: 64}, api.MemoryMB: {Total: int64(262144 >> (i % 4))}, api.DiskGB: {Total: 4096},
			},
			Attributes: map[string]string{
				"arch": []string{"x86_64", "arm64"}[i%2], "cores": strconv.Itoa(8 << (i % 5)), "ip": fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255),
			},
		}
		t.Put(s)
	}
	return t.View()
}

// busy makes a request that gives the named filter something to do; the empty
// name gives none of the optional ones anything.
func busy(l *filters.Look, name string) {
	g := &l.Req.Groups[0]
	switch name {
	case filters.NameForcedHosts:
		g.Hints.ForceHosts = []string{"host-1", "host-2"}
	case filters.NameIgnoredHosts:
		g.Hints.IgnoreHosts = []string{"host-1", "host-2"}
	case filters.NameSameHost:
		g.Hints.SameHost = []api.InstanceID{"i1"}
	case filters.NameDifferentHost:
		g.Hints.DifferentHost = []api.InstanceID{"i1"}
	case filters.NameNear:
		g.Hints.Near = "10.0.0.0/9"
	case filters.NameQuery:
		g.Hints.Query = `["and",["=","$arch","x86_64"],[">=","$cores",16],[">","$free_ram_mb",1024]]`
	case filters.NameAvailabilityZone:
		g.AZ = "az1"
	case filters.NameTraits:
		g.Traits = api.Traits{Required: []string{"T1"}, Forbidden: []string{"T2"}}
	case filters.NameAggregateExtraSpecs:
		g.ExtraSpecs = map[string]string{filters.ScopeAggregate + "disk": "ssd"}
	case filters.NameImageProperties:
		g.Image.Properties = map[string]string{"architecture": "x86_64"}
	case filters.NameExtraSpecs:
		g.ExtraSpecs = map[string]string{"arch": "x86_64", "cores": ">= 16"}
	case filters.NameServerGroup:
		l.Req.Rules = []api.Rule{{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	}
}

// BenchmarkFilters measures each filter alone with something to do, then all that
// are in the default: with nothing asked, with everything asked, and explained.
func BenchmarkFilters(b *testing.B) {
	var aggregates []*api.Aggregate
	for i := range 10 {
		aggregates = append(aggregates, &api.Aggregate{
			ID: api.AggregateID(fmt.Sprint("g", i)), Metadata: map[string]string{"disk": "ssd", api.MetaProjects: "p,q"},
		})
	}
	here := map[api.HostID]int{}
	for i := range 100 {
		here[api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761))] = 1
	}
	world := &filters.World{
		HasCommand: func(api.FlavorID) bool { return true }, Aggregates: aggregates,
		Census: &census{hosts: map[api.InstanceID]api.HostID{"i1": "00000000-host"}, here: map[string]map[api.HostID]int{"sg": here}},
	}
	for _, hosts := range []int{10_000, 100_000} {
		v := park(hosts)
		measure := func(name string, fs []filters.Filter, most int, asks ...string) {
			b.Run(fmt.Sprintf("%s/%d", name, hosts), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					req := request(api.Firm, api.Forever, api.Resources{api.VCPU: 4, api.MemoryMB: 65536, api.DiskGB: 10})
					req.Project = "p"
					l := filters.NewLook(v, world, req, 0)
					for _, ask := range asks {
						busy(l, ask)
					}
					filters.Explain(fs, l, most)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(hosts), "ns/host")
			})
		}
		all := filters.Default()
		var names []string
		for _, k := range filters.Known() {
			fs, err := filters.New([]api.FilterSpec{k.Example})
			if err != nil {
				b.Fatal(err)
			}
			measure(k.Name, fs, 0, k.Name)
			names = append(names, k.Name)
		}
		measure("default_nothing_asked", all, 0)
		measure("default_all_asked", all, 0, names...)
		measure("default_explained", all, 100)
	}
}

func BenchmarkAdvise(b *testing.B) {
	v := park(10_000)
	for b.Loop() {
		req := request(api.Firm, api.Forever, api.Resources{api.VCPU: 65, api.MemoryMB: 65536, api.DiskGB: 10})
		l := filters.NewLook(v, nil, req, 0)
		busy(l, filters.NameTraits)
		filters.Advise(filters.Default(), l)
	}
}

// BenchmarkAdviseLifetime measures what a request costs that is refused for what is promised later: on all hosts, on half
// of them while the others are full, and on none, where nothing of it is looked at. Each host is promised from another
// moment on, and the request wants a slot on half of those that have room.
func BenchmarkAdviseLifetime(b *testing.B) {
	const day = 24 * time.Hour
	size := api.Resources{api.VCPU: 64}
	for _, hosts := range []int{10_000, 100_000} {
		for _, part := range []int{0, 2, 1} { // one host in so many; 0 for none
			t := capacity.NewTable()
			later := 0
			for i := range hosts {
				s := capacity.Spec{
					ID: api.HostID(fmt.Sprintf("%08x-host", uint32(i)*2654435761)), Name: fmt.Sprint("host-", i), Up: true, Enabled: true,
					Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 64}},
				}
				t.Put(s)
				w := api.Window{End: api.Forever}
				if part > 0 && i%part == 0 {
					w.Start = api.Instant((day + time.Duration(later)*time.Minute).Milliseconds())
					later++
				}
				if _, err := t.Place(s.ID, api.Claim{Resources: size, Class: api.Firm, Window: w}); err != nil {
					b.Fatal(err)
				}
			}
			v, fs := t.View(), filters.Default()
			b.Run(fmt.Sprintf("promised_%d/%d", later, hosts), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					req := request(api.Firm, api.Forever, size)
					req.Groups[0].Count = max(1, later/2)
					l := filters.NewLook(v, nil, req, 0)
					_, why := filters.Run(fs, l)
					filters.DatePromised(fs, l, &why)
					advice := filters.Advise(fs, l)
					if got := slices.ContainsFunc(advice, func(a api.Advice) bool { return a.Change == api.AdviceLifetime }); got != (later > 0) {
						b.Fatalf("a lifetime is advised: %t", got)
					}
				}
			})
		}
	}
}
