package filters_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/filters"
)

func namesOf(fs []filters.Filter) []string {
	var out []string
	for _, f := range fs {
		out = append(out, f.Name)
	}
	return out
}

func TestDefaultOrder(t *testing.T) {
	var want []string // the names themselves are in a golden file of the native API
	for _, k := range filters.Known() {
		if k.Default {
			want = append(want, k.Name)
		}
	}
	assert.Equal(t, []string{"forced_hosts", "capacity"}, []string{want[0], want[len(want)-1]})
	assert.Equal(t, want, namesOf(filters.Default()))
	built, err := filters.New(filters.DefaultSpecs())
	require.NoError(t, err)
	assert.Equal(t, want, namesOf(built))
	none, err := filters.New(nil)
	require.NoError(t, err)
	assert.Equal(t, want, namesOf(none), "none is the default")
}

// Everything that is known has a help of one line, a tier and an example that works.
func TestKnown(t *testing.T) {
	known := filters.Known()
	var all []api.FilterSpec
	defaults := 0
	for _, k := range known {
		assert.NotEmpty(t, k.Help, k.Name)
		assert.NotContains(t, k.Help, "\n", k.Name)
		assert.NotEmpty(t, k.Tier, k.Name)
		fs, err := filters.New([]api.FilterSpec{k.Example})
		require.NoError(t, err, k.Name)
		assert.Equal(t, []string{k.Name}, namesOf(fs))
		assert.Equal(t, k.Tier, fs[0].Tier)
		all = append(all, k.Example)
		if k.Default {
			defaults++
		}
	}
	assert.Equal(t, len(filters.DefaultSpecs()), defaults)
	fs, err := filters.New(all)
	require.NoError(t, err)
	assert.Len(t, fs, len(known))
	known[7].Example.Name, known[8].Options[0].Name = "changed", "changed"
	assert.NotEqual(t, known, filters.Known(), "what is returned is the caller's own")
}

func TestNewRefusesAllAtOnce(t *testing.T) {
	_, err := filters.New([]api.FilterSpec{
		{Name: "ram"},
		{Name: "pool", Options: map[string]string{"size": "1", "color": "red"}},
		{Name: "core"},
		{Name: "instances", Options: map[string]string{"max": "0"}},
		{Name: "isolated", Options: map[string]string{"images": "win", "restrict": "no"}},
		{Name: "project_isolation", Options: map[string]string{"strict": "yes"}},
		{Name: "traits"},
		{Name: "traits"},
		{Name: "traits"},
	})
	require.Equal(t, api.CodeInvalid, api.CodeOf(err))
	for _, says := range []string{
		`pool has no option "color"; pool has no option "size"`, `instances option max must be 1 to 1000000, got "0"`,
		"isolated needs the option hosts", `project_isolation option strict must be true or false, got "yes"`, `"traits" is there twice;`,
		`there is no filter "ram", "core"; there are all_hosts, forced_hosts, `, "instances, capacity",
	} {
		require.ErrorContains(t, err, says)
	}
	assert.Equal(t, 1, strings.Count(err.Error(), "twice"))
}

func TestOptions(t *testing.T) {
	for options, good := range map[string]bool{"1": true, "1000000": true, "1000001": false, "-1": false, "x": false, "": false} {
		_, err := filters.New([]api.FilterSpec{{Name: "instances", Options: map[string]string{"max": options}}})
		assert.Equal(t, good, err == nil, "max %q", options)
	}
	for restrict, pass := range map[string][]string{"": {"b"}, "true": {"b"}, "false": {"a", "b"}} {
		options := map[string]string{"images": "win", "hosts": " name-a ,"}
		if restrict != "" {
			options["restrict"] = restrict
		}
		fs, err := filters.New([]api.FilterSpec{{Name: "isolated", Options: options}})
		require.NoError(t, err)
		assert.Equal(t, pass, kept(want(view(with("a"), with("b")), nil, func(*api.Group) {}), fs...), "restrict %q", restrict)
	}
	var specs []api.FilterSpec
	for i := range api.FiltersMax + 1 {
		specs = append(specs, api.FilterSpec{Name: fmt.Sprint("x", i)})
	}
	_, err := filters.New(specs)
	require.ErrorContains(t, err, "at most 64 filters, got 65")
	_, err = filters.New(specs[:api.FiltersMax])
	require.ErrorContains(t, err, `there is no filter "x0"`)
}

// Names are the lowest, whatever the order of the rows, and as many as are asked for.
func TestExplainNames(t *testing.T) {
	nameless := spec("00", 1, 1)
	v := view(with("c"), with("a"), nameless, with("b"))
	l := want(v, nil, func(g *api.Group) { g.AZ = "none" })
	for most, names := range map[int][]string{
		-1: nil, 0: nil, 1: {"00"}, 3: {"00", "name-a", "name-b"}, 4: {"00", "name-a", "name-b", "name-c"}, 5: {"00", "name-a", "name-b", "name-c"},
	} {
		pass, why := filters.Explain(filters.Default(), l, most)
		assert.True(t, pass.Empty())
		assert.Equal(t, []api.FilterCount{{Filter: "availability_zone", Hosts: 4, Tier: api.TierNeverFits, Names: names}}, why.Filters, "%d names", most)
	}
	table := host10()
	_, why := filters.Explain(filters.Default(), want(table, nil, func(g *api.Group) { g.AZ = "none" }), 1000)
	assert.Len(t, why.Filters[0].Names, 10)
	assert.Equal(t, "host01", why.Filters[0].Names[0])
}

// TestAWishIsNeverPassedOver switches each filter off that serves a wish: who
// states the wish gets no host, and everybody else what the others pass.
func TestAWishIsNeverPassedOver(t *testing.T) {
	fleet, fs := view(with("a")), filters.Guard([]filters.Filter{filter(filters.NameAllHosts)})
	for name, wish := range map[string]func(*api.Group){
		"forced_hosts":      func(g *api.Group) { g.Hints.ForceHosts = []string{"name-a"} },
		"ignored_hosts":     func(g *api.Group) { g.Hints.IgnoreHosts = []string{"x"} },
		"same_host":         func(g *api.Group) { g.Hints.SameHost = []api.InstanceID{"i"} },
		"different_host":    func(g *api.Group) { g.Hints.DifferentHost = []api.InstanceID{"i"} },
		"near":              func(g *api.Group) { g.Hints.Near = "192.0.2.0/24" },
		"query":             func(g *api.Group) { g.Hints.Query = `["and"]` },
		"availability_zone": func(g *api.Group) { g.AZ = "az" },
		"traits":            func(g *api.Group) { g.Traits.Forbidden = []string{"X"} },
	} {
		l := want(fleet, nil, wish)
		_, why := filters.Run(fs, l)
		assert.Equal(t, []api.FilterCount{{Filter: name, Hosts: 1, Tier: api.TierNotAllowed}}, why.Filters, name)
		assert.Equal(t, []string{"a"}, kept(want(fleet, nil, func(*api.Group) {}), fs...), name)
	}
	l := want(fleet, nil, func(*api.Group) {})
	l.Req.Rules = []api.Rule{{Policy: api.SoftAffinity, Groups: []int{0}}}
	assert.Equal(t, []string{"a"}, kept(l, fs...), "soft rules are for costs")
	l.Req.Rules[0].Policy = api.Affinity
	assert.Empty(t, kept(l, fs...))
	assert.Len(t, filters.Guard(filters.Default()), len(filters.Default()), "the default serves every wish")
}

// TestAdviceIsOfDemands: whoever's demand a filter serves can be told to leave it out.
func TestAdviceIsOfDemands(t *testing.T) {
	for _, f := range filters.Default() {
		assert.Equal(t, f.Demand, filters.AdviceWithout(f.Name) != "", f.Name)
	}
	assert.Empty(t, filters.AdviceWithout("none"))
}
