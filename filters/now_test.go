package filters_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

func TestMaintenance(t *testing.T) {
	busy := with("busy")
	busy.Maintenance = true
	got, why := look(want(view(with("up"), busy), nil, func(*api.Group) {}), filters.Default()...)
	assert.Equal(t, []string{"up"}, got)
	assert.Equal(t, []api.FilterCount{{Filter: "host_state", Hosts: 1, Tier: api.TierNotNow}}, why.Filters)
}

// Acceptance cases 46 and 48: a host whose heartbeat is stale is down, which the
// zone's leader says in the log; it is no candidate, whatever it reported last.
func TestCase48StaleHostsAreNoCandidates(t *testing.T) {
	table := capacity.NewTable()
	for _, id := range []string{"fresh", "stale"} {
		table.Put(with(id, "arch", "x86_64"))
	}
	stale := with("stale", "arch", "x86_64")
	stale.Up = false
	table.Put(stale)
	req := func(g *api.Group) { g.Image.Properties = map[string]string{"architecture": "x86_64"} }
	assert.Equal(t, []string{"fresh"}, kept(want(table.View(), nil, req), filters.Default()...))
	fresh := with("fresh")
	fresh.Up = false
	table.Put(fresh)
	got, why := look(want(table.View(), nil, func(*api.Group) {}), filters.Default()...)
	assert.Empty(t, got, "all are stale")
	assert.Equal(t, api.Refusals{Considered: 2, Filters: []api.FilterCount{{Filter: "host_state", Hosts: 2, Tier: api.TierNotNow}}}, why)
}

// Acceptance case 24: of 4 processors at a ratio of 2, 7 in use, one more fits; of
// 8 in use none does. A host that says nothing of processors has none.
func TestCase24Cores(t *testing.T) {
	for used, pass := range map[int64]bool{7: true, 8: false} {
		table := capacity.NewTable()
		table.Put(capacity.Spec{
			ID: "h", Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4, AllocationRatio: 2 * api.RatioOne}},
		})
		table.Put(with("unknown"))
		require.NoError(t, table.Claim("h", api.Claim{
			Resources: api.Resources{api.VCPU: used}, Class: api.Firm, Window: api.Window{End: api.Forever},
		}))
		l := want(table.View(), nil, func(g *api.Group) { g.Resources = api.Resources{api.VCPU: 1} })
		got, why := look(l, filters.Default()...)
		assert.Equal(t, pass, len(got) == 1, "%d in use", used)
		assert.Contains(t, why.Filters, api.FilterCount{Filter: "size", Hosts: 1, Tier: api.TierNeverFits})
	}
}

// Acceptance case 43: of NODES, with 512 MB and 1 GB of disk reserved, 0, 512,
// 2560 and 7680 MB are free, and 511, 1023, 3071 and 8191 GB of disk. (The disk of
// the reference is in MB, where the reserve is 1024; what instances use of it is
// left out there too.)
func TestCase43Nodes(t *testing.T) {
	table := capacity.NewTable()
	for i, id := range []api.HostID{"host1", "host2", "host3", "host4"} {
		size := int64(1024) << i
		table.Put(capacity.Spec{
			ID: id, Up: true, Enabled: true, Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{
				api.MemoryMB: {Total: size, Reserved: 512}, api.DiskGB: {Total: size, Reserved: 1}, api.VCPU: {Total: 1 << i},
			},
		})
	}
	boot := func(id api.HostID, disk, memory int64) {
		require.NoError(t, table.Claim(id, api.Claim{
			Resources: api.Resources{api.DiskGB: disk, api.MemoryMB: memory, api.VCPU: 1}, Class: api.Firm,
			Window: api.Window{End: api.Forever},
		}))
	}
	boot("host1", 512, 512)
	boot("host2", 512, 512)
	boot("host2", 512, 512)
	boot("host3", 1024, 1024)
	assert.Equal(t, 4, table.View().Len())
	for _, x := range []struct {
		class api.ResourceClass
		free  []int64
	}{
		{api.MemoryMB, []int64{0, 512, 2560, 7680}},
		{api.DiskGB, []int64{511, 1023, 3071, 8191}},
	} {
		for i, free := range x.free {
			host := api.HostID("host" + string(rune('1'+i)))
			for _, over := range []int64{0, 1} {
				if free+over == 0 {
					continue
				}
				l := want(table.View(), nil, func(g *api.Group) { g.Resources = api.Resources{x.class: free + over} })
				assert.Equal(t, over == 0, contains(kept(l, filters.Default()...), host), "%s: %d of %s", host, free+over, x.class)
			}
		}
	}
}

func contains(list []string, id api.HostID) bool {
	for _, s := range list {
		if s == string(id) {
			return true
		}
	}
	return false
}

func TestCapacitySaysWhy(t *testing.T) {
	table := capacity.NewTable()
	for id, v := range map[api.HostID]api.Inventory{
		"open": {Total: 16}, "full": {Total: 16}, "small": {Total: 7}, "odd": {Total: 16, StepSize: 3}, "large": {Total: 16, MinUnit: 10},
		"thin": {Total: 16, MaxUnit: 4}, "smallodd": {Total: 7, StepSize: 3}, "fullodd": {Total: 16, StepSize: 3},
	} {
		s := spec(string(id), 1, 1)
		s.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: v}
		table.Put(s)
	}
	table.Put(spec("other", 1, 1))
	for _, id := range []api.HostID{"full", "fullodd"} {
		require.NoError(t, table.Claim(id, api.Claim{
			Resources: api.Resources{api.VCPU: 9}, Class: api.Firm, Window: api.Window{End: api.Forever},
		}))
	}
	l := want(table.View(), nil, func(g *api.Group) { g.Resources = api.Resources{api.VCPU: 8} })
	pass, why := filters.Explain([]filters.Filter{filter(filters.NameCapacity)}, l, 10)
	assert.Equal(t, []string{"open"}, hostNames(l.View, pass))
	assert.Equal(t, api.Refusals{Considered: 9, Offering: 1, Filters: []api.FilterCount{
		{Filter: "units", Hosts: 4, Tier: api.TierInvalid, Names: []string{"fullodd", "large", "odd", "thin"}},
		{Filter: "size", Hosts: 3, Tier: api.TierNeverFits, Names: []string{"other", "small", "smallodd"}},
		{Filter: "capacity", Hosts: 1, Tier: api.TierNotNow, Names: []string{"full"}},
	}}, why)
}

func TestInstances(t *testing.T) {
	table := capacity.NewTable()
	table.Put(with("a"))
	table.Put(with("b"))
	for range 2 {
		require.NoError(t, table.Claim("a", api.Claim{
			Resources: api.Resources{api.MemoryMB: 1}, Class: api.Firm, Window: api.Window{Start: 50, End: 60},
		}))
	}
	l := want(table.View(), nil, func(*api.Group) {})
	assert.Equal(t, []string{"b"}, kept(l, filter("instances", "max", "2")))
	assert.Equal(t, []string{"a", "b"}, kept(l, filter("instances", "max", "3")))
	a, _ := l.View.Row("a")
	b, _ := l.View.Row("b")
	assert.Equal(t, int64(1), filter("instances", "max", "3").Room(l, a))
	assert.Equal(t, int64(3), filter("instances", "max", "3").Room(l, b))
	l.Placed = func(row, rule int) int {
		assert.Equal(t, -1, rule, "slots of all earlier groups count")
		return map[int]int{b: 2}[row]
	}
	assert.Equal(t, []string{"a", "b"}, kept(l, filter("instances", "max", "3")))
	assert.Equal(t, int64(1), filter("instances", "max", "3").Room(l, b))
	assert.Empty(t, kept(l, filter("instances", "max", "2")))
}

func TestServerGroup(t *testing.T) {
	v := view(with("a"), with("b"), with("c"))
	all := []string{"a", "b", "c"}
	for _, x := range []struct {
		says      string
		policy    api.Policy
		most      int
		here      map[api.HostID]int
		elsewhere map[api.LinkID]int
		placed    map[string]int
		want      []string
	}{
		{"nobody is there", api.Affinity, 0, nil, nil, nil, all},
		{"one host has all", api.Affinity, 0, map[api.HostID]int{"b": 2}, nil, nil, []string{"b"}},
		{"a count of 0 is nobody", api.Affinity, 0, map[api.HostID]int{"b": 0}, nil, nil, all},
		{"members are elsewhere", api.Affinity, 0, nil, map[api.LinkID]int{"l": 1}, nil, nil},
		{"none elsewhere after all", api.Affinity, 0, nil, map[api.LinkID]int{"l": 0}, nil, all},
		{"members here and elsewhere", api.Affinity, 0, map[api.HostID]int{"b": 2}, map[api.LinkID]int{"l": 1}, nil, nil},
		{"on two hosts", api.Affinity, 0, map[api.HostID]int{"b": 2, "c": 1}, nil, nil, nil},
		{"on a host that is gone", api.Affinity, 0, map[api.HostID]int{"z": 1}, nil, nil, nil},
		{"with an earlier group", api.Affinity, 0, nil, nil, map[string]int{"c": 1}, []string{"c"}},
		{"beside an earlier group", api.Affinity, 0, map[api.HostID]int{"c": 1}, nil, map[string]int{"c": 1}, []string{"c"}},
		{"away from an earlier group", api.Affinity, 0, map[api.HostID]int{"b": 1}, nil, map[string]int{"c": 1}, nil},
		{"one each", api.AntiAffinity, 1, map[api.HostID]int{"b": 1}, nil, nil, []string{"a", "c"}},
		{"two each", api.AntiAffinity, 2, map[api.HostID]int{"b": 1, "c": 2, "z": 9}, nil, nil, []string{"a", "b"}},
		{"elsewhere is apart", api.AntiAffinity, 1, nil, map[api.LinkID]int{"l": 5}, nil, all},
		{"earlier groups count", api.AntiAffinity, 2, map[api.HostID]int{"b": 1}, nil, map[string]int{"b": 1, "c": 1}, []string{"a", "c"}},
		{"earlier groups alone", api.AntiAffinity, 1, nil, nil, map[string]int{"a": 1}, []string{"b", "c"}},
		{"a wish refuses nobody", api.SoftAffinity, 0, map[api.HostID]int{"b": 1}, map[api.LinkID]int{"l": 5}, nil, all},
		{"nor does this one", api.SoftAntiAffinity, 0, map[api.HostID]int{"b": 1}, nil, nil, all},
	} {
		c := &census{here: map[string]map[api.HostID]int{"sg": x.here}, elsewhere: map[string]map[api.LinkID]int{"sg": x.elsewhere}}
		l := want(v, &filters.World{Census: c}, func(*api.Group) {})
		l.Req.Rules = []api.Rule{{ID: "sg", Policy: x.policy, Max: x.most, Groups: []int{0}}}
		if x.placed != nil {
			l.Placed = func(row, rule int) int {
				assert.Zero(t, rule)
				return x.placed[string(v.ID(row))]
			}
		}
		assert.Equal(t, x.want, kept(l, filter(filters.NameServerGroup)), x.says)
	}
}

func TestServerGroupRoom(t *testing.T) {
	v := view(with("a"), with("b"))
	c := &census{here: map[string]map[api.HostID]int{"sg": {"b": 1}, "r#1": {"b": 2}}}
	l := want(v, &filters.World{Census: c}, func(*api.Group) {})
	l.Req.Reservation = "r"
	l.Req.Rules = []api.Rule{
		{ID: "sg", Policy: api.AntiAffinity, Max: 4, Groups: []int{0}},
		{Policy: api.AntiAffinity, Max: 6, Groups: []int{0}},
		{Policy: api.AntiAffinity, Max: 1, Groups: []int{1}}, // does not bind the group
		{Policy: api.SoftAntiAffinity, Groups: []int{0}},
	}
	f := filter(filters.NameServerGroup)
	assert.Len(t, kept(l, f), 2)
	a, _ := v.Row("a")
	b, _ := v.Row("b")
	assert.Equal(t, int64(4), f.Room(l, a))
	assert.Equal(t, int64(3), f.Room(l, b))
	l.Placed = func(row, rule int) int { return map[int]int{b: rule + 1}[row] }
	assert.Equal(t, int64(2), f.Room(l, b))
	assert.Equal(t, 2, c.asked, "the census is read once for each rule")
	assert.Equal(t, int64(api.CountMax), f.Room(want(v, nil, func(*api.Group) {}), a), "without a rule there is any room")
}

// TestFiltersOfAnyTime: those keep the same hosts whatever the window, and those that are left out do not.
func TestFiltersOfAnyTime(t *testing.T) {
	table := capacity.NewTable()
	for _, id := range []string{"idle", "busy", "small", "reserved"} {
		s := with(id, "rack", id)
		s.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 8}}
		if id == "reserved" {
			s.Pool = api.PoolReservable
		}
		table.Put(s)
	}
	sooner, later := api.Window{Start: 1, End: 50}, api.Window{Start: 100, End: 200}
	require.NoError(t, table.Claim("busy", api.Claim{Resources: api.Resources{api.MemoryMB: 8}, Class: api.Firm, Window: later}))
	require.NoError(t, table.Claim("small", api.Claim{Resources: api.Resources{api.MemoryMB: 4}, Class: api.Firm, Window: later}))
	for query, differs := range map[string][]string{
		"": {"capacity"}, `["=","$attributes.rack","busy"]`: {"capacity"},
		`[">=","$ram_mb_free",6]`: {"capacity", "query"}, `["or",["=","$attributes.rack","idle"],["<","$ram_mb_free",6]]`: {"capacity", "query"},
	} {
		keeps := func(f filters.Filter, w api.Window) []string {
			req := request(api.Firm, api.Forever, api.Resources{api.MemoryMB: 6})
			req.Reserves, req.Window, req.Groups[0].Hints.Query = true, w, query
			return kept(filters.NewLook(table.View(), nil, req, 0), f)
		}
		group := api.Group{Hints: api.Hints{Query: query}}
		var left []string
		for _, f := range filters.OfAnyTime(filters.Default(), &group) {
			assert.Equal(t, keeps(f, sooner), keeps(f, later), "%s of %s", f.Name, query)
			left = append(left, f.Name)
		}
		for _, f := range filters.Default() {
			assert.Equal(t, !slices.Contains(differs, f.Name), slices.Contains(left, f.Name), "%s of %s", f.Name, query)
			if f.Name == "capacity" {
				assert.NotEqual(t, keeps(f, sooner), keeps(f, later), "there is something to see")
			}
		}
	}
}
