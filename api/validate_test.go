package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// invalid fails the test unless err is an invalid-input error with a sentence
// that has says in it.
func invalid(t *testing.T, err error, says string) {
	t.Helper()
	require.Error(t, err)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	assert.Contains(t, api.MessageOf(err), says)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "Z": true, "0": true, "a.b_c-D9": true, "web-1": true, strings.Repeat("x", api.NameMaxBytes): true,
		"": false, strings.Repeat("x", api.NameMaxBytes+1): false, ".a": false, "-a": false, "_a": false, "a b": false,
		"a/b": false, "ä": false, "a\x00b": false, "a\n": false, "a:b": false, "a%b": false,
	} {
		assert.Equal(t, want, api.ValidName(name), "%q", name)
		if err := api.CheckName("zone name", name); want {
			assert.NoError(t, err)
		} else {
			invalid(t, err, "zone name must be 1 to 64 characters")
		}
	}
}

func TestNewIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id, r := api.NewUUID(), string(api.NewReservationID())
		assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		assert.Regexp(t, `^r-[0-9a-f]{12}$`, r)
		assert.True(t, api.ValidName(id) && api.ValidName(r))
		assert.False(t, seen[id] || seen[r])
		seen[id], seen[r] = true, true
	}
}

// classes returns one of each of n resource classes.
func classes(n int) api.Resources {
	r := api.Resources{}
	for i := range n {
		r[api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))] = 1
	}
	return r
}

func pairs(n, size int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("%0*d", size, i)] = strings.Repeat("v", size)
	}
	return m
}

func TestFlavorValidate(t *testing.T) {
	good := func() api.Flavor {
		return api.Flavor{Name: "f", Resources: api.Resources{api.VCPU: 1}}
	}
	word := func(n int) string { return strings.Repeat("w", n) }
	for _, c := range []struct {
		name string
		edit func(*api.Flavor)
		says string // "" if it is valid
	}{
		{"smallest", func(*api.Flavor) {}, ""},
		{"no name", func(f *api.Flavor) { f.Name = "" }, "flavor name must be"},
		{"no resources", func(f *api.Flavor) { f.Resources = nil }, "at least one resource"},
		{"amount 0", func(f *api.Flavor) { f.Resources[api.VCPU] = 0 }, "amount of VCPU must be 1 to"},
		{"most of a class", func(f *api.Flavor) { f.Resources[api.VCPU] = api.AmountMax }, ""},
		{"more", func(f *api.Flavor) { f.Resources[api.VCPU] = api.AmountMax + 1 }, "amount of VCPU must be 1 to"},
		{"most classes", func(f *api.Flavor) { f.Resources = classes(api.ClassesMax) }, ""},
		{"more classes", func(f *api.Flavor) { f.Resources = classes(api.ClassesMax + 1) }, "at most 32 resource classes"},
		{"most specs", func(f *api.Flavor) { f.ExtraSpecs = pairs(api.ExtraSpecsMax, api.ExtraSpecMaxBytes) }, ""},
		{"more specs", func(f *api.Flavor) { f.ExtraSpecs = pairs(api.ExtraSpecsMax+1, 2) }, "extra_specs may have at most 64 entries, got 65"},
		{"longer specs", func(f *api.Flavor) { f.ExtraSpecs = pairs(1, api.ExtraSpecMaxBytes+1) }, "extra_specs: keys"},
		{"a spec without a name", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{"": "v"} }, "extra_specs: keys"},
		{"a spec without a value", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{"k": ""} }, ""},
		{"evacuate", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{api.SpecEvacuate: "true"} }, ""},
		{"evacuate, perhaps", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{api.SpecEvacuate: "True"} }, `must be true or false, got "True"`},
		{"a spec of ours that is not there", func(f *api.Flavor) { f.ExtraSpecs = map[string]string{"berth:evacuat": "true"} }, `no extra spec "berth:evacuat"`},
		{"most words", func(f *api.Flavor) { f.Command = slices.Repeat([]string{"x"}, api.CommandArgsMax) }, ""},
		{"more words", func(f *api.Flavor) { f.Command = slices.Repeat([]string{"x"}, api.CommandArgsMax+1) }, "at most 64 words, got 65"},
		{"no program", func(f *api.Flavor) { f.Command = []string{"", "x"} }, "path of a program"},
		{"longest command", func(f *api.Flavor) { f.Command = []string{word(1), word(api.CommandMaxBytes - 1)} }, ""},
		{"longer command", func(f *api.Flavor) { f.Command = []string{word(1), word(api.CommandMaxBytes)} }, "at most 4096 bytes, got 4097"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := good()
			c.edit(&f)
			if err := f.Validate(); c.says != "" {
				invalid(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestRequestValidate(t *testing.T) {
	group := func(n int) api.Group {
		return api.Group{Count: n, Resources: api.Resources{api.VCPU: 1}}
	}
	groups := func(n int) []api.Group {
		var out []api.Group
		for range n {
			out = append(out, group(1))
		}
		return out
	}
	for _, c := range []struct {
		name string
		edit func(*api.Request)
		says string // "" if it is valid
	}{
		{"smallest", func(*api.Request) {}, ""},
		{"no group", func(r *api.Request) { r.Groups = nil }, "1 to 16 groups, got 0"},
		{"most groups", func(r *api.Request) { r.Groups = groups(api.GroupsMax) }, ""},
		{"more groups", func(r *api.Request) { r.Groups = groups(api.GroupsMax + 1) }, "1 to 16 groups, got 17"},
		{"count 0", func(r *api.Request) { r.Groups[0].Count = 0 }, "must ask for 1 to 10000 instances in all, got 0"},
		{"negative count", func(r *api.Request) { r.Groups[0].Count = -1 }, "count must be"},
		{"highest count", func(r *api.Request) { r.Groups[0].Count = api.CountMax }, ""},
		{"higher count", func(r *api.Request) { r.Groups[0].Count = api.CountMax + 1 }, "count must be"},
		{"highest count in all", func(r *api.Request) { r.Groups = []api.Group{group(api.CountMax - 1), group(1)} }, ""},
		{"higher count in all", func(r *api.Request) { r.Groups = []api.Group{group(api.CountMax), group(1)} }, "in all, got 10001"},
		{"no resources", func(r *api.Request) { r.Groups[0].Resources = nil }, "at least one resource"},
		{"bad class", func(r *api.Request) { r.Groups[0].Resources = api.Resources{"vcpu": 1} }, "upper case"},
		{"more specs", func(r *api.Request) { r.Groups[0].ExtraSpecs = pairs(api.ExtraSpecsMax+1, 2) }, "extra_specs may have"},
		{"empty window", func(r *api.Request) { r.Window = api.Window{Start: 5, End: 5} }, "window must end after it starts"},
		{"no class", func(r *api.Request) { r.Class = "" }, `class must be "firm" or "preemptible"`},
		{"preemptible", func(r *api.Request) { r.Class = api.Preemptible }, ""},
		{"preemptible, and back", func(r *api.Request) {
			r.Class, r.OnPreempt, r.Way = api.Preemptible, api.PreemptRequeue, api.PreemptByHint
		}, ""},
		{"other action", func(r *api.Request) { r.Class, r.OnPreempt = api.Preemptible, "wait" }, "on_preempt must be stop, notify or requeue"},
		{"other way", func(r *api.Request) { r.Class, r.Way = api.Preemptible, "wish" }, `"wish" is no way`},
		{"firm with an action", func(r *api.Request) { r.OnPreempt = api.PreemptStop }, "on_preempt is for preemptible instances alone"},
		{"firm with a way", func(r *api.Request) { r.Way = api.PreemptByHint }, "on_preempt is for preemptible instances alone"},
		{"preemptible within", func(r *api.Request) { r.Class, r.Within = api.Preemptible, "r" }, "cannot be booted within a reservation"},
		{"preemptible for a lease", func(r *api.Request) { reserve(r); r.Class = api.Preemptible }, `what is reserved is of class "firm"`},
		{"preempts", func(r *api.Request) { r.Preempt = true }, ""},
		{"preemptible preempts", func(r *api.Request) { r.Class, r.Preempt = api.Preemptible, true }, "preempt is for firm instances"},
		{"preempts for a lease", func(r *api.Request) { reserve(r); r.Preempt = true }, "preempt is for boots outside of reservations"},
		{"preempts within", func(r *api.Request) { r.Within, r.Preempt = "r", true }, "preempt is for boots outside of reservations"},
		{"longest grace", func(r *api.Request) { reserve(r); r.Grace = api.PreemptGraceMax }, ""},
		{"longer grace", func(r *api.Request) { reserve(r); r.Grace = api.PreemptGraceMax + time.Millisecond }, "grace must be 1ms to 1h0m0s"},
		{"shorter grace", func(r *api.Request) { reserve(r); r.Grace = 1 }, "grace must be"},
		{"negative grace", func(r *api.Request) { reserve(r); r.Grace = -time.Millisecond }, "grace must be"},
		{"grace of a boot", func(r *api.Request) { r.Grace = time.Minute }, "only what is reserved has a grace"},
		{"shared while idle", func(r *api.Request) { reserve(r); r.Groups[0].ShareIdle = true }, ""},
		{"a boot shared while idle", func(r *api.Request) { r.Groups[0].ShareIdle = true }, "only what is reserved can be shared while it is idle"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := api.Request{Groups: groups(1), Window: api.Window{Start: 0, End: api.Forever}, Class: api.Firm}
			c.edit(&r)
			if err := r.Validate(); c.says != "" {
				invalid(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
		})
	}
	assert.Equal(t, 5, (&api.Request{Groups: []api.Group{group(2), group(3)}}).Count())
}

// reserve makes a request one for a lease.
func reserve(r *api.Request) {
	r.Reserves, r.Window, r.Groups[0].Name = true, api.Window{Start: 5, End: 9}, "r"
}

func TestOutcomes(t *testing.T) {
	for s, want := range map[api.BootState]bool{
		api.BootAccepted: false, api.BootHolding: false, api.BootBuilding: false, api.BootReleasing: false,
		api.BootActive: true, api.BootDegraded: true, api.BootError: true, api.BootReleased: true, api.BootFailed: true, "": false, "NEW": false,
	} {
		assert.Equal(t, want, s.Outcome(), s)
	}
}

func TestRoles(t *testing.T) {
	roles := []api.UserRole{"", "root", api.RoleReader, api.RoleMember, api.RoleAdmin}
	for i, has := range roles {
		for j, want := range roles[2:] {
			assert.Equal(t, i-2 >= j, api.Caller{Role: has}.Allows(want), "%q for %q", has, want)
		}
	}
}

func TestLive(t *testing.T) {
	assert.True(t, (&api.Instance{Status: api.StatusDeleting}).Live(), "its claim stays until it is gone")
	assert.False(t, (&api.Instance{Status: api.StatusDeleted}).Live())
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("N", i)
	}
	return out
}

func ids(n int) []api.InstanceID {
	out := make([]api.InstanceID, n)
	for i := range out {
		out[i] = api.InstanceID(fmt.Sprint("i", i))
	}
	return out
}

// TestRequestWishes tries each thing that may be asked of hosts and zones, at its
// limit and one past it.
func TestRequestWishes(t *testing.T) {
	long := func(n int) string { return strings.Repeat("X", n) }
	rule := func(p api.Policy, most int, groups ...int) api.Rule {
		return api.Rule{Policy: p, Max: most, Groups: groups}
	}
	for name, c := range map[string]struct {
		edit func(r *api.Request, g *api.Group)
		says string // "" if it is valid
	}{
		"minimum of a group":  {func(_ *api.Request, g *api.Group) { g.Min = g.Count }, ""},
		"more than its count": {func(_ *api.Request, g *api.Group) { g.Min = g.Count + 1 }, "min_count must be 0 to the count 4, got 5"},
		"negative minimum":    {func(_ *api.Request, g *api.Group) { g.Min = -1 }, "min_count must be"},
		"bad group name":      {func(_ *api.Request, g *api.Group) { g.Name = "-" }, "group name must be"},
		"one name for two":    {func(r *api.Request, g *api.Group) { g.Name, r.Groups[1].Name = "a", "a" }, `"a" is there twice`},
		"longest zone":        {func(_ *api.Request, g *api.Group) { g.AZ = long(api.ExtraSpecMaxBytes) }, ""},
		"longer zone":         {func(_ *api.Request, g *api.Group) { g.AZ = long(api.ExtraSpecMaxBytes + 1) }, "availability_zone may have"},
		"longest image":       {func(_ *api.Request, g *api.Group) { g.Image.Ref = long(api.ExtraSpecMaxBytes) }, ""},
		"longer image":        {func(_ *api.Request, g *api.Group) { g.Image.Ref = long(api.ExtraSpecMaxBytes + 1) }, "imageRef may have"},
		"met specs": {func(_ *api.Request, g *api.Group) {
			g.ExtraSpecs, g.Met = map[string]string{"a": "1", "b": "2"}, []string{"a", "b"}
		}, ""},
		"met, and not asked for": {func(_ *api.Request, g *api.Group) { g.Met = []string{"a"} }, "met extra specs must be asked for"},
		"met twice": {func(_ *api.Request, g *api.Group) {
			g.ExtraSpecs, g.Met = map[string]string{"a": "1"}, []string{"a", "a"}
		}, "met extra specs must be asked for, and sorted"},
		"most properties": {func(_ *api.Request, g *api.Group) { g.Image.Properties = pairs(api.ExtraSpecsMax, 2) }, ""},
		"more properties": {func(_ *api.Request, g *api.Group) { g.Image.Properties = pairs(api.ExtraSpecsMax+1, 2) }, "image_properties may have"},
		"most traits":     {func(_ *api.Request, g *api.Group) { g.Traits.Required = names(api.TraitsMax) }, ""},
		"more traits": {func(_ *api.Request, g *api.Group) {
			g.Traits = api.Traits{Required: names(api.TraitsMax), AnyOf: [][]string{{"A"}}}
		}, "at most 64 traits, got 65"},
		"longest trait": {func(_ *api.Request, g *api.Group) { g.Traits.Forbidden = []string{long(api.ExtraSpecMaxBytes)} }, ""},
		"longer trait":  {func(_ *api.Request, g *api.Group) { g.Traits.Forbidden = []string{long(api.ExtraSpecMaxBytes + 1)} }, "trait"},
		"bad trait":     {func(_ *api.Request, g *api.Group) { g.Traits.Required = []string{"ssd"} }, `trait "ssd" must be`},
		"none of none":  {func(_ *api.Request, g *api.Group) { g.Traits.AnyOf = [][]string{{}} }, "each list of any_of"},
		"wanted and not wanted": {func(_ *api.Request, g *api.Group) {
			g.Traits = api.Traits{Required: []string{"A"}, Forbidden: []string{"A"}}
		}, "both required and forbidden"},
		"most instances beside": {func(_ *api.Request, g *api.Group) { g.Hints.SameHost = ids(api.HintHostsMax) }, ""},
		"more instances beside": {func(_ *api.Request, g *api.Group) { g.Hints.SameHost = ids(api.HintHostsMax + 1) }, "same_host may have at most 64"},
		"more instances apart":  {func(_ *api.Request, g *api.Group) { g.Hints.DifferentHost = ids(api.HintHostsMax + 1) }, "different_host may have"},
		"more forced":           {func(_ *api.Request, g *api.Group) { g.Hints.ForceHosts = names(api.HintHostsMax + 1) }, "force_hosts may have"},
		"most for maintenance":  {func(r *api.Request, g *api.Group) { maintain(r, g, api.MaintenanceMax) }, ""},
		"more for maintenance":  {func(r *api.Request, g *api.Group) { maintain(r, g, api.MaintenanceMax+1) }, "force_hosts may have at most 10000 entries, got 10001"},
		"more ignored":          {func(_ *api.Request, g *api.Group) { g.Hints.IgnoreHosts = names(api.HintHostsMax + 1) }, "ignore_hosts may have"},
		"bad instance":          {func(_ *api.Request, g *api.Group) { g.Hints.SameHost = []api.InstanceID{"/"} }, "instance id in a hint"},
		"bad host":              {func(_ *api.Request, g *api.Group) { g.Hints.ForceHosts = []string{"/"} }, "host name in a hint"},
		"longest query":         {func(_ *api.Request, g *api.Group) { g.Hints.Query = long(api.QueryMaxBytes) }, ""},
		"longer query":          {func(_ *api.Request, g *api.Group) { g.Hints.Query = long(api.QueryMaxBytes + 1) }, "query may have at most 16384 bytes"},
		"near":                  {func(_ *api.Request, g *api.Group) { g.Hints.Near = "192.0.2.0/24" }, ""},
		"near nothing":          {func(_ *api.Request, g *api.Group) { g.Hints.Near = "192.0.2.0" }, "near must be a network"},
		"most rules": {func(r *api.Request, _ *api.Group) {
			r.Rules = slices.Repeat([]api.Rule{rule(api.Affinity, 0, 0)}, api.RulesMax)
		}, ""},
		"more rules": {func(r *api.Request, _ *api.Group) {
			r.Rules = slices.Repeat([]api.Rule{rule(api.Affinity, 0, 0)}, api.RulesMax+1)
		}, "at most 16 rules, got 17"},
		"no policy":           {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule("", 0, 0)} }, "policy"},
		"most on a host":      {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.AntiAffinity, api.CountMax, 0, 1)} }, ""},
		"more on a host":      {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.AntiAffinity, api.CountMax+1, 0)} }, "max_per_host must be 1 to"},
		"none on a host":      {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.AntiAffinity, 0, 0)} }, "max_per_host must be 1 to"},
		"many together":       {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.Affinity, 2, 0)} }, "is for anti-affinity alone"},
		"a rule for nobody":   {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.Affinity, 0)} }, "at least one group"},
		"a rule for a third":  {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.Affinity, 0, 2)} }, "names groups 0 to 1"},
		"a rule out of order": {func(r *api.Request, _ *api.Group) { r.Rules = []api.Rule{rule(api.Affinity, 0, 1, 0)} }, "ascending order"},
		"a server group twice": {func(r *api.Request, _ *api.Group) {
			a := rule(api.Affinity, 0, 0)
			a.ID = "sg"
			r.Rules = []api.Rule{a, a}
		}, "is there twice"},
		"most zones":            {func(r *api.Request, _ *api.Group) { r.Zones.Allowed = names(api.ZoneNamesMax) }, ""},
		"more zones":            {func(r *api.Request, _ *api.Group) { r.Zones.Allowed = names(api.ZoneNamesMax + 1) }, "zones.allowed may have"},
		"more excluded":         {func(r *api.Request, _ *api.Group) { r.Zones.Excluded = names(api.ZoneNamesMax + 1) }, "zones.excluded may have"},
		"more tags":             {func(r *api.Request, _ *api.Group) { r.Zones.AllowedTags = names(api.ZoneNamesMax + 1) }, "zones.allowed_tags may have"},
		"more tags excluded":    {func(r *api.Request, _ *api.Group) { r.Zones.ExcludedTags = names(api.ZoneNamesMax + 1) }, "zones.excluded_tags may have"},
		"bad zone":              {func(r *api.Request, _ *api.Group) { r.Zones.Allowed = []string{""} }, "zones.allowed must be"},
		"most skew":             {func(r *api.Request, _ *api.Group) { r.Zones.MaxSkew = api.CountMax }, ""},
		"more skew":             {func(r *api.Request, _ *api.Group) { r.Zones.MaxSkew = api.CountMax + 1 }, "zones.max_skew must be"},
		"a zone for each":       {func(r *api.Request, _ *api.Group) { r.Zones.MinZones = 5 }, ""},
		"more zones than slots": {func(r *api.Request, _ *api.Group) { r.Zones.MinZones = 6 }, "min_zones 6 needs at least as many instances, got 5"},
		"most zones used":       {func(r *api.Request, g *api.Group) { g.Count, r.Zones.MinZones = 100, api.LinksMax+1 }, ""},
		"more zones used":       {func(r *api.Request, g *api.Group) { g.Count, r.Zones.MinZones = 100, api.LinksMax+2 }, "zones.min_zones must be 0 to 65"},
		"packed and spread":     {func(r *api.Request, _ *api.Group) { r.Zones.Pack, r.Zones.MaxSkew = true, 1 }, "zones.pack excludes"},
		"longest life":          {func(r *api.Request, _ *api.Group) { r.Lifetime = api.LifetimeMax }, ""},
		"longer life":           {func(r *api.Request, _ *api.Group) { r.Lifetime = api.LifetimeMax + time.Millisecond }, "lifetime must be"},
		"half a millisecond":    {func(r *api.Request, _ *api.Group) { r.Lifetime = time.Millisecond / 2 }, "whole milliseconds"},
		"two ends":              {func(r *api.Request, _ *api.Group) { r.Lifetime, r.Window.End = time.Hour, 5 }, "takes no lifetime"},
	} {
		t.Run(name, func(t *testing.T) {
			r := api.Request{
				Groups: []api.Group{
					{Count: 4, Resources: api.Resources{api.VCPU: 1}},
					{Count: 1, Name: "b", Resources: api.Resources{api.VCPU: 1}},
				}, Window: api.Window{Start: 0, End: api.Forever}, Class: api.Firm,
			}
			c.edit(&r, &r.Groups[0])
			if err := r.Validate(); c.says != "" {
				invalid(t, err, c.says)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestWindowAt starts a window when it is held and ends it after its lifetime.
func TestWindowAt(t *testing.T) {
	r := api.Request{Window: api.Window{Start: 0, End: api.Forever}}
	require.Equal(t, api.Window{Start: 7, End: api.Forever}, r.WindowAt(7))
	r.Lifetime = time.Second
	require.Equal(t, api.Window{Start: 7, End: 1007}, r.WindowAt(7))
	r.Window.Start = 100
	require.Equal(t, api.Window{Start: 100, End: 1100}, r.WindowAt(7))
}

// maintain makes a request one for the maintenance of n hosts.
func maintain(r *api.Request, g *api.Group, n int) {
	r.Reserves, r.Maintenance, r.Window = true, true, api.Window{Start: 60_000, End: 120_000}
	g.Name, g.Whole, g.Resources, g.Count, g.Min = "r", true, nil, min(n, api.CountMax), 0
	for i := range n {
		g.Hints.ForceHosts = append(g.Hints.ForceHosts, fmt.Sprintf("h%d", i))
	}
	r.Groups = []api.Group{*g}
}
