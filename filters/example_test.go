package filters_test

import (
	"fmt"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

// show prints the hosts that pass one filter.
func show(f filters.Filter, set func(*api.Group), specs ...capacity.Spec) {
	showIn(nil, f, set, specs...)
}

func showIn(w *filters.World, f filters.Filter, set func(*api.Group), specs ...capacity.Spec) {
	l := want(view(specs...), w, set)
	pass, why := filters.Explain([]filters.Filter{f}, l, 10)
	fmt.Println(hostNames(l.View, pass), why.Filters)
}

func Example_allHosts() {
	down := with("a")
	down.Up = false
	show(filter(filters.NameAllHosts), func(*api.Group) {}, down, with("b"))
	// Output: [a b] []
}

func Example_forcedHosts() {
	show(filter(filters.NameForcedHosts), func(g *api.Group) { g.Hints.ForceHosts = []string{"name-b"} }, with("a"), with("b"))
	// Output: [b] [{forced_hosts 1 not_asked [name-a]}]
}

func Example_ignoredHosts() {
	show(filter(filters.NameIgnoredHosts), func(g *api.Group) { g.Hints.IgnoreHosts = []string{"name-b"} }, with("a"), with("b"))
	// Output: [a] [{ignored_hosts 1 not_asked [name-b]}]
}

func Example_sameHost() {
	w := &filters.World{Census: &census{hosts: map[api.InstanceID]api.HostID{"db1": "b"}}}
	showIn(w, filter(filters.NameSameHost), func(g *api.Group) { g.Hints.SameHost = []api.InstanceID{"db1"} }, with("a"), with("b"))
	// Output: [b] [{same_host 1 not_asked [name-a]}]
}

func Example_differentHost() {
	w := &filters.World{Census: &census{hosts: map[api.InstanceID]api.HostID{"db1": "b"}}}
	showIn(w, filter(filters.NameDifferentHost), func(g *api.Group) { g.Hints.DifferentHost = []api.InstanceID{"db1"} }, with("a"), with("b"))
	// Output: [a] [{different_host 1 not_asked [name-b]}]
}

func Example_near() {
	show(filter(filters.NameNear), func(g *api.Group) { g.Hints.Near = "192.0.2.0/24" }, with("a", "ip", "192.0.2.7"), with("b", "ip", "198.51.100.7"), with("c"))
	// Output: [a] [{near 2 not_asked [name-b name-c]}]
}

func Example_query() {
	show(filter(filters.NameQuery), func(g *api.Group) { g.Hints.Query = `[">=","$cores",16]` }, with("a", "cores", "8"), with("b", "cores", "32"))
	// Output: [b] [{query 1 not_asked [name-a]}]
}

func Example_pool() {
	leases := with("a")
	leases.Pool = api.PoolReservable
	show(filter("pool"), func(*api.Group) {}, leases, with("b"))
	// Output: [b] [{pool 1 not_allowed [name-a]}]
}

func Example_projectIsolation() {
	theirs := with("a")
	theirs.Aggregates = []string{"g1"}
	w := &filters.World{Aggregates: []*api.Aggregate{{ID: "g1", Metadata: map[string]string{api.MetaProjects: "q,r"}}}}
	showIn(w, filter("project_isolation", "strict", "false"), func(*api.Group) {}, theirs, with("b")) // for project p
	// Output: [b] [{project_isolation 1 not_allowed [name-a]}]
}

func Example_isolated() {
	f := filter("isolated", "images", "win", "hosts", "name-a")
	show(f, func(g *api.Group) { g.Image.Ref = "win" }, with("a"), with("b"))
	show(f, func(g *api.Group) { g.Image.Ref = "linux" }, with("a"), with("b"))
	// Output:
	// [a] [{isolated 1 not_allowed [name-b]}]
	// [b] [{isolated 1 not_allowed [name-a]}]
}

func Example_driver() {
	process := with("a")
	process.NeedsCommand = true
	show(filter("driver"), func(*api.Group) {}, process, with("b"))
	// Output: [b] [{driver 1 never_fits [name-a]}]
}

func Example_availabilityZone() {
	east := with("a")
	east.AZ = "east"
	show(filter(filters.NameAvailabilityZone), func(g *api.Group) { g.AZ = "east" }, east, with("b"))
	// Output: [a] [{availability_zone 1 never_fits [name-b]}]
}

func Example_traits() {
	a, b := with("a"), with("b")
	a.Traits, b.Traits = []string{"SSD"}, []string{"SSD", "SPOT"}
	show(filter(filters.NameTraits), func(g *api.Group) {
		g.Traits = api.Traits{Required: []string{"SSD"}, Forbidden: []string{"SPOT"}}
	}, a, b, with("c"))
	// Output: [a] [{traits 2 never_fits [name-b name-c]}]
}

func Example_aggregateExtraSpecs() {
	fast := with("a")
	fast.Aggregates = []string{"g1"}
	w := &filters.World{Aggregates: []*api.Aggregate{{ID: "g1", Metadata: map[string]string{"disk": "ssd,nvme"}}}}
	showIn(w, filter(filters.NameAggregateExtraSpecs), func(g *api.Group) {
		g.ExtraSpecs = map[string]string{"aggregate_instance_extra_specs:disk": "nvme"}
	}, fast, with("b"))
	// Output: [a] [{aggregate_extra_specs 1 never_fits [name-b]}]
}

func Example_imageProperties() {
	show(filter(filters.NameImageProperties), func(g *api.Group) {
		g.Image.Properties = map[string]string{"architecture": "arm64"}
	}, with("a", "arch", "arm64"), with("b", "arch", "x86_64"), with("c"))
	// Output: [a] [{image_properties 2 never_fits [name-b name-c]}]
}

func Example_extraSpecs() {
	show(filter(filters.NameExtraSpecs), func(g *api.Group) {
		g.ExtraSpecs = map[string]string{"xpu_arch": "fermi", "capabilities:xpu_cores": ">= 448"}
	}, with("a", "xpu_arch", "fermi", "xpu_cores", "448"), with("b", "xpu_arch", "fermi", "xpu_cores", "96"), with("c"))
	// Output: [a] [{extra_specs 2 never_fits [name-b name-c]}]
}

func Example_hostState() {
	busy := with("a")
	busy.Maintenance = true
	show(filter("host_state"), func(*api.Group) {}, busy, with("b"))
	// Output: [b] [{host_state 1 not_now [name-a]}]
}

func Example_serverGroup() {
	c := &census{here: map[string]map[api.HostID]int{"sg1": {"a": 2, "b": 1}}}
	l := want(view(with("a"), with("b"), with("c")), &filters.World{Census: c}, func(*api.Group) {})
	l.Req.Rules = []api.Rule{{ID: "sg1", Policy: api.AntiAffinity, Max: 2, Groups: []int{0}}}
	f := filter(filters.NameServerGroup)
	pass, why := filters.Run([]filters.Filter{f}, l)
	fmt.Println(hostNames(l.View, pass), why.Filters)
	for row := range pass.All() {
		fmt.Println(l.View.ID(row), f.Room(l, row))
	}
	// Output:
	// [b c] [{server_group 1 not_now []}]
	// b 1
	// c 2
}

func Example_instances() {
	t := capacity.NewTable()
	t.Put(with("a"))
	t.Put(with("b"))
	_ = t.Claim("a", api.Claim{Resources: api.Resources{api.MemoryMB: 1}, Class: api.Firm, Window: api.Window{End: api.Forever}}) // fits
	got, why := look(want(t.View(), nil, func(*api.Group) {}), filter("instances", "max", "1"))
	fmt.Println(got, why.Filters)
	// Output: [b] [{instances 1 not_now []}]
}

func Example_capacity() {
	large, odd := with("a"), with("b")
	large.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 4096}}
	odd.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 4096, StepSize: 1024}}
	show(filter(filters.NameCapacity), func(g *api.Group) { g.Resources = api.Resources{api.MemoryMB: 1500} }, large, odd, with("c"))
	// Output: [a] [{units 1 invalid [name-b]} {size 1 never_fits [name-c]}]
}

func ExampleNew() {
	fs, err := filters.New([]api.FilterSpec{{Name: "host_state"}, {Name: "instances", Options: map[string]string{"max": "50"}}, {Name: "capacity"}})
	fmt.Println(len(fs), err)
	_, err = filters.New([]api.FilterSpec{{Name: "pool", Options: map[string]string{"size": "1"}}, {Name: "instances"}})
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// filters: pool has no option "size"; instances needs the option max
}

func ExampleAdvise() {
	l := want(view(with("a"), with("b")), nil, func(g *api.Group) {
		g.Resources, g.Traits.Required = api.Resources{api.MemoryMB: 2000}, nil
	})
	for _, a := range filters.Advise(filters.Default(), l) {
		fmt.Println(a.Change, a.Class, a.Value)
	}
	// Output: amount MEMORY_MB 1024
}
