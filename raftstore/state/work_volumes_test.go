package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// storage returns a zone with three hosts, of which the first two share a pool of disk, and the
// third has disk of its own.
func storage(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.host("h1", 40)
	w.host("h2", 40)
	third := hostPut(w.stamp(), "a1", "h3", 40)
	third.Hosts[0].Host.Inventory[api.DiskGB] = api.Inventory{Total: 100}
	w.ok(third)
	for _, c := range []command.Command{
		w.aggregate(aggregate(uuid(1), "", "h1", "h2"), false), providerCreate(w.stamp(), "p1", ""), w.have("p1", inventory{api.DiskGB: {Total: 100}}),
		w.traits("p1", api.TraitShares), w.aggregates("p1", uuid(1)),
	} {
		w.ok(c)
	}
	return w
}

// makes boots instances or volumes on a host, with the ids, for the parent if there is one.
func (w *world) makes(host, origin string, g api.Group, ids ...string) {
	w.tb.Helper()
	res := "r-" + ids[0]
	if origin == "" {
		b := create(w.stamp(), res, len(ids), 1)
		b.Instances = nil
		w.ok(b)
	}
	c := hold(w.stamp(), res, res, slots(host, ids...))
	c.Origin, c.Commit, c.Request.Groups = api.LinkID(origin), true, []api.Group{g}
	got := w.ok(c)
	require.Empty(w.tb, got.Hold.Refused)
	w.ok(reports(w.stamp(), "a1", host, api.StatusActive, ids...))
}

func (w *world) attached(id string) string {
	i, ok := w.s.Instance(api.InstanceID(id))
	require.True(w.tb, ok)
	return string(i.Attached)
}

var (
	web  = api.Group{Count: 1, Name: "web", Flavor: "small", Resources: api.Resources{api.VCPU: 1}}
	data = api.Group{Count: 1, Name: "data", Volume: "standard", Resources: api.Resources{api.DiskGB: 1}}
)

func attach(at command.Stamp, vol, to string) command.VolumeAttach {
	return command.VolumeAttach{Stamp: at, Volume: api.InstanceID(vol), Instance: api.InstanceID(to)}
}

func TestVolumesAreAttachedWhereTheyAreReached(t *testing.T) {
	w := storage(t)
	w.makes("h1", "", web, "s1")
	w.makes("h2", "", web, "s2")
	w.makes("h3", "", web, "s3")
	w.makes("h1", "", data, "pooled")
	w.makes("h3", "", data, "local")
	for _, tt := range []struct {
		vol, to string
		code    api.Code
	}{
		{"pooled", "s1", ""},
		{"pooled", "s2", ""}, // it draws from the same pool
		{"pooled", "s3", api.CodeConflict},
		{"local", "s3", ""},
		{"local", "s1", api.CodeConflict},
		{"s1", "s1", api.CodeNotFound},
		{"local", "local", api.CodeNotFound},
		{"nobody", "s1", api.CodeNotFound},
		{"local", "nobody", api.CodeNotFound},
	} {
		seen := w.s.Clone()
		r := w.do(attach(w.stamp(), tt.vol, tt.to))
		require.Equal(t, tt.code, api.CodeOf(r.Err), "%s to %s: %v", tt.vol, tt.to, r.Err)
		if r.Err != nil {
			continue
		}
		require.Equal(t, tt.to, w.attached(tt.vol))
		to, _ := w.s.Instance(api.InstanceID(tt.to))
		require.Equal(t, []api.InstanceID{api.InstanceID(tt.vol)}, to.Volumes)
		require.Len(t, w.s.WorkAfter("a1", seen.Index()), 1, "the agent of its host is told")
		w.unchanged(attach(w.stamp(), tt.vol, tt.to))
		w.refused(api.CodeConflict, command.VolumeDetach{Stamp: w.stamp(), Volume: api.InstanceID(tt.vol), Instance: "other"})
		w.ok(command.VolumeDetach{Stamp: w.stamp(), Volume: api.InstanceID(tt.vol), Instance: api.InstanceID(tt.to)})
		w.unchanged(command.VolumeDetach{Stamp: w.stamp(), Volume: api.InstanceID(tt.vol)})
		to, _ = w.s.Instance(api.InstanceID(tt.to))
		require.Empty(t, to.Volumes)
	}
}

// TestDetachedInstancesMayMove: an instance that was booted with a volume stays on its host as long as that is attached.
// Entries of before api.FormFifth keep it there for ever.
func TestDetachedInstancesMayMove(t *testing.T) {
	for _, form := range []api.Form{api.FormFourth, api.FormFifth} {
		w := storage(t)
		w.form = form
		c := hold(w.stamp(), "b", "b", slots("h3", "s1", "v1"))
		of := data
		of.AttachTo = web.Name
		c.Commit, c.Slots[1].Group, c.Request.Zones.Pack = true, 1, true
		c.Request.Groups, c.Request.Rules = []api.Group{web, of}, []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}
		b := create(c.Stamp, "b", 2, 1)
		b.Instances, b.Request = nil, c.Request
		w.ok(b)
		require.Empty(t, w.ok(c).Hold.Refused)
		require.Equal(t, "s1", w.attached("v1"))
		w.ok(reports(w.stamp(), "a1", "h3", api.StatusActive, "s1", "v1"))
		move := func() command.InstanceMove {
			return command.InstanceMove{Stamp: w.stamp(), ID: "s1", From: "h3", To: "h1"}
		}
		w.refused(api.CodeNoCapacity, move())
		w.ok(command.VolumeDetach{Stamp: w.stamp(), Volume: "v1"})
		if form < api.FormFifth {
			w.refused(api.CodeNoCapacity, move())
			continue
		}
		w.ok(move())
	}
}

func TestWhatIsAttachedStays(t *testing.T) {
	w := storage(t)
	w.link("up", api.LinkParent)
	w.makes("h3", "", web, "s1", "s2")
	w.makes("h3", "", data, "v1", "v2")
	w.ok(attach(w.stamp(), "v1", "s1"))
	w.refused(api.CodeConflict, attach(w.stamp(), "v1", "s2"))
	w.refused(api.CodeConflict, command.InstanceDelete{Stamp: w.stamp(), ID: "v1"})
	w.refused(api.CodeConflict, command.InstanceMove{Stamp: w.stamp(), ID: "v2", From: "h3", To: "h1"})
	w.refused(api.CodeNoCapacity, command.InstanceMove{Stamp: w.stamp(), ID: "s1", From: "h3", To: "h1"})

	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "s1"})
	assert.Equal(t, "s1", w.attached("v1"), "it may still run")
	w.ok(reports(w.stamp(), "a1", "h3", api.StatusDeleted, "s1"))
	assert.Empty(t, w.attached("v1"))
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "v1"})
	w.refused(api.CodeConflict, attach(w.stamp(), "v1", "s2"))

	w.makes("h3", "up", web, "u1")
	w.makes("h3", "up", data, "uv1")
	w.refused(api.CodeNotFound, attach(w.stamp(), "uv1", "s2"))
	seen := w.s.Clone()
	w.ok(attach(w.stamp(), "uv1", "u1"))
	items := w.s.Changes("up", seen.Index(), 10).Items
	require.Len(t, items, 2)
	assert.Equal(t, api.InstanceID("u1"), items[1].Attached, "the parent learns of it")
	w.ok(command.InstanceDelete{Stamp: w.stamp(), ID: "uv1"})
	assert.Empty(t, w.attached("uv1"), "a parent decides what it ends")
	u1, _ := w.s.Instance("u1")
	assert.Empty(t, u1.Volumes)
}

func TestNumberOfAttachedVolumes(t *testing.T) {
	w := storage(t)
	w.makes("h3", "", web, "s1")
	for n := range api.AttachedMax + 1 {
		id := fmt.Sprint("v", n)
		w.makes("h3", "", data, id)
		if r := w.do(attach(w.stamp(), id, "s1")); n < api.AttachedMax {
			require.NoError(t, r.Err)
		} else {
			require.ErrorContains(t, r.Err, "has 32 volumes; the limit is 32")
		}
	}
}

// Pairs may be on several hosts. What is without the other one of its pair there is refused, the latest first, and its
// room is free.
func TestBootedInPairs(t *testing.T) {
	w := storage(t)
	b := create(w.stamp(), "r1", 8, 6)
	groups := []api.Group{web, data}
	groups[0].Count, groups[1].Count, groups[1].AttachTo = 4, 4, "web"
	b.Request.Groups, b.Instances = groups, nil
	b.Request.Rules, b.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}, true
	w.ok(b)
	c := hold(w.stamp(), "k1", "r1", slices.Concat(slots("h3", "s1", "s3"), slots("h1", "s2"), slots("h1", "v1", "v3"), slots("h3", "v2")))
	c.Request = b.Request
	for n := range c.Slots {
		if c.Slots[n].Instance.ID[0] == 'v' {
			c.Slots[n].Group = 1
		}
	}
	h := w.ok(c).Hold
	assert.Equal(t, []api.InstanceID{"s1", "s2", "v1", "v2"}, h.Held())
	assert.ElementsMatch(t, []api.InstanceID{"s3", "v3"}, h.Refused)
	again := hold(w.stamp(), "k2", "r1", slices.Concat(slots("h1", "s4"), slots("h1", "v4")))
	again.Attempt, again.Request = 2, b.Request
	again.Slots[1].Group = 1
	assert.Empty(t, w.ok(again).Hold.Refused, "pairs of before bind no others")
	away := hold(w.stamp(), "k3", "r1", nil, part("c1", "s5"))
	away.Attempt, away.Request = 3, b.Request
	w.link("c1", api.LinkChild)
	assert.Equal(t, []api.InstanceID{"s5"}, w.ok(away).Hold.Refused, "all are in one zone")
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	for vol, to := range map[string]string{"v1": "s2", "v2": "s1", "v4": "s4"} {
		assert.Equal(t, to, w.attached(vol), vol)
	}
	checkIndexes(t, w.s)
}

// A boot of instances and volumes attaches these to each other as it is decided.
func TestBootedTogether(t *testing.T) {
	w := storage(t)
	b := create(w.stamp(), "r1", 4, 4)
	groups := []api.Group{web, data}
	groups[0].Count, groups[1].Count, groups[1].AttachTo = 2, 2, "web"
	b.Request.Groups, b.Instances = groups, nil
	b.Request.Rules, b.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, true
	w.ok(b)
	for n, ids := range [][]string{{"s1"}, {"s2", "v1", "v2"}} { // in two attempts
		c := hold(w.stamp(), fmt.Sprint("k", n), "r1", slots("h3", ids...))
		c.Request = b.Request
		for n := range ids[1:] {
			c.Slots[n+1].Group = 1
		}
		w.ok(c)
	}
	w.ok(bootDecide(w.stamp(), "r1", api.DecisionCommit))
	assert.Equal(t, "s1", w.attached("v1"), "in the order of names")
	assert.Equal(t, "s2", w.attached("v2"))
	assert.Equal(t, map[api.Status]int{api.StatusBuild: 2}, w.s.CountByStatus(), "volumes are no instances")
	w.ok(reports(w.stamp(), "a1", "h3", api.StatusActive, "v1"))
	v1, _ := w.s.Volume("v1")
	assert.Equal(t, api.VolumeInUse, v1.VolumeStatus())

	w.ok(command.BootRelease{Stamp: w.stamp(), Project: "p", Reservation: "r1"})
	assert.Empty(t, w.attached("v1"), "a release ends all")
	assert.Equal(t, api.StatusDeleting, w.status("v1"))
}
