package filters_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

func TestForcedAndIgnoredHosts(t *testing.T) {
	a, b, c := with("a"), with("b"), with("c")
	b.Enabled = false
	v := view(a, b, c)
	for _, x := range []struct {
		hints api.Hints
		want  []string
	}{
		{api.Hints{}, []string{"a", "b", "c"}},
		{api.Hints{ForceHosts: []string{"name-a", "name-c", "name-none"}}, []string{"a", "c"}},
		{api.Hints{ForceHosts: []string{"a"}}, nil}, // an id is no name
		{api.Hints{IgnoreHosts: []string{"name-a", "name-none"}}, []string{"b", "c"}},
		{api.Hints{ForceHosts: []string{"name-a", "name-b"}, IgnoreHosts: []string{"name-a"}}, []string{"b"}},
	} {
		l := want(v, nil, func(g *api.Group) { g.Hints = x.hints })
		assert.Equal(t, x.want, kept(l, filter(filters.NameForcedHosts), filter(filters.NameIgnoredHosts)), "%v", x.hints)
	}
	l := want(v, nil, func(g *api.Group) { g.Hints.ForceHosts = []string{"name-b"} })
	assert.Empty(t, kept(l, filters.Default()...), "to force a host is not to break a promise")
}

// Acceptance case 26: a hint that names an instance on host1 excludes, or admits,
// host1 alone; without a hint all pass.
func TestCase26SameAndDifferentHost(t *testing.T) {
	v := view(with("host1"), with("host2"), with("host3"))
	w := &filters.World{Census: &census{hosts: map[api.InstanceID]api.HostID{"i1": "host1", "i2": "host2", "gone": "host9"}}}
	all := []string{"host1", "host2", "host3"}
	for _, x := range []struct {
		hints api.Hints
		want  []string
	}{
		{api.Hints{}, all},
		{api.Hints{DifferentHost: []api.InstanceID{"i1"}}, []string{"host2", "host3"}},
		{api.Hints{SameHost: []api.InstanceID{"i1"}}, []string{"host1"}},
		{api.Hints{SameHost: []api.InstanceID{"i1", "i2", "nobody"}}, []string{"host1", "host2"}},
		{api.Hints{SameHost: []api.InstanceID{"nobody"}}, nil},
		{api.Hints{SameHost: []api.InstanceID{"gone"}}, nil},
		{api.Hints{DifferentHost: []api.InstanceID{"nobody", "gone"}}, all},
		{api.Hints{SameHost: []api.InstanceID{"i1", "i2"}, DifferentHost: []api.InstanceID{"i1"}}, []string{"host2"}},
	} {
		l := want(v, w, func(g *api.Group) { g.Hints = x.hints })
		assert.Equal(t, x.want, kept(l, filter(filters.NameSameHost), filter(filters.NameDifferentHost)), "%v", x.hints)
	}
	l := want(v, nil, func(g *api.Group) { g.Hints.SameHost = []api.InstanceID{"i1"} })
	assert.Empty(t, kept(l, filter(filters.NameSameHost)), "nobody is anywhere")
}

// The address that counts is the candidate's own, and no other.
func TestNear(t *testing.T) {
	v := view(with("in", "ip", "192.0.2.7"), with("out", "ip", "198.51.100.7"), with("mapped", "ip", "::ffff:192.0.2.9"),
		with("six", "ip", "2001:db8::7"), with("bad", "ip", "192.0.2.300"), with("none"))
	for near, pass := range map[string][]string{
		"":                {"bad", "in", "mapped", "none", "out", "six"},
		"192.0.2.0/24":    {"in", "mapped"},
		"192.0.2.7/24":    {"in", "mapped"}, // host bits do not matter
		"192.0.2.7/32":    {"in"},
		"0.0.0.0/0":       {"in", "mapped", "out"},
		"2001:db8::/32":   {"six"},
		"203.0.113.0/24":  nil,
		"not-a-network/8": nil,
	} {
		l := want(v, nil, func(g *api.Group) { g.Hints.Near = near })
		assert.Equal(t, pass, kept(l, filter(filters.NameNear)), "near %q", near)
	}
}

func TestQuery(t *testing.T) {
	table := capacity.NewTable()
	table.Put(with("a", "arch", "x86_64", "price", "1.5", "gpu", "true"))
	table.Put(with("b", "arch", "arm64", "price", "10"))
	c := with("c")
	c.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 4096, Reserved: 96}, "CUSTOM_GPU": {Total: 2}}
	table.Put(c)
	later := api.Claim{Resources: api.Resources{api.MemoryMB: 1000}, Class: api.Firm, Window: api.Window{Start: 100, End: 200}}
	require.NoError(t, table.Claim("a", later))
	v := table.View()
	for text, pass := range map[string][]string{
		"":                                   {"a", "b", "c"},
		`[]`:                                 {"a", "b", "c"},
		`[">=","$free_ram_mb",1000]`:         {"b", "c"},
		`["=","$free_ram_mb",24]`:            {"a"}, // over the window of the request
		`["=","$ram_mb_total",4000]`:         {"c"},
		`["=","$free_disk_gb",10]`:           {"a", "b"}, // a host without the class has no value
		`["<","$free_disk_gb",10]`:           nil,
		`["=","$free.CUSTOM_GPU",2]`:         {"c"},
		`["=","$total.CUSTOM_GPU",2]`:        {"c"},
		`["=","$instances",1]`:               {"a"},
		`["=","$arch","x86_64"]`:             {"a"},
		`["<","$price",2]`:                   {"a"},
		`["=","$gpu",true]`:                  {"a"},
		`["=","$attributes.price",10]`:       {"b"},
		`["not",["=","$arch","x86_64"]]`:     {"b"},
		`["!=","$arch","x86_64"]`:            nil, // is refused at the door; here it passes none
		`["=","$name","name-a"]`:             nil,
		`["=","$capabilities.arch","arm64"]`: {"b"},
	} {
		l := want(v, nil, func(g *api.Group) { g.Hints.Query = text })
		assert.Equal(t, pass, kept(l, filter(filters.NameQuery)), "query %s", text)
	}
}

// A lease of this zone may name hosts; a boot and another zone must not find names by
// trying.
func TestQueryNamesHostsInLeasesAlone(t *testing.T) {
	a, b := with("a"), with("b")
	a.AZ, b.AZ = "east", "7"
	v := view(a, b)
	for text, pass := range map[string][]string{
		`["=","$host.name","name-a"]`:                     {"a"},
		`["not",["=","$host.name","name-a"]]`:             {"b"},
		`["=","$name","name-a"]`:                          nil,
		`["=","$host.availability_zone","east"]`:          {"a"},
		`["=","$host.availability_zone","7"]`:             {"b"}, // always a text
		`["in","$host.availability_zone","west","north"]`: nil,
	} {
		l := want(v, nil, func(g *api.Group) { g.Hints.Query = text })
		l.Req.Reserves = true
		assert.Equal(t, pass, kept(l, filter(filters.NameQuery)), text)
		named := strings.Contains(text, "name")
		l.Req.Reserves = false
		if named {
			pass = nil
		}
		assert.Equal(t, pass, kept(l, filter(filters.NameQuery)), "a boot: %s", text)
		l.Req.Reserves, l.Req.Origin = true, "parent"
		assert.Equal(t, pass, kept(l, filter(filters.NameQuery)), "another zone: %s", text)
	}
}

// TestQueryFindsNoAddress asks for the address of a host, as a parent's user may.
func TestQueryFindsNoAddress(t *testing.T) {
	v := view(with("a", "ip", "192.0.2.7", "rack", "r1"))
	for text, pass := range map[string][]string{
		`["=","$rack","r1"]`: {"a"}, `["=","$ip","192.0.2.7"]`: nil, `["not",["=","$attributes.ip","x"]]`: nil, `["<","$capabilities.ip","9"]`: nil,
	} {
		l := want(v, nil, func(g *api.Group) { g.Hints.Query = text })
		assert.Equal(t, pass, kept(l, filter(filters.NameQuery)), text)
	}
	l := want(v, nil, func(g *api.Group) { g.ExtraSpecs = map[string]string{"capabilities:ip": "<in> 192"} })
	assert.Empty(t, kept(l, filter(filters.NameExtraSpecs)), "nor does a flavor")
}

// TestOtherZonesAskForPublicAttributes asks as a user of a parent does, who would find by trying what each host has.
func TestOtherZonesAskForPublicAttributes(t *testing.T) {
	v := view(with("a", "ip", "192.0.2.7", "rack", "r1", "gpu", "h100", "arch", "arm64"))
	for _, c := range []struct {
		what   string
		change func(*api.Group)
		by     string
		public []string // with which it passes; nil for none that matters
		always bool
	}{
		{"a query", func(g *api.Group) { g.Hints.Query = `["=","$rack","r1"]` }, filters.NameQuery, []string{"rack"}, false},
		{"a query by its scope", func(g *api.Group) { g.Hints.Query = `["=","$attributes.gpu","h100"]` }, filters.NameQuery, []string{"gpu"}, false},
		{"a flavor", func(g *api.Group) { g.ExtraSpecs = map[string]string{"gpu": "h100"} }, filters.NameExtraSpecs, []string{"gpu"}, false},
		{"an image", func(g *api.Group) { g.Image.Properties = map[string]string{"architecture": "arm64"} }, filters.NameImageProperties, nil, true},
		{"a query about the same", func(g *api.Group) { g.Hints.Query = `["=","$arch","arm64"]` }, filters.NameQuery, nil, true},
		{"an address", func(g *api.Group) { g.Hints.Near = "192.0.2.0/24" }, filters.NameNear, []string{"ip"}, false},
		{"an address in a query", func(g *api.Group) { g.Hints.Query = `["=","$ip","192.0.2.7"]` }, filters.NameQuery, nil, false},
	} {
		passes := func(origin api.LinkID, public ...string) bool {
			l := want(v, nil, c.change)
			l.Req.Origin = origin
			l.World = &filters.World{Public: public}
			return len(kept(l, filter(c.by))) == 1
		}
		assert.Equal(t, c.always, passes("up"), c.what)
		assert.Equal(t, c.always, passes("up", "color"), c.what)
		if c.public != nil {
			assert.True(t, passes("up", c.public...), "%s, made public", c.what)
			assert.True(t, passes(""), "%s of this zone", c.what)
		} else {
			assert.Equal(t, c.always, passes("up", "ip"), "%s: an address is in no query", c.what)
		}
	}
}

// TestOtherZonesSeeRoundedNumbers: a query of another zone sees amounts as they are in digests.
func TestOtherZonesSeeRoundedNumbers(t *testing.T) {
	s := with("a")
	s.Inventory = map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 1001}, api.VCPU: {Total: 7}}
	v := view(s)
	for text, own := range map[string]bool{
		`["=","$ram_mb_total",1001]`:    true,
		`["=","$ram_mb_total",1024]`:    false,
		`["=","$free_ram_mb",1001]`:     true,
		`["=","$free.MEMORY_MB",1024]`:  false,
		`["=","$total.MEMORY_MB",1024]`: false,
	} {
		l := want(v, nil, func(g *api.Group) { g.Hints.Query = text })
		assert.Equal(t, own, len(kept(l, filter(filters.NameQuery))) == 1, text)
		l.Req.Origin = "up"
		assert.Equal(t, !own, len(kept(l, filter(filters.NameQuery))) == 1, "another zone: %s", text)
	}
	l := want(v, nil, func(g *api.Group) { g.Hints.Query = `["=","$vcpus_total",7]` })
	l.Req.Origin = "up"
	assert.Len(t, kept(l, filter(filters.NameQuery)), 1, "up to 7 they are as they are")
}
