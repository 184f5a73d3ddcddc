package filters_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/filters"
	"berth/filters/query"
	"berth/internal/dice"
)

// scene is a random fleet and a random request, and the slow, obvious answers.
type scene struct {
	specs      []capacity.Spec  // hosts
	parts      []*capacity.Spec // other providers, parents first
	claims     map[api.HostID]int
	aggregates []*api.Aggregate
	census     *census
	placed     map[api.HostID]int
	public     []string // attributes
	l          *filters.Look
}

var (
	someNames = []string{"name-h0", "name-h1", "name-h2", "name-none"}
	someInst  = []api.InstanceID{"i0", "i1", "i2", "i3"}
	someSpecs = []string{"1", "= 1", "> 0.5", "!= 1", "<= 1.5", "s> 1", "s!= x", "<in> x", "<or> 1 <or> xyz", "<all-in> x z", "<or>", "xyz"}
	someVals  = []string{"1", "1.5", "x", "xyz", "true", "-2"}
	somePlans = []string{"", `["=","$a",1]`, `["not",["=","$a",1]]`, `["<","$instances",1]`, `["or",[">","$free_ram_mb",4],["=","$b","x"]]`}
)

// pick returns some of list, in its order.
func pick[T any](t *rapid.T, label string, list ...T) []T {
	var out []T
	for _, x := range list {
		if rapid.IntRange(0, 3).Draw(t, label) == 0 {
			out = append(out, x)
		}
	}
	return out
}

func one[T any](t *rapid.T, label string, list ...T) T { return rapid.SampledFrom(list).Draw(t, label) }

func drawHost(t *rapid.T, i int) capacity.Spec {
	s := capacity.Spec{
		ID: api.HostID(fmt.Sprint("h", i)), Name: fmt.Sprint("name-h", i),
		Up: rapid.IntRange(0, 5).Draw(t, "up") > 0, Enabled: rapid.IntRange(0, 5).Draw(t, "enabled") > 0,
		Maintenance: rapid.IntRange(0, 5).Draw(t, "maintenance") == 0, NeedsCommand: rapid.IntRange(0, 3).Draw(t, "needs") == 0,
		Failures: rapid.IntRange(0, 3).Draw(t, "failures"), Pool: one(t, "pool", api.PoolShared, api.PoolShared, api.PoolOnDemand, api.PoolReservable), AZ: one(t, "az", "", "east", "west"),
		Traits: pick(t, "trait", "SSD", "GPU"), Aggregates: pick(t, "aggregate", "g0", "g1", "g2"),
		Inventory: map[api.ResourceClass]api.Inventory{}, Attributes: map[string]string{},
	}
	for _, c := range pick(t, "class", api.MemoryMB, api.MemoryMB, api.MemoryMB, api.DiskGB, api.DiskGB) {
		s.Inventory[c] = api.Inventory{
			Total: rapid.Int64Range(1, 12).Draw(t, "total"), StepSize: one(t, "step", int64(0), 0, 2, 3), MinUnit: one(t, "min", int64(0), 0, 2),
		}
	}
	for _, name := range pick(t, "attribute", "a", "a", "b", "arch", "ip") {
		s.Attributes[name] = rapid.SampledFrom(someVals).Draw(t, "value")
		if name == "ip" {
			s.Attributes[name] = one(t, "ip", "192.0.2.1", "192.0.2.200", "::ffff:192.0.2.1", "x", "2001:db8::1")
		}
	}
	return s
}

func drawScene(t *rapid.T) *scene {
	w := &scene{claims: map[api.HostID]int{}, placed: map[api.HostID]int{}}
	table := capacity.NewTable()
	for i := range rapid.IntRange(0, 12).Draw(t, "hosts") {
		s := drawHost(t, i)
		table.Put(s)
		w.specs = append(w.specs, s)
		for range rapid.IntRange(0, 2).Draw(t, "claims") {
			c := api.Claim{
				Resources: api.Resources{api.MemoryMB: rapid.Int64Range(1, 5).Draw(t, "claimed")}, Class: one(t, "kind", api.Firm, api.Preemptible),
				Window: one(t, "window", api.Window{End: api.Forever}, api.Window{Start: 50, End: 70}, api.Window{End: 20}),
			}
			table.Restore(s.ID, c)
			w.claims[s.ID]++
		}
		if n := rapid.IntRange(0, 8).Draw(t, "placed"); n < 3 {
			w.placed[s.ID] = n
		}
	}
	w.drawParts(t, table)
	for i := range 3 {
		a := &api.Aggregate{ID: api.AggregateID(fmt.Sprint("g", i)), Metadata: map[string]string{}}
		for _, key := range pick(t, "metadata", api.MetaProjects, api.MetaProjects+"_b", "a") {
			a.Metadata[key] = one(t, "projects", "p", "q", "q, p", "", "1", "1,xyz")
		}
		w.aggregates = append(w.aggregates, a)
	}
	w.census = &census{hosts: map[api.InstanceID]api.HostID{"i0": "h0", "i1": "h1", "i2": "h99"}}
	w.census.here = map[string]map[api.HostID]int{"one": {"h0": rapid.IntRange(0, 2).Draw(t, "here")}, "r#1": {"h1": 1, "h2": 2}}
	w.census.elsewhere = map[string]map[api.LinkID]int{"one": {"l": max(0, rapid.IntRange(-6, 1).Draw(t, "elsewhere"))}}
	w.draw(t, table.View())
	return w
}

// draw makes a request of two groups, of which the second is looked for.
func (w *scene) draw(t *rapid.T, v capacity.View) {
	g := api.Group{
		Count: 1, Flavor: one(t, "flavor", api.FlavorID("web"), "web", "vm", ""), AZ: one(t, "az", "", "", "", "east"),
		Resources: api.Resources{api.MemoryMB: rapid.Int64Range(1, 8).Draw(t, "memory")}, ExtraSpecs: map[string]string{},
		Hints: api.Hints{
			SameHost: pick(t, "same", someInst[rapid.IntRange(0, 3).Draw(t, "s"):]...), DifferentHost: pick(t, "different", someInst...),
			ForceHosts: pick(t, "force", someNames...), IgnoreHosts: pick(t, "ignore", someNames...),
			Near: one(t, "near", "", "", "192.0.2.0/25"), Query: rapid.SampledFrom(somePlans).Draw(t, "query"),
		},
		Image:  api.Image{Ref: one(t, "image", "", "win"), Properties: map[string]string{}},
		Traits: api.Traits{Required: pick(t, "required", "SSD"), Forbidden: pick(t, "forbidden", "GPU", "NONE")},
	}
	if rapid.Bool().Draw(t, "disk") {
		g.Resources[api.DiskGB] = rapid.Int64Range(1, 8).Draw(t, "disk")
	}
	if rapid.IntRange(0, 3).Draw(t, "any_of") == 0 {
		g.Traits.AnyOf = [][]string{{"SSD", "GPU"}}
	}
	for _, key := range pick(t, "key", "a", "capabilities:b", "hw:b", filters.ScopeAggregate+"a") {
		g.ExtraSpecs[key] = rapid.SampledFrom(someSpecs).Draw(t, "spec")
	}
	for _, key := range pick(t, "property", "architecture", "color") {
		g.Image.Properties[key] = rapid.SampledFrom(someVals).Draw(t, "property")
	}
	req := &api.Request{
		Reservation: "r", Project: one(t, "project", api.ProjectID("p"), "other"), Groups: []api.Group{g, g},
		Class: one(t, "class", api.Firm, api.Firm, api.Preemptible), Window: one(t, "window", api.Window{End: api.Forever}, api.Window{Start: 10, End: 50}),
		Origin: one(t, "origin", api.LinkID(""), "", "up"),
	}
	w.public = pick(t, "public", "a", "b", "ip")
	switch one(t, "of a lease", "", "", "", "reserves", "whole", "within") {
	case "whole":
		req.Groups[1].Whole, req.Groups[1].Resources = true, nil
		fallthrough
	case "reserves":
		req.Reserves, req.Class = true, api.Firm
	case "within":
		req.Within = "r2"
	}
	for _, p := range pick(t, "rule", api.Affinity, api.AntiAffinity, api.SoftAffinity) {
		r := api.Rule{Policy: p, Groups: []int{0, 1}}
		if len(req.Rules) == 0 {
			r.ID = "one"
		}
		if p == api.AntiAffinity {
			r.Max = rapid.IntRange(1, 3).Draw(t, "max")
		}
		req.Rules = append(req.Rules, r)
	}
	w.l = filters.NewLook(v, &filters.World{
		HasCommand: func(f api.FlavorID) bool { return f == "web" }, Aggregates: w.aggregates, Census: w.census, Public: w.public,
	}, req, 1)
	if rapid.Bool().Draw(t, "second") {
		w.l.Placed = func(row, _ int) int { return w.placed[v.ID(row)] }
	} else {
		w.placed = nil
	}
}

func (w *scene) group() *api.Group { return &w.l.Req.Groups[1] }

// slow says, host by host, what each filter passes.
var slow = map[string]func(w *scene, s *capacity.Spec) bool{
	"all_hosts": func(*scene, *capacity.Spec) bool { return true },
	"forced_hosts": func(w *scene, s *capacity.Spec) bool {
		list := w.group().Hints.ForceHosts
		return len(list) == 0 || slices.Contains(list, s.Name)
	},
	"ignored_hosts": func(w *scene, s *capacity.Spec) bool {
		return !slices.Contains(w.group().Hints.IgnoreHosts, s.Name)
	},
	"same_host": func(w *scene, s *capacity.Spec) bool {
		list := w.group().Hints.SameHost
		return len(list) == 0 || slices.ContainsFunc(list, func(id api.InstanceID) bool { return w.census.hosts[id] == s.ID })
	},
	"different_host": func(w *scene, s *capacity.Spec) bool {
		return !slices.ContainsFunc(w.group().Hints.DifferentHost, func(id api.InstanceID) bool { return w.census.hosts[id] == s.ID })
	},
	"near": func(w *scene, s *capacity.Spec) bool {
		if w.group().Hints.Near == "" {
			return true
		}
		a, err := netip.ParseAddr(w.attributes(s)["ip"])
		return err == nil && netip.MustParsePrefix(w.group().Hints.Near).Contains(a.Unmap())
	},
	"query": slowQuery,
	"pool": func(w *scene, s *capacity.Spec) bool {
		later := w.l.Req.Reserves || w.l.Req.Class == api.Preemptible
		return w.l.Req.Within != "" || s.Pool == api.PoolShared || (s.Pool == api.PoolReservable) == later
	},
	"project_isolation": func(w *scene, s *capacity.Spec) bool { return slowIsolation(w, s, false) },
	"strict":            func(w *scene, s *capacity.Spec) bool { return slowIsolation(w, s, true) },
	"isolated": func(w *scene, s *capacity.Spec) bool {
		return (w.group().Image.Ref == "win") == (s.Name == "name-h1" || s.Name == "name-h2")
	},
	"driver": func(w *scene, s *capacity.Spec) bool {
		return !s.NeedsCommand || w.group().Flavor == "web" || w.l.Req.Reserves && w.group().Flavor == ""
	},
	"availability_zone": func(w *scene, s *capacity.Spec) bool { return w.group().AZ == "" || w.group().AZ == s.AZ },
	"traits":            slowTraits,
	"aggregate_extra_specs": func(w *scene, s *capacity.Spec) bool {
		want, asked := w.group().ExtraSpecs[filters.ScopeAggregate+"a"]
		return !asked || slices.ContainsFunc(w.aggregates, func(a *api.Aggregate) bool {
			return slices.Contains(s.Aggregates, string(a.ID)) && slices.ContainsFunc(strings.Split(a.Metadata["a"], ","), func(v string) bool {
				v = strings.TrimSpace(v)
				return v != "" && slowMatch(v, want)
			})
		})
	},
	"image_properties": func(w *scene, s *capacity.Spec) bool {
		want, asked := w.group().Image.Properties["architecture"]
		return !asked || s.Attributes["arch"] == want
	},
	"extra_specs": func(w *scene, s *capacity.Spec) bool {
		for key, name := range map[string]string{"a": "a", "capabilities:b": "b"} {
			want, asked := w.group().ExtraSpecs[key]
			have, there := w.attributes(s)[name]
			if asked && (!there || !slowMatch(have, want)) {
				return false
			}
		}
		return true
	},
	"host_state":   func(_ *scene, s *capacity.Spec) bool { return s.Up && s.Enabled && !s.Maintenance },
	"server_group": slowRules,
	"instances":    func(w *scene, s *capacity.Spec) bool { return w.claims[s.ID]+w.placed[s.ID] < 2 },
	"capacity":     func(w *scene, s *capacity.Spec) bool { return w.hasRoom(s, w.group().Resources) },
}

// hasRoom: room for one slot of r, or for a whole host.
func (w *scene) hasRoom(s *capacity.Spec, r api.Resources) bool {
	if w.group().Whole {
		return w.idle(s)
	}
	return w.fits(s, r)
}

// idle: nothing in the tree is taken over the window, and there is something to take.
func (w *scene) idle(s *capacity.Spec) bool {
	some := false
	for _, p := range w.tree(s) {
		row, _ := w.l.View.Row(p.ID)
		for _, class := range []api.ResourceClass{api.MemoryMB, api.DiskGB} {
			n := w.l.View.Capacity(row, class)
			some = some || n > 0
			if w.l.View.FreeOver(row, class, w.l.Window, w.l.Req.ClaimClass()) < n {
				return false
			}
		}
	}
	return some
}

// drawParts adds providers that are no hosts: below hosts, or sharing with them.
func (w *scene) drawParts(t *rapid.T, table *capacity.Table) {
	for i := range max(0, rapid.IntRange(-6, 6).Draw(t, "parts")) {
		s := drawHost(t, 0)
		s.ID, s.Name, s.Passive = api.ProviderID(fmt.Sprint("p", i)), fmt.Sprint("name-p", i), true
		if n := rapid.IntRange(-2, len(w.specs)-1).Draw(t, "parent"); n >= 0 {
			s.Parent = w.specs[n].ID
		} else if n < -1 && i > 0 {
			s.Parent = w.parts[rapid.IntRange(0, i-1).Draw(t, "parent")].ID
		}
		s.Traits = append(s.Traits, pick(t, "shares", api.TraitShares, api.TraitShares)...)
		s.Traits = slices.Compact(s.Traits)
		table.Put(s)
		w.parts = append(w.parts, &s)
		for range rapid.IntRange(0, 2).Draw(t, "claims") {
			table.Restore(s.ID, api.Claim{
				Resources: api.Resources{api.MemoryMB: rapid.Int64Range(1, 5).Draw(t, "claimed")}, Class: api.Firm, Window: api.Window{End: api.Forever},
			})
		}
	}
}

// tree is a host and what is below it.
func (w *scene) tree(s *capacity.Spec) []*capacity.Spec {
	out := []*capacity.Spec{s}
	for _, p := range w.parts {
		if slices.ContainsFunc(out, func(up *capacity.Spec) bool { return up.ID == p.Parent }) {
			out = append(out, p)
		}
	}
	return out
}

// reach is everything that a slot on a host may draw from.
func (w *scene) reach(s *capacity.Spec) []*capacity.Spec {
	tree := w.tree(s)
	out := slices.Clone(tree)
	for _, p := range w.parts {
		meets := func(m *capacity.Spec) bool {
			return slices.ContainsFunc(m.Aggregates, func(a string) bool { return slices.Contains(p.Aggregates, a) })
		}
		if slices.Contains(p.Traits, api.TraitShares) && !slices.Contains(tree, p) && slices.ContainsFunc(tree, meets) {
			out = append(out, p)
		}
	}
	return out
}

// traits are those of a host and of what is below it.
func (w *scene) traits(s *capacity.Spec) (out []string) {
	for _, p := range w.tree(s) {
		out = append(out, p.Traits...)
	}
	return out
}

// fits: each class comes whole from one provider.
func (w *scene) fits(s *capacity.Spec, r api.Resources) bool {
	for class, n := range r {
		c := api.Claim{Resources: api.Resources{class: n}, Window: w.l.Window, Class: w.l.Req.ClaimClass()}
		if !slices.ContainsFunc(w.reach(s), func(p *capacity.Spec) bool { return w.l.View.Fits(p.ID, c) == nil }) {
			return false
		}
	}
	return true
}

// attributes are those that the request may ask for.
func (w *scene) attributes(s *capacity.Spec) map[string]string {
	if w.l.Req.Origin == "" {
		return s.Attributes
	}
	out := map[string]string{}
	for _, name := range w.public {
		if value, ok := s.Attributes[name]; ok {
			out[name] = value
		}
	}
	return out
}

func slowQuery(w *scene, s *capacity.Spec) bool {
	switch slices.Index(somePlans, w.group().Hints.Query) {
	case 1:
		return w.attributes(s)["a"] == "1"
	case 2:
		a := w.attributes(s)["a"]
		return a != "1" && regexp.MustCompile(`^-?[0-9]`).MatchString(a)
	case 3:
		return w.claims[s.ID] < 1
	case 4:
		var free int64
		for _, p := range w.reach(s) {
			row, _ := w.l.View.Row(p.ID)
			free += max(w.l.View.FreeOver(row, api.MemoryMB, w.l.Window, w.l.Req.ClaimClass()), 0)
		}
		return free > 4 || w.attributes(s)["b"] == "x" // rounding up does not cross 4
	}
	return true
}

func slowIsolation(w *scene, s *capacity.Spec, strict bool) bool {
	closed, open, anywhere := false, false, false
	for _, a := range w.aggregates {
		for _, key := range []string{api.MetaProjects, api.MetaProjects + "_b"} {
			list, is := a.Metadata[key]
			names := slices.Contains(strings.Split(strings.ReplaceAll(list, " ", ""), ","), string(w.l.Req.Project)) && w.l.Req.Origin == ""
			anywhere = anywhere || names
			if slices.Contains(s.Aggregates, string(a.ID)) {
				closed, open = closed || is, open || names
			}
		}
	}
	return open || !closed && (!strict || !anywhere)
}

func slowTraits(w *scene, s *capacity.Spec) bool {
	want, has := w.group().Traits, w.traits(s)
	for _, n := range want.Required {
		if !slices.Contains(has, n) {
			return false
		}
	}
	for _, n := range want.Forbidden {
		if slices.Contains(has, n) {
			return false
		}
	}
	return want.AnyOf == nil || slices.Contains(has, "SSD") || slices.Contains(has, "GPU")
}

// slowMatch reads each of someSpecs by itself, with numbers as fractions.
func slowMatch(have, want string) bool {
	number, isNumber := new(big.Rat), regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`).MatchString(have)
	if isNumber {
		number.SetString(have)
	}
	against := func(a, b int64) int { return number.Cmp(big.NewRat(a, b)) }
	switch want {
	case "= 1":
		return isNumber && against(1, 1) >= 0
	case "> 0.5":
		return isNumber && against(1, 2) > 0
	case "!= 1":
		return isNumber && against(1, 1) != 0
	case "<= 1.5":
		return isNumber && against(3, 2) <= 0
	case "s> 1":
		return have > "1"
	case "s!= x":
		return have != "x"
	case "<in> x":
		return strings.Contains(have, "x")
	case "<or> 1 <or> xyz":
		return have == "1" || have == "xyz"
	case "<all-in> x z":
		return strings.Contains(have, "x") && strings.Contains(have, "z")
	case "<or>":
		return false
	}
	return have == want
}

func slowRules(w *scene, s *capacity.Spec) bool {
	for n, r := range w.l.Req.Rules {
		on := map[api.HostID]int{}
		for id, k := range w.census.here[w.l.Req.RuleKey(n)] {
			on[id] += k
		}
		for id, k := range w.placed {
			on[id] += k
		}
		total := w.census.elsewhere[w.l.Req.RuleKey(n)]["l"]
		for _, k := range on {
			total += k
		}
		if r.Policy == api.Affinity && on[s.ID] != total || r.Policy == api.AntiAffinity && on[s.ID] >= r.Max {
			return false
		}
	}
	return true
}

// oracled are all filters, as the oracle supposes them to be configured.
func oracled(t *rapid.T) ([]string, []filters.Filter) {
	var names []string
	var fs []filters.Filter
	for _, k := range filters.Known() {
		switch k.Name {
		case "instances":
			k.Example.Options["max"] = "2"
		case "isolated":
			k.Example.Options["hosts"] = "name-h1,name-h2"
		case "project_isolation":
			k.Example.Options = nil
		}
		f, err := filters.New([]api.FilterSpec{k.Example})
		require.NoError(t, err)
		names, fs = append(names, k.Name), append(fs, f[0])
	}
	return append(names, "strict"), append(fs, filter("project_isolation", "strict", "true"))
}

// Each filter keeps just the hosts that it keeps when each is looked at alone, and the
// scenes are such that it keeps some and drops some.
func TestFiltersAgreeHostByHost(t *testing.T) {
	assert.Len(t, slow, len(filters.Known())+1)
	least := 10
	if testing.Short() {
		least = 1 // a fifth of the scenes
	}
	passed, dropped := map[string]int{}, map[string]int{}
	play := func(t *rapid.T) {
		w := drawScene(t)
		names, fs := oracled(t)
		for i, f := range fs {
			want := ids(w.specs, func(s *capacity.Spec) bool { return slow[names[i]](w, s) })
			require.Equal(t, want, kept(w.l, f), "filter %s", names[i])
			passed[names[i]] += len(want)
			dropped[names[i]] += len(w.specs) - len(want)
		}
	}
	all := slices.Collect(maps.Keys(slow))
	dropping := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "all_hosts" })
	dice.Enough(t, func() { rapid.Check(t, play) }, func() string {
		return cmp.Or(dice.Rare(passed, least, all...), dice.Rare(dropped, least, dropping...))
	})
}

// Run counts each host once, by the first filter of whatever order that drops it,
// and Explain names it there.
func TestRunCountsEachHostOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawScene(t)
		names, fs := oracled(t)
		order := rapid.Permutation(indices(len(fs))).Draw(t, "order")[:rapid.IntRange(0, len(fs)).Draw(t, "filters")]
		var chosen []filters.Filter
		for _, i := range order {
			chosen = append(chosen, fs[i])
		}
		want := map[string][]string{}
		var passing []string
		for h := range w.specs {
			s := &w.specs[h]
			if why := w.first(s, names, order); why != "" {
				want[why] = append(want[why], s.Name)
			} else {
				passing = append(passing, string(s.ID))
			}
		}
		pass, why := filters.Explain(chosen, w.l, 100)
		plain, counts := filters.Run(chosen, w.l)
		slices.Sort(passing)
		require.Equal(t, passing, ids(w.specs, func(s *capacity.Spec) bool { row, _ := w.l.View.Row(s.ID); return pass.Has(row) }))
		require.Equal(t, pass, plain)
		sum := why.Offering
		got := map[string][]string{}
		for i, f := range why.Filters {
			require.Len(t, f.Names, f.Hosts)
			require.True(t, slices.IsSorted(f.Names))
			got[f.Filter] = append(got[f.Filter], f.Names...)
			sum += f.Hosts
			f.Names = nil
			require.Equal(t, f, counts.Filters[i])
		}
		for _, list := range []map[string][]string{want, got} {
			for _, names := range list {
				slices.Sort(names)
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, len(w.specs), why.Considered)
		require.Equal(t, sum, why.Considered)
		require.Equal(t, pass.Len(), why.Offering)
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// first returns the reason that a host is counted under, "" if it passes.
func (w *scene) first(s *capacity.Spec, names []string, order []int) string {
	for _, i := range order {
		if slow[names[i]](w, s) {
			continue
		}
		switch names[i] {
		case "strict":
			return "project_isolation"
		case "capacity":
			return w.why(s)
		}
		return names[i]
	}
	return ""
}

// why returns why a host has no room.
func (w *scene) why(s *capacity.Spec) string {
	reason := "capacity"
	if w.group().Whole {
		reason = "size"
		for _, p := range w.tree(s) {
			if p.Inventory[api.MemoryMB].Capacity()+p.Inventory[api.DiskGB].Capacity() > 0 {
				reason = "in_use"
			}
		}
	}
	for c, n := range w.group().Resources {
		large := slices.DeleteFunc(w.reach(s), func(p *capacity.Spec) bool { return n > p.Inventory[c].Capacity() })
		if len(large) == 0 {
			return "size"
		}
		if !slices.ContainsFunc(large, func(p *capacity.Spec) bool { return p.Inventory[c].Admits(n) }) {
			reason = "units"
		}
	}
	if (reason == "capacity" || reason == "in_use") && w.opensWithRoom(s) {
		return "promised"
	}
	return reason
}

// opensWithRoom: there is room at the first instant of the window.
func (w *scene) opensWithRoom(s *capacity.Spec) bool {
	whole := w.l.Window
	defer func() { w.l.Window = whole }()
	start := max(whole.Start, w.l.View.Now())
	w.l.Window = api.Window{Start: start, End: start + 1}
	return w.hasRoom(s, w.group().Resources)
}

// Advice is what trying everything finds.
func TestAdviceIsWhatTryingFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawScene(t)
		if rapid.Bool().Draw(t, "few demands") {
			w.group().Hints, w.group().ExtraSpecs, w.l.Req.Rules = api.Hints{}, nil, nil
		}
		fs := filters.Default()
		passing := func(without string, r api.Resources) int {
			return len(ids(w.specs, func(s *capacity.Spec) bool {
				for _, f := range fs {
					if f.Name == "capacity" && !w.hasRoom(s, r) || f.Name != "capacity" && f.Name != without && !slow[f.Name](w, s) {
						return false
					}
				}
				return true
			}))
		}
		r := w.group().Resources
		now := passing("", r)
		var amounts, drops []api.Advice
		for _, class := range r.Classes() {
			if n := w.nearest(class, func(r api.Resources) bool { return passing("", r) > 0 }); now == 0 && n > 0 {
				amounts = append(amounts, api.Advice{Change: api.AdviceAmount, Class: class, Value: n})
			}
		}
		for _, f := range fs {
			if f.Demand && passing(f.Name, r) > now {
				drops = append(drops, api.Advice{Change: api.AdviceDrop, Name: f.Name})
			}
		}
		slices.SortStableFunc(amounts, func(a, b api.Advice) int { return share(r, a).Cmp(share(r, b)) })
		want := slices.Concat(amounts, drops)
		got := filters.Advise(fs, w.l)
		if len(got) > 0 && got[0].Change == api.AdviceLifetime { // TestALifetimeIsTheLongest
			got = append([]api.Advice(nil), got[1:]...)
			want = want[:min(len(want), api.AdviceMax-1)]
		}
		require.Equal(t, want[:min(len(want), api.AdviceMax)], got)
	})
}

// share is how large a change of an amount is in proportion.
func share(r api.Resources, a api.Advice) *big.Rat {
	return new(big.Rat).Abs(big.NewRat(a.Value-r[a.Class], r[a.Class]))
}

// nearest tries amounts: downwards first, then upwards.
func (w *scene) nearest(class api.ResourceClass, good func(api.Resources) bool) int64 {
	was := w.group().Resources
	for _, step := range []int64{-1, 1} {
		for n := was[class] + step; n > 0 && n < 30; n += step {
			r := api.Resources{class: n}
			for c, k := range was {
				if c != class {
					r[c] = k
				}
			}
			if good(r) {
				return n
			}
		}
	}
	return 0
}

// What counts as a number for extra specs counts as the same one for queries.
func TestNumbersAreTheSameEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-{0,2}[0-9]{0,15}(\.[0-9]{0,8})?[ex.]?`).Draw(t, "text")
		n, ok := query.ParseMicros(text)
		v := capacity.ParseValue(text)
		require.Equal(t, ok, v.Kind == capacity.KindNumber, text)
		require.Equal(t, n, v.Number, text)
	})
}
