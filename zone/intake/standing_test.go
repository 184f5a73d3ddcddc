package intake

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// TestAvailabilityZonesInUseStay: a host leaves no availability zone that what stands on it names, whichever call
// would take it out. Others do, and so does this one once nobody names its zone.
func TestAvailabilityZonesInUseStay(t *testing.T) {
	w := newWorld(t)
	change := func(c rest.AggregateSpec) error {
		a, ok := w.zone.View().AggregateByName("rack1")
		require.True(t, ok)
		return ChangeAggregate(t.Context(), w.zone, a, c)
	}
	in := func(az string) rest.AggregateSpec {
		return rest.AggregateSpec{Metadata: map[string]string{api.MetaAZ: az}}
	}
	makeAggregate := func(name, host, az string) error {
		_, err := CreateAggregate(t.Context(), w.zone, rest.AggregateSpec{Name: &name, Hosts: &[]string{host}, Metadata: map[string]string{api.MetaAZ: az}})
		return err
	}
	setDefault := func(az string) error {
		c := w.zone.View().Config
		c.DefaultAZ = az
		return SetConfig(t.Context(), w.zone, c)
	}
	require.NoError(t, change(in("az1")), "what is there names none")
	w.placeUnder(t, "p1", "in-az1", "host-id-1", func(g *api.Group) { g.AZ = "az1" })
	w.placeUnder(t, "p1", "in-root", "host-id-2", func(g *api.Group) { g.Hints.Query = `["=", "$host.availability_zone", "root"]` })
	before := w.index()
	for name, do := range map[string]func() error{
		"it is renamed":           func() error { return change(in("az-one")) },
		"it is no zone any more":  func() error { return change(rest.AggregateSpec{Metadata: map[string]string{"rack": "1"}}) },
		"its hosts are taken out": func() error { return change(rest.AggregateSpec{Hosts: &[]string{"host-3"}}) },
		"it is deleted":           func() error { return DeleteAggregate(t.Context(), w.zone, "rack1") },
		"another takes a host":    func() error { return makeAggregate("rack2", "host-2", "az2") },
		"the default has a name":  func() error { return setDefault("other") },
	} {
		err := do()
		require.Equal(t, api.CodeInUse, api.CodeOf(err), "%s: %v", name, err)
		assert.ErrorContains(t, err, "server id-in-", name)
	}
	assert.Equal(t, before, w.index(), "a refusal writes nothing")

	require.NoError(t, change(rest.AggregateSpec{Hosts: &[]string{"host-1", "host-3"}}), "one more")
	require.NoError(t, change(rest.AggregateSpec{Metadata: map[string]string{api.MetaAZ: "az1", "rack": "1"}}))
	require.NoError(t, setDefault("root"), "as it is called already")
	require.NoError(t, change(rest.AggregateSpec{Hosts: &[]string{"host-1"}}), "a host on which nothing names it")
	for _, id := range []api.InstanceID{"id-in-az1", "id-in-root"} {
		w.store.Must(t, command.InstanceDelete{Stamp: w.zone.Stamp(), ID: id})
	}
	require.NoError(t, change(in("az-one")))
	require.NoError(t, setDefault("other"))
	require.NoError(t, DeleteAggregate(t.Context(), w.zone, "rack1"))
}

// TestTagsInUseStay: the last child with the affinity tags of a binding keeps them as long as the binding is there. One
// of several may lose them: the binding moves.
func TestTagsInUseStay(t *testing.T) {
	w := newWorld(t)
	tag := func(zone string, tags ...string) error {
		_, err := ChangeLink(t.Context(), w.zone, zone, rest.ZoneSpec{Tags: &tags})
		return err
	}
	require.NoError(t, tag("east", "gpu=cad", "site=a"))
	key := api.BindingKey{Tags: []string{"gpu=cad"}}
	set := command.BindingSet{Stamp: w.zone.Stamp(), ID: "b1", Project: "p1", Key: key, Link: "link-east"}
	w.store.Must(t, set)
	before := w.index()
	for name, tags := range map[string][]string{"none are left": {}, "it is renamed": {"gpu=CAD", "site=a"}} {
		err := tag("east", tags...)
		require.Equal(t, api.CodeInUse, api.CodeOf(err), "%s: %v", name, err)
		assert.ErrorContains(t, err, `binding b1 of project "p1"`, name)
	}
	assert.Equal(t, before, w.index(), "a refusal writes nothing")
	require.NoError(t, tag("east", "gpu=cad"), "the other one is in no binding")
	offset := int64(1)
	_, err := ChangeLink(t.Context(), w.zone, "east", rest.ZoneSpec{Offset: &offset})
	require.NoError(t, err, "of tags nothing was said")
	require.NoError(t, tag("west", "gpu=cad"))
	require.NoError(t, tag("east"), "another one has it")
	require.NoError(t, tag("west", "site=b"), "no binding is to it")
}
