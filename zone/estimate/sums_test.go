package estimate

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/binding"
	"berth/buildplan"
)

// TestSlotsOfAllSources: together up to what is wanted; of a pack those of the one source with the most, of equal ones the first.
func TestSlotsOfAllSources(t *testing.T) {
	for _, c := range []struct {
		pack     bool
		bySource [][]int
		want     []int
	}{
		{false, [][]int{{1, 2}, {0, 0}}, []int{3, 0}}, {false, [][]int{{3, 2}, {1, 0}}, []int{4, 1}}, {false, [][]int{{4, 0}, {2, 1}}, []int{4, 2}},
		{true, [][]int{{1, 2}, {2, 0}}, []int{1, 2}}, {true, [][]int{{1, 2}, {0, 1}}, []int{2, 1}}, {true, [][]int{{0, 0}, {0, 0}}, []int{0, 0}},
	} {
		req := &api.Request{Groups: []api.Group{{Count: 4}, {Count: 2}}}
		req.Zones.Pack = c.pack
		assert.Equal(t, c.want, sumSlots(req, c.bySource), "%+v", c)
	}
}

// TestPlacesOfRivals: where others hold room that would be enough, and where the plan has slots.
func TestPlacesOfRivals(t *testing.T) {
	req := &api.Request{Groups: []api.Group{{Count: 9}, {Count: 9}}}
	p := &Plan{
		Layer:  buildplan.Layer{Children: []buildplan.Child{{Link: "east"}, {Link: "west"}}},
		rivals: &rivals{younger: [][]int{{1, 0, 0}, {0, 2, 0}}, all: [][]int{{1, 3, 0}, {0, 2, 0}}},
	}
	assert.Equal(t, Room{Slots: []int{1, 2}, Places: map[api.LinkID]bool{"": true, "east": true}}, p.RoomWithoutYounger(req))
	assert.Equal(t, Room{Slots: []int{4, 2}, Places: map[api.LinkID]bool{"": true, "east": true}}, p.RoomWithoutOthers(req))
	p.Layer.Children = nil
	assert.Equal(t, map[api.LinkID]bool{"": true}, p.RoomWithoutOthers(req).Places, "a dropped plan has no children")
	p.rivals.all[0][0] = 0
	assert.Empty(t, p.RoomWithoutOthers(req).Places)
	assert.True(t, p.Contended())
	assert.False(t, (&Plan{}).Contended())

	room := Room{Slots: []int{1}, Places: map[api.LinkID]bool{"": true}}
	assert.Equal(t, room, room.Beside(nil))
	got := room.Beside([]map[api.LinkID]int{{"east": 1, "west": 0}, {"": 0}})
	assert.Equal(t, map[api.LinkID]bool{"": true, "east": true, "west": false}, got.Places)
	assert.Len(t, room.Places, 1, "that of before stays")
	assert.Equal(t, map[api.LinkID]bool{"east": true}, Room{}.Beside([]map[api.LinkID]int{{"east": 1}}).Places)
}

// TestGroupsOfAKeyAreInOneZone: what they have together counts, of the zone with the most.
func TestGroupsOfAKeyAreInOneZone(t *testing.T) {
	zones := []*api.RoomStep{{Together: []int{1, 0, 9}}, {Together: []int{2, 2, 0}}, {Together: []int{3, 1, 0}}}
	keys := []*keyChoice{{groups: []int{0, 1}}}
	for _, c := range []struct {
		b    *binder
		want []int
	}{{nil, []int{7, 7, 7}}, {&binder{keys: keys}, []int{7, 7, 7}}, {&binder{strict: true, keys: keys}, []int{2, 2, 7}}} {
		slots := []int{7, 7, 7}
		c.b.joinGroups(slots, zones)
		assert.Equal(t, c.want, slots)
		assert.Equal(t, c.b != nil && c.b.strict, c.b.isStrict(0))
		assert.False(t, c.b.isStrict(2), "it has no key")
	}
	b := &binder{w: &Want{Request: &api.Request{Groups: []api.Group{
		{Count: 2, Resources: api.Resources{api.VCPU: 3, api.MemoryMB: api.AmountMax / 2}}, {Count: 1, Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 5}},
	}}}}
	k := &keyChoice{groups: []int{0, 1}}
	k.key.AZ, k.key.Tags = "az", []string{"a=b"}
	assert.Equal(t, &binding.Work{AZ: "az", Tags: []string{"a=b"}, Resources: api.Resources{api.VCPU: 7, api.MemoryMB: api.AmountMax}}, b.workOf(k))
}

// TestPinsOfTwo allow what both do.
func TestPinsOfTwo(t *testing.T) {
	for _, c := range []struct{ a, b, want pin }{
		{nil, nil, nil}, {nil, pin{"e"}, pin{"e"}}, {pin{"e"}, nil, pin{"e"}}, {pin{"e", "w"}, pin{"w", "n"}, pin{"w"}}, {pin{"e"}, pin{"w"}, pin{}},
	} {
		assert.Equal(t, c.want, c.a.intersect(c.b), "%+v", c)
	}
	assert.True(t, pin(nil).allowsLink("e"))
	assert.True(t, pin{"e"}.allowsLink("e"))
	assert.False(t, pin{"e"}.allowsLink(""))
}

// TestNamesInRequests: each that may be part of a key is checked.
func TestNamesInRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *api.Request)
		field  string
	}{
		"project":     {func(r *api.Request) { r.Project = "a b" }, "project_id"},
		"no project":  {func(r *api.Request) { r.Project = "" }, "project_id"},
		"reservation": {func(r *api.Request) { r.Reservation = "a\x00" }, "reservation_id"},
		"flavor":      {func(r *api.Request) { r.Groups[0].Flavor = "a b" }, "flavor"},
		"az":          {func(r *api.Request) { r.Groups[0].AZ = "a b" }, "availability_zone"},
		"user":        {func(r *api.Request) { r.User = "a b" }, "user_id"},
	} {
		r := &api.Request{Project: "p", Reservation: "r", User: "u", Groups: []api.Group{{Count: 1}}}
		c.change(r)
		err := checkRequest(r)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
		assert.ErrorContains(t, err, c.field, name)
	}
}

// TestGuessesOfChildren: a digest tells what fits of each shape, if it is whole.
func TestGuessesOfChildren(t *testing.T) {
	small, large := api.Resources{api.VCPU: 1}, api.Resources{api.VCPU: 8}
	req := &api.Request{Groups: []api.Group{{Count: 2, Resources: small}, {Count: 0, Resources: large}}}
	sketch := func(fits int64) api.FitSketch { return api.FitSketch{Resources: small, Fits: fits} }
	d := &api.Digest{Sketches: []api.FitSketch{sketch(0)}}
	l := &api.Link{Scale: 1}
	got := guessOf(d, req, l)
	assert.Equal(t, []int64{0, 0}, got.fits)
	f := &fanout{w: &Want{Request: req}, answers: []childAnswer{{guess: got}}}
	assert.Equal(t, 1, f.emptyGroups(0), "nobody asks for the other")
	d.Partial = true
	assert.Nil(t, guessOf(d, req, l))
	d.Partial, d.Sketches = false, nil
	assert.Nil(t, guessOf(d, req, l), "it has no sketch of the shape")
	d.Sketches = []api.FitSketch{sketch(api.CountMax + 1)}
	assert.Nil(t, guessOf(d, req, l), "it has no price")
}

// TestWhatMayBeLean: firm work of now without rules over zones, and nothing else.
func TestWhatMayBeLean(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *Want)
		lean   bool
	}{
		"plain":       {func(*Want) {}, true},
		"least zones": {func(w *Want) { w.Request.Zones.MinZones = 2 }, true},
		"preemptible": {func(w *Want) { w.Request.Class = api.Preemptible }, false},
		"preempting":  {func(w *Want) { w.Request.Preempt = true }, false},
		"a lease":     {func(w *Want) { w.Request.Reserves = true }, false},
		"within one":  {func(w *Want) { w.Request.Within = "r" }, false},
		"an update":   {func(w *Want) { w.Request.Replaces = "r" }, false},
		"a lifetime":  {func(w *Want) { w.Request.Lifetime = 1 }, false},
		"an end":      {func(w *Want) { w.Request.Window.End = 9 }, false},
		"a rule":      {func(w *Want) { w.Request.Rules = make([]api.Rule, 1) }, false},
		"tags":        {func(w *Want) { w.Request.Zones.AllowedTags = []string{"a"} }, false},
		"no tags":     {func(w *Want) { w.Request.Zones.ExcludedTags = []string{"a"} }, false},
		"skew":        {func(w *Want) { w.Request.Zones.MaxSkew = 1 }, false},
		"packed":      {func(w *Want) { w.Request.Zones.Pack = true }, false},
		"bound":       {func(w *Want) { w.bounds.first = []api.LinkID{"e"} }, false},
	} {
		w := &Want{Request: &api.Request{Class: api.Firm, Window: api.Window{End: api.Forever}}}
		c.change(w)
		assert.Equal(t, c.lean, mayBeLean(w), name)
	}
}

// TestWhatIsExempt from bindings: what itself says where it lies.
func TestWhatIsExempt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *api.Request)
		exempt bool
	}{
		"plain":     {func(*api.Request) {}, false},
		"one zone":  {func(r *api.Request) { r.Zones.MinZones = 1 }, false},
		"packed":    {func(r *api.Request) { r.Zones.Pack = true }, false},
		"within":    {func(r *api.Request) { r.Within = "r" }, true},
		"an update": {func(r *api.Request) { r.Replaces = "r" }, true},
		"zones":     {func(r *api.Request) { r.Zones.Allowed = []string{"east"} }, true},
		"tags":      {func(r *api.Request) { r.Zones.AllowedTags = []string{"a"} }, true},
		"two zones": {func(r *api.Request) { r.Zones.MinZones = 2 }, true},
		"skew":      {func(r *api.Request) { r.Zones.MaxSkew = 1 }, true},
	} {
		r := &api.Request{}
		c.change(r)
		assert.Equal(t, c.exempt, isExempt(r), name)
	}
}

// TestWhoIsSilent: who did not answer, is not asked because it fails, or has somebody below that did not.
func TestWhoIsSilent(t *testing.T) {
	for _, c := range []struct {
		outcome string
		reason  string
		silent  bool
	}{
		{api.OutcomeAnswered, "", false}, {api.OutcomeLate, "", true}, {api.OutcomeFailed, "", true}, {api.OutcomeSkipped, "", false},
		{api.OutcomePaused, failing, true}, {api.OutcomePaused, "the link is paused", false},
	} {
		assert.Equal(t, c.silent, (&childAnswer{outcome: c.outcome, reason: c.reason}).isSilent(), "%+v", c)
	}
	link := func(name string) *api.Link { return &api.Link{Name: name} }
	p := &Plan{
		Zones: []api.ZoneOutcome{{Zone: "late", Outcome: api.OutcomeLate}, {Zone: "failed", Outcome: api.OutcomeFailed}, {Zone: "fine", Outcome: api.OutcomeAnswered}},
		heard: []childAnswer{{link: link("below"), answer: &api.SelectAnswer{Silent: true}}, {link: link("late"), answer: &api.SelectAnswer{Silent: true}}},
		first: []childAnswer{{link: link("none")}, {link: link("all"), answer: &api.SelectAnswer{}}, {link: link("below"), answer: &api.SelectAnswer{Silent: true}}},
	}
	assert.Equal(t, []string{"late", "failed", "below"}, p.Silent())
}
