package estimate

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan"
	"berth/buildplan/seal"
	"berth/costs"
	"berth/filters"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

// plainRequest asks for what digests describe.
func plainRequest() *api.Request {
	return &api.Request{
		Reservation: "r", Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 4, Resources: api.Resources{api.VCPU: 1}}},
	}
}

// TestWhatDigestsTellOf: firm room from now on without an end, and nothing that depends on more than one zone.
func TestWhatDigestsTellOf(t *testing.T) {
	assert.True(t, mayBeLean(&Want{Request: plainRequest()}))
	for name, edit := range map[string]func(*api.Request){
		"preemptible": func(r *api.Request) { r.Class = api.Preemptible },
		"preempts":    func(r *api.Request) { r.Preempt = true },
		"reserves":    func(r *api.Request) { r.Reserves = true },
		"within":      func(r *api.Request) { r.Within = "x" },
		"replaces":    func(r *api.Request) { r.Replaces = "x" },
		"lifetime":    func(r *api.Request) { r.Lifetime = time.Hour },
		"end":         func(r *api.Request) { r.Window.End = 99 },
		"a rule":      func(r *api.Request) { r.Rules = []api.Rule{{Policy: api.Affinity}} },
		"tags":        func(r *api.Request) { r.Zones.AllowedTags = []string{"a"} },
		"other tags":  func(r *api.Request) { r.Zones.ExcludedTags = []string{"a"} },
		"skew":        func(r *api.Request) { r.Zones.MaxSkew = 1 },
		"pack":        func(r *api.Request) { r.Zones.Pack = true },
	} {
		req := plainRequest()
		edit(req)
		assert.False(t, mayBeLean(&Want{Request: req}), name)
	}
	assert.False(t, mayBeLean(&Want{Request: plainRequest(), bounds: bounds{first: []api.LinkID{""}}}))
	min2 := plainRequest()
	min2.Zones.MinZones = 2
	assert.True(t, mayBeLean(&Want{Request: min2}))
}

// TestGuesses: what a digest tells of a child by group, as its link adjusts it; nothing without a sketch of now, or a price of what fits.
func TestGuesses(t *testing.T) {
	shape, other := api.Resources{api.VCPU: 1}, api.Resources{api.VCPU: 2}
	sketch := func(r api.Resources, in api.Instant, fits int64, price *int64) api.FitSketch {
		return api.FitSketch{Resources: r, StartIn: in, Fits: fits, Price: price}
	}
	l := &api.Link{Offset: 10, Scale: 2}
	req := &api.Request{Groups: []api.Group{{Count: 1, Resources: shape}, {Count: 0, Resources: other}, {Count: 1, Resources: shape}}}
	for name, c := range map[string]struct {
		d    api.Digest
		want *guess
	}{
		"known":        {api.Digest{Sketches: []api.FitSketch{sketch(other, 0, 1, nil), sketch(shape, 0, 8, new(int64(5)))}}, &guess{[]int64{8, 0, 8}, []int64{20, 0, 20}}},
		"partial":      {api.Digest{Partial: true, Sketches: []api.FitSketch{sketch(shape, 0, 8, new(int64(5)))}}, nil},
		"another time": {api.Digest{Sketches: []api.FitSketch{sketch(shape, 3_600_000, 8, new(int64(5)))}}, nil},
		"no sketch":    {api.Digest{Sketches: []api.FitSketch{sketch(other, 0, 8, new(int64(5)))}}, nil},
		"no price":     {api.Digest{Sketches: []api.FitSketch{sketch(shape, 0, 8, nil)}}, nil},
		"full":         {api.Digest{Sketches: []api.FitSketch{sketch(shape, 0, 0, nil)}}, &guess{[]int64{0, 0, 0}, []int64{0, 0, 0}}},
		"many":         {api.Digest{Sketches: []api.FitSketch{sketch(shape, 0, api.CountMax+1, new(int64(5)))}}, &guess{[]int64{api.CountMax, 0, api.CountMax}, []int64{20, 0, 20}}},
		"dear":         {api.Digest{Sketches: []api.FitSketch{sketch(shape, 0, 8, new(int64(math.MaxInt64)))}}, &guess{[]int64{8, 0, 8}, []int64{2*costs.TotalMax + 10, 0, 2*costs.TotalMax + 10}}},
	} {
		assert.Equal(t, c.want, guessOf(&c.d, req, l), name)
	}
}

// TestSumsStopAtTheirEnds: of numbers as large as there are.
func TestSumsStopAtTheirEnds(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {-1, -2, -3}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}, {1, math.MaxInt64 - 1, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64}, {math.MinInt64, math.MinInt64, math.MinInt64}, {-1, math.MinInt64 + 1, math.MinInt64},
		{math.MaxInt64, math.MinInt64, -1}, {math.MinInt64, math.MaxInt64, -1}, {-5, 2, -3}, {5, -7, -2}, {0, 0, 0}, {-5, 5, 0}, {-1, 0, -1}, {0, -1, -1},
	} {
		assert.Equal(t, c.want, addCapped(c.a, c.b), "%d + %d", c.a, c.b)
	}
}

// TestSlotsUpToAPrice: those that are taken before the first dearer one, and the weights above a price.
func TestSlotsUpToAPrice(t *testing.T) {
	slots := []buildplan.Slot{{Weight: 1}, {Weight: 5}, {Weight: 9}, {Weight: 3}}
	for price, want := range map[int64]int{0: 0, 1: 1, 4: 1, 5: 2, 8: 2, 9: 4} {
		assert.Equal(t, want, countUpTo(slots, price), "%d", price)
	}
	for price, want := range map[int64]int64{0: 4, 1: 3, 4: 2, 5: 1, 9: 0} {
		assert.Equal(t, want, countAbove([]int64{1, 5, 9, 3}, price), "%d", price)
	}
	one := costs.Points(api.VCPU)
	assert.Equal(t, WeightQuantum+one, worthOf(api.Resources{api.VCPU: 1}))
	assert.Equal(t, WeightQuantum+2*one+costs.Points(api.MemoryMB)*256, worthOf(api.Resources{api.VCPU: 2, api.MemoryMB: 256}))
	assert.Equal(t, int64(costs.ScaleMax), worthOf(api.Resources{api.VCPU: math.MaxInt64}))
}

// TestUsualTimes: the first answer is the usual time, each further one counts for an eighth; a child that has not answered has a bound of its
// own, and no bound is below the least.
func TestUsualTimes(t *testing.T) {
	u := usual{of: map[api.LinkID]time.Duration{}}
	assert.Equal(t, fanoutPatience, u.slowAfter("a"))
	u.note("a", 80*time.Millisecond)
	assert.Equal(t, 640*time.Millisecond, u.slowAfter("a"))
	u.note("a", 160*time.Millisecond)
	took, ok := u.timeOf("a")
	assert.True(t, ok)
	assert.Equal(t, 90*time.Millisecond, took)
	u.note("b", time.Millisecond)
	assert.Equal(t, fanoutPatienceMin, u.slowAfter("b"))
	answers := []childAnswer{{link: &api.Link{ID: "a"}}, {link: &api.Link{ID: "b"}}, {link: &api.Link{ID: "c"}}}
	for _, c := range []struct {
		some []int
		want time.Duration
	}{{nil, fanoutPatienceMin}, {[]int{1}, fanoutPatienceMin}, {[]int{1, 2}, fanoutPatience}, {[]int{0, 1, 2}, 720 * time.Millisecond}} {
		assert.Equal(t, c.want, u.slowestOf(answers, c.some))
	}
	picked, spare := pickedAndSpare([]childAnswer{{}, {outcome: api.OutcomeSkipped, spare: true}, {outcome: api.OutcomeSkipped}, {spare: true}})
	assert.Equal(t, [][]int{{0, 3}, {1}}, [][]int{picked, spare})
}

// TestDigestsRuleOut: what no host of a digest can take never fits, what is only used up may fit soon, and a digest that is not all of its
// zones rules out nothing.
func TestDigestsRuleOut(t *testing.T) {
	d := func(edit func(*api.Digest)) *api.Digest {
		out := &api.Digest{
			Traits: []string{"T"}, AZs: []string{"az"}, Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 8, Free: 4, SlotMax: 6}},
			Sketches: []api.FitSketch{{Resources: api.Resources{api.VCPU: 3}, Fits: 0}, {Resources: api.Resources{api.VCPU: 2}, Fits: 0, StartIn: 3_600_000}},
		}
		edit(out)
		return out
	}
	same := func(*api.Digest) {}
	bare := func(d *api.Digest) { d.Classes = nil }
	g := func(n int64, edit func(*api.Group)) *api.Group {
		out := &api.Group{Count: 1, Resources: api.Resources{api.VCPU: n}}
		edit(out)
		return out
	}
	plain := func(*api.Group) {}
	trait := func(g *api.Group) { g.Traits.Required = []string{"T", "U"} }
	zone := func(g *api.Group) { g.AZ = "other" }
	both := func(g *api.Group) { g.AZ, g.Traits.Required = "az", []string{"T"} }
	for name, c := range map[string]struct {
		d           *api.Digest
		g           *api.Group
		class       api.Class
		fits, never bool
	}{
		"fits":                  {d(same), g(4, plain), api.Firm, true, false},
		"is used up":            {d(same), g(5, plain), api.Firm, false, false},
		"the largest":           {d(same), g(6, plain), api.Firm, false, false},
		"too large":             {d(same), g(7, plain), api.Firm, false, true},
		"in pieces":             {d(same), g(3, plain), api.Firm, false, false},
		"in pieces later":       {d(same), g(2, plain), api.Firm, true, false},
		"another class":         {d(same), &api.Group{Count: 1, Resources: api.Resources{api.DiskGB: 1}}, api.Firm, false, true},
		"its traits and zone":   {d(same), g(1, both), api.Firm, true, false},
		"another trait":         {d(same), g(1, trait), api.Firm, false, true},
		"another zone":          {d(same), g(1, zone), api.Firm, false, true},
		"no hosts, a trait":     {d(bare), g(1, trait), api.Firm, false, false},
		"no hosts, a zone":      {d(bare), g(1, zone), api.Firm, false, false},
		"no hosts":              {d(bare), g(1, plain), api.Firm, false, false},
		"preemptible, full":     {d(same), g(7, plain), api.Preemptible, true, false},
		"preemptible, a trait":  {d(same), g(1, trait), api.Preemptible, false, true},
		"preemptible, a zone":   {d(same), g(1, zone), api.Preemptible, false, true},
		"partial":               {d(func(d *api.Digest) { d.Partial = true }), g(9, trait), api.Firm, true, false},
		"preemptible, no hosts": {d(bare), g(7, plain), api.Preemptible, true, false},
	} {
		fits, never := mayFit(c.d, c.g, c.class)
		assert.Equal(t, []bool{c.fits, c.never}, []bool{fits, never}, name)
	}
	for name, c := range map[string]struct {
		of          []*api.Group
		fits, never bool
	}{
		"one of them fits":           {[]*api.Group{g(7, plain), g(1, plain)}, true, false},
		"one of them never":          {[]*api.Group{g(7, plain), g(5, plain)}, false, false},
		"none of them ever":          {[]*api.Group{g(7, plain), g(8, plain)}, false, true},
		"the one that fits is none":  {[]*api.Group{g(7, plain), g(1, func(g *api.Group) { g.Count = 0 })}, false, true},
		"the one that may, is none":  {[]*api.Group{g(5, func(g *api.Group) { g.Count = 0 }), g(7, plain)}, false, true},
		"nothing is wanted any more": {[]*api.Group{g(1, func(g *api.Group) { g.Count = 0 })}, false, true},
	} {
		req := &api.Request{Class: api.Firm}
		for _, one := range c.of {
			req.Groups = append(req.Groups, *one)
		}
		fits, never := hasRoom(d(same), req)
		assert.Equal(t, []bool{c.fits, c.never}, []bool{fits, never}, name)
	}
	for _, c := range []struct {
		d    api.Digest
		tags []string
		want bool
	}{
		{api.Digest{}, nil, true}, {api.Digest{}, []string{"a"}, false}, {api.Digest{Partial: true}, []string{"a"}, true},
		{api.Digest{Tags: []string{"b"}}, []string{"a", "b"}, true}, {api.Digest{Tags: []string{"c"}}, []string{"a", "b"}, false},
	} {
		assert.Equal(t, c.want, hasTags(&c.d, c.tags))
	}
}

// TestPins: what both pins allow; one that is nil allows all, one that is empty nothing.
func TestPins(t *testing.T) {
	for _, c := range []struct{ a, b, want pin }{
		{nil, nil, nil}, {nil, pin{"a"}, pin{"a"}}, {pin{"a"}, nil, pin{"a"}}, {pin{"a", "b"}, pin{"b", "c"}, pin{"b"}}, {pin{"a"}, pin{"b"}, pin{}}, {pin{}, nil, pin{}}, {nil, pin{}, pin{}},
	} {
		assert.Equal(t, c.want, c.a.intersect(c.b), "%v %v", c.a, c.b)
	}
	assert.True(t, pin(nil).allowsLink("a"))
	assert.False(t, pin{}.allowsLink("a"))
	assert.True(t, pin{"", "a"}.allowsLink(""))
	b := bounds{pins: []pin{nil, {"a"}}}
	assert.Equal(t, []pin{{"b"}, {}}, b.narrow([]pin{{"b"}, {"b"}}))
	assert.True(t, b.allowsOwn(0))
	assert.False(t, b.allowsOwn(1))
	assert.True(t, (&bounds{}).allowsOwn(5))
	heard := []childAnswer{{link: &api.Link{ID: "a"}}, {link: &api.Link{ID: "b"}}}
	assert.Nil(t, b.sourcesFirst(heard))
	assert.Equal(t, []int{2, -1, 1}, (&bounds{first: []api.LinkID{"b", "", "a"}}).sourcesFirst(heard))
}

// TestHowAChildIsAsked: for the groups that may lie there, and not if its name is excluded, or none of them may.
func TestHowAChildIsAsked(t *testing.T) {
	l := &api.Link{ID: "l", Name: "east"}
	req := func(edit func(*api.Request)) *api.Request {
		r := &api.Request{Groups: []api.Group{{Count: 2}, {Count: 3}}}
		edit(r)
		return r
	}
	for name, c := range map[string]struct {
		req    *api.Request
		pinned []pin
		counts []int
		inside bool
		no     string
	}{
		"all":               {req(func(*api.Request) {}), []pin{nil, nil}, nil, false, ""},
		"allowed":           {req(func(r *api.Request) { r.Zones.Allowed = []string{"east"} }), []pin{nil, nil}, nil, true, ""},
		"another":           {req(func(r *api.Request) { r.Zones.Allowed = []string{"west"} }), []pin{nil, nil}, nil, false, excluded},
		"excluded":          {req(func(r *api.Request) { r.Zones.Excluded = []string{"east"} }), []pin{nil, nil}, nil, false, excluded},
		"one is bound":      {req(func(*api.Request) {}), []pin{{"x"}, nil}, []int{0, 3}, false, ""},
		"bound there":       {req(func(*api.Request) {}), []pin{{"x", "l"}, nil}, nil, false, ""},
		"all are bound":     {req(func(*api.Request) {}), []pin{{"x"}, {}}, nil, false, "the request is bound to other zones, or must lie beside what is elsewhere"},
		"one names hosts":   {req(func(r *api.Request) { r.Groups[1].Hints.ForceHosts = []string{"h"} }), []pin{nil, nil}, []int{2, 0}, false, ""},
		"one names a place": {req(func(r *api.Request) { r.Groups[0].Hints.Near = "192.0.2.0/24" }), []pin{nil, nil}, []int{0, 3}, false, ""},
		"both": {req(func(r *api.Request) {
			r.Groups[0].Hints.Near, r.Groups[1].Hints.ForceHosts = "192.0.2.0/24", []string{"h"}
		}), []pin{nil, nil}, nil, false, "the request names hosts, or addresses, of this zone"},
	} {
		ask, no := askOf(l, c.req, c.pinned)
		assert.Equal(t, c.no, no, name)
		assert.Equal(t, c.inside, ask.Inside, name)
		if no == "" {
			assert.Equal(t, c.counts, ask.Counts, name)
		}
	}
}

// TestSumsOfSlots: of all sources up to what is wanted; of a request that is packed those of the one with most.
func TestSumsOfSlots(t *testing.T) {
	req := &api.Request{Groups: []api.Group{{Count: 5}, {Count: 9}}}
	of := [][]int{{1, 2, 3}, {4, 2, 0}}
	assert.Equal(t, []int{5, 6}, sumSlots(req, of))
	req.Zones.Pack = true
	assert.Equal(t, []int{1, 4}, sumSlots(req, of), "the first of those with most")
	assert.Equal(t, []int{2, 4}, sumSlots(req, [][]int{{1, 2, 3}, {4, 4, 0}}))
	assert.Equal(t, []int{0, 0}, sumSlots(req, [][]int{{0, 0}, {0, 0}}))
}

// TestDescribedShortfalls: a request names the first group that lacks of its minimum, then all of them, then the zones; with what it has
// already.
func TestDescribedShortfalls(t *testing.T) {
	groups := func(mins ...int) []api.Group {
		var out []api.Group
		for i, n := range mins {
			out = append(out, api.Group{Count: 5, Min: n, Name: []string{"", "b", "c"}[i]})
		}
		return out
	}
	at := func(n int, links ...api.LinkID) []map[api.LinkID]int {
		out := map[api.LinkID]int{}
		for _, l := range links {
			out[l] = n
		}
		return []map[api.LinkID]int{out}
	}
	for name, c := range map[string]struct {
		req   api.Request
		least int
		held  []map[api.LinkID]int
		room  Room
		want  string
	}{
		"enough":              {api.Request{Groups: groups(2)}, 0, nil, Room{Slots: []int{2}}, ""},
		"one too few":         {api.Request{Groups: groups(2)}, 0, nil, Room{Slots: []int{1}}, "1 of 5 could be had, 2 are needed"},
		"none of one":         {api.Request{Groups: groups(1)}, 0, nil, Room{}, "0 of 5 could be had, 1 is needed"},
		"with what is held":   {api.Request{Groups: groups(3)}, 0, at(1, "a", "b"), Room{Slots: []int{1}}, ""},
		"held alone":          {api.Request{Groups: groups(3)}, 0, at(1, "a", "b"), Room{}, "2 of 5 could be had, 3 are needed"},
		"a named group":       {api.Request{Groups: groups(1, 2)}, 0, nil, Room{Slots: []int{1, 1}}, "1 of 5 of group b could be had, 2 are needed"},
		"a named reservation": {api.Request{Reserves: true, Groups: groups(1, 1)}, 0, nil, Room{Slots: []int{1, 0}}, "0 of 5 of reservation b could be had, 1 is needed"},
		"in all":              {api.Request{Groups: groups(1, 1)}, 4, nil, Room{Slots: []int{1, 2}}, "3 of 10 could be had, 4 are needed"},
		"exactly in all":      {api.Request{Groups: groups(1, 1)}, 3, nil, Room{Slots: []int{1, 2}}, ""},
		"nothing":             {api.Request{Groups: groups(0)}, 0, nil, Room{Slots: []int{0}}, "0 of 5 could be had, 1 is needed"},
		"zones": {
			api.Request{Groups: groups(1), Zones: api.ZoneRule{MinZones: 3}}, 0, at(1, "a"), Room{Slots: []int{1}, Places: map[api.LinkID]bool{"": true, "b": false}},
			"zones with slots for it: 2; 3 are needed",
		},
		"a place that has none":    {api.Request{Groups: groups(1), Zones: api.ZoneRule{MinZones: 2}}, 0, at(0, "a"), Room{Slots: []int{1}, Places: map[api.LinkID]bool{"": true}}, "zones with slots for it: 1; 2 are needed"},
		"enough zones":             {api.Request{Groups: groups(1), Zones: api.ZoneRule{MinZones: 2}}, 0, at(1, "a"), Room{Slots: []int{1}, Places: map[api.LinkID]bool{"": true}}, ""},
		"the same place twice":     {api.Request{Groups: groups(1), Zones: api.ZoneRule{MinZones: 1}}, 0, at(0, "a"), Room{Slots: []int{1}, Places: map[api.LinkID]bool{"a": true}}, ""},
		"what it holds is there":   {api.Request{Groups: groups(1), Zones: api.ZoneRule{MinZones: 1}}, 0, at(1, "a"), Room{}, ""},
		"places are not all slots": {api.Request{Groups: groups(1), Zones: api.ZoneRule{MinZones: 1}}, 0, nil, Room{Slots: []int{1}}, "zones with slots for it: 0; 1 is needed"},
	} {
		assert.Equal(t, c.want, DescribeShortfall(&c.req, c.least, c.held, c.room), name)
	}
}

// TestPromisedHostsAreDescribed: of the first group that is short, in all zones, with the moment if this zone knows it.
func TestPromisedHostsAreDescribed(t *testing.T) {
	promised := func(n int, at api.Instant) api.Refusals {
		r := api.Refusals{Promised: at}
		if n > 0 {
			r.Filters = []api.FilterCount{{Filter: filters.NamePromised, Hosts: n}}
		}
		return r
	}
	at := api.InstantOf(time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC))
	req := &api.Request{Groups: []api.Group{{Count: 1}, {Count: 2}}}
	plan := func(had []int, own [2]api.Refusals, below ...api.Refusals) *Plan {
		p := &Plan{Refusals: own[:], Zones: []api.ZoneOutcome{{}, {Refusals: below}}}
		for _, n := range had {
			p.Layer.Groups = append(p.Layer.Groups, buildplan.LayerGroup{Order: make([]uint16, n)})
		}
		return p
	}
	const text = "; hosts that are free at first and promised to others later: "
	for name, c := range map[string]struct {
		p    *Plan
		want string
	}{
		"nothing is short":     {plan([]int{1, 2}, [2]api.Refusals{promised(3, at), promised(3, at)}), ""},
		"none is promised":     {plan([]int{0, 0}, [2]api.Refusals{promised(0, 0), promised(0, 0)}), ""},
		"of the first":         {plan([]int{0, 0}, [2]api.Refusals{promised(3, at), promised(5, 0)}), text + "3, from 2030-01-02 03:04 UTC"},
		"of the second":        {plan([]int{1, 1}, [2]api.Refusals{promised(3, at), promised(5, 1)}), text + "5, from 1970-01-01 00:00 UTC"},
		"the first has none":   {plan([]int{0, 0}, [2]api.Refusals{promised(0, 0), promised(5, 0)}), text + "5"},
		"here and below":       {plan([]int{0, 0}, [2]api.Refusals{promised(3, 0), promised(0, 0)}, promised(4, 0)), text + "7"},
		"below":                {plan([]int{1, 0}, [2]api.Refusals{promised(0, 0), promised(0, 0)}, promised(9, 0), promised(4, 0)), text + "4"},
		"below, for the first": {plan([]int{1, 0}, [2]api.Refusals{promised(0, 0), promised(0, 0)}, promised(9, 0)), ""},
	} {
		assert.Equal(t, c.want, c.p.DescribePromised(req), name)
	}
}

// TestSilentChildrenAreNamed: those that were late or failed, or are skipped because they fail, not those that an operator has paused; and those
// below which one is silent, once.
func TestSilentChildrenAreNamed(t *testing.T) {
	p := &Plan{Zones: []api.ZoneOutcome{
		{Zone: "own", Outcome: api.OutcomeAnswered}, {Zone: "late", Outcome: api.OutcomeLate}, {Zone: "failed", Outcome: api.OutcomeFailed},
		{Zone: "failing", Outcome: api.OutcomePaused, Reason: failing}, {Zone: "paused", Outcome: api.OutcomePaused, Reason: pausedBelow},
		{Zone: "skipped", Outcome: api.OutcomeSkipped, Reason: failing}, {Zone: "not paused", Outcome: api.OutcomeSkipped, Reason: pausedBelow},
	}}
	a := func(name string, answer *api.SelectAnswer) childAnswer {
		return childAnswer{link: &api.Link{Name: name}, answer: answer}
	}
	p.heard = []childAnswer{a("below", &api.SelectAnswer{Silent: true}), a("whole", &api.SelectAnswer{}), a("none", nil), a("late", &api.SelectAnswer{Silent: true})}
	p.first = []childAnswer{a("below", &api.SelectAnswer{Silent: true}), a("first", &api.SelectAnswer{Silent: true})}
	assert.Equal(t, []string{"late", "failed", "failing", "below", "first"}, p.Silent())
	assert.Equal(t, []string{"paused"}, p.Paused())
	assert.Equal(t, "; paused: paused; without an answer of: late, failed, failing, below, first", p.DescribeUnreached())
	assert.Empty(t, (&Plan{}).DescribeUnreached())
	for _, c := range []struct {
		a    childAnswer
		want bool
	}{
		{childAnswer{outcome: api.OutcomeLate}, true}, {childAnswer{outcome: api.OutcomeFailed}, true}, {childAnswer{outcome: api.OutcomePaused, reason: failing}, true},
		{childAnswer{outcome: api.OutcomePaused, reason: pausedBelow}, false}, {childAnswer{outcome: api.OutcomeSkipped, reason: failing}, false}, {childAnswer{outcome: api.OutcomeAnswered}, false},
	} {
		assert.Equal(t, c.want, c.a.isSilent(), "%+v", c.a)
		if c.a.outcome != api.OutcomeSkipped {
			room := childRoom{childAnswer: c.a}
			assert.Equal(t, c.want, room.isSilent(), "%+v", c.a)
		}
	}
	for silent := range map[bool]int{true: 1, false: 2} {
		assert.Equal(t, silent, (&childRoom{childAnswer: childAnswer{outcome: api.OutcomeLate}, room: &api.RoomAnswer{Silent: silent}}).isSilent())
	}
}

// TestCountsForAParent: those of equal filters and tiers are summed, and rounded up to powers of two; they still add up.
func TestCountsForAParent(t *testing.T) {
	now, never := api.TierNotNow, api.TierNotAllowed
	p := &Plan{
		Refusals: []api.Refusals{{
			Considered: 9, Offering: 3, Filters: []api.FilterCount{{Filter: "a", Hosts: 3, Tier: now, Names: []string{"h"}}, {Filter: "b", Hosts: 3, Tier: now}},
			Limits: []api.FilterCount{{Filter: "c", Hosts: 3, Tier: now}}, Advice: []api.Advice{{Change: api.AdviceZone, Name: "secret"}, {Change: api.AdviceCount, Value: 3}},
		}, {Considered: 1, Offering: 1}},
		Zones: []api.ZoneOutcome{{}, {Refusals: []api.Refusals{{
			Considered: 5, Offering: 2, Filters: []api.FilterCount{{Filter: "a", Hosts: 2, Tier: now}, {Filter: "a", Hosts: 1, Tier: never}},
			Limits: []api.FilterCount{{Filter: "c", Hosts: 2, Tier: now}},
		}}}},
	}
	assert.Equal(t, []api.Refusals{
		{
			Considered: 8 + 8 + 4 + 1, Offering: 8, Filters: []api.FilterCount{{Filter: "a", Hosts: 8, Tier: now}, {Filter: "b", Hosts: 4, Tier: now}, {Filter: "a", Hosts: 1, Tier: never}},
			Limits: []api.FilterCount{{Filter: "c", Hosts: 8, Tier: now}}, Advice: []api.Advice{{Change: api.AdviceCount, Value: 3}},
		},
		{Considered: 1, Offering: 1},
	}, foldRefusals(p))
}

// TestOwnHostsThatARuleAllows: by the name of the zone and its tags, each of which can rule it out.
func TestOwnHostsThatARuleAllows(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "own", Config: api.ZoneConfig{Tags: []string{"a", "b"}}})
	for name, c := range map[string]struct {
		rule api.ZoneRule
		want bool
	}{
		"none":           {api.ZoneRule{}, true},
		"excluded":       {api.ZoneRule{Excluded: []string{"x", "own"}}, false},
		"other excluded": {api.ZoneRule{Excluded: []string{"x"}}, true},
		"a tag excluded": {api.ZoneRule{ExcludedTags: []string{"x", "b"}}, false},
		"another tag":    {api.ZoneRule{ExcludedTags: []string{"x"}}, true},
		"allowed":        {api.ZoneRule{Allowed: []string{"x", "own"}}, true},
		"others allowed": {api.ZoneRule{Allowed: []string{"x"}}, false},
		"a tag allowed":  {api.ZoneRule{AllowedTags: []string{"x", "a"}}, true},
		"others tagged":  {api.ZoneRule{AllowedTags: []string{"x"}}, false},
		"both":           {api.ZoneRule{Allowed: []string{"own"}, AllowedTags: []string{"x"}}, false},
	} {
		assert.Equal(t, c.want, allowsOwnHosts(m.View(), &c.rule), name)
	}
	assert.True(t, passedOverForRule(api.Refusals{Filters: []api.FilterCount{{Filter: "x"}, {Filter: refusedZone}}}))
	assert.False(t, passedOverForRule(api.Refusals{Filters: []api.FilterCount{{Filter: "x"}}}))
}

// TestRoundedWeights: down to a multiple of the step, below zero too; counts to powers of two.
func TestRoundedWeights(t *testing.T) {
	for w, want := range map[int64]int64{0: 0, 1: 0, 63: 0, 64: 64, 65: 64, -1: -64, -64: -64, -65: -128} {
		assert.Equal(t, want, quantiseWeight(w), "%d", w)
	}
	for n, want := range map[int64]int64{0: 0, 1: 1, 2: 2, 3: 2, 4: 4, 1023: 512, 1024: 1024} {
		assert.Equal(t, want, roundToPower(n), "%d", n)
	}
	ws := [][]int64{{costs.TotalMax + 1, -costs.TotalMax - 1, 5}}
	limitWeights(ws)
	assert.Equal(t, [][]int64{{costs.TotalMax, -costs.TotalMax, 5}}, ws)
}

// TestAnswersThatAreSound: one list of weights for each group, no longer than it was asked for, with a blob that is not too large.
func TestAnswersThatAreSound(t *testing.T) {
	req := &api.Request{Groups: []api.Group{{Count: 2}, {Count: 1}}}
	most := buildplan.BlobBound(3, 2, 2)
	for name, c := range map[string]struct {
		a    api.SelectAnswer
		want bool
	}{
		"all":           {api.SelectAnswer{Weights: [][]int64{{1, 2}, {3}}, Blob: make([]byte, most)}, true},
		"nothing":       {api.SelectAnswer{Weights: [][]int64{nil, nil}, Blob: make([]byte, 1)}, true},
		"too large":     {api.SelectAnswer{Weights: [][]int64{{1, 2}, {3}}, Blob: make([]byte, most+1)}, false},
		"no blob":       {api.SelectAnswer{Weights: [][]int64{{1, 2}, {3}}}, false},
		"a group less":  {api.SelectAnswer{Weights: [][]int64{{1, 2}}, Blob: make([]byte, 1)}, false},
		"a group more":  {api.SelectAnswer{Weights: [][]int64{{1}, {3}, {}}, Blob: make([]byte, 1)}, false},
		"too many":      {api.SelectAnswer{Weights: [][]int64{{1, 2}, {3, 4}}, Blob: make([]byte, 1)}, false},
		"it has ended":  {api.SelectAnswer{Weights: [][]int64{{1, 2}, {3}}, Blob: make([]byte, 1), Expires: -1}, false},
		"it ends now":   {api.SelectAnswer{Weights: [][]int64{{1, 2}, {3}}, Blob: make([]byte, 1), Expires: 0}, true},
		"fewer, a blob": {api.SelectAnswer{Weights: [][]int64{{1}, nil}, Blob: make([]byte, most)}, false},
	} {
		assert.Equal(t, c.want, isSound(&c.a, req, 2), name)
	}
}

// brokenKeys opens no keys.
type brokenKeys struct{ err error }

func (k brokenKeys) Ring(*state.State) (seal.Keyring, error) {
	var key seal.Key
	return seal.Keyring{key}, k.err
}

// TestWithoutKeysNothingIsSealed: and nothing is opened; a plan that cannot be read is refused, and does not say why.
func TestWithoutKeysNothingIsSealed(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "own"})
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	req := plainRequest()
	e := New(Config{Zone: z, Keys: brokenKeys{errors.New("no key")}})
	_, err := e.sealPlan(m.View(), "", req, &buildplan.Layer{})
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))
	_, err = e.Open(m.View(), "", req, []byte("blob"))
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))
	_, err = e.Select(t.Context(), "", req)
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))

	e = New(Config{Zone: z, Keys: brokenKeys{}})
	for name, plain := range map[string][]byte{"none": nil, "no layer": []byte("x")} {
		ring, _ := e.keys.Ring(nil)
		blob, err := seal.Seal(ring[0], e.sealContext(m.View(), "", req), plain, [24]byte{})
		require.NoError(t, err)
		_, err = e.Open(m.View(), "", req, blob)
		assert.Equal(t, api.CodePlanRefused, api.CodeOf(err), name)
		assert.Equal(t, api.PlanRefusedMessage, api.MessageOf(err), name)
	}
	_, err = e.Open(m.View(), "", req, []byte("blob"))
	assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
	assert.ErrorContains(t, err, `reservation "r" of project "p"`)
}

// TestAWholePlanOrNone: of requests that are planned at once, one that does not get all is planned by itself.
func TestAWholePlanOrNone(t *testing.T) {
	req := plainRequest()
	for n, whole := range map[int]bool{3: false, 4: true} {
		for unmet, met := range map[string]bool{"": true, adviceMinZones: false} {
			p := &Plan{unmet: unmet, Layer: buildplan.Layer{Groups: []buildplan.LayerGroup{{Order: make([]uint16, n)}}}}
			assert.Equal(t, whole && met, p.orNone(req) != nil, "%d %q", n, unmet)
		}
	}
}

// TestRequestsPlannedAtOnce: each gets its slots after those before it, one that does not fit gets none, and one behind it still may.
func TestRequestsPlannedAtOnce(t *testing.T) {
	m := memstore.NewOfForm(api.FormNewest)
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	host := func(name string, cpus int64) command.HostEntry {
		return command.HostEntry{ID: api.HostID(name), Host: api.AgentHost{
			Name: name, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: cpus}},
		}}
	}
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "own"}, command.HostsPut{Stamp: z.Stamp(), Agent: "a", Hosts: []command.HostEntry{host("h1", 2), host("h2", 3)}})
	e := New(Config{Zone: z})
	var reqs []*api.Request
	for _, n := range []int{2, 4, 1, 2, 1} {
		r := plainRequest()
		r.Groups[0].Count, r.Groups[0].Min = n, n
		reqs = append(reqs, r)
	}
	var got []int
	used := map[api.HostID]int{}
	for i, p := range e.PlanAlike(context.Background(), m.View(), reqs) {
		if p == nil {
			got = append(got, 0)
			continue
		}
		got = append(got, p.Offered())
		assert.Len(t, p.Layer.Groups[0].Slots, reqs[i].Count())
		for _, s := range p.Layer.Groups[0].Slots {
			used[s.Host]++
		}
	}
	assert.Equal(t, []int{2, 0, 1, 2, 0}, got)
	assert.Equal(t, map[api.HostID]int{"h1": 2, "h2": 3}, used)
	assert.Equal(t, 2, e.PlanAlike(context.Background(), m.View(), reqs[:1])[0].Offered())
	reqs[0].Groups[0].Count = 9
	assert.Nil(t, e.PlanAlike(context.Background(), m.View(), reqs[:1])[0])
}
