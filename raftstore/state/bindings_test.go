package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// Keys and the tenant of these tests.
var (
	general = api.BindingKey{}
	cad     = api.BindingKey{AZ: "az1", Tags: []string{"resource=CAD"}}
	tenant  = api.Tenant{Project: "p"}
)

// newBound returns a zone of form 4 with three children.
func newBound(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.form = api.FormFourth
	for _, l := range []string{"pod1", "pod2", "pod3"} {
		w.link(l, api.LinkChild)
	}
	w.link("up", api.LinkParent)
	return w
}

// choose records a boot and has its hold choose a child for a key; answered with all that it asks for.
func (w *world) choose(res, link string, c api.BindingChoice) command.Hold {
	w.tb.Helper()
	w.ok(create(w.stamp(), res, 1, 1))
	h := hold(w.stamp(), "h-"+res, res, nil, part(link, "i-"+res))
	c.Link, c.ID = api.LinkID(link), api.BindingID("b-"+res)
	h.Choices = []api.BindingChoice{c}
	return h
}

// decide ends a boot.
func (w *world) decide(res, link string, d api.Decision) {
	w.tb.Helper()
	w.ok(command.HoldParts{Stamp: w.stamp(), ID: api.HoldID("h-" + res), Answers: []command.PartAnswer{answer(link, "i-"+res)}})
	w.ok(bootDecide(w.stamp(), res, d))
}

// bound returns the child that p is bound to for a key, "" for none.
func (w *world) bound(k api.BindingKey) string {
	b, ok := w.s.ActiveBinding(tenant, k)
	if !ok {
		return ""
	}
	return string(b.Link)
}

// TestBindingBeginsWithItsCommit: neither a hold nor an abort leaves a binding.
func TestBindingBeginsWithItsCommit(t *testing.T) {
	w := newBound(t)
	first := api.BindingChoice{Key: general, Why: api.BindingFirst}
	w.ok(w.choose("a", "pod1", first))
	assert.Empty(t, w.bound(general), "it is not decided")
	assert.Equal(t, "pod1", w.chosen(general))
	w.decide("a", "pod1", api.DecisionAbort)
	assert.Empty(t, w.bound(general))
	assert.Empty(t, w.chosen(general))
	assert.Empty(t, w.s.PastBindings(tenant))

	w.ok(w.choose("b", "pod2", first))
	w.decide("b", "pod2", api.DecisionCommit)
	assert.Equal(t, "pod2", w.bound(general))
	assert.Empty(t, w.chosen(general))
	b, _ := w.s.ActiveBinding(tenant, general)
	assert.Equal(t, api.Binding{
		ID: "b-b", Project: "p", Link: "pod2", Zone: "pod2", Start: w.now, End: api.Forever, Why: api.BindingFirst, Reservation: "b", User: "u",
	}, *b)
}

// chosen returns the child that undecided holds of p have chosen for a key, "" for none.
func (w *world) chosen(k api.BindingKey) string {
	l, _ := w.s.ChosenLinks("", &api.Request{Project: "p"}, k)
	return string(l)
}

// TestOneRebinding: two requests find the bound zone full at once, and one new binding is made.
func TestOneRebinding(t *testing.T) {
	w := newBound(t)
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "b0", Project: "p", Link: "pod1", User: "root"})
	full := api.BindingChoice{Key: general, Seen: "b0", Why: api.BindingNoRoom}
	w.ok(w.choose("a", "pod2", full))
	other := w.choose("b", "pod3", full)
	w.refused(api.CodeContended, other)
	same := w.choose("c", "pod2", full)
	w.ok(same)
	w.decide("a", "pod2", api.DecisionAbort)
	assert.Equal(t, "pod2", w.chosen(general), "another hold still has it")
	w.decide("c", "pod2", api.DecisionCommit)
	assert.Equal(t, "pod2", w.bound(general))
	past := w.s.PastBindings(tenant)
	require.Len(t, past, 1)
	assert.Equal(t, api.BindingNoRoom, past[0].Ended)
	assert.Equal(t, past[0].End, func() api.Instant { b, _ := w.s.ActiveBinding(tenant, general); return b.Start }())

	other.Stamp = w.stamp()
	w.refused(api.CodeContended, other) // it has seen b0
	other.Choices[0].Seen = "b-c"
	w.ok(other)
	w.decide("b", "pod3", api.DecisionCommit)
	assert.Equal(t, "pod3", w.bound(general))
	back := w.choose("d", "pod1", api.BindingChoice{Key: general, Seen: "b-b", Why: api.BindingMaintenance})
	w.ok(back)
	w.decide("d", "pod1", api.DecisionCommit)
	assert.Equal(t, "pod1", w.bound(general), "coming back is fine")
	assert.Len(t, w.s.PastBindings(tenant), 3)
}

// TestARefusedHoldChoosesNothing: a hold that has nothing of the child that it chose keeps neither its own request nor
// others from another child, and one that has something keeps all others.
func TestARefusedHoldChoosesNothing(t *testing.T) {
	for _, form := range []api.Form{api.FormFourth, api.FormFifth} {
		w := newBound(t)
		w.form = form
		w.ok(command.BindingSet{Stamp: w.stamp(), ID: "b0", Project: "p", Link: "pod1", User: "root"})
		w.ok(w.choose("a", "pod1", api.BindingChoice{Key: general, Seen: "b0"}))
		links := func(res string) []api.LinkID {
			others, own := w.s.ChosenLinks("", &api.Request{Project: "p", Reservation: api.ReservationID(res), Attempt: 1}, general)
			return []api.LinkID{others, own}
		}
		assert.Equal(t, []api.LinkID{"", "pod1"}, links("a"), "it is asked")
		assert.Equal(t, []api.LinkID{"pod1", ""}, links("b"))
		full := api.BindingChoice{Key: general, Seen: "b0", Why: api.BindingNoRoom}
		other := w.choose("b", "pod2", full)
		w.refused(api.CodeContended, other)

		w.ok(command.HoldParts{Stamp: w.stamp(), ID: "h-a", Answers: []command.PartAnswer{answer("pod1")}})
		assert.Equal(t, []api.LinkID{"", ""}, links("a"), "nothing is held")
		assert.Equal(t, []api.LinkID{"", ""}, links("b"))
		next := hold(w.stamp(), "h-a2", "a", nil, part("pod2", "i-a2"))
		next.Attempt, next.Request.Attempt = 2, 1
		next.Choices = []api.BindingChoice{{Key: general, Link: "pod2", Seen: "b0", Why: api.BindingNoRoom, ID: "b-a2"}}
		if other.Stamp = w.stamp(); form < api.FormFifth { // as nodes of before that refuse them
			w.refused(api.CodeContended, next)
			w.refused(api.CodeContended, other)
			continue
		}
		w.ok(next)
		assert.Equal(t, []api.LinkID{"", "pod2"}, links("a"))
		w.ok(other)
		third := w.choose("c", "pod3", full)
		w.refused(api.CodeContended, third)
		again := next
		again.ID, again.Attempt, again.Request.Attempt = "h-a3", 3, 3
		again.Choices = []api.BindingChoice{{Key: general, Link: "pod3", Seen: "b0", Why: api.BindingNoRoom, ID: "b-a3"}}
		w.refused(api.CodeContended, again) // b holds pod2
		w.ok(command.HoldParts{Stamp: w.stamp(), ID: "h-b", Answers: []command.PartAnswer{answer("pod2")}})
		again.Parts = []command.Part{part("pod3", "i-a3")}
		w.ok(again) // its second attempt is obsolete
	}
}

// TestTagsOfText: a value of an affinity tag is a text; before api.FormFifth it had to be a name.
func TestTagsOfText(t *testing.T) {
	for _, form := range []api.Form{api.FormFourth, api.FormFifth} {
		w := newBound(t)
		w.form = form
		do := w.ok
		if form < api.FormFifth {
			do = func(c command.Command) Result { w.refused(api.CodeInvalid, c); return Result{} }
		}
		text := []string{"resource=CAD Modeling"}
		do(command.LinkSet{Stamp: w.stamp(), ID: "pod1", Tags: text})
		do(command.BindingSet{Stamp: w.stamp(), ID: "b0", Project: "p", Link: "pod1", Key: api.BindingKey{Tags: text}})
		h := w.choose("a", "pod2", api.BindingChoice{Key: api.BindingKey{Tags: text}, Seen: "b0", Why: api.BindingNoRoom})
		if form < api.FormFifth {
			w.refused(api.CodePlanRefused, h)
		} else {
			w.ok(h)
		}
		w.ok(command.LinkSet{Stamp: w.stamp(), ID: "pod2", Tags: []string{"resource=CAD"}})
	}
}

// TestBindingsByKey: a project has one binding for each key, and so has each tenant.
func TestBindingsByKey(t *testing.T) {
	w := newBound(t)
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "g", Project: "p", Link: "pod1"})
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "c", Project: "p", Key: cad, Link: "pod2"})
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "u", Project: "p", Origin: "up", Link: "pod3"})
	assert.Equal(t, []string{"pod1", "pod2"}, []string{w.bound(general), w.bound(cad)})
	assert.Len(t, w.s.ActiveBindings(tenant), 2)
	assert.Len(t, w.s.ActiveBindings(api.Tenant{Origin: "up", Project: "p"}), 1)

	again := loaded(t, saved(t, w.s))
	assert.Equal(t, w.s.ActiveBindings(tenant), again.ActiveBindings(tenant))
	w.ok(w.choose("a", "pod3", api.BindingChoice{Key: cad, Seen: "c", Why: api.BindingHeadroom}))
	again = loaded(t, saved(t, w.s))
	l, _ := again.ChosenLinks("", &api.Request{Project: "p"}, cad)
	assert.Equal(t, api.LinkID("pod3"), l, "choices outlive a snapshot")
}

// TestOperatorsBind: they set, move and end bindings, and their word stands.
func TestOperatorsBind(t *testing.T) {
	w := newBound(t)
	set := command.BindingSet{Stamp: w.stamp(), ID: "b1", Project: "p", Link: "pod1", User: "root"}
	w.ok(set)
	w.unchanged(command.BindingSet{Stamp: w.stamp(), ID: "b2", Project: "p", Link: "pod1"})
	w.refused(api.CodeConflict, command.BindingSet{Stamp: w.stamp(), ID: "b2", Project: "p", Link: "pod2", Seen: "b9"})
	w.refused(api.CodeNotFound, command.BindingSet{Stamp: w.stamp(), ID: "b2", Project: "p", Link: "none"})
	w.refused(api.CodeNotFound, command.BindingSet{Stamp: w.stamp(), ID: "b2", Project: "p", Link: "up"})
	w.refused(api.CodeInvalid, command.BindingSet{Stamp: w.stamp(), ID: "b2", Project: "p", Link: "pod2", Key: api.BindingKey{Tags: []string{"CAD"}}})

	w.ok(w.choose("a", "pod2", api.BindingChoice{Key: general, Seen: "b1", Why: api.BindingNoRoom}))
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "b3", Project: "p", Link: "pod3", Seen: "b1"})
	w.decide("a", "pod2", api.DecisionCommit)
	assert.Equal(t, "pod3", w.bound(general), "it was moved while the boot was undecided")

	w.ok(command.BindingEnd{Stamp: w.stamp(), ID: "b3"})
	w.unchanged(command.BindingEnd{Stamp: w.stamp(), ID: "b3"})
	w.refused(api.CodeNotFound, command.BindingEnd{Stamp: w.stamp(), ID: "none"})
	assert.Empty(t, w.bound(general))
	assert.Equal(t, api.BindingOperator, w.s.PastBindings(tenant)[0].Ended)
}

// TestBindingsEndWithTheLink ends those to a child that is gone.
func TestBindingsEndWithTheLink(t *testing.T) {
	w := newBound(t)
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "b1", Project: "p", Link: "pod1"})
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "b2", Project: "p", Key: cad, Link: "pod2"})
	w.ok(command.BindingSet{Stamp: w.stamp(), ID: "b3", Project: "q", Origin: "up", Link: "pod2"})
	w.ok(command.LinkDelete{Stamp: w.stamp(), ID: "pod1"})
	assert.Equal(t, []string{"", "pod2"}, []string{w.bound(general), w.bound(cad)})
	assert.Equal(t, api.BindingUnlinked, w.s.PastBindings(tenant)[0].Ended)
	w.ok(command.LinkDelete{Stamp: w.stamp(), ID: "up"})
	assert.Empty(t, w.s.ActiveBindings(api.Tenant{Origin: "up", Project: "q"}))
}

func TestBindingsAreLimited(t *testing.T) {
	w := newBound(t)
	for i := range api.BindingsProjectMax {
		w.apply(command.BindingSet{Stamp: w.stamp(), ID: api.BindingID(fmt.Sprint("b", i)), Project: "p", Key: api.BindingKey{AZ: fmt.Sprint("az", i)}, Link: "pod1"})
	}
	require.Len(t, w.s.ActiveBindings(tenant), api.BindingsProjectMax)
	w.refused(api.CodeOverloaded, command.BindingSet{Stamp: w.stamp(), ID: "more", Project: "p", Link: "pod1"})
	w.refused(api.CodeOverloaded, w.choose("a", "pod1", api.BindingChoice{Key: general, Why: api.BindingFirst}))

	for i := range api.BindingsPastMax + 1 {
		link := []api.LinkID{"pod2", "pod3"}[i%2]
		w.apply(command.BindingSet{Stamp: w.stamp(), ID: api.BindingID(fmt.Sprint("c", i)), Project: "p", Key: api.BindingKey{AZ: "az0"}, Link: link})
	}
	past := w.s.PastBindings(tenant)
	require.Len(t, past, api.BindingsPastMax, "the oldest was forgotten")
	assert.Equal(t, api.BindingID(fmt.Sprint("c", api.BindingsPastMax-1)), past[0].ID)
	assert.Equal(t, api.BindingID("c0"), past[len(past)-1].ID)
}

// TestReadsOfBindings: by id, by child, and how many there are.
func TestReadsOfBindings(t *testing.T) {
	w := newBound(t)
	set := func(id, project, link string, k api.BindingKey) {
		w.ok(command.BindingSet{Stamp: w.stamp(), ID: api.BindingID(id), Project: api.ProjectID(project), Key: k, Link: api.LinkID(link)})
	}
	set("a", "q", "pod1", general)
	set("b", "p", "pod1", cad)
	set("c", "p", "pod1", general)
	set("d", "p", "pod2", general)
	var ids []api.BindingID
	for _, b := range w.s.BindingsTo("pod1") {
		ids = append(ids, b.ID)
	}
	assert.Equal(t, []api.BindingID{"b", "a"}, ids, "the active ones, by project")
	assert.Empty(t, w.s.BindingsTo("pod3"))
	active, past := w.s.CountBindings()
	assert.Equal(t, []int{3, 1}, []int{active, past})
	old, ok := w.s.Binding("c")
	require.True(t, ok, "past ones too")
	assert.False(t, old.Active())
	_, ok = w.s.Binding("none")
	assert.False(t, ok)
}

// TestEventsOfBindings: each begin and end is told, but not the ends that come with that of a link.
func TestEventsOfBindings(t *testing.T) {
	w := newBound(t)
	from := w.s.EventsEnd()
	told := func() (out []string) {
		all, whole := w.s.Events(from, 100)
		require.True(t, whole)
		from = w.s.EventsEnd()
		for _, e := range all {
			if e.Kind == EventBindingBegan || e.Kind == EventBindingEnded {
				out = append(out, fmt.Sprint(e.Kind == EventBindingBegan, " ", e.Binding, " ", e.Project, " ", e.Link, " ", e.Is, " ", e.Reservation))
			}
		}
		return out
	}
	w.ok(w.choose("a", "pod1", api.BindingChoice{Key: general, Why: api.BindingFirst}))
	assert.Empty(t, told(), "it is not decided")
	w.decide("a", "pod1", api.DecisionCommit)
	assert.Equal(t, []string{"true b-a p pod1 first a"}, told())
	w.ok(w.choose("b", "pod2", api.BindingChoice{Key: general, Seen: "b-a", Why: api.BindingNoRoom}))
	w.decide("b", "pod2", api.DecisionCommit)
	assert.Equal(t, []string{"false b-a p pod1 no_room ", "true b-b p pod2 no_room b"}, told(), "the end comes first")
	set := command.BindingSet{Stamp: w.stamp(), ID: "c", Project: "p", Link: "pod3"}
	w.ok(set)
	assert.Len(t, told(), 2)
	w.ok(set)
	assert.Empty(t, told(), "it is bound there already")
	end := command.BindingEnd{Stamp: w.stamp(), ID: "c"}
	w.ok(end)
	assert.Equal(t, []string{"false c p pod3 operator "}, told())
	w.ok(end)
	assert.Empty(t, told(), "a repeat")
	set.ID = "d"
	w.ok(set)
	told()
	w.ok(command.LinkDelete{Stamp: w.stamp(), ID: "pod3"})
	assert.Empty(t, told())
	active, _ := w.s.CountBindings()
	assert.Zero(t, active)
}

// TestTermsOfChildren: a change of some terms leaves the others, so that two changes at once both count.
func TestTermsOfChildren(t *testing.T) {
	w := newWorld(t)
	w.link("up", api.LinkParent)
	w.link("pod1", api.LinkChild)
	half := map[api.ResourceClass]int64{api.VCPU: 50}
	all := command.LinkSet{Stamp: w.stamp(), ID: "pod1", AZ: new("az1"), Tags: []string{"a=1"}, Maintenance: new(true), Headroom: half}
	w.ok(all)
	w.unchanged(all)
	want := api.LinkTerms{AZ: "az1", Tags: []string{"a=1"}, Maintenance: true, Headroom: half}
	for _, one := range []struct {
		set  command.LinkSet
		edit func(*api.LinkTerms)
	}{
		{command.LinkSet{}, func(*api.LinkTerms) {}},
		{command.LinkSet{AZ: new("az2")}, func(t *api.LinkTerms) { t.AZ = "az2" }},
		{command.LinkSet{Tags: []string{"b=1", "b=2"}}, func(t *api.LinkTerms) { t.Tags = []string{"b=1", "b=2"} }},
		{command.LinkSet{Maintenance: new(false)}, func(t *api.LinkTerms) { t.Maintenance = false }},
		{command.LinkSet{Headroom: map[api.ResourceClass]int64{}}, func(t *api.LinkTerms) { t.Headroom = nil }},
		{command.LinkSet{Tags: []string{}}, func(t *api.LinkTerms) { t.Tags = nil }},
		{command.LinkSet{AZ: new("")}, func(t *api.LinkTerms) { t.AZ = "" }},
	} {
		for _, bad := range []command.LinkSet{{AZ: new("a b")}, {Tags: []string{"b", "a"}}, {Headroom: map[api.ResourceClass]int64{api.VCPU: 101}}} {
			bad.Stamp, bad.ID = w.stamp(), "pod1"
			w.refused(api.CodeInvalid, bad)
		}
		one.set.Stamp, one.set.ID = w.stamp(), "pod1"
		w.ok(one.set)
		one.edit(&want)
		l, _ := w.s.Link("pod1")
		assert.Equal(t, want, l.Terms)
	}
	assert.True(t, want.IsZero())
	w.refused(api.CodeInvalid, command.LinkSet{Stamp: w.stamp(), ID: "up", Maintenance: new(false)})
}
