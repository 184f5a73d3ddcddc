package intake

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// silence is the digests of zones that say nothing.
type silence struct{}

func (silence) Digest(api.ZoneID) (api.Digest, time.Duration, bool) { return api.Digest{}, 0, false }

func TestTermsOfChildren(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.store.Must(t, command.LinkPut{Stamp: w.zone.Stamp(), Link: api.Link{
		ID: "link-up", Name: "up", Role: api.LinkParent, Zone: "zone-up", Endpoints: []string{"https://up.example:1"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
	}})
	tags := func(n int) *[]string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("k%d=v", i)
		}
		return &out
	}
	headroom := func(n int) map[api.ResourceClass]int64 {
		out := map[api.ResourceClass]int64{}
		for i := range n {
			out[api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))] = 100
		}
		return out
	}
	for _, c := range []struct {
		ref  string
		spec rest.ZoneSpec
		part string
	}{
		{"up", rest.ZoneSpec{Maintenance: new(true)}, `zone "up" is the parent`},
		{"east", rest.ZoneSpec{AZ: new("a b")}, "availability zone"},
		{"east", rest.ZoneSpec{Tags: &[]string{"cad"}}, "an affinity tag must be key=value"},
		{"east", rest.ZoneSpec{Tags: &[]string{"a=b", "a=b"}}, "different"},
		{"east", rest.ZoneSpec{Tags: tags(api.BindingTagsMax + 1)}, "at most 8 affinity tags"},
		{"east", rest.ZoneSpec{Headroom: map[api.ResourceClass]int64{api.VCPU: 101}}, "0 to 100 percent"},
		{"east", rest.ZoneSpec{Headroom: headroom(api.BindingHeadroomMax + 1)}, "at most 32 classes"},
	} {
		before := w.index()
		_, err := ChangeLink(ctx, w.zone, c.ref, c.spec)
		refused(t, err, api.CodeInvalid, c.part)
		assert.Equal(t, before, w.index())
	}
	most, err := ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{Tags: tags(api.BindingTagsMax), Headroom: headroom(api.BindingHeadroomMax)})
	require.NoError(t, err)
	assert.Len(t, most.Terms.Tags, api.BindingTagsMax)

	_, err = ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{AZ: new("az1"), Tags: &[]string{"b=2", "a=1"}, Headroom: map[api.ResourceClass]int64{api.VCPU: 5}})
	require.NoError(t, err)
	l, err := ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{Maintenance: new(true)})
	require.NoError(t, err)
	assert.Equal(t, api.LinkTerms{AZ: "az1", Tags: []string{"a=1", "b=2"}, Maintenance: true, Headroom: map[api.ResourceClass]int64{api.VCPU: 5}}, l.Terms, "the rest stays")
	l, err = ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{AZ: new(""), Tags: &[]string{}, Maintenance: new(false), Headroom: map[api.ResourceClass]int64{}})
	require.NoError(t, err)
	assert.True(t, l.Terms.IsZero())
}

func TestBindingsOfOperators(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	for _, c := range []struct {
		spec rest.BindingSpec
		code api.Code
		part string
	}{
		{rest.BindingSpec{Zone: "east"}, api.CodeInvalid, "project_id"},
		{rest.BindingSpec{Project: "p1"}, api.CodeInvalid, "zone is missing"},
		{rest.BindingSpec{Project: "p1", Zone: "north"}, api.CodeNotFound, `no zone "north"`},
		{rest.BindingSpec{Project: "p1", Zone: "east", AZ: "a b"}, api.CodeInvalid, "availability zone"},
		{rest.BindingSpec{Project: "p1", Zone: "east", Tags: []string{"gpu"}}, api.CodeInvalid, "an affinity tag"},
		{rest.BindingSpec{Project: "p1", Zone: "east", Parent: "west"}, api.CodeInvalid, `zone "west" is not the parent`},
	} {
		before := w.index()
		_, err := SetBinding(ctx, w.zone, "ada", &c.spec)
		refused(t, err, c.code, c.part)
		assert.Equal(t, before, w.index())
	}
	one, err := SetBinding(ctx, w.zone, "ada", &rest.BindingSpec{Project: "p1", Zone: "east", Tags: []string{"gpu=cad", "disk=fast"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"disk=fast", "gpu=cad"}, one.Key.Tags)
	again, err := SetBinding(ctx, w.zone, "bob", &rest.BindingSpec{Project: "p1", Zone: "east", Tags: []string{"disk=fast", "gpu=cad"}})
	require.NoError(t, err)
	assert.Equal(t, one, again, "it is bound there already")

	moved, err := MoveBinding(ctx, w.zone, "bob", one.ID, "west")
	require.NoError(t, err)
	assert.Equal(t, api.LinkID("link-west"), moved.Link)
	_, err = MoveBinding(ctx, w.zone, "bob", one.ID, "west")
	refused(t, err, api.CodeConflict, "is not active any more")
	_, err = MoveBinding(ctx, w.zone, "bob", "none", "west")
	refused(t, err, api.CodeNotFound, `no binding "none"`)
	_, err = MoveBinding(ctx, w.zone, "bob", moved.ID, "none")
	refused(t, err, api.CodeNotFound, `no zone "none"`)

	require.NoError(t, EndBinding(ctx, w.zone, moved.ID))
	require.NoError(t, EndBinding(ctx, w.zone, moved.ID), "again")
	before := w.index()
	refused(t, EndBinding(ctx, w.zone, "none"), api.CodeNotFound, `no binding "none"`)
	assert.Equal(t, before, w.index())
	active, past := w.store.View().CountBindings()
	assert.Equal(t, []int{0, 2}, []int{active, past})
}

func TestPlansOfMaintenance(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	plan := func(on bool) rest.MaintenancePlan {
		p, err := PlanMaintenance(w.store.View(), silence{}, w.zone.Instant(), "east", on)
		require.NoError(t, err)
		return p
	}
	set := func(s rest.BindingSpec) {
		_, err := SetBinding(ctx, w.zone, "ada", &s)
		require.NoError(t, err)
	}
	set(rest.BindingSpec{Project: "p1", Zone: "east"})
	set(rest.BindingSpec{Project: "p2", Zone: "west"})
	set(rest.BindingSpec{Project: "p2", Zone: "east", Tags: []string{"gpu=cad"}})
	off := plan(true)
	assert.Equal(t, rest.MaintenancePlan{
		Zone: "east", Mode: api.BindingOff, Maintenance: true, Bindings: 2, To: []rest.MaintenanceGoal{}, Moves: []rest.MaintenanceMove{},
	}, off, "without bindings nobody moves")

	w.store.Must(t, command.ConfigSet{Stamp: w.zone.Stamp(), Config: api.ZoneConfig{Bindings: api.BindingRule{Mode: api.BindingPrefer}}})
	before := w.index()
	p := plan(true)
	assert.Equal(t, []rest.MaintenanceGoal{{Zone: "west", Bindings: 1}}, p.To)
	require.Len(t, p.Moves, 2)
	assert.Equal(t, api.ProjectID("p1"), p.Moves[0].Project)
	assert.Equal(t, "west", p.Moves[0].To)
	assert.Equal(t, "no other child fits: west: its affinity tags do not match", p.Moves[1].Reason)
	assert.Empty(t, plan(false).Moves, "nobody is moved back")
	assert.Equal(t, before, w.index(), "nothing is changed")

	_, err := ChangeLink(ctx, w.zone, "west", rest.ZoneSpec{Tags: &[]string{"gpu=cad"}})
	require.NoError(t, err)
	_, err = ChangeLink(ctx, w.zone, "east", rest.ZoneSpec{Tags: &[]string{"gpu=cad"}, Maintenance: new(true)})
	require.NoError(t, err)
	p = plan(true)
	assert.True(t, p.Now)
	assert.Empty(t, p.Moves[0].To)
	assert.Equal(t, "west", p.Moves[1].To)
	require.NoError(t, DeleteLink(ctx, w.zone, "west"))
	assert.Equal(t, "no other child fits: there is none", plan(true).Moves[1].Reason)
	_, err = PlanMaintenance(w.store.View(), silence{}, w.zone.Instant(), "none", true)
	refused(t, err, api.CodeNotFound, `no zone "none"`)
}

func TestPlanOfMaintenanceNamesSo(t *testing.T) {
	w := newWorld(t)
	w.store.Must(t, command.ConfigSet{Stamp: w.zone.Stamp(), Config: api.ZoneConfig{Bindings: api.BindingRule{Mode: api.BindingStrict}}})
	for i := range maintenanceMovesMax + 1 {
		w.store.Must(t, command.BindingSet{
			Stamp: w.zone.Stamp(), ID: api.BindingID(fmt.Sprintf("b-%d", i)), Project: api.ProjectID(fmt.Sprintf("p-%05d", i)), Link: "link-east",
		})
		if n := i + 1; n < maintenanceMovesMax {
			continue
		}
		p, err := PlanMaintenance(w.store.View(), silence{}, w.zone.Instant(), "link-east", true)
		require.NoError(t, err)
		assert.Equal(t, i+1, p.Bindings)
		assert.Equal(t, []rest.MaintenanceGoal{{Zone: "west", Bindings: i + 1}}, p.To)
		assert.Len(t, p.Moves, maintenanceMovesMax)
		assert.True(t, slices.IsSortedFunc(p.Moves, func(a, b rest.MaintenanceMove) int {
			if a.Project < b.Project {
				return -1
			}
			return 1
		}))
	}
}
