package binding_test

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	. "berth/binding"
)

// pod is a child that is general, empty and new.
func pod(link api.LinkID, edit ...func(*Child)) Child {
	c := Child{Link: link, Created: 100, AZs: []string{"az1"}, Usage: use(100, 100)}
	for _, f := range edit {
		f(&c)
	}
	return c
}

func use(total, free int64) map[api.ResourceClass]api.ClassTotals {
	return map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: total, Free: free}}
}

func cpus(n int64) api.Resources { return api.Resources{api.VCPU: n} }

func TestCheck(t *testing.T) {
	cad := []string{"resource=CAD"}
	for name, c := range map[string]struct {
		work  Work
		child Child
		want  Filter
	}{
		"general":                              {Work{Resources: cpus(1)}, pod("a"), ""},
		"away":                                 {Work{}, pod("a", func(c *Child) { c.Away = true }), FilterAll},
		"away comes first":                     {Work{AZ: "az2"}, pod("a", func(c *Child) { c.Away, c.Maintenance = true, true }), FilterAll},
		"its availability zone":                {Work{AZ: "az1"}, pod("a"), ""},
		"another availability zone":            {Work{AZ: "az2"}, pod("a"), FilterAZ},
		"zones that are not known":             {Work{AZ: "az2"}, pod("a", func(c *Child) { c.AZs = nil }), ""},
		"no availability zones":                {Work{AZ: "az2"}, pod("a", func(c *Child) { c.AZs = []string{} }), FilterAZ},
		"a tag":                                {Work{Tags: cad}, pod("a", func(c *Child) { c.Tags = []string{"disk=fast", "resource=CAD"} }), ""},
		"another value":                        {Work{Tags: cad}, pod("a", func(c *Child) { c.Tags = []string{"resource=GPU"} }), FilterTag},
		"a tag of a general zone":              {Work{Tags: cad}, pod("a"), FilterTag},
		"one of two tags":                      {Work{Tags: []string{"disk=fast", "resource=CAD"}}, pod("a", func(c *Child) { c.Tags = cad }), FilterTag},
		"general work, tagged zone":            {Work{}, pod("a", func(c *Child) { c.Tags = cad }), FilterTag},
		"maintenance":                          {Work{}, pod("a", func(c *Child) { c.Maintenance = true }), FilterMaintenance},
		"the last of it":                       {Work{Resources: cpus(5)}, pod("a", func(c *Child) { c.Usage = use(100, 5) }), ""},
		"more than the last of it":             {Work{Resources: cpus(6)}, pod("a", func(c *Child) { c.Usage = use(100, 5) }), FilterHeadroom},
		"headroom is left":                     {Work{Resources: cpus(1)}, pod("a", headroom(10, use(95, 11))), ""},
		"headroom is broken":                   {Work{Resources: cpus(2)}, pod("a", headroom(10, use(95, 11))), FilterHeadroom},
		"headroom of what is not asked for":    {Work{}, pod("a", headroom(10, use(95, 10))), ""},
		"no headroom of what is not asked for": {Work{}, pod("a", headroom(10, use(95, 9))), FilterHeadroom},
		"headroom of what there is none of":    {Work{}, pod("a", headroom(100, map[api.ResourceClass]api.ClassTotals{})), ""},
		"all is headroom":                      {Work{Resources: cpus(1)}, pod("a", headroom(100, use(95, 95))), FilterHeadroom},
		"usage that is not known":              {Work{Resources: cpus(math.MaxInt64)}, pod("a", headroom(100, nil)), ""},
		"a class that it lacks":                {Work{Resources: api.Resources{api.MemoryMB: 1}}, pod("a"), FilterHeadroom},
		"nothing of a class":                   {Work{Resources: api.Resources{api.MemoryMB: 0}}, pod("a"), ""},
		"more than there are numbers":          {Work{Resources: cpus(math.MaxInt64)}, pod("a", headroom(100, use(math.MaxInt64, math.MaxInt64))), FilterHeadroom},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, new(Rule).Check(&c.work, &c.child)) })
	}
	open := Rule{GeneralOnTagged: true}
	assert.Empty(t, open.Check(&Work{}, &Child{Tags: cad}), "general work may go to tagged zones")
	assert.Equal(t, FilterTag, open.Check(&Work{Tags: cad}, &Child{Tags: []string{"resource=GPU"}}))
}

func headroom(percent int64, u map[api.ResourceClass]api.ClassTotals) func(*Child) {
	return func(c *Child) {
		c.Headroom, c.Usage = map[api.ResourceClass]int64{api.VCPU: percent}, u
	}
}

// Three children: a is the oldest and fullest, c the youngest and cheapest.
func three() []Child {
	return []Child{
		pod("b", func(c *Child) { c.Created, c.Usage, c.Price = 20, use(100, 60), 30 }),
		pod("a", func(c *Child) { c.Created, c.Usage, c.Price = 10, use(100, 20), 30 }),
		pod("c", func(c *Child) { c.Created, c.Usage, c.Price = 30, use(100, 50), 10 }),
	}
}

func TestRank(t *testing.T) {
	type by = map[Weigher]int64
	for name, c := range map[string]struct {
		multipliers by
		want        []api.LinkID
	}{
		"nothing counts":          {nil, []api.LinkID{"a", "b", "c"}},
		"the oldest":              {by{WeigherCreation: 1}, []api.LinkID{"a", "b", "c"}},
		"the youngest":            {by{WeigherCreation: -1}, []api.LinkID{"c", "b", "a"}},
		"the most idle":           {by{WeigherIdle: 1}, []api.LinkID{"b", "c", "a"}},
		"the cheapest":            {by{WeigherPrice: 1}, []api.LinkID{"c", "a", "b"}},
		"all count":               {by{WeigherCreation: 1, WeigherIdle: 1, WeigherPrice: 1}, []api.LinkID{"c", "b", "a"}},
		"the largest counts most": {by{WeigherCreation: 3, WeigherIdle: 1, WeigherPrice: 1}, []api.LinkID{"a", "b", "c"}},
		"a weigher of 0":          {by{WeigherPrice: 0}, []api.LinkID{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Rule{Multipliers: c.multipliers}
			best, dropped := r.Rank(&Work{Resources: cpus(1)}, three())
			assert.Equal(t, c.want, links(best))
			assert.Empty(t, dropped)
		})
	}
}

func TestRankSaysWhoWasDropped(t *testing.T) {
	r := Rule{Multipliers: map[Weigher]int64{WeigherCreation: 1}}
	all := append(three(), pod("e", func(c *Child) { c.Maintenance = true }), pod("d", func(c *Child) { c.Away = true }))
	best, dropped := r.Rank(&Work{Resources: cpus(55)}, all)
	assert.Equal(t, []api.LinkID{"b"}, links(best))
	assert.Equal(t, []Drop{{"a", FilterHeadroom}, {"c", FilterHeadroom}, {"d", FilterAll}, {"e", FilterMaintenance}}, dropped)
	best, dropped = r.Rank(&Work{}, nil)
	assert.Empty(t, best)
	assert.Empty(t, dropped)
}

// What is not known of a child counts as wholly idle.
func TestUnknownUsage(t *testing.T) {
	r := Rule{Multipliers: map[Weigher]int64{WeigherIdle: 1}}
	best, _ := r.Rank(&Work{Resources: cpus(1)}, append(three(), pod("n", func(c *Child) { c.Usage = nil })))
	assert.Equal(t, []api.LinkID{"n", "b", "c", "a"}, links(best))
}

func links(all []Child) []api.LinkID {
	var out []api.LinkID
	for _, c := range all {
		out = append(out, c.Link)
	}
	return out
}

// TestRankAgreesWithFractions compares the order with totals in exact fractions: wherever these
// differ by more than the rounding, the better child is first.
func TestRankAgreesWithFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extremes := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Just[int64](math.MaxInt64))
		all := make([]Child, rapid.IntRange(1, 6).Draw(t, "children"))
		for i := range all {
			total := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Just[int64](1e6)).Draw(t, "total")
			all[i] = Child{
				Link: api.LinkID(rune('a' + i)), Created: api.Instant(extremes.Draw(t, "created")),
				Usage: use(total, rapid.Int64Range(0, total).Draw(t, "free")), Price: rapid.OneOf(extremes, rapid.Just[int64](math.MinInt64)).Draw(t, "price"),
			}
		}
		r := Rule{Multipliers: map[Weigher]int64{}}
		for _, w := range []Weigher{WeigherCreation, WeigherIdle, WeigherPrice} {
			r.Multipliers[w] = rapid.Int64Range(-api.BindingMultiplierMax, api.BindingMultiplierMax).Draw(t, string(w))
		}
		work := Work{Resources: api.Resources{}}
		if rapid.Bool().Draw(t, "asks") {
			work.Resources = cpus(1)
		}
		best, dropped := r.Rank(&work, all)
		require.Len(t, all, len(best)+len(dropped))
		totals := fractions(&r, &work, best)
		slack := big.NewRat(3*2*api.BindingMultiplierMax, Unit) // each value is rounded down once or twice
		for i := 1; i < len(best); i++ {
			require.LessOrEqual(t, new(big.Rat).Sub(totals[i], totals[i-1]).Cmp(slack), 0, "%s before %s", best[i-1].Link, best[i].Link)
		}
		slices.Reverse(all)
		again, _ := r.Rank(&work, all)
		require.Equal(t, links(best), links(again), "the order of the input does not matter")
	})
}

// fractions returns the totals of children in exact fractions.
func fractions(r *Rule, w *Work, all []Child) []*big.Rat {
	values := map[Weigher]func(*Child) *big.Rat{
		WeigherCreation: func(c *Child) *big.Rat { return new(big.Rat).SetInt64(-int64(c.Created)) },
		WeigherPrice:    func(c *Child) *big.Rat { return new(big.Rat).Neg(new(big.Rat).SetInt64(max(c.Price, -math.MaxInt64))) },
		WeigherIdle: func(c *Child) *big.Rat {
			switch u := c.Usage[api.VCPU]; {
			case w.Resources[api.VCPU] == 0:
				return big.NewRat(1, 1)
			case u.Total == 0:
				return new(big.Rat)
			default:
				return big.NewRat(u.Free, u.Total)
			}
		},
	}
	out := make([]*big.Rat, len(all))
	for i := range out {
		out[i] = new(big.Rat)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var each []*big.Rat
		for i := range all {
			each = append(each, values[name](&all[i]))
		}
		if len(each) == 0 {
			continue
		}
		low := slices.MinFunc(each, (*big.Rat).Cmp)
		span := new(big.Rat).Sub(slices.MaxFunc(each, (*big.Rat).Cmp), low)
		for i := range each {
			if span.Sign() > 0 {
				v := new(big.Rat).Quo(new(big.Rat).Sub(each[i], low), span)
				out[i].Add(out[i], v.Mul(v, new(big.Rat).SetInt64(r.Multipliers[name])))
			}
		}
	}
	return out
}
