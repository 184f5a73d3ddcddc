package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestTheRequestOfAGroupThatMoves: each request is reduced to those that move, with the rules that still bind them, and names no host of
// its own any more.
func TestTheRequestOfAGroupThatMoves(t *testing.T) {
	req := api.Request{
		Reservation: "r", Project: "p", Class: api.Preemptible, Lifetime: 5, Replaces: "older", Window: api.Window{Start: 1, End: 99},
		Groups: []api.Group{
			{Name: "web", Count: 3, Min: 1, Hints: api.Hints{ForceHosts: []string{"h1"}, Query: "q"}},
			{Name: "data", Count: 2, Min: 2, AttachTo: "web", Volume: "v"},
			{Name: "other", Count: 4, Min: 4},
		},
		Rules: []api.Rule{
			{Policy: api.Affinity, Groups: []int{0, 1}},
			{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}},
			{ID: "lifted", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}},
		},
	}
	slot := func(id string, group int) command.Slot {
		return command.Slot{Instance: api.InstanceSpec{ID: api.InstanceID(id)}, Group: group}
	}
	h := &state.Hold{Origin: "up", Request: req, Slots: []command.Slot{slot("a", 0), slot("b", 0), slot("v", 1), slot("c", 0), slot("o", 2)}}
	member := func(id string, rules ...string) *api.Instance {
		return api.NewInstance(&api.InstanceTerms{Window: api.Window{Start: 1, End: 50}, Rules: rules}, api.InstanceSpec{ID: api.InstanceID(id)}, api.StatusActive)
	}
	group := []*api.Instance{member("a", "r#0", "sg"), member("c", "sg")}
	got := requestIn(h, group[0], group)
	want := req
	want.Origin, want.Replaces, want.Lifetime, want.Window = "up", "", 0, api.Window{Start: 1, End: 50}
	want.Groups = []api.Group{
		{Name: "web", Count: 2, Min: 2, Hints: api.Hints{Query: "q"}},
		{Name: "data", AttachTo: "web", Volume: "v", Min: 2},
		{Name: "other", Min: 4},
	}
	want.Rules = []api.Rule{
		{Policy: api.Affinity},
		{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}},
		{ID: "lifted", Policy: api.AntiAffinity, Max: 1},
	}
	assert.Equal(t, want, got)
	assert.Equal(t, 3, h.Request.Groups[0].Count, "the hold is as it was")
	assert.Equal(t, []int{0, 1}, h.Request.Rules[0].Groups)
}

// TestRequestsThatMoveTogetherAreJoined: the groups of the second follow those of the first, a server group that binds both binds all of
// their groups, another one comes with it, and one of that request alone does not; the longer window and the firmer class hold.
func TestRequestsThatMoveTogetherAreJoined(t *testing.T) {
	first := api.Request{
		Class: api.Preemptible, Window: api.Window{Start: 1, End: 50}, Groups: []api.Group{{Name: "a"}, {Name: "b"}},
		Rules: []api.Rule{{ID: "both", Policy: api.Affinity, Groups: []int{1}}, {Policy: api.Affinity, Groups: []int{0}}},
	}
	for name, x := range map[string]struct {
		class api.Class
		end   api.Instant
		want  api.Class
		until api.Instant
	}{
		"firm and longer": {api.Firm, 60, api.Firm, 60}, "not firm and shorter": {api.Preemptible, 40, api.Preemptible, 50},
	} {
		req := first
		req.Rules = []api.Rule{first.Rules[0], first.Rules[1]}
		joinRequest(&req, &api.Request{
			Class: x.class, Window: api.Window{Start: 1, End: x.end}, Groups: []api.Group{{Name: "c"}, {Name: "d"}},
			Rules: []api.Rule{
				{Policy: api.Affinity, Groups: []int{0, 1}},
				{ID: "both", Policy: api.Affinity, Groups: []int{0, 1}},
				{ID: "new", Policy: api.AntiAffinity, Max: 2, Groups: []int{1}},
			},
		})
		assert.Equal(t, api.Request{
			Class: x.want, Window: api.Window{Start: 1, End: x.until}, Groups: []api.Group{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
			Rules: []api.Rule{
				{ID: "both", Policy: api.Affinity, Groups: []int{1, 2, 3}}, {Policy: api.Affinity, Groups: []int{0}},
				{ID: "new", Policy: api.AntiAffinity, Max: 2, Groups: []int{3}},
			},
		}, req, name)
	}
}

// TestWhatLeavesTogether: an instance leaves with those of its host that a hard rule of affinity binds to it, and with those that are bound
// to them; not with those of others, of another host, or that are only spread or preferred. One request for all of
// them must put them on one host.
func TestWhatLeavesTogether(t *testing.T) {
	const one, two, three = api.ServerGroupID("5e5e5e5e-0000-4000-8000-000000000001"), api.ServerGroupID("5e5e5e5e-0000-4000-8000-000000000002"), api.ServerGroupID("5e5e5e5e-0000-4000-8000-000000000003")
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	for _, g := range []api.ServerGroup{
		{ID: one, Project: "p", Name: "one", Policy: api.Affinity}, {ID: two, Project: "p", Name: "two", Policy: api.Affinity},
		{ID: three, Project: "p", Name: "three", Policy: api.AntiAffinity, Max: 3},
	} {
		c.Must(t, command.GroupPut{Stamp: c.zone.Stamp(), Group: g})
	}
	boot := func(id string, project api.ProjectID, host string, policy api.Policy, groups ...api.ServerGroupID) {
		req := api.Request{
			Reservation: api.ReservationID(id), Project: project, User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Name: "g", Count: 1, Flavor: "f", Resources: api.Resources{api.MemoryMB: 1}}},
		}
		most := 0
		if policy == api.AntiAffinity {
			most = 3
		}
		for _, g := range groups {
			req.Rules = append(req.Rules, api.Rule{ID: g, Policy: policy, Max: most, Groups: []int{0}})
		}
		i := []api.InstanceSpec{{ID: api.InstanceID(id), Name: id}}
		c.Must(t, command.BootCreate{Stamp: c.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: req, Min: 1, Instances: i}},
			command.Hold{Stamp: c.zone.Stamp(), ID: api.HoldID(id), Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: i[0], Host: c.host(host).ID}}})
	}
	boot("d", "p", "h1", api.Affinity, one)
	boot("c", "p", "h1", api.Affinity, one, two)
	boot("b", "p", "h1", api.Affinity, two)
	boot("a", "p", "h1", api.Affinity)
	boot("other", "q", "h1", api.Affinity, one)
	boot("spread", "p", "h1", api.AntiAffinity, three)
	boot("too", "p", "h1", api.AntiAffinity, three)
	v := c.View()
	is := func(id string) *api.Instance {
		i, ok := v.Instance(api.InstanceID(id))
		require.True(t, ok)
		return i
	}
	ids := func(all []*api.Instance) (out []string) {
		for _, i := range all {
			out = append(out, string(i.ID))
		}
		return out
	}
	assert.Equal(t, []string{"d", "b", "c"}, ids(together(v, is("d"))))
	assert.Equal(t, []string{"b", "c", "d"}, ids(together(v, is("b"))))
	for _, alone := range []string{"a", "other", "spread"} {
		assert.Equal(t, []string{alone}, ids(together(v, is(alone))))
	}
	all := v.OnHost(c.host("h1").ID)
	var groups [][]string
	for _, g := range groupLeaving(v, all) {
		groups = append(groups, ids(g))
	}
	assert.Equal(t, [][]string{{"a"}, {"b", "c", "d"}, {"other"}, {"spread"}, {"too"}}, groups)
	groups = nil
	for _, g := range groupLeaving(v, []*api.Instance{is("a"), is("b"), is("d")}) {
		groups = append(groups, ids(g))
	}
	assert.Equal(t, [][]string{{"a"}}, groups, "c stays, and they with it")

	req, err := requestOf(v, together(v, is("d")))
	require.NoError(t, err)
	assert.Equal(t, 3, req.Count())
	assert.Equal(t, []api.Rule{
		{ID: one, Policy: api.Affinity, Groups: []int{0, 2}}, {ID: two, Policy: api.Affinity, Groups: []int{1, 2}}, {Policy: api.Affinity, Groups: []int{0, 1, 2}},
	}, req.Rules)
	req, err = requestOf(v, together(v, is("a")))
	require.NoError(t, err)
	assert.Empty(t, req.Rules)
	lifted := *is("c")
	lifted.ChangeTerms(func(t *api.InstanceTerms) { t.Rules = []string{string(two)} })
	assert.Equal(t, []string{string(one), string(two)}, affinities(v, is("c")))
	assert.Equal(t, []string{string(two)}, affinities(v, &lifted), "the other group binds it no more")
	gone := *is("a")
	gone.InstanceTerms = &api.InstanceTerms{Hold: "none", Rules: []string{"x"}}
	_, err = requestOf(v, []*api.Instance{&gone})
	assert.Equal(t, api.CodeInternal, api.CodeOf(err))
	assert.Empty(t, affinities(v, &gone))
}
