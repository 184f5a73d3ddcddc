package intake

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

func TestAGroupHasWhatItsFlavorAsksFor(t *testing.T) {
	f := &api.Flavor{ID: "web", Resources: api.Resources{"VCPU": 2}, ExtraSpecs: map[string]string{
		"trait:SSD": "required", "trait:GPU": "forbidden", "other": "required",
	}}
	asked := api.Group{Name: "web", Flavor: "web", Min: 1, Count: 2, AZ: "az", Traits: api.Traits{
		Required: []string{"AVX", "SSD"}, AnyOf: [][]string{{"B", "A", "B"}},
	}}
	g := withFlavor(asked, f)
	require.NoError(t, g.Validate())
	assert.Equal(t, api.Group{
		Name: "web", Flavor: "web", Min: 1, Count: 2, AZ: "az", Resources: f.Resources, ExtraSpecs: f.ExtraSpecs,
		Traits: api.Traits{Required: []string{"AVX", "SSD"}, Forbidden: []string{"GPU"}, AnyOf: [][]string{{"A", "B"}}},
	}, g)
	assert.Equal(t, [][]string{{"B", "A", "B"}}, asked.Traits.AnyOf, "what was asked stays")
}

func TestACommandHasNamedInstances(t *testing.T) {
	names := func(groups ...api.Group) (out []string) {
		o := &BootOrder{BootTerms: command.BootTerms{Name: "shop", Request: api.Request{Groups: groups}}}
		c := o.Command(command.Stamp{})
		for _, s := range c.Instances {
			out = append(out, s.Name)
		}
		assert.NotEmpty(t, c.Request.Reservation)
		assert.Empty(t, o.Request.Reservation, "each command has ids of its own")
		assert.Equal(t, len(groups), c.Min)
		return out
	}
	web, db := api.Group{Name: "web", Min: 1, Count: 2}, api.Group{Name: "db", Min: 1, Count: 1}
	assert.Equal(t, []string{"shop-web-1", "shop-web-2", "shop-db-1"}, names(web, db))
	assert.Equal(t, []string{"shop-1", "shop-2"}, names(web))
	assert.Equal(t, []string{"shop"}, names(db))
}

// body returns a boot of two groups that uses each field, as change has it.
func body(change func(b *rest.BootBody, web *rest.GroupCreate)) *rest.BootBody {
	b := &rest.BootBody{Server: rest.ServerCreate{
		Name: "shop", Reservation: "r", Metadata: map[string]string{"a": "b"}, Lifetime: "90m", Timeout: "60s",
		Groups: []rest.GroupCreate{
			{
				Name: "web", FlavorRef: "small", ImageRef: "i", MinCount: new(1), MaxCount: new(2), GroupWish: rest.GroupWish{
					ImageProperties: map[string]string{"architecture": "x86_64"}, AvailabilityZone: "az:host-1",
					Traits: &rest.Traits{Required: []string{"B", "A"}, Forbidden: []string{"C"}, AnyOf: [][]string{{"E", "D"}}},
					Hints: &rest.SchedulerHints{
						Group: "apart", SameHost: []api.InstanceID{"id-web"}, DifferentHost: []api.InstanceID{"id-web"},
						Query: json.RawMessage(`["=","$name","h"]`), NearHostIP: "10.0.0.1", ForceHosts: []string{"host-2"}, IgnoreHosts: []string{"host-3"},
					},
				},
			},
			{Name: "db", FlavorRef: "small"},
		},
		Rules: []rest.RuleCreate{{Policy: api.AntiAffinity, Groups: []string{"web", "db"}}},
		Zones: &rest.ZoneRule{
			Allowed: []string{"root"}, Excluded: []string{"x"}, AllowedTags: []string{"t"}, ExcludedTags: []string{"u"}, MaxSkew: 1, MinZones: 1,
		},
	}}
	change(b, &b.Server.Groups[0])
	return b
}

// digestOf returns the digest of what c asks for.
func (w *world) digestOf(t *testing.T, c api.Caller, b *rest.BootBody) string {
	t.Helper()
	o, err := Order(w.zone, nil, Source{Caller: c}, b)
	require.NoError(t, err)
	require.NotEmpty(t, o.Digest)
	return string(o.Digest)
}

// TestWhatMakesTwoBootsTheSame: each thing that a body says tells two boots apart, but
// for the spelling.
func TestWhatMakesTwoBootsTheSame(t *testing.T) {
	w := newWorld(t)
	type group = *rest.GroupCreate
	first := w.digestOf(t, admin, body(func(*rest.BootBody, group) {}))
	for name, change := range map[string]func(b *rest.BootBody, web group){
		"durations": func(b *rest.BootBody, _ group) { b.Server.Lifetime, b.Server.Timeout = "1h30m", "1m" },
		"traits": func(_ *rest.BootBody, web group) {
			web.Traits.Required, web.Traits.AnyOf = []string{"A", "B"}, [][]string{{"D", "E"}}
		},
		"query":   func(_ *rest.BootBody, web group) { web.Hints.Query = json.RawMessage(`"[ \"=\", \"$name\", \"h\" ]"`) },
		"network": func(_ *rest.BootBody, web group) { web.Hints.NearHostIP, web.Hints.CIDR = "10.0.0.7", "/24" },
		"forced host": func(_ *rest.BootBody, web group) {
			web.AvailabilityZone, web.Hints.ForceHosts = "az", []string{"host-1", "host-2"}
		},
		"groups of a rule": func(b *rest.BootBody, _ group) { b.Server.Rules[0].Groups = nil },
		"limit of a rule":  func(b *rest.BootBody, _ group) { b.Server.Rules[0].Max = 1 },
		"counts": func(b *rest.BootBody, _ group) {
			b.Server.Groups[1].MinCount, b.Server.Groups[1].MaxCount = new(1), new(1)
		},
		"an empty plan":      func(b *rest.BootBody, _ group) { b.Server.Blob = []byte{} },
		"how it is answered": func(b *rest.BootBody, _ group) { b.Server.ReturnRes = true },
		"no groups in a list": func(b *rest.BootBody, _ group) {
			b.Server.Zones.Allowed = append([]string{}, b.Server.Zones.Allowed...)
		},
		"no traits, and empty": func(b *rest.BootBody, _ group) { b.Server.Groups[1].Traits = &rest.Traits{} },
	} {
		assert.Equal(t, first, w.digestOf(t, admin, body(change)), name)
	}
	other := admin
	other.User = "b"
	assert.Equal(t, first, w.digestOf(t, other, body(func(*rest.BootBody, group) {})), "another user of the project")

	seen := map[string]string{first: "nothing"}
	for name, change := range map[string]func(b *rest.BootBody, web group){
		"name":           func(b *rest.BootBody, _ group) { b.Server.Name = "x" },
		"reservation":    func(b *rest.BootBody, _ group) { b.Server.Reservation = "" },
		"metadata":       func(b *rest.BootBody, _ group) { b.Server.Metadata = nil },
		"blob":           func(b *rest.BootBody, _ group) { b.Server.Blob = []byte("x") },
		"no rule":        func(b *rest.BootBody, _ group) { b.Server.Rules = nil },
		"rule":           func(b *rest.BootBody, _ group) { b.Server.Rules[0].Max = 2 },
		"policy":         func(b *rest.BootBody, _ group) { b.Server.Rules[0].Policy = api.SoftAffinity },
		"bound groups":   func(b *rest.BootBody, _ group) { b.Server.Rules[0].Groups = []string{"db"} },
		"no zones":       func(b *rest.BootBody, _ group) { b.Server.Zones = nil },
		"allowed zones":  func(b *rest.BootBody, _ group) { b.Server.Zones.Allowed = nil },
		"excluded zones": func(b *rest.BootBody, _ group) { b.Server.Zones.Excluded = nil },
		"allowed tags":   func(b *rest.BootBody, _ group) { b.Server.Zones.AllowedTags = nil },
		"excluded tags":  func(b *rest.BootBody, _ group) { b.Server.Zones.ExcludedTags = nil },
		"skew":           func(b *rest.BootBody, _ group) { b.Server.Zones.MaxSkew = 2 },
		"zones":          func(b *rest.BootBody, _ group) { b.Server.Zones.MinZones = 2 },
		"lifetime":       func(b *rest.BootBody, _ group) { b.Server.Lifetime = "" },
		"timeout":        func(b *rest.BootBody, _ group) { b.Server.Timeout = "1s" },
		"fewer":          func(b *rest.BootBody, _ group) { b.Server.Groups, b.Server.Rules[0].Groups = b.Server.Groups[:1], nil },
		"group name":     func(b *rest.BootBody, web group) { web.Name, b.Server.Rules[0].Groups[0] = "x", "x" },
		"flavor":         func(_ *rest.BootBody, web group) { web.FlavorRef = "large" },
		"min":            func(_ *rest.BootBody, web group) { web.MinCount = new(2) },
		"max":            func(_ *rest.BootBody, web group) { web.MaxCount = new(3) },
		"image":          func(_ *rest.BootBody, web group) { web.ImageRef = "x" },
		"image facts":    func(_ *rest.BootBody, web group) { web.ImageProperties = nil },
		"required":       func(_ *rest.BootBody, web group) { web.Traits.Required = nil },
		"forbidden":      func(_ *rest.BootBody, web group) { web.Traits.Forbidden = nil },
		"any of":         func(_ *rest.BootBody, web group) { web.Traits.AnyOf = nil },
		"az":             func(_ *rest.BootBody, web group) { web.AvailabilityZone = "x:host-1" },
		"forced by az":   func(_ *rest.BootBody, web group) { web.AvailabilityZone = "az" },
		"joins":          func(_ *rest.BootBody, web group) { web.Hints.Group = "group-apart" },
		"joins none":     func(_ *rest.BootBody, web group) { web.Hints.Group = "" },
		"same host":      func(_ *rest.BootBody, web group) { web.Hints.SameHost = nil },
		"different host": func(_ *rest.BootBody, web group) { web.Hints.DifferentHost = nil },
		"query":          func(_ *rest.BootBody, web group) { web.Hints.Query = nil },
		"near":           func(_ *rest.BootBody, web group) { web.Hints.CIDR = "/16" },
		"forced":         func(_ *rest.BootBody, web group) { web.Hints.ForceHosts = nil },
		"preempts":       func(b *rest.BootBody, _ group) { b.Server.Preempt = true },
		"preemptible": func(b *rest.BootBody, web group) {
			web.Hints.Preemptible, b.Server.Groups[1].Hints = flag(true), &rest.SchedulerHints{Preemptible: flag(true)}
		},
		"opted out": func(_ *rest.BootBody, web group) { web.Hints.Preemptible = flag(false) },
		"what comes after": func(b *rest.BootBody, web group) {
			web.Hints.Preemptible, b.Server.Groups[1].Hints = flag(true), &rest.SchedulerHints{Preemptible: flag(true)}
			b.Server.OnPreempt = api.PreemptNotify
		},
		"ignored": func(_ *rest.BootBody, web group) { web.Hints.IgnoreHosts = nil },
	} {
		d := w.digestOf(t, admin, body(change))
		assert.Empty(t, seen[d], "%s looks like", name)
		seen[d] = name
	}
}

// TestSpellingsOfOneBoot: names of one thing are one thing in the digest.
func TestSpellingsOfOneBoot(t *testing.T) {
	w := newWorld(t)
	hints := rest.SchedulerHints{Group: "apart"}
	for name, pair := range map[string][2]rest.BootBody{
		"count": {
			{Server: *web(func(s *rest.ServerCreate) { s.MaxCount = new(2) })},
			{Server: *web(func(s *rest.ServerCreate) { s.NumInstances, s.MinCount = new(2), new(2) })},
		},
		"place of the hints": {{Server: *hinted(hints)}, {Server: *web(func(*rest.ServerCreate) {}), Hints: &hints}},
	} {
		assert.Equal(t, w.digestOf(t, member, &pair[0]), w.digestOf(t, member, &pair[1]), name)
	}
}

// TestADigestHasNamesAndNotWhatTheyStandFor: a repeat is known whatever has become of a flavor or of
// a server group, and by whatever call it comes.
func TestADigestHasNamesAndNotWhatTheyStandFor(t *testing.T) {
	w := newWorld(t)
	same := body(func(*rest.BootBody, *rest.GroupCreate) {})
	first := w.digestOf(t, admin, same)
	at := w.zone.Stamp()
	w.store.Must(t, command.FlavorPut{Stamp: at, Replace: true, Flavor: api.Flavor{
		ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 2}, ExtraSpecs: map[string]string{"trait:SSD": "required"},
	}}, command.GroupDelete{Stamp: at, Project: "p1", ID: "group-apart"}, command.GroupPut{Stamp: at, Group: api.ServerGroup{
		ID: "group-new", Name: "apart", Project: "p1", Policy: api.AntiAffinity, Max: 2,
	}})
	o, err := Order(w.zone, nil, Source{Caller: admin, Key: "k", Call: "c"}, same)
	require.NoError(t, err)
	assert.Equal(t, first, string(o.Digest))
	assert.Equal(t, int64(2), o.Request.Groups[0].Resources[api.VCPU])
	assert.Equal(t, api.ServerGroupID("group-new"), o.Request.Rules[1].ID)
}
