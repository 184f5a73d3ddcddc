package buildplan_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/costs"
	"berth/filters"
)

var oracleClasses = []api.ResourceClass{api.VCPU, api.MemoryMB, "CUSTOM_X"}

// one draws one of some values.
func one[T any](t *rapid.T, values ...T) T { return rapid.SampledFrom(values).Draw(t, "of") }

// rarely is true one time in n.
func rarely(t *rapid.T, n int) bool { return rapid.IntRange(1, n).Draw(t, "rarely") == n }

// some draws a part of some values, in order.
func some[T any](t *rapid.T, values ...T) []T {
	var out []T
	for _, v := range values {
		if rapid.Bool().Draw(t, "in") {
			out = append(out, v)
		}
	}
	return out
}

func drawWindow(t *rapid.T) api.Window {
	start := api.Instant(rapid.Int64Range(0, 20).Draw(t, "start"))
	if rapid.Bool().Draw(t, "open") {
		return api.Window{Start: start, End: api.Forever}
	}
	return api.Window{Start: start, End: start + api.Instant(rapid.Int64Range(1, 12).Draw(t, "length"))}
}

func drawResources(t *rapid.T, most int64) api.Resources {
	r := api.Resources{}
	for _, c := range oracleClasses {
		if n := rapid.Int64Range(0, most).Draw(t, "amount"); n > 0 {
			r[c] = n
		}
	}
	return r
}

var drawClass = rapid.SampledFrom([]api.Class{api.Firm, api.Firm, api.Preemptible})

// zone is a random zone, which can be built again and again.
type zone struct {
	specs      []capacity.Spec // hosts
	parts      []capacity.Spec // other providers
	claims     map[api.HostID][]api.Claim
	now        api.Instant
	aggregates []*api.Aggregate
	wholes     map[api.HostID]api.Window // reserved, as far as they are idle
	census     *census
	filters    []api.FilterSpec
	weights    []api.CostWeight
	spare      int
}

func drawSpec(t *rapid.T, i int) capacity.Spec {
	s := capacity.Spec{
		ID: api.HostID(fmt.Sprintf("%s%d", one(t, "", "h", "same-prefix-"), i)), Name: fmt.Sprint("n", i),
		Up: !rarely(t, 8), Enabled: !rarely(t, 8), Maintenance: rarely(t, 8), NeedsCommand: rarely(t, 5),
		Pool:       one(t, api.PoolOnDemand, api.PoolReservable, api.PoolShared, api.PoolShared),
		Gap:        time.Duration(rapid.IntRange(0, 2).Draw(t, "gap")) * time.Millisecond,
		Inventory:  map[api.ResourceClass]api.Inventory{},
		Traits:     some(t, "CUSTOM_A", "CUSTOM_B"),
		AZ:         one(t, "", "az1", "az2"),
		Aggregates: some(t, "g1", "g2"),
		Failures:   one(t, 0, 0, 1, 70),
		Attributes: map[string]string{},
	}
	for _, c := range oracleClasses {
		s.Inventory[c] = api.Inventory{Total: rapid.Int64Range(0, 12).Draw(t, "total"), StepSize: one[int64](t, 0, 0, 0, 2)}
	}
	if rarely(t, 4) {
		s.Inventory["PGPU"] = api.Inventory{Total: 2}
	}
	for _, a := range [][]string{{"arch", "", "x86_64", "arm"}, {"price", "", "0.5", "2", "dear"}, {"ip", "", "10.0.0.1", "10.1.0.1", "x"}} {
		if v := one(t, a[1:]...); v != "" {
			s.Attributes[a[0]] = v
		}
	}
	return s
}

func drawZone(t *rapid.T, hosts ...int) *zone {
	z := &zone{
		claims: map[api.HostID][]api.Claim{}, wholes: map[api.HostID]api.Window{}, now: api.Instant(rapid.Int64Range(0, 15).Draw(t, "now")),
		weights: drawWeights(t), filters: drawFilters(t), spare: rapid.IntRange(0, 4).Draw(t, "spare"),
		census: &census{
			hosts: map[api.InstanceID]api.HostID{}, tenancy: map[api.HostID]int{},
			members: map[string]map[api.HostID]int{}, elsewhere: map[string]map[api.LinkID]int{},
		},
	}
	for i := range one(t, hosts...) {
		s := drawSpec(t, i)
		z.specs = append(z.specs, s)
		z.drawClaims(t, s.ID)
		if rarely(t, 6) {
			z.claims[s.ID], z.wholes[s.ID] = nil, drawWindow(t)
		}
		if rarely(t, 4) {
			z.census.tenancy[s.ID] = rapid.IntRange(1, 3).Draw(t, "tenancy")
		}
		if rarely(t, 4) {
			z.census.hosts[one[api.InstanceID](t, "i1", "i2")] = s.ID
		}
	}
	if rapid.Bool().Draw(t, "with parts") {
		z.drawParts(t)
	}
	z.aggregates = []*api.Aggregate{
		{ID: "g1", Metadata: one(t, nil, map[string]string{"filter_project_id": "q, p"}, map[string]string{"filter_project_id_2": "q"})},
		{ID: "g2", Metadata: one(t, nil, map[string]string{"filter_project_id": "p", "disk": "ssd"}, map[string]string{"disk": "hdd, 7"})},
	}
	for _, rule := range []string{"sg1", "r#0", "r#1"} {
		z.drawMembers(t, rule)
	}
	return z
}

func (z *zone) drawMembers(t *rapid.T, rule string) {
	here := map[api.HostID]int{}
	for range one(t, 0, 0, 1, 3) {
		if n := len(z.specs); n > 0 {
			here[z.specs[rapid.IntRange(0, n-1).Draw(t, "host")].ID]++
		}
	}
	z.census.members[rule] = here
	if rarely(t, 10) {
		z.census.elsewhere[rule] = map[api.LinkID]int{"l": 1}
	}
}

func drawFilters(t *rapid.T) []api.FilterSpec {
	list := filters.DefaultSpecs()
	if rarely(t, 8) {
		list = list[:len(list)-1] // without capacity, which is the last
	}
	if rarely(t, 8) {
		list = append(list, api.FilterSpec{Name: "instances", Options: map[string]string{"max": one(t, "1", "2", "4")}})
	}
	if rarely(t, 8) {
		list = append(list, api.FilterSpec{Name: "isolated", Options: map[string]string{"images": "win", "hosts": "n0,n2"}})
	}
	for i := range list {
		if list[i].Name == "project_isolation" && rarely(t, 4) {
			list[i].Options = map[string]string{"strict": "true"}
		}
	}
	if rarely(t, 8) {
		list = rapid.Permutation(list).Draw(t, "order")
	}
	return list
}

func drawWeights(t *rapid.T) []api.CostWeight {
	if rarely(t, 3) {
		return costs.DefaultWeights()
	}
	var w []api.CostWeight
	for _, name := range costs.Names() {
		if !rarely(t, 3) {
			continue
		}
		c := api.CostWeight{Name: name, Weight: rapid.Int64Range(-2, 2).Draw(t, "weight")}
		switch name {
		case "attribute":
			c.Options = map[string]string{"attribute": "price"}
		case "special":
			c.Options = one(t, nil, map[string]string{"traits": "CUSTOM_A"})
		case "evictions", "fill_first", "spread":
			c.Options = one(t, nil, map[string]string{"class": "VCPU"}, map[string]string{"class": "CUSTOM_X"})
		}
		w = append(w, c)
	}
	return w
}

// build returns the zone's table, and how many claims each host has.
func (z *zone) build() (*capacity.Table, map[api.HostID]int) {
	table, claims, _ := z.buildSlots()
	return table, claims
}

// buildSlots is build, and returns the firm claims on hosts as slots to keep.
func (z *zone) buildSlots() (*capacity.Table, map[api.HostID]int, []buildplan.Keep) {
	table, claims := capacity.NewTable(), map[api.HostID]int{}
	var slots []buildplan.Keep
	for _, s := range slices.Concat(z.specs, z.parts) {
		table.Put(s)
		for _, c := range z.claims[s.ID] {
			if table.Claim(s.ID, c) == nil { // as far as it fits
				claims[s.ID]++
				if c.Class == api.Firm && !s.Passive {
					slots = append(slots, buildplan.Keep{Host: s.ID, Claim: c})
				}
			}
		}
	}
	for _, s := range z.specs {
		if w, some := z.wholes[s.ID]; some {
			c := api.Claim{Consumer: api.InstanceID("whole " + s.ID), Class: api.Firm, Window: w, Whole: true}
			if shares, all, err := table.PlaceWhole(s.ID, c); err == nil {
				claims[s.ID]++
				c.Resources = all
				slots = append(slots, buildplan.Keep{Host: s.ID, Claim: c, Shares: shares})
			}
		}
	}
	table.Advance(z.now)
	return table, claims, slots
}

// scene is the zone as the planner sees it.
func (z *zone) scene(t require.TestingT) *buildplan.Inputs {
	fs, err := filters.New(z.filters)
	require.NoError(t, err)
	cs, err := costs.New(z.weights)
	require.NoError(t, err)
	table, _ := z.build()
	return &buildplan.Inputs{
		View: table.View(), Filters: fs, Costs: cs, Spare: z.spare,
		World: &filters.World{HasCommand: hasCommand, Aggregates: z.aggregates, Census: z.census},
	}
}

// slow is the zone as the slow scheduler sees it.
func (z *zone) slow(req *api.Request) *slowZone {
	base, claims := z.build()
	now, _ := z.build()
	all := make([]*capacity.Spec, 0, len(z.specs)+len(z.parts))
	for _, list := range [][]capacity.Spec{z.specs, z.parts} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	slices.SortFunc(all, func(a, b *capacity.Spec) int { return cmp.Compare(a.ID, b.ID) })
	return &slowZone{
		specs: z.specs, parts: all, base: base, now: now, claims: claims, aggregates: z.aggregates, census: z.census,
		filters: z.filters, weights: z.weights, spare: z.spare, zone: z, req: req, window: req.WindowAt(z.now),
	}
}

// drawRequest draws a request of project p. Each demand is rare enough that
// most hosts still pass.
func drawRequest(t *rapid.T) *api.Request {
	req := &api.Request{Project: "p", Reservation: "r", Class: drawClass.Draw(t, "class"), Window: drawWindow(t)}
	if req.Window.End == api.Forever && rarely(t, 4) {
		req.Lifetime = 5 * time.Millisecond
	}
	groups := rapid.IntRange(1, 3).Draw(t, "groups")
	for range groups {
		req.Groups = append(req.Groups, drawGroup(t))
	}
	switch one(t, "", "", "", "", "reserves", "reserves", "within") {
	case "reserves":
		req.Reserves, req.Class = true, api.Firm
		for g := range req.Groups {
			if rarely(t, 3) {
				req.Groups[g].Whole, req.Groups[g].Resources = true, nil
			}
		}
	case "within":
		req.Within = "reservation"
	}
	for range one(t, 0, 1, 1, 2, 3) {
		r := api.Rule{Policy: one(t, api.Affinity, api.Affinity, api.AntiAffinity, api.AntiAffinity, api.SoftAffinity, api.SoftAntiAffinity)}
		if len(req.Rules) == 0 {
			r.ID = one[api.ServerGroupID](t, "", "sg1")
		}
		if r.Policy == api.AntiAffinity {
			r.Max = rapid.IntRange(1, 3).Draw(t, "max")
		}
		for g := range groups {
			if !rarely(t, 3) {
				r.Groups = append(r.Groups, g)
			}
		}
		if len(r.Groups) > 0 {
			req.Rules = append(req.Rules, r)
		}
	}
	return req
}

func drawGroup(t *rapid.T) api.Group {
	g := api.Group{Count: one(t, 0, 1, 2, 2, 5, 5, 25), Resources: drawResources(t, 3), Flavor: one[api.FlavorID](t, "", "web")}
	if len(g.Resources) == 0 {
		g.Resources[api.VCPU] = 1
	}
	if rarely(t, 12) {
		g.Resources["PGPU"] = 1
	}
	if rarely(t, 6) {
		g.Traits.Required = some(t, "CUSTOM_A")
		g.Traits.Forbidden = some(t, "CUSTOM_B")
		if rapid.Bool().Draw(t, "any") {
			g.Traits.AnyOf = [][]string{{"CUSTOM_A", "CUSTOM_B"}}
		}
	}
	if rarely(t, 8) {
		g.AZ = one(t, "az1", "az2", "az3")
	}
	if rarely(t, 8) {
		g.Image = api.Image{Ref: one(t, "", "win"), Properties: map[string]string{"architecture": one(t, "", "ARM", "x86_64")}}
	}
	if rarely(t, 6) {
		g.ExtraSpecs = map[string]string{
			one(t, "price", "capabilities:price", "hw:price", "aggregate_instance_extra_specs:disk"): one(t, ">= 1", "2", "<or> ssd <or> 2", "s!= hdd"),
		}
	}
	if rarely(t, 4) {
		drawHints(t, &g.Hints)
	}
	return g
}

func drawHints(t *rapid.T, h *api.Hints) {
	switch rapid.IntRange(0, 5).Draw(t, "hint") {
	case 0:
		h.SameHost = []api.InstanceID{"i1", "gone"}
	case 1:
		h.DifferentHost = []api.InstanceID{"i1", "i2"}
	case 2:
		h.Near = one(t, "10.0.0.0/16", "10.0.0.0/8")
	case 3:
		h.ForceHosts = []string{"n0", "n3", "nobody"}
	case 4:
		h.IgnoreHosts = []string{"n1", "n2"}
	case 5:
		h.Query = rapid.SampledFrom(queryTexts).Draw(t, "query")
	}
}

// truth is what a query says of a host.
type truth int

const (
	no truth = iota
	yes
	unknown
)

func is(b bool) truth {
	if b {
		return yes
	}
	return no
}

// number is the number in an attribute, and whether there is one.
func number(s *capacity.Spec, name string) (float64, bool) {
	f, err := strconv.ParseFloat(s.Attributes[name], 64)
	return f, err == nil
}

// queries are queries with what they mean, spelt out. The language itself has an
// oracle of its own.
var queries = map[string]func(z *slowZone, s *capacity.Spec) truth{
	`["=", "$arch", "arm"]`: func(_ *slowZone, s *capacity.Spec) truth {
		return is(s.Attributes["arch"] == "arm")
	},
	`["not", [">", "$price", 1]]`: func(_ *slowZone, s *capacity.Spec) truth {
		f, ok := number(s, "price")
		return is(ok && f <= 1)
	},
	`["or", [">=", "$free_ram_mb", 6], ["=", "$price", 2]]`: func(z *slowZone, s *capacity.Spec) truth {
		f, ok := number(s, "price")
		return is(z.capacity(s, api.MemoryMB) > 0 && z.free(s, api.MemoryMB) >= 6 || ok && f == 2)
	},
}

var queryTexts = strings.Split(`["=", "$arch", "arm"]
["not", [">", "$price", 1]]
["or", [">=", "$free_ram_mb", 6], ["=", "$price", 2]]`, "\n")
