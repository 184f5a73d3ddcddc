package estimate

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/binding"
	"berth/buildplan"
	"berth/costs"
	"berth/filters"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

// TestWhatIsExemptFromBindings: a request that itself says where it lies, or how it lies over zones.
func TestWhatIsExemptFromBindings(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*api.Request)
		want bool
	}{
		"plain":        {func(*api.Request) {}, false},
		"within":       {func(r *api.Request) { r.Within = "x" }, true},
		"replaces":     {func(r *api.Request) { r.Replaces = "x" }, true},
		"allowed":      {func(r *api.Request) { r.Zones.Allowed = []string{"a"} }, true},
		"allowed tags": {func(r *api.Request) { r.Zones.AllowedTags = []string{"a"} }, true},
		"one zone":     {func(r *api.Request) { r.Zones.MinZones = 1 }, false},
		"two zones":    {func(r *api.Request) { r.Zones.MinZones = 2 }, true},
		"skew":         {func(r *api.Request) { r.Zones.MaxSkew = 1 }, true},
		"excluded":     {func(r *api.Request) { r.Zones.Excluded = []string{"a"} }, false},
		"pack":         {func(r *api.Request) { r.Zones.Pack = true }, false},
	} {
		req := plainRequest()
		c.edit(req)
		assert.Equal(t, c.want, isExempt(req), name)
	}
}

// TestTheCostsOfARequest: those of the zone, for preemptibles with gaps, for those who preempt with what has to leave, and for leases packed.
func TestTheCostsOfARequest(t *testing.T) {
	m := memstore.New()
	own := []api.CostWeight{{Name: costs.Spread, Weight: 3}, {Name: costs.FillFirst, Weight: 5}, {Name: costs.Gap, Weight: 7}}
	m.Must(t, command.Init{Zone: "z", Name: "zone", Config: api.ZoneConfig{Costs: own}})
	evict := func(class api.ResourceClass) api.CostWeight {
		return api.CostWeight{Name: costs.Evictions, Weight: costs.WeightMax, Options: map[string]string{"class": string(class)}}
	}
	for name, c := range map[string]struct {
		edit func(*api.Request)
		want []api.CostWeight
	}{
		"a boot":      {func(*api.Request) {}, own},
		"preemptible": {func(r *api.Request) { r.Class = api.Preemptible }, append(own[:3:3], api.CostWeight{Name: costs.Gap, Weight: 1})},
		"preempting": {func(r *api.Request) {
			r.Preempt = true
			r.Groups = append(r.Groups, api.Group{Resources: api.Resources{api.DiskGB: 1}})
		}, append(own[:3:3], evict(api.DiskGB), evict(api.VCPU))},
	} {
		req := plainRequest()
		c.edit(req)
		assert.Equal(t, c.want, weightsFor(m.View(), req), name)
	}
	lease := plainRequest()
	lease.Reserves = true
	lease.Groups = []api.Group{{Whole: true, Count: 1}}
	got := weightsFor(m.View(), lease)
	assert.Equal(t, own[2], got[0])
	assert.Equal(t, api.CostWeight{Name: costs.FillFirst, Weight: packWeight}, got[len(got)-1])
	for _, w := range got[:len(got)-1] {
		assert.NotContains(t, []string{costs.Spread, costs.FillFirst}, w.Name)
	}
	assert.Equal(t, []api.CostWeight{evict(api.MemoryMB), evict(api.VCPU)}, evictionWeights(lease))
	assert.Equal(t, own, m.View().Config.Costs)
	bare := memstore.New()
	assert.Equal(t, costs.DefaultWeights(), weightsFor(bare.View(), plainRequest()))
}

// TestDigestsOfChildrenAreAdded: totals are summed, ranges joined, and a shape is as cheap as in the cheapest zone, if that is known of
// all that have it.
func TestDigestsOfChildrenAreAdded(t *testing.T) {
	shape := api.Resources{api.VCPU: 1}
	l := &api.Link{Offset: 64, Scale: 1}
	price := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		own, below []api.FitSketch
		want       api.FitSketch
	}{
		"cheaper below": {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(640)}}, []api.FitSketch{{Resources: shape, Fits: 4, Price: price(70)}}, api.FitSketch{Resources: shape, Fits: 6, Price: price(128)}},
		"dearer below":  {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(64)}}, []api.FitSketch{{Resources: shape, Fits: 4, Price: price(70)}}, api.FitSketch{Resources: shape, Fits: 6, Price: price(64)}},
		"as cheap":      {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(128)}}, []api.FitSketch{{Resources: shape, Fits: 4, Price: price(64)}}, api.FitSketch{Resources: shape, Fits: 6, Price: price(128)}},
		"only below":    {[]api.FitSketch{{Resources: shape}}, []api.FitSketch{{Resources: shape, Fits: 4, Price: price(64)}}, api.FitSketch{Resources: shape, Fits: 4, Price: price(128)}},
		"none below":    {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(64)}}, []api.FitSketch{{Resources: shape}}, api.FitSketch{Resources: shape, Fits: 2, Price: price(64)}},
		"unknown below": {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(64)}}, []api.FitSketch{{Resources: shape, Fits: 4}}, api.FitSketch{Resources: shape, Fits: 6}},
		"unknown here":  {[]api.FitSketch{{Resources: shape, Fits: 2}}, []api.FitSketch{{Resources: shape, Fits: 4, Price: price(64)}}, api.FitSketch{Resources: shape, Fits: 6}},
		"no sketch":     {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(64)}}, nil, api.FitSketch{Resources: shape, Fits: 3}},
		"of later":      {[]api.FitSketch{{Resources: shape, Fits: 2, Price: price(64)}}, []api.FitSketch{{Resources: shape, StartIn: 5, Fits: 4, Price: price(64)}}, api.FitSketch{Resources: shape, Fits: 6}},
	} {
		d := &api.Digest{Sketches: c.own, Classes: map[api.ResourceClass]api.ClassTotals{}}
		addDigest(d, &api.Digest{Sketches: c.below}, l)
		assert.Equal(t, c.want, d.Sketches[0], name)
	}
	d := &api.Digest{
		Tags: []string{"b"}, Traits: []string{"T"}, Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 1, Free: api.AmountMax - 1, SlotMin: 4, SlotMax: 8}, api.DiskGB: {SlotMin: 2}},
	}
	addDigest(d, &api.Digest{Tags: []string{"a", "b"}, Traits: []string{"S"}, Classes: map[api.ResourceClass]api.ClassTotals{
		api.VCPU: {Total: 2, Free: 5, SlotMin: 3, SlotMax: 6}, api.MemoryMB: {Total: 7, Free: 3, SlotMin: 2, SlotMax: 5}, api.DiskGB: {SlotMin: 3, SlotMax: 1},
	}}, l)
	assert.Equal(t, &api.Digest{Tags: []string{"a", "b"}, Traits: []string{"S", "T"}, Classes: map[api.ResourceClass]api.ClassTotals{
		api.VCPU: {Total: 3, Free: api.AmountMax, SlotMin: 3, SlotMax: 8}, api.MemoryMB: {Total: 7, Free: 3, SlotMin: 2, SlotMax: 5}, api.DiskGB: {SlotMin: 2, SlotMax: 1},
	}}, d)
}

// planOf returns a plan with so many slots of each group.
func planOf(had ...int) *Plan {
	p := &Plan{}
	for _, n := range had {
		p.Layer.Groups = append(p.Layer.Groups, buildplan.LayerGroup{Order: make([]uint16, n)})
		p.Refusals = append(p.Refusals, api.Refusals{Advice: []api.Advice{{Change: api.AdviceZone, Name: "x"}}})
	}
	return p
}

// TestCountsForAParentThatIsShort: the number that there is, unless there is none, all of it, or the whole cannot be used.
func TestCountsForAParentThatIsShort(t *testing.T) {
	req := &api.Request{Groups: []api.Group{{Count: 3}, {Count: 3}, {Count: 3}}}
	p := planOf(0, 2, 3)
	p.adviseCounts(req)
	assert.Empty(t, p.Refusals[0].Advice)
	assert.Equal(t, []api.Advice{{Change: api.AdviceCount, Value: 2}}, p.Refusals[1].Advice)
	assert.Empty(t, p.Refusals[2].Advice)
	p.unmet = adviceMinZones
	p.adviseCounts(req)
	assert.Empty(t, p.Refusals[1].Advice)
}

// TestAdviceIsApplied: to the group that it is for, or to the whole, and the request stays as it was.
func TestAdviceIsApplied(t *testing.T) {
	req := func(edit func(*api.Request)) api.Request {
		r := api.Request{
			Zones:  api.ZoneRule{Allowed: []string{"a"}, Excluded: []string{"b", "c"}, MinZones: 2, MaxSkew: 1, Pack: true},
			Groups: []api.Group{{Count: 9, Min: 9, Resources: api.Resources{api.VCPU: 4, api.DiskGB: 2}}, {Count: 9, Min: 3}}, Window: api.Window{End: 77},
		}
		edit(&r)
		return r
	}
	base := req(func(*api.Request) {})
	for name, c := range map[string]struct {
		idea api.Advice
		want func(*api.Request)
	}{
		"count":     {api.Advice{Change: api.AdviceCount, Value: 4}, func(r *api.Request) { r.Groups[0].Count, r.Groups[0].Min = 4, 4 }},
		"lifetime":  {api.Advice{Change: api.AdviceLifetime, Value: 60}, func(r *api.Request) { r.Lifetime, r.Window.End = time.Minute, api.Forever }},
		"amount":    {api.Advice{Change: api.AdviceAmount, Class: api.VCPU, Value: 2}, func(r *api.Request) { r.Groups[0].Resources = api.Resources{api.VCPU: 2, api.DiskGB: 2} }},
		"zone":      {api.Advice{Change: api.AdviceZone, Name: "b"}, func(r *api.Request) { r.Zones.Allowed, r.Zones.Excluded = []string{"a", "b"}, []string{"c"} }},
		"min zones": {api.Advice{Change: api.AdviceDrop, Name: adviceMinZones}, func(r *api.Request) { r.Zones.MinZones = 0 }},
		"skew":      {api.Advice{Change: api.AdviceDrop, Name: adviceMaxSkew}, func(r *api.Request) { r.Zones.MaxSkew = 0 }},
		"pack":      {api.Advice{Change: api.AdviceDrop, Name: advicePack}, func(r *api.Request) { r.Zones.Pack = false }},
	} {
		got, ok := applyAdvice(&base, 0, c.idea)
		require.True(t, ok, name)
		assert.Equal(t, req(c.want), *got, name)
		assert.Equal(t, req(func(*api.Request) {}), base, name)
	}
	less, _ := applyAdvice(&base, 1, api.Advice{Change: api.AdviceCount, Value: 4})
	assert.Equal(t, []int{4, 3}, []int{less.Groups[1].Count, less.Groups[1].Min})
	anywhere := req(func(r *api.Request) { r.Zones.Allowed = nil })
	to, _ := applyAdvice(&anywhere, 0, api.Advice{Change: api.AdviceZone, Name: "b"})
	assert.Empty(t, to.Zones.Allowed, "all others stay allowed")
	_, ok := applyAdvice(&base, 0, api.Advice{Change: "else"})
	assert.False(t, ok)
	_, ok = applyAdvice(&base, 0, api.Advice{Change: api.AdviceDrop, Name: "else"})
	assert.False(t, ok)
	assert.True(t, hasLifetime([]api.Advice{{Change: api.AdviceZone}, {Change: api.AdviceLifetime}}))
	assert.False(t, hasLifetime([]api.Advice{{Change: api.AdviceZone}}))
	for policy, hard := range map[api.Policy]bool{api.Affinity: true, api.AntiAffinity: true, api.SoftAffinity: false, api.SoftAntiAffinity: false} {
		bound := &api.Request{Groups: make([]api.Group, 2), Rules: []api.Rule{{Policy: policy, Groups: []int{1}}}}
		assert.False(t, hasHardRule(bound, 0), policy)
		assert.Equal(t, hard, hasHardRule(bound, 1), policy)
	}
}

// TestStepsOfMinima: all of the last group with each number of the others, or some numbers from none to all if these are too many.
func TestStepsOfMinima(t *testing.T) {
	for _, c := range []struct {
		need  []int
		count int
		want  [][]int // nil for not looked at
	}{
		{[]int{3}, 1, [][]int{{3}}},
		{[]int{2, 5}, 3, [][]int{{0, 5}, {1, 5}, {2, 5}}},
		{[]int{0, 2, 0, 4}, 3, [][]int{{0, 0, 0, 4}, {0, 1, 0, 4}, {0, 2, 0, 4}}},
		{[]int{15, 1}, 16, nil},
		{[]int{99, 1}, 16, nil},
		{[]int{1, 1, 7}, 4, [][]int{{0, 0, 7}, {1, 0, 7}, {0, 1, 7}, {1, 1, 7}}},
		{[]int{9, 9, 9}, 16, nil},
	} {
		s := &split{need: c.need}
		got := s.minimaSteps()
		assert.Len(t, got, c.count, "%v", c.need)
		if c.want != nil {
			assert.Equal(t, c.want, got, "%v", c.need)
		}
		seen := map[int]bool{}
		for _, least := range got {
			last := len(c.need) - 1
			for c.need[last] == 0 {
				last--
			}
			assert.Equal(t, c.need[last], least[last])
			assert.True(t, atLeast(c.need, least), "%v", least)
			seen[least[0]] = true
		}
		if len(c.need) > 1 {
			assert.True(t, seen[0] && seen[c.need[0]], "from none to all: %v", got)
		}
	}
	assert.True(t, atLeast([]int{1, 2}, []int{1, 2}))
	assert.False(t, atLeast([]int{9, 1}, []int{1, 2}))
	assert.False(t, atLeast([]int{0, 9}, []int{1, 2}))
	assert.Equal(t, 6, sumOf([]int{1, 2, 3}))
}

// TestOffersOfASplit: those that are no better for what is needed are dropped; a group that cannot have its minimum anywhere makes it
// hopeless; and what a source does not have it is not asked again.
func TestOffersOfASplit(t *testing.T) {
	o := func(sizes ...int) offer { return offer{sizes: sizes} }
	s := &split{need: []int{2, 3}, pools: [][]offer{{o(1, 3), o(1, 9), o(2, 0), o(1, 2), o(0, 3)}, {o(1, 1)}}}
	assert.Equal(t, 2, s.mostOffered(0, 0))
	assert.Equal(t, 9, s.mostOffered(0, 1))
	assert.False(t, s.isHopeless([]int{0, 0}))
	s.need[0] = 4
	assert.True(t, s.isHopeless([]int{0, 0}))
	assert.False(t, s.isHopeless([]int{4, 0}), "the plan has it")
	s.need[0] = 3
	assert.False(t, s.isHopeless([]int{0, 0}), "exactly")
	s.need[0] = 2
	s.pruneOffers()
	assert.Equal(t, [][]offer{{o(1, 3), o(2, 0)}, {o(1, 1)}}, s.pools)
	s.refuted = [][][]int{{{2, 1}}, nil}
	assert.True(t, s.isRefuted(0, []int{2, 1}))
	assert.True(t, s.isRefuted(0, []int{3, 1}))
	assert.False(t, s.isRefuted(0, []int{1, 9}))
	assert.False(t, s.isRefuted(1, []int{9, 9}))
	var visited [][]int
	s.eachCombination(1, func(picked, sum []int) bool {
		visited = append(visited, append([]int{picked[0]}, sum...))
		return true
	})
	assert.Equal(t, [][]int{{0, 1, 3}, {1, 2, 0}}, visited)
	assert.Equal(t, []int{1, 1}, s.sumPicked([]int{1, 0}, []int{3, 1}, []int{0}, 1))
	assert.Equal(t, []int{2, 1}, s.sumPicked([]int{1, 0}, []int{3, 1}, nil, 1))
	assert.Equal(t, []int{2, 0}, s.countMinima(planOf(5, 0)))
	assert.True(t, s.coversMinima(planOf(2, 3)))
	assert.False(t, s.coversMinima(planOf(2, 2)))
	req := &api.Request{Groups: []api.Group{{Count: 9, Min: 4}, {Count: 2, Min: 2}, {Count: 1, Min: 1}}}
	n := newSplit(nil, nil, &Want{Request: req, Held: []map[api.LinkID]int{{"a": 1, "b": 2}, {"a": 5}, {}}}, nil)
	assert.Equal(t, []int{1, 0, 1}, n.need)
	req.Groups[0].Count = 3
	assert.Equal(t, []int{3, 2, 1}, newSplit(nil, nil, &Want{Request: req}, nil).need, "no more than is asked for")
}

// TestSourcesThatAreUsed: those with slots of a merge, or that had some before.
func TestSourcesThatAreUsed(t *testing.T) {
	merged := []buildplan.Merged{{Taken: []int{1, 0, 0}}, {Taken: []int{1, 0, 2}}}
	assert.Equal(t, 2, inUse(merged, [][]int{{0, 0, 0}, {0, 0, 0}}))
	assert.Equal(t, 3, inUse(merged, [][]int{{0, 1, 0}, {0, 0, 0}}))
	p, o := &Plan{merged: []buildplan.Merged{{Order: make([]uint16, 2)}, {Order: make([]uint16, 1)}}}, &Plan{merged: []buildplan.Merged{{Order: make([]uint16, 1)}, {Order: make([]uint16, 2)}}}
	assert.True(t, p.hasFewer(o))
	assert.True(t, o.hasFewer(p))
	assert.False(t, p.hasFewer(p))
	share := (&Plan{merged: []buildplan.Merged{{Order: make([]uint16, 3), Taken: []int{1, 2}}, {Order: make([]uint16, 1), Taken: []int{1, 0}}}})
	req := &api.Request{Groups: []api.Group{{Count: 3}, {Count: 4}}}
	assert.Equal(t, []int{1, 4}, share.shareOf(req, 0))
	assert.Equal(t, []int{2, 4}, share.shareOf(req, 1))
	assert.Equal(t, []int{2, 0}, share.keptSlots(1, true))
	assert.Nil(t, share.keptSlots(1, false))
	dropped := planOf(2, 1)
	dropped.weights, dropped.Layer.Children = [][]int64{{1, 2}, {3}}, []buildplan.Child{{}}
	dropped.Zones = []api.ZoneOutcome{{Zone: "a", Offered: 3, Taken: 3, Cost: 9}}
	dropped.dropSlots()
	assert.Zero(t, dropped.Offered())
	assert.Equal(t, [][]int64{nil, nil}, dropped.weights)
	assert.Empty(t, dropped.Layer.Children)
	assert.Equal(t, []api.ZoneOutcome{{Zone: "a", Offered: 3}}, dropped.Zones)
	w := &Want{Held: []map[api.LinkID]int{{"a": 1}}, Beside: []map[api.LinkID]int{{"a": 4, "b": 2}}}
	assert.Equal(t, []int{5, 2, 0}, []int{w.countAt(0, "a"), w.countAt(0, "b"), w.countAt(0, "c")})
	assert.Zero(t, (&Want{}).countAt(0, "a"))
}

// TestABinderChooses: which child a plan binds a key to, why, and what stays as it is.
func TestABinderChooses(t *testing.T) {
	active := &api.Binding{ID: "old", Link: "a"}
	plan := func(taken ...int) *Plan { // of this zone, a, b and c
		return &Plan{merged: []buildplan.Merged{{Taken: taken}}, heard: []childAnswer{{link: &api.Link{ID: "a"}}, {link: &api.Link{ID: "b"}}, {link: &api.Link{ID: "c"}}}}
	}
	for name, c := range map[string]struct {
		k      keyChoice
		strict bool
		p      *Plan
		want   *api.BindingChoice // without its id
	}{
		"the first":              {keyChoice{order: []api.LinkID{"b", "a"}}, true, plan(0, 0, 2, 0), &api.BindingChoice{Link: "b", Why: api.BindingFirst}},
		"none":                   {keyChoice{order: []api.LinkID{"b", "a"}}, true, plan(3, 0, 0, 1), nil},
		"no child":               {keyChoice{}, true, plan(3, 1, 1, 1), nil},
		"as it is":               {keyChoice{order: []api.LinkID{"a", "b"}, active: active}, false, plan(0, 1, 0, 0), &api.BindingChoice{Link: "a", Seen: "old"}},
		"to one with more":       {keyChoice{order: []api.LinkID{"a", "b", "c"}, active: active}, false, plan(0, 5, 2, 3), &api.BindingChoice{Link: "c", Seen: "old", Why: api.BindingNoRoom}},
		"to the first of two":    {keyChoice{order: []api.LinkID{"a", "b", "c"}, active: active}, false, plan(0, 5, 2, 2), &api.BindingChoice{Link: "b", Seen: "old", Why: api.BindingNoRoom}},
		"not if it is strict":    {keyChoice{order: []api.LinkID{"a", "b", "c"}, active: active}, true, plan(0, 5, 2, 3), &api.BindingChoice{Link: "a", Seen: "old"}},
		"not if it is fixed":     {keyChoice{order: []api.LinkID{"a", "b", "c"}, active: active, fixed: true}, false, plan(0, 5, 2, 3), &api.BindingChoice{Link: "a", Seen: "old"}},
		"it leaves":              {keyChoice{order: []api.LinkID{"b", "a"}, active: active, leave: api.BindingAway}, true, plan(0, 0, 1, 0), &api.BindingChoice{Link: "b", Seen: "old", Why: api.BindingAway}},
		"the next":               {keyChoice{order: []api.LinkID{"a", "b"}, at: 1, active: active}, true, plan(0, 0, 1, 0), &api.BindingChoice{Link: "b", Seen: "old", Why: api.BindingNoRoom}},
		"it stays":               {keyChoice{order: []api.LinkID{"b", "a"}, active: active, stays: true}, true, plan(0, 0, 1, 0), nil},
		"it stays where it is":   {keyChoice{order: []api.LinkID{"a"}, active: active, stays: true}, true, plan(0, 1, 0, 0), &api.BindingChoice{Link: "a", Seen: "old"}},
		"what stays begins none": {keyChoice{order: []api.LinkID{"a"}, stays: true}, true, plan(0, 1, 0, 0), nil},
	} {
		c.k.groups = []int{0}
		b := &binder{strict: c.strict, keys: []*keyChoice{&c.k}}
		got := b.choices(c.p)
		if c.want == nil {
			assert.Empty(t, got, name)
			continue
		}
		require.Len(t, got, 1, name)
		assert.Equal(t, c.want.Why != "", got[0].ID != "", name)
		got[0].ID = ""
		assert.Equal(t, *c.want, got[0], name)
	}
}

// TestABinderMovesOn: from a child that came out short, unless it does not answer and is bound, or others hold its room.
func TestABinderMovesOn(t *testing.T) {
	active := &api.Binding{ID: "old", Link: "a"}
	answer := func(c ...api.Contended) *api.SelectAnswer { return &api.SelectAnswer{Contended: c} }
	for name, c := range map[string]struct {
		k       keyChoice
		answers []childAnswer
		want    bool
	}{
		"not asked":             {keyChoice{active: active}, nil, true},
		"short":                 {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: answer()}}, true},
		"contended":             {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: answer(api.Contended{All: 1})}}, false},
		"contended, no more":    {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: answer(api.Contended{})}}, true},
		"another is contended":  {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "b"}, answer: answer(api.Contended{All: 1})}}, true},
		"bound and silent":      {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, outcome: api.OutcomeLate}}, false},
		"bound and skipped":     {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, outcome: api.OutcomeSkipped}}, true},
		"not bound and silent":  {keyChoice{}, []childAnswer{{link: &api.Link{ID: "a"}, outcome: api.OutcomeLate}}, true},
		"bound elsewhere, gone": {keyChoice{active: &api.Binding{Link: "b"}}, []childAnswer{{link: &api.Link{ID: "a"}, outcome: api.OutcomeLate}}, true},
	} {
		c.k.order, c.k.groups = []api.LinkID{"a", "b"}, []int{0}
		assert.Equal(t, c.want, (&binder{}).mayLeave(&c.k, c.answers), name)
	}
	count := func(f string, tier api.Tier) *api.Refusals {
		return &api.Refusals{Limits: []api.FilterCount{{Filter: f, Tier: tier}}}
	}
	for name, c := range map[string]struct {
		r    *api.Refusals
		want bool
	}{
		"nothing is shown": {&api.Refusals{}, true}, "not now": {count("capacity", api.TierNotNow), true}, "never": {count("capacity", api.TierNotAllowed), false},
		"a group": {count(filters.NameServerGroup, api.TierNotNow), false}, "a share": {count(limitedByShare, api.TierNotAllowed), true}, "hidden": {count(refusedLayout, api.TierNotAllowed), true},
	} {
		assert.Equal(t, c.want, lacksRoom(c.r), name)
	}
	short := planOf(1)
	for name, c := range map[string]struct {
		k     keyChoice
		a     []childAnswer
		p     *Plan
		stays bool
	}{
		"lacks room":      {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: &api.SelectAnswer{Refusals: []api.Refusals{*count("capacity", api.TierNotNow)}}}}, short, false},
		"never":           {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: &api.SelectAnswer{Refusals: []api.Refusals{*count("traits", api.TierNotAllowed)}}}}, short, true},
		"it does not say": {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: &api.SelectAnswer{}}}, short, false},
		"no answer":       {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}}}, short, false},
		"not asked":       {keyChoice{active: active}, nil, short, false},
		"enough":          {keyChoice{active: active}, []childAnswer{{link: &api.Link{ID: "a"}, answer: &api.SelectAnswer{Refusals: []api.Refusals{*count("traits", api.TierNotAllowed)}}}}, planOf(2), false},
		"not bound":       {keyChoice{}, []childAnswer{{link: &api.Link{ID: "a"}, answer: &api.SelectAnswer{Refusals: []api.Refusals{*count("traits", api.TierNotAllowed)}}}}, short, false},
		"at the next":     {keyChoice{active: active, at: 1}, []childAnswer{{link: &api.Link{ID: "a"}, answer: &api.SelectAnswer{Refusals: []api.Refusals{*count("traits", api.TierNotAllowed)}}}}, short, false},
	} {
		c.k.order, c.k.groups = []api.LinkID{"a", "b"}, []int{0}
		b := &binder{w: &Want{Request: &api.Request{Groups: []api.Group{{Count: 2}}}}}
		b.noteStay(&c.k, c.p, c.a)
		assert.Equal(t, c.stays, c.k.stays, name)
	}
}

// TestBoundsOfABinder: each key has the child that it is at; or all that it may go to, the first before the others, with what it may lie in
// beside them unless bindings are strict.
func TestBoundsOfABinder(t *testing.T) {
	k := &keyChoice{groups: []int{1}, order: []api.LinkID{"a", "b"}, at: 1, others: pin{"b", "c", ""}}
	none := &keyChoice{groups: []int{2}}
	b := &binder{w: &Want{Request: &api.Request{Groups: make([]api.Group, 3)}}, keys: []*keyChoice{k, none}}
	assert.Equal(t, bounds{pins: []pin{nil, {"b"}, {}}}, b.boundsNow())
	assert.Equal(t, bounds{pins: []pin{nil, {"a", "b", "b", "c", ""}, {}}, first: []api.LinkID{"", "a", ""}}, b.boundsOfAll())
	b.strict = true
	assert.Equal(t, bounds{pins: []pin{nil, {"a", "b"}, {}}, first: []api.LinkID{"", "a", ""}}, b.boundsOfAll())
	assert.Equal(t, []bool{false, true, true}, []bool{b.isStrict(0), b.isStrict(1), b.isStrict(2)})
	assert.False(t, (*binder)(nil).isStrict(1))
	zones := []*api.RoomStep{{Together: []int{9, 1, 1}}, {Together: []int{9, 4, 2}}, {Together: []int{9, 4, 5}}}
	slots := []int{20, 9, 8}
	b.joinGroups(slots, zones)
	assert.Equal(t, []int{20, 4, 5}, slots)
	k.groups = []int{1, 2}
	b.keys = b.keys[:1]
	zones[1].Together[2] = 9
	b.joinGroups(slots, zones)
	assert.Equal(t, []int{20, 4, 9}, slots, "together in one zone")
	b.strict = false
	kept := []int{1, 2, 3}
	b.joinGroups(kept, zones)
	(*binder)(nil).joinGroups(kept, zones)
	assert.Equal(t, []int{1, 2, 3}, kept)
	assert.False(t, b.isStrict(1))
	mind := &binder{all: []binding.Child{{Link: "a", Usage: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 4}}, Headroom: map[api.ResourceClass]int64{api.VCPU: 5}}, {Link: "b"}}}
	work := func(c api.ResourceClass, n int64) *binding.Work { return &binding.Work{Resources: api.Resources{c: n}} }
	assert.True(t, mind.mindsHeadroom("a", work(api.VCPU, 1)))
	assert.False(t, mind.mindsHeadroom("a", work(api.DiskGB, 1)))
	assert.True(t, mind.mindsHeadroom("a", work(api.DiskGB, 0)))
	assert.False(t, mind.mindsHeadroom("b", work(api.DiskGB, 0)))
}

// TestStepsOfRoom: the last one that has begun; one that changes nothing is none, unless groups could share its room in other ways.
func TestStepsOfRoom(t *testing.T) {
	steps := []api.RoomStep{{At: 5, Together: []int{1}}, {At: 9, Together: []int{2}}}
	for at, want := range map[api.Instant][]int{4: nil, 5: {1}, 8: {1}, 9: {2}, 99: {2}} {
		assert.Equal(t, want, stepAt(steps, at).Together, "%d", at)
	}
	assert.Len(t, addStep(steps, api.RoomStep{At: 11, Together: []int{2}}), 2)
	assert.Len(t, addStep(steps, api.RoomStep{At: 11, Together: []int{3}}), 3)
	assert.Len(t, addStep(steps, api.RoomStep{At: 11, Together: []int{2}, Alone: []int{3}}), 3)
	assert.Len(t, addStep([]api.RoomStep{{Together: []int{2}, Alone: []int{3}}}, api.RoomStep{Together: []int{2}}), 2)
	assert.Len(t, addStep(nil, api.RoomStep{Together: []int{2}}), 1)
}

// TestTheOrderOfABinder: the child that is bound comes first, once, and the others after it; one that is left comes as the rule has it.
func TestTheOrderOfABinder(t *testing.T) {
	m := memstore.NewOfForm(api.FormNewest)
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	e := New(Config{Zone: z, Digests: nobody{}})
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "own", Config: api.ZoneConfig{Bindings: api.BindingRule{Mode: api.BindingStrict}}})
	for _, name := range []string{"a", "b", "c"} {
		m.Must(t, command.LinkPut{Stamp: z.Stamp(), Link: api.Link{ID: api.LinkID(name), Name: "zone-" + name, Role: api.LinkChild, Zone: api.ZoneID(name), Scale: 1, State: api.LinkActive}})
	}
	order := func(edit func(*api.Request)) *keyChoice {
		req := plainRequest()
		edit(req)
		b := e.newBinder(m.View(), &Want{Request: req})
		require.NotNil(t, b)
		require.Len(t, b.keys, 1)
		return b.keys[0]
	}
	same := func(*api.Request) {}
	first := order(same)
	assert.ElementsMatch(t, []api.LinkID{"a", "b", "c"}, first.order)
	assert.Nil(t, first.active)
	for _, bound := range []api.LinkID{"c", "a", "b"} {
		m.Must(t, command.BindingSet{Stamp: z.Stamp(), ID: api.BindingID(api.NewUUID()), Project: "p", Link: bound})
		k := order(same)
		require.NotNil(t, k.active)
		assert.Equal(t, bound, k.order[0])
		assert.ElementsMatch(t, []api.LinkID{"a", "b", "c"}, k.order, "each once")
		assert.Equal(t, pin{"a", "b", "c", ""}, k.others)
		assert.False(t, k.stays)
		assert.True(t, order(func(r *api.Request) { r.Class = api.Preemptible }).stays)
		gone := order(func(r *api.Request) { r.Zones.Excluded = []string{"zone-" + string(bound)} })
		assert.True(t, gone.stays, "the request excludes it")
		assert.Len(t, gone.order, 2)
		assert.NotContains(t, gone.order, bound)
	}
	paused := api.LinkPaused
	m.Must(t, command.LinkSet{Stamp: z.Stamp(), ID: "b", State: &paused})
	left := order(same)
	assert.Equal(t, api.BindingAway, left.leave)
	assert.ElementsMatch(t, []api.LinkID{"a", "c"}, left.order)
}

// nobody is zone.Digests of a zone that has heard nobody.
type nobody struct{}

func (nobody) Digest(api.ZoneID) (api.Digest, time.Duration, bool) { return api.Digest{}, 0, false }

// TestRoomBesideWhatABootHas: its places count with those of the room, which stays as it was; a boot that has nothing adds nothing.
func TestRoomBesideWhatABootHas(t *testing.T) {
	r := Room{Slots: []int{2}, Places: map[api.LinkID]bool{"a": true}}
	assert.Equal(t, r, r.Beside(nil))
	assert.Nil(t, Room{}.Beside(nil).Places)
	got := r.Beside([]map[api.LinkID]int{{"b": 1, "c": 0}, {"a": 0, "": 2}})
	assert.Equal(t, Room{Slots: []int{2}, Places: map[api.LinkID]bool{"a": true, "b": true, "c": false, "": true}}, got)
	assert.Equal(t, map[api.LinkID]bool{"a": true}, r.Places)
	assert.Equal(t, map[api.LinkID]bool{"b": true}, Room{}.Beside([]map[api.LinkID]int{{"b": 1}}).Places)
}

// TestRoomThatOthersHold: what children say that others hold is room that a plan which came out short could have, up to what is wanted; of
// both of their answers the larger one counts, and what only older ones hold is not had before they are decided.
func TestRoomThatOthersHold(t *testing.T) {
	m := memstore.NewOfForm(api.FormNewest)
	z := zone.New(zone.Config{Store: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	e := New(Config{Zone: z})
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "own"})
	child := func(link api.LinkID, c api.Contended) childAnswer {
		return childAnswer{link: &api.Link{ID: link}, answer: &api.SelectAnswer{Contended: []api.Contended{c}}}
	}
	for name, c := range map[string]struct {
		a, b, first   api.Contended // of two children, and of the first one when it was asked for all
		younger, all  []int         // of this zone and these children; nil if nobody is in the way
		contended     []api.Contended
		pack, offered bool
	}{
		"nobody":              {},
		"younger":             {a: api.Contended{All: 2, Younger: 2}, younger: []int{1, 3, 2}, all: []int{1, 3, 2}, contended: []api.Contended{{Younger: 2, All: 2}}},
		"older":               {a: api.Contended{All: 2}, younger: []int{1, 1, 2}, all: []int{1, 3, 2}, contended: []api.Contended{{All: 2}}},
		"both":                {a: api.Contended{All: 2, Younger: 1}, b: api.Contended{All: 1}, younger: []int{1, 2, 2}, all: []int{1, 3, 3}, contended: []api.Contended{{Younger: 1, All: 3}}},
		"more than is wanted": {a: api.Contended{All: 50, Younger: 50}, younger: []int{1, 9, 2}, all: []int{1, 9, 2}, contended: []api.Contended{{Younger: 5, All: 5}}},
		"more younger":        {a: api.Contended{All: 1, Younger: 7}, younger: []int{1, 2, 2}, all: []int{1, 2, 2}, contended: []api.Contended{{Younger: 1, All: 1}}},
		"at first":            {first: api.Contended{All: 3, Younger: 1}, younger: []int{1, 2, 2}, all: []int{1, 4, 2}, contended: []api.Contended{{Younger: 1, All: 3}}},
		"nothing is short":    {a: api.Contended{All: 2}, offered: true},
	} {
		req := plainRequest()
		req.Groups[0].Count = 9
		p := planOf(4)
		if c.offered {
			req.Groups[0].Count = 4
		}
		p.offers = [][]int{{1, 1, 2}}
		p.heard = []childAnswer{child("a", c.a), child("b", c.b)}
		p.first = []childAnswer{child("a", c.first), {link: &api.Link{ID: "b"}}}
		e.findRivals(m.View(), "", req, p)
		assert.Equal(t, c.all != nil, p.Contended(), name)
		assert.Equal(t, c.contended, p.contendedRoom(req), name)
		if c.all != nil {
			assert.Equal(t, [][][]int{{c.younger}, {c.all}}, [][][]int{p.rivals.younger, p.rivals.all}, name)
		}
	}
}

// TestChildrenInTheOrderOfAFanout: those that fit all groups come first, and of these the cheapest.
func TestChildrenInTheOrderOfAFanout(t *testing.T) {
	child := func(link api.LinkID, fits []int64, price int64) childAnswer {
		return childAnswer{link: &api.Link{ID: link}, guess: &guess{fits: fits, price: []int64{price, price, 0}}}
	}
	req := plainRequest()
	req.Groups = []api.Group{{Count: 1}, {Count: 1}, {Count: 0}}
	f := &fanout{w: &Want{Request: req}, order: []int{0, 1, 2, 3}, worth: []int64{1, 1, 1}, answers: []childAnswer{
		child("none", []int64{0, 0, 0}, 0), child("one", []int64{5, 0, 0}, 1), child("dear", []int64{5, 5, 0}, 900), child("cheap", []int64{5, 5, 0}, 100),
	}}
	f.sortChildren()
	assert.Equal(t, []int{3, 2, 1, 0}, f.order)
	assert.Equal(t, []int{2, 1, 0, 0}, []int{f.emptyGroups(0), f.emptyGroups(1), f.emptyGroups(2), f.emptyGroups(3)})
	assert.Equal(t, []int64{0, 1, 1800, 200}, []int64{f.priceOf(0), f.priceOf(1), f.priceOf(2), f.priceOf(3)})
}
