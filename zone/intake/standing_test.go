package intake

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/memstore"
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

// placeBelow has a boot of one, in an availability zone, in a child.
func (w *world) placeBelow(t *testing.T, name, az string, link api.LinkID, edit func(*api.Request)) {
	t.Helper()
	at, one := w.zone.Stamp(), api.InstanceSpec{ID: api.InstanceID("id-" + name), Name: name}
	req := api.Request{
		Reservation: api.ReservationID("r-" + name), Project: "p1", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", AZ: az, Resources: api.Resources{api.VCPU: 1}}},
	}
	edit(&req)
	hold := command.Hold{
		Stamp: at, ID: api.HoldID("hold-" + name), Attempt: 1, Request: req, Expires: api.Forever,
		Parts: []command.Part{{Link: link, Instances: [][]api.InstanceSpec{{one}}}},
	}
	w.store.Must(
		t, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte(name), Name: name, Request: req, Min: 1, Instances: []api.InstanceSpec{one}}}, hold,
		command.HoldParts{Stamp: at, ID: hold.ID, Answers: []command.PartAnswer{{Link: link, Held: []api.InstanceID{one.ID}}}},
		command.BootDecide{Stamp: at, Project: "p1", Reservation: req.Reservation, Decision: api.DecisionCommit},
	)
}

// TestAvailabilityZonesOfChildrenStay: the name that an operator gave the availability zone of a child is neither changed nor taken away while a
// binding, a reservation, or what is booted again names it. One of several children may lose it, but not under its reservations.
func TestAvailabilityZonesOfChildrenStay(t *testing.T) {
	binding := func(t *testing.T, w *world, tags ...string) {
		w.store.Must(t, command.BindingSet{Stamp: w.zone.Stamp(), ID: "b1", Project: "p1", Key: api.BindingKey{AZ: "az1", Tags: tags}, Link: "link-east"})
	}
	for name, c := range map[string]struct {
		stands func(*testing.T, *world)
		says   string // "" if nothing is refused
		alone  bool   // another child that has the name is enough
	}{
		"a binding": {func(t *testing.T, w *world) { binding(t, w) }, "binding b1 of project", true},
		"a binding for another": {func(t *testing.T, w *world) {
			w.store.Must(t, command.BindingSet{Stamp: w.zone.Stamp(), ID: "b1", Project: "p1", Key: api.BindingKey{AZ: "az9"}, Link: "link-east"})
		}, "", true},
		"a reservation": {func(t *testing.T, w *world) {
			w.placeBelow(t, "l", "az1", "link-east", func(r *api.Request) {
				r.Reserves, r.Window, r.Groups[0].Name = true, api.Window{Start: w.zone.Instant() + 1000, End: w.zone.Instant() + 1e9}, "res"
			})
		}, "reservation res", false},
		"what is booted again": {func(t *testing.T, w *world) {
			w.placeBelow(t, "p", "az1", "link-east", func(r *api.Request) { r.Class, r.OnPreempt = api.Preemptible, api.PreemptRequeue })
		}, "server id-p", true},
		"what waits": {func(t *testing.T, w *world) {
			w.placeBelow(t, "p", "az1", "link-east", func(r *api.Request) { r.Class, r.OnPreempt = api.Preemptible, api.PreemptRequeue })
			w.store.Must(t, command.InstanceChanges{Stamp: w.zone.Stamp(), Link: "link-east", Next: 5, Items: []api.InstanceChange{{ID: "id-p", Index: 5, Status: api.StatusDeleted, Eviction: &api.Eviction{For: "x", By: 5}}}})
			require.Equal(t, 1, w.zone.View().CountRequeued())
		}, `reservation "r-p" wait`, true},
		"a server that stays": {func(t *testing.T, w *world) {
			w.placeBelow(t, "s", "az1", "link-east", func(*api.Request) {})
		}, "", true},
		"one in another zone": {func(t *testing.T, w *world) {
			w.placeBelow(t, "p", "az1", "link-west", func(r *api.Request) { r.Class, r.OnPreempt = api.Preemptible, api.PreemptRequeue })
			w.placeBelow(t, "q", "az2", "link-east", func(r *api.Request) { r.Class, r.OnPreempt = api.Preemptible, api.PreemptRequeue })
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOn(t, memstore.NewOfForm(api.FormNewest))
			set := func(zone, az string) error {
				_, err := ChangeLink(t.Context(), w.zone, zone, rest.ZoneSpec{AZ: &az})
				return err
			}
			require.NoError(t, set("east", "az1"))
			c.stands(t, w)
			for _, az := range []string{"az-one", ""} {
				before, err := w.index(), set("east", az)
				if c.says == "" {
					require.NoError(t, err)
					require.NoError(t, set("east", "az1"))
					continue
				}
				refused(t, err, api.CodeInUse, c.says)
				assert.Equal(t, before, w.index(), "a refusal writes nothing")
			}
			require.NoError(t, set("east", "az1"), "as it is called already")
			require.NoError(t, set("west", "az1"))
			if err := set("east", "az2"); c.alone {
				require.NoError(t, err, "another child has it")
			} else {
				refused(t, err, api.CodeInUse, c.says)
			}
		})
	}
}

// TestNamesTakeTheirPlaceFromReported: where projects are bound, the name that an operator gives takes the place of those that the child reports,
// which a binding may be for.
func TestNamesTakeTheirPlaceFromReported(t *testing.T) {
	for mode, may := range map[api.BindingMode]bool{api.BindingOff: true, api.BindingStrict: false} {
		w := newWorld(t)
		config := w.zone.View().Config
		config.Bindings.Mode = mode
		require.NoError(t, SetConfig(t.Context(), w.zone, config))
		w.store.Must(t, command.BindingSet{Stamp: w.zone.Stamp(), ID: "b1", Project: "p1", Key: api.BindingKey{AZ: "reported", Tags: []string{"gpu=cad"}}, Link: "link-east"})
		_, err := ChangeLink(t.Context(), w.zone, "west", rest.ZoneSpec{AZ: new("reported")})
		require.NoError(t, err)
		_, err = ChangeLink(t.Context(), w.zone, "east", rest.ZoneSpec{AZ: new("az1")})
		if may {
			require.NoError(t, err)
			continue
		}
		refused(t, err, api.CodeInUse, "binding b1")
		_, err = ChangeLink(t.Context(), w.zone, "west", rest.ZoneSpec{Tags: &[]string{"gpu=cad"}})
		require.NoError(t, err)
		_, err = ChangeLink(t.Context(), w.zone, "east", rest.ZoneSpec{AZ: new("az1")})
		require.NoError(t, err, "west has it, and the tags")
	}
}

// TestNamesOfChildrenStay: a child that reservations, or what is booted again, may be in alone, or may not be in, keeps its name.
func TestNamesOfChildrenStay(t *testing.T) {
	soft := func(r *api.Request) { r.Class, r.OnPreempt = api.Preemptible, api.PreemptRequeue }
	for name, c := range map[string]struct {
		edit  func(*world, *api.Request)
		waits bool
		says  string // "" if nothing is refused
	}{
		"a reservation there": {func(w *world, r *api.Request) {
			r.Zones.Allowed, r.Reserves, r.Groups[0].Name = []string{"east"}, true, "res"
			r.Window = api.Window{Start: w.zone.Instant() + 1000, End: w.zone.Instant() + 1e9}
		}, false, "reservation res"},
		"a reservation elsewhere": {func(w *world, r *api.Request) {
			r.Zones.Excluded, r.Reserves, r.Groups[0].Name = []string{"east"}, true, "res"
			r.Window = api.Window{Start: w.zone.Instant() + 1000, End: w.zone.Instant() + 1e9}
		}, false, "reservation res"},
		"what is booted again": {func(_ *world, r *api.Request) { soft(r); r.Zones.Allowed = []string{"east"} }, false, "server id-x"},
		"what waits":           {func(_ *world, r *api.Request) { soft(r); r.Zones.Allowed = []string{"east"} }, true, `reservation "r-x"`},
		"what waits elsewhere": {func(_ *world, r *api.Request) { soft(r); r.Zones.Allowed = []string{"west"} }, true, ""},
		"a server":             {func(_ *world, r *api.Request) { r.Zones.Allowed = []string{"east"} }, false, ""},
		"another zone":         {func(_ *world, r *api.Request) { soft(r); r.Zones.Allowed = []string{"west"} }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOn(t, memstore.NewOfForm(api.FormNewest))
			w.placeBelow(t, "x", "", "link-west", func(r *api.Request) { c.edit(w, r) })
			if c.waits {
				w.store.Must(t, command.InstanceChanges{Stamp: w.zone.Stamp(), Link: "link-west", Next: 5, Items: []api.InstanceChange{
					{ID: "id-x", Index: 5, Status: api.StatusDeleted, Eviction: &api.Eviction{For: "x", By: 5}},
				}})
				require.Equal(t, 1, w.zone.View().CountRequeued())
			}
			_, err := ChangeLink(t.Context(), w.zone, "east", rest.ZoneSpec{Name: new("east")})
			require.NoError(t, err, "as it is called already")
			before := w.index()
			_, err = ChangeLink(t.Context(), w.zone, "east", rest.ZoneSpec{Name: new("far-east")})
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			refused(t, err, api.CodeInUse, c.says)
			assert.Equal(t, before, w.index(), "a refusal writes nothing")
		})
	}
}
