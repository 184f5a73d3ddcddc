package buildplan_test

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/buildplan"
	"berth/capacity"
	"berth/filters"
)

// census is who is where, from tables.
type census struct {
	hosts     map[api.InstanceID]api.HostID
	members   map[string]map[api.HostID]int
	elsewhere map[string]map[api.LinkID]int
	tenancy   map[api.HostID]int
}

var _ filters.Census = (*census)(nil)

func (c *census) HostOf(_ api.Tenant, id api.InstanceID) (api.HostID, bool) {
	h, ok := c.hosts[id]
	return h, ok
}

func (c *census) Members(_ api.Tenant, rule string) (map[api.HostID]int, map[api.LinkID]int) {
	return c.members[rule], c.elsewhere[rule]
}

func (c *census) Tenancy(api.Tenant) iter.Seq2[api.HostID, int] { return maps.All(c.tenancy) }

func hasCommand(f api.FlavorID) bool { return f == "web" }

// slowZone is the slow, obvious scheduler of one zone: for each slot it looks at
// every host again, by every filter, prices it again by every cost, picks the
// lowest (price, id) and really claims it. It has its own idea of all rules and
// shares no code with the packages under test but the table of claims.
type slowZone struct {
	specs      []capacity.Spec  // hosts
	parts      []*capacity.Spec // every provider, hosts too
	base, now  *capacity.Table  // before the request, and with its slots
	claims     map[api.HostID]int
	aggregates []*api.Aggregate
	census     *census
	filters    []api.FilterSpec
	weights    []api.CostWeight
	spare      int
	zone       *zone
	req        *api.Request
	window     api.Window
	placed     []put
	home       map[int]api.HostID // by group
}

// put is one slot that was placed.
type put struct {
	group  int
	host   api.HostID
	shares map[api.ProviderID]api.Resources // who gives what
	whole  bool
	kept   bool // the tables have it before the request
}

// on counts the slots on a host that a rule binds; all of them with rule below 0.
func (z *slowZone) on(id api.HostID, rule int) int {
	n := 0
	for _, p := range z.placed {
		if p.host == id && (rule < 0 && !p.kept || rule >= 0 && slices.Contains(z.req.Rules[rule].Groups, p.group)) {
			n++
		}
	}
	return n
}

// keptOn counts the slots on a host that are kept and that a rule binds.
func (z *slowZone) keptOn(id api.HostID, rule int) int {
	n := 0
	for _, p := range z.placed {
		if p.kept && p.host == id && slices.Contains(z.req.Rules[rule].Groups, p.group) {
			n++
		}
	}
	return n
}

func (z *slowZone) claim(r api.Resources) api.Claim {
	return api.Claim{Resources: r, Window: z.window, Class: z.req.ClaimClass()}
}

// why names the first filter that turns a host away, "" for none.
func (z *slowZone) why(s *capacity.Spec, g int) string {
	for _, f := range z.filters {
		if reason := z.refuses(f, s, g); reason != "" {
			return reason
		}
	}
	if z.room(z.now, s, g) == nil {
		return "room"
	}
	if home, ok := z.home[g]; ok && home != s.ID {
		return "server_group"
	}
	return ""
}

func (z *slowZone) refuses(f api.FilterSpec, s *capacity.Spec, g int) string {
	if f.Name == "capacity" {
		return z.noRoom(s, g)
	}
	ok := true
	group := &z.req.Groups[g]
	switch f.Name {
	case "forced_hosts":
		ok = len(group.Hints.ForceHosts) == 0 || slices.Contains(group.Hints.ForceHosts, s.Name)
	case "ignored_hosts":
		ok = !slices.Contains(group.Hints.IgnoreHosts, s.Name)
	case "same_host":
		ok = len(group.Hints.SameHost) == 0 || z.carries(s, group.Hints.SameHost)
	case "different_host":
		ok = !z.carries(s, group.Hints.DifferentHost)
	case "near":
		ok = group.Hints.Near == "" || near(s, group.Hints.Near)
	case "query":
		ok = group.Hints.Query == "" || queries[group.Hints.Query](z, s) == yes
	case "pool":
		later := z.req.Class == api.Preemptible || z.req.Reserves
		ok = s.Pool == api.PoolShared || s.Pool == api.PoolOnDemand && !later || s.Pool == api.PoolReservable && later || z.req.Within != ""
	case "project_isolation":
		ok = z.mayUse(s, f.Options["strict"] == "true")
	case "isolated":
		mine := slices.Contains(strings.Split(f.Options["hosts"], ","), s.Name)
		ok = mine == slices.Contains(strings.Split(f.Options["images"], ","), group.Image.Ref)
	case "driver":
		ok = !s.NeedsCommand || hasCommand(group.Flavor) || z.req.Reserves && group.Flavor == ""
	case "availability_zone":
		ok = group.AZ == "" || group.AZ == s.AZ
	case "traits":
		var has []string
		for _, part := range z.tree(s) {
			has = append(has, part.Traits...)
		}
		ok = hasTraits(has, group.Traits)
	case "aggregate_extra_specs", "extra_specs":
		ok = z.meets(s, group.ExtraSpecs, f.Name == "extra_specs")
	case "image_properties":
		want := group.Image.Properties["architecture"]
		ok = want == "" || strings.EqualFold(want, s.Attributes["arch"])
	case "host_state":
		ok = s.Up && s.Enabled && !s.Maintenance
	case "server_group":
		ok = z.keepsRules(s, g)
	case "instances":
		most, _ := strconv.Atoi(f.Options["max"])
		ok = z.claims[s.ID]+z.on(s.ID, -1) < most
	default:
		panic("the slow scheduler does not know the filter " + f.Name)
	}
	if ok {
		return ""
	}
	return f.Name
}

func (z *slowZone) carries(s *capacity.Spec, list []api.InstanceID) bool {
	return slices.ContainsFunc(list, func(i api.InstanceID) bool { return z.census.hosts[i] == s.ID })
}

func near(s *capacity.Spec, network string) bool {
	a, err := netip.ParseAddr(s.Attributes["ip"])
	return err == nil && netip.MustParsePrefix(network).Contains(a)
}

// list splits at commas and trims blanks.
func list(s string) []string {
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// mayUse: aggregates may be closed to other projects.
func (z *slowZone) mayUse(s *capacity.Spec, strict bool) bool {
	closed, mine, named := false, false, false
	for _, a := range z.aggregates {
		member := slices.Contains(s.Aggregates, string(a.ID))
		for key, value := range a.Metadata {
			if !strings.HasPrefix(key, "filter_project_id") {
				continue
			}
			me := slices.Contains(list(value), string(z.req.Project))
			closed, mine, named = closed || member, mine || member && me, named || me
		}
	}
	if mine || !closed {
		return mine || !strict || !named
	}
	return false
}

func hasTraits(has []string, t api.Traits) bool {
	one := func(n string) bool { return slices.Contains(has, n) }
	for _, list := range t.AnyOf {
		if !slices.ContainsFunc(list, one) {
			return false
		}
	}
	for _, n := range t.Required {
		if !one(n) {
			return false
		}
	}
	return !slices.ContainsFunc(t.Forbidden, one)
}

// meets looks at extra specs of attributes, or at those of aggregates.
func (z *slowZone) meets(s *capacity.Spec, specs map[string]string, attributes bool) bool {
	for key, want := range specs {
		scope, name, scoped := strings.Cut(key, ":")
		if !scoped {
			scope, name = "capabilities", key
		}
		switch {
		case scope == "capabilities" && attributes:
			have, there := s.Attributes[name]
			if !there || !matches(have, want) {
				return false
			}
		case scope == "aggregate_instance_extra_specs" && !attributes:
			if !slices.ContainsFunc(z.aggregates, func(a *api.Aggregate) bool {
				return slices.Contains(s.Aggregates, string(a.ID)) && a.Metadata[name] != "" &&
					slices.ContainsFunc(list(a.Metadata[name]), func(have string) bool { return matches(have, want) })
			}) {
				return false
			}
		}
	}
	return true
}

// matches knows the operators that drawn extra specs use.
func matches(have, want string) bool {
	words := strings.Fields(want)
	switch words[0] {
	case ">=":
		a, err := strconv.ParseFloat(have, 64)
		b, _ := strconv.ParseFloat(words[1], 64)
		return err == nil && a >= b
	case "<or>":
		return have == words[1] || len(words) > 3 && have == words[3]
	case "s!=":
		return have != words[1]
	}
	return have == want
}

// keepsRules: would one slot more of g on s keep the hard rules?
func (z *slowZone) keepsRules(s *capacity.Spec, g int) bool {
	for n, rule := range z.req.Rules {
		if !slices.Contains(rule.Groups, g) {
			continue
		}
		key := z.req.RuleKey(n)
		here, elsewhere := z.census.members[key], z.census.elsewhere[key]
		switch rule.Policy {
		case api.AntiAffinity:
			if here[s.ID]+z.on(s.ID, n) >= rule.Max {
				return false
			}
		case api.Affinity:
			for id, m := range here {
				if m > 0 && id != s.ID {
					return false
				}
			}
			for _, p := range z.placed {
				if p.host != s.ID && slices.Contains(rule.Groups, p.group) {
					return false
				}
			}
			for _, m := range elsewhere {
				if m > 0 {
					return false
				}
			}
		case api.SoftAffinity, api.SoftAntiAffinity:
		}
	}
	return true
}

// noRoom: the claim does not fit beside those of others.
func (z *slowZone) noRoom(s *capacity.Spec, g int) string {
	if z.room(z.base, s, g) != nil {
		return ""
	}
	if z.req.Groups[g].Whole {
		for _, part := range z.tree(s) {
			for _, v := range part.Inventory {
				if v.Capacity() > 0 {
					return z.fullOrPromised(s, g, "in_use")
				}
			}
		}
		return "size"
	}
	reason := "capacity"
	for class, n := range z.req.Groups[g].Resources {
		large, admits := false, false
		for _, part := range z.reach(s) {
			if v, ok := part.Inventory[class]; ok && v.Capacity() >= n {
				large, admits = true, admits || v.Admits(n)
			}
		}
		if !large {
			return "size"
		}
		if !admits {
			reason = "units"
		}
	}
	if reason == "units" {
		return reason
	}
	return z.fullOrPromised(s, g, reason)
}

// fullOrPromised is "promised" if there is room at the first instant of the window, and full if not.
func (z *slowZone) fullOrPromised(s *capacity.Spec, g int, full string) string {
	whole := z.window
	defer func() { z.window = whole }()
	start := max(whole.Start, z.base.View().Now())
	z.window = api.Window{Start: start, End: start + 1}
	if z.room(z.base, s, g) != nil {
		return "promised"
	}
	return full
}

// worth is what one unit of a class costs, by the documented table.
var worth = map[api.ResourceClass]int64{api.MemoryMB: 1, api.VCPU: 4096, "PGPU": 1 << 20, "CUSTOM_X": 1 << 10}

// price is what one slot more of g on s costs.
func (z *slowZone) price(s *capacity.Spec, g int) int64 {
	var sum int64
	for _, w := range z.weights {
		sum += w.Weight * min(max(z.cost(w, s, g), 0), 1<<30)
	}
	return sum
}

func (z *slowZone) cost(w api.CostWeight, s *capacity.Spec, g int) int64 {
	group := &z.req.Groups[g]
	switch w.Name {
	case "constant":
		return 1
	case "fill_first", "spread":
		class := api.ResourceClass(cmp.Or(w.Options["class"], "MEMORY_MB"))
		if asked := z.req.Groups[g].Resources; w.Options["class"] == "" && asked[class] == 0 {
			most := int64(0)
			for _, c := range []api.ResourceClass{"CUSTOM_X", "PGPU", api.VCPU} { // of equal worth the first
				if n := asked[c] * worth[c]; n > most {
					class, most = c, n
				}
			}
		}
		free := z.free(s, class)
		for _, p := range z.placed {
			if p.host == s.ID && !p.kept {
				free -= z.req.Groups[p.group].Resources[class]
			}
		}
		free = min(max(free*worth[class], 0), 1<<30)
		if w.Name == "spread" {
			return 1<<30 - free
		}
		return free
	case "evictions":
		return z.evicted(s, g, api.ResourceClass(cmp.Or(w.Options["class"], "MEMORY_MB")))
	case "gap":
		return z.gap(s, g)
	case "special":
		n := int64(0)
		for _, class := range []api.ResourceClass{"PGPU", "CUSTOM_X"} {
			if z.capacity(s, class) > 0 && group.Resources[class] == 0 {
				n++
			}
		}
		asked := slices.Concat(append([][]string{group.Traits.Required}, group.Traits.AnyOf...)...)
		if t := w.Options["traits"]; t != "" && !slices.Contains(asked, t) &&
			slices.ContainsFunc(z.tree(s), func(part *capacity.Spec) bool { return slices.Contains(part.Traits, t) }) {
			n++
		}
		return n << 20
	case "owner_spread":
		return int64(z.census.tenancy[s.ID]+z.on(s.ID, -1)) << 16
	case "server_group":
		return z.softRules(s, g) << 24
	case "instances":
		return int64(z.claims[s.ID]+z.on(s.ID, -1)) << 12
	case "build_failures":
		return int64(s.Failures) << 24
	case "attribute":
		f, err := strconv.ParseFloat(s.Attributes[w.Options["attribute"]], 64)
		switch {
		case err == nil:
			return int64(f * 1000) // drawn values are exact
		case w.Weight > 0:
			return 1 << 30
		}
		return 0
	}
	panic("the slow scheduler does not know the cost " + w.Name)
}

// evicted is the worth of what preemptibles use of the room of one slot more.
func (z *slowZone) evicted(s *capacity.Spec, g int, class api.ResourceClass) int64 {
	used, group := z.base.View().PreemptibleColumn(class), &z.req.Groups[g]
	if used == nil || z.req.ClaimClass() != api.Preempting {
		return 0
	}
	row, _ := z.base.View().Row(s.ID)
	if group.Whole {
		return used[row] * worth[class]
	}
	free := z.free(s, class)
	for _, p := range z.placed {
		if p.host == s.ID && !p.kept {
			free -= z.req.Groups[p.group].Resources[class]
		}
	}
	return (used[row] + group.Resources[class] - free) * worth[class]
}

// gap is how badly the time until somebody has the room fits.
func (z *slowZone) gap(s *capacity.Spec, g int) int64 {
	gaps := z.base.View().GapColumn(z.req.Groups[g].Resources)
	if gaps == nil || z.req.Class != api.Preemptible {
		return 0
	}
	row, _ := z.base.View().Row(s.ID)
	long, life := int64(gaps[row]-z.base.View().Now())/1000, int64(z.window.End-max(z.window.Start, z.base.View().Now()))/1000
	long = min(long, 1<<26)
	switch {
	case z.window.End == api.Forever:
		return (1<<26 - long) << 4
	case long < life:
		return 1 << 30
	}
	return (long - life) << 4
}

func (z *slowZone) softRules(s *capacity.Spec, g int) int64 {
	n, start := 0, 0
	for i, rule := range z.req.Rules {
		if !slices.Contains(rule.Groups, g) {
			continue
		}
		members := z.census.members[z.req.RuleKey(i)][s.ID] + z.on(s.ID, i) - z.keptOn(s.ID, i)
		switch rule.Policy {
		case api.SoftAntiAffinity:
			n += members
		case api.SoftAffinity:
			n, start = n-members, 32
		case api.Affinity, api.AntiAffinity:
		}
	}
	return int64(n + start)
}

// offers returns what every host that may take a slot of g would cost, best first.
func (z *slowZone) offers(g int) []buildplan.Slot {
	var out []buildplan.Slot
	for i := range z.specs {
		if z.why(&z.specs[i], g) == "" {
			out = append(out, buildplan.Slot{Host: z.specs[i].ID, Weight: z.price(&z.specs[i], g)})
		}
	}
	slices.SortFunc(out, func(a, b buildplan.Slot) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Host, b.Host))
	})
	return out
}

func (z *slowZone) put(g int, id api.HostID) {
	i := slices.IndexFunc(z.specs, func(s capacity.Spec) bool { return s.ID == id })
	p := put{group: g, host: id, shares: z.room(z.now, &z.specs[i], g), whole: z.req.Groups[g].Whole}
	z.placed = append(z.placed, p)
	if p.whole {
		if _, _, err := z.now.PlaceWhole(id, z.claim(nil)); err != nil {
			panic(err)
		}
		return
	}
	for part, r := range p.shares {
		if err := z.now.Claim(part, z.claim(r)); err != nil {
			panic(err)
		}
	}
	if len(p.shares[id]) == 0 {
		z.now.Restore(id, z.claim(nil)) // so that the host is not idle
	}
}

// room says who would give one slot of g on s what, nil if it does not fit.
func (z *slowZone) room(table *capacity.Table, s *capacity.Spec, g int) map[api.ProviderID]api.Resources {
	if !z.req.Groups[g].Whole {
		if len(z.req.Groups[g].Resources) > 0 && table.Fits(s.ID, z.claim(nil)) != nil {
			return nil // the whole host is taken
		}
		return z.shares(table, s, z.req.Groups[g].Resources)
	}
	shares, all, err := table.PlaceWhole(s.ID, z.claim(nil))
	if err != nil {
		return nil
	}
	c := z.claim(all)
	c.Whole = true
	out := map[api.ProviderID]api.Resources{s.ID: capacity.OwnPart(c, shares).Resources}
	for _, sh := range shares {
		out[sh.Provider] = sh.Resources
	}
	for id, r := range out {
		z.releaseWhole(table, id, r)
	}
	return out
}

func (z *slowZone) releaseWhole(table *capacity.Table, id api.ProviderID, r api.Resources) {
	c := z.claim(r)
	c.Whole = true
	table.Return(id, c)
}

// takeBack undoes the last slots, so that n are left.
func (z *slowZone) takeBack(n int) {
	for _, p := range z.placed[n:] {
		for part, r := range p.shares {
			if p.whole {
				z.releaseWhole(z.now, part, r)
			} else {
				z.now.Release(part, z.claim(r))
			}
		}
		if !p.whole && len(p.shares[p.host]) == 0 {
			z.now.Release(p.host, z.claim(nil))
		}
	}
	z.placed = z.placed[:n]
}

// priceBound returns the groups that must share one host with g, in order.
func priceBound(req *api.Request, g int) []int {
	with := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, r := range req.Rules {
			if r.Policy != api.Affinity || !slices.ContainsFunc(r.Groups, func(i int) bool { return i == g || with[i] }) {
				continue
			}
			for _, i := range r.Groups {
				grown = grown || !with[i]
				with[i] = true
			}
		}
	}
	return slices.DeleteFunc(wholeFirst(req), func(i int) bool { return !with[i] })
}

// settle finds the host for everything that is bound to g.
func (z *slowZone) settle(g int) {
	groups := priceBound(z.req, g)
	if _, ok := z.home[g]; ok || len(groups) == 0 {
		return
	}
	var home api.HostID
	most, least := 0, int64(0)
	for i := range z.specs {
		s := &z.specs[i]
		price, before := z.price(s, g), len(z.placed)
		for _, other := range groups {
			for n := 0; n < z.req.Groups[other].Count && z.why(s, other) == ""; n++ {
				z.put(other, s.ID)
			}
		}
		fit := len(z.placed) - before
		z.takeBack(before)
		if fit > most || fit == most && fit > 0 && (price < least || price == least && s.ID < home) {
			home, most, least = s.ID, fit, price
		}
	}
	if most > 0 {
		for _, other := range groups {
			z.home[other] = home
		}
	}
}

// slowGroup is what the slow scheduler says of a group.
type slowGroup struct {
	slots, alternates []buildplan.Slot
	refused           map[string]int
}

// plan plans everything.
func (z *slowZone) plan() []slowGroup {
	out := make([]slowGroup, len(z.req.Groups))
	z.home = map[int]api.HostID{}
	for _, p := range z.placed { // what is kept
		for _, g := range priceBound(z.req, p.group) {
			z.home[g] = p.host
		}
	}
	for _, g := range wholeFirst(z.req) {
		if z.req.Groups[g].Count > 0 {
			z.settle(g)
			out[g] = z.group(g)
		}
	}
	for g := range out { // no alternate that a later group has made impossible
		out[g].alternates = slices.DeleteFunc(out[g].alternates, func(a buildplan.Slot) bool {
			i := slices.IndexFunc(z.specs, func(s capacity.Spec) bool { return s.ID == a.Host })
			return slices.ContainsFunc(z.filters, func(f api.FilterSpec) bool {
				return (f.Name == "server_group" || f.Name == "instances") && z.refuses(f, &z.specs[i], g) != ""
			})
		})
	}
	return out
}

// wholeFirst returns the groups, those of whole hosts first.
func wholeFirst(req *api.Request) []int {
	var whole, others []int
	for g := range req.Groups {
		if req.Groups[g].Whole {
			whole = append(whole, g)
		} else {
			others = append(others, g)
		}
	}
	return append(whole, others...)
}

func (z *slowZone) group(g int) slowGroup {
	out := slowGroup{refused: map[string]int{}}
	for i := range z.specs {
		if reason := z.why(&z.specs[i], g); reason != "" {
			out.refused[reason]++
		}
	}
	used := map[api.HostID]bool{}
	for len(out.slots) < z.req.Groups[g].Count {
		all := z.offers(g)
		if len(all) == 0 {
			break
		}
		out.slots = append(out.slots, all[0])
		used[all[0].Host] = true
		z.put(g, all[0].Host)
	}
	if len(priceBound(z.req, g)) > 0 {
		return out
	}
	for _, a := range z.offers(g) {
		if !used[a.Host] && len(out.alternates) < z.spare {
			out.alternates = append(out.alternates, a)
		}
	}
	return out
}

// fill puts slots of g on one host after another, in order of ids, until nothing
// fits, and counts them.
func (z *slowZone) fill(g int) int64 {
	for _, s := range z.parts {
		for !s.Passive && z.why(s, g) == "" {
			z.put(g, s.ID)
		}
	}
	return int64(len(z.placed))
}
