package filters_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/filters"
)

func TestAvailabilityZone(t *testing.T) {
	a, b := with("a"), with("b")
	a.AZ, b.AZ = "east", "west"
	v := view(a, b, with("c"))
	for az, pass := range map[string][]string{"": {"a", "b", "c"}, "east": {"a"}, "north": nil} {
		assert.Equal(t, pass, kept(want(v, nil, func(g *api.Group) { g.AZ = az }), filter(filters.NameAvailabilityZone)), "zone %q", az)
	}
}

func TestTraits(t *testing.T) {
	a, b, c := with("a"), with("b"), with("c")
	a.Traits, b.Traits = []string{"SSD", "GPU"}, []string{"SSD"}
	v := view(a, b, c)
	for _, x := range []struct {
		traits api.Traits
		want   []string
	}{
		{api.Traits{}, []string{"a", "b", "c"}},
		{api.Traits{Required: []string{"SSD"}}, []string{"a", "b"}},
		{api.Traits{Required: []string{"GPU", "SSD"}}, []string{"a"}},
		{api.Traits{Required: []string{"NONE"}}, nil},
		{api.Traits{Forbidden: []string{"GPU", "NONE"}}, []string{"b", "c"}},
		{api.Traits{Required: []string{"SSD"}, Forbidden: []string{"GPU"}}, []string{"b"}},
		{api.Traits{AnyOf: [][]string{{"GPU", "NONE"}}}, []string{"a"}},
		{api.Traits{AnyOf: [][]string{{"GPU", "SSD"}, {"NONE", "SSD"}}}, []string{"a", "b"}},
		{api.Traits{AnyOf: [][]string{{"NONE"}, {"SSD"}}}, nil},
	} {
		assert.Equal(t, x.want, kept(want(v, nil, func(g *api.Group) { g.Traits = x.traits }), filter(filters.NameTraits)), "%v", x.traits)
	}
}

// What is below a host counts as the host's; what shares with it does not.
func TestTraitsOfParts(t *testing.T) {
	a, b, part, pool := with("a"), with("b"), with("part"), with("pool")
	a.Aggregates, b.Aggregates, pool.Aggregates = []string{"g"}, []string{"g"}, []string{"g"}
	part.Parent, part.Passive, part.Traits = "a", true, []string{"GPU"}
	pool.Passive, pool.Traits = true, []string{"SSD", api.TraitShares}
	v := view(pool, part, b, a)
	for _, x := range []struct {
		traits api.Traits
		want   []string
	}{
		{api.Traits{Required: []string{"GPU"}}, []string{"a"}},
		{api.Traits{Forbidden: []string{"GPU"}}, []string{"b"}},
		{api.Traits{AnyOf: [][]string{{"SSD", "GPU"}}}, []string{"a"}},
		{api.Traits{Required: []string{"SSD"}}, nil},
		{api.Traits{Forbidden: []string{"SSD"}}, []string{"a", "b"}},
	} {
		assert.Equal(t, x.want, kept(want(v, nil, func(g *api.Group) { g.Traits = x.traits }), filter(filters.NameTraits)), "%v", x.traits)
	}
}

func TestImageProperties(t *testing.T) {
	v := view(with("a", "arch", "x86_64", "hypervisor_type", "QEMU", "os", "linux"), with("b", "arch", "arm64"), with("c"))
	for _, x := range []struct {
		properties map[string]string
		want       []string
	}{
		{nil, []string{"a", "b", "c"}},
		{map[string]string{"color": "red", "architecture": ""}, []string{"a", "b", "c"}},
		{map[string]string{"architecture": "x86_64"}, []string{"a"}},
		{map[string]string{"architecture": "ARM64"}, []string{"b"}},
		{map[string]string{"hypervisor_type": "qemu", "os_type": "Linux"}, []string{"a"}},
		{map[string]string{"architecture": "arm64", "os_type": "linux"}, nil},
	} {
		l := want(v, nil, func(g *api.Group) { g.Image.Properties = x.properties })
		assert.Equal(t, x.want, kept(l, filter(filters.NameImageProperties)), "%v", x.properties)
	}
}

// Acceptance case 22: extra specs opt1=1, opt2=2 pass a host that says 1 and 2,
// and no host that says 1 and 3; a host that is down or disabled fails, and a
// group without extra specs passes.
func TestCase22ExtraSpecsAndState(t *testing.T) {
	good, bad, down, disabled := with("good", "opt1", "1", "opt2", "2"), with("bad", "opt1", "1", "opt2", "3"),
		with("down", "opt1", "1", "opt2", "2"), with("disabled", "opt1", "1", "opt2", "2")
	down.Up, disabled.Enabled = false, false
	v := view(good, bad, down, disabled)
	l := want(v, nil, func(g *api.Group) { g.ExtraSpecs = map[string]string{"opt1": "1", "opt2": "2"} })
	got, why := look(l, filters.Default()...)
	assert.Equal(t, []string{"good"}, got)
	assert.Equal(t, []api.FilterCount{
		{Filter: "extra_specs", Hosts: 1, Tier: api.TierNeverFits}, {Filter: "host_state", Hosts: 2, Tier: api.TierNotNow},
	}, why.Filters)
	assert.Equal(t, []string{"bad", "good"}, kept(want(v, nil, func(*api.Group) {}), filters.Default()...))
}

// TestMetExtraSpecs: hosts are not asked for what their zone meets as a whole.
func TestMetExtraSpecs(t *testing.T) {
	v := view(with("both", "gpu", "cad", "disk", "fast"), with("fast", "disk", "fast"), with("slow", "disk", "slow"))
	l := want(v, nil, func(g *api.Group) {
		g.ExtraSpecs, g.Met = map[string]string{"gpu": "cad", "disk": "fast"}, []string{"gpu"}
	})
	assert.Equal(t, []string{"both", "fast"}, kept(l, filters.Default()...))
}

func TestExtraSpecs(t *testing.T) {
	v := view(with("h", "n", "1.5", "big", "64", "text", "sse4 avx2", "flag", "true", "a:b", "x", "=", "odd", "padded", "1.50"))
	for _, x := range []struct {
		key, value string
		pass       bool
	}{
		{"n", "1.5", true},
		{"capabilities:n", "1.5", true},
		{"n", "1.50", false},
		{"n", "2", false},
		{"none", "1", false},
		{"none", "", false},
		{"none", "!= 1", false},
		{"none", "s!= 1", false},
		{"capabilities:a:b", "x", true},
		{"a:b", "no", true},
		{"hw:cpu", "no", true},
		{"trait:SSD", "required", true},
		{"resources:VCPU", "4", true},
		{"berth:movable", "x", true},
		{"aggregate_instance_extra_specs:n", "0", true},
		{"n", "= 1", true},
		{"n", "= 2", false},
		{"n", ">= 1.5", true},
		{"n", ">= 1.500001", false},
		{"padded", "== 1.5", true},
		{"n", "== 1.50", true},
		{"n", "== 1.6", false},
		{"n", "!= 1.6", true},
		{"n", "!= 1.5", false},
		{"n", "<= 1.5", true},
		{"n", "<= 1.4", false},
		{"n", "> 1.4", true},
		{"n", "> 1.5", false},
		{"n", "< 1.6", true},
		{"n", "< 1.5", false},
		{"big", "> 7", true},
		{"big", "s> 7", false}, // numbers are no texts
		{"text", ">= 0", false},
		{"n", ">= x", false},
		{"n", "== 1e0", false},
		{"flag", "== 1", false},
		{"flag", "true", true},
		{"text", "s== sse4", false},
		{"big", "s== 64", true},
		{"big", "s!= 64", false},
		{"big", "s!= 65", true},
		{"big", "s>= 64", true},
		{"big", "s<= 64", true},
		{"big", "s> 63", true},
		{"big", "s< 65", true},
		{"big", "s< 64", false},
		{"text", "<in> avx", true},
		{"text", "<in> mmx", false},
		{"text", "<all-in> avx2 sse", true},
		{"text", "<all-in> avx2 mmx", false},
		{"big", "<or> 32 <or> 64", true},
		{"big", "<or> 64", true},
		{"big", "<or> 32 <or> 16", false},
		{"big", "<or> 32 <or>", false},
		{"n", "=", false},
		{"n", "<or>", false},
		{"n", "<in>", false},
		{"n", "s==", false},
		{"n", "  == 1.5  ", true},
		{"text", "sse4 avx2", true},
		{"text", "sse4", false},
		{"n", "~ 1.5", false},
		{"=", "odd", true},
	} {
		l := want(v, nil, func(g *api.Group) { g.ExtraSpecs = map[string]string{x.key: x.value} })
		assert.Equal(t, x.pass, len(kept(l, filter(filters.NameExtraSpecs))) == 1, "%s=%q", x.key, x.value)
	}
}

func TestAggregateExtraSpecs(t *testing.T) {
	a, b := with("a"), with("b")
	a.Aggregates, b.Aggregates = []string{"ssd"}, []string{"hdd", "near"}
	v := view(a, b, with("c"))
	w := &filters.World{Aggregates: []*api.Aggregate{
		{ID: "ssd", Metadata: map[string]string{"disk": "ssd, nvme", "rank": "3"}},
		{ID: "hdd", Metadata: map[string]string{"disk": "hdd"}},
		{ID: "near", Metadata: map[string]string{"rank": "7"}},
		{ID: "empty", Metadata: map[string]string{"disk": "ssd"}},
	}}
	for _, x := range []struct {
		specs map[string]string
		want  []string
	}{
		{nil, []string{"a", "b", "c"}},
		{map[string]string{"disk": "ssd", "capabilities:disk": "ssd"}, []string{"a", "b", "c"}},
		{map[string]string{filters.ScopeAggregate + "disk": "ssd"}, []string{"a"}},
		{map[string]string{filters.ScopeAggregate + "disk": "nvme"}, []string{"a"}},
		{map[string]string{filters.ScopeAggregate + "disk": "<or> hdd <or> ssd"}, []string{"a", "b"}},
		{map[string]string{filters.ScopeAggregate + "disk": "hdd", filters.ScopeAggregate + "rank": ">= 5"}, []string{"b"}},
		{map[string]string{filters.ScopeAggregate + "disk": "ssd", filters.ScopeAggregate + "rank": ">= 5"}, nil},
		{map[string]string{filters.ScopeAggregate + "none": "x"}, nil},
	} {
		l := want(v, w, func(g *api.Group) { g.ExtraSpecs = x.specs })
		assert.Equal(t, x.want, kept(l, filter(filters.NameAggregateExtraSpecs)), "%v", x.specs)
	}
}
