package zone_test

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
)

// giveDisk gives the first host of a zone a disk.
func (m *member) giveDisk(gb int64) {
	m.propose(func(at command.Stamp) command.Command {
		h, _ := m.view().HostByName(m.name + "-host-1")
		inventory := maps.Clone(h.Inventory)
		inventory[api.DiskGB] = api.Inventory{Total: gb}
		return command.ProviderSet{Stamp: at, ID: h.ID, Inventory: &inventory}
	})
}

// volumes asks for volumes.
func volumes(res string, n int, gb int64) *intake.BootOrder {
	o := order(res, n, n)
	o.Request.Groups[0] = api.Group{Name: "data", Count: n, Min: n, Volume: "standard", Resources: api.Resources{api.DiskGB: gb}}
	return o
}

// volumesOf returns the volumes of a reservation, as a zone knows them.
func (m *member) volumesOf(res string) []*api.Instance {
	return m.view().InstancesPage(state.InstanceQuery{
		Volumes: true, Page: state.Page{Limit: api.CountMax}, Match: func(i *api.Instance) bool { return string(i.Reservation) == res },
	})
}

// untilAttached waits until a zone knows what a volume is attached to.
func (m *member) untilAttached(volume, to api.InstanceID) {
	m.w.t.Helper()
	m.until("the attachment is known", func(v *state.State) bool {
		i, ok := v.Instance(volume)
		return ok && i.Attached == to
	})
}

// TestVolumesOfTwoZones: volumes are made where there is room for them, and attached in the zone
// that owns them at the request of the one where they were made.
func TestVolumesOfTwoZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 4)
		root.giveDisk(10)
		kid.giveDisk(100)
		owner := api.Tenant{Project: "p"}
		call := func(vol, to *api.Instance, do func(m *member, q *api.VolumeCall) error) error {
			return w.retry(func() error { return do(root, &api.VolumeCall{Volume: vol.ID, Instance: to.ID}) })
		}
		attach := func(vol, to *api.Instance) error {
			return call(vol, to, func(m *member, q *api.VolumeCall) error { return m.lead().Attach(w.ctx, owner, q) })
		}
		detach := func(vol, to *api.Instance) error {
			return call(vol, to, func(m *member, q *api.VolumeCall) error { return m.lead().Detach(w.ctx, owner, q) })
		}

		require.Equal(t, api.BootActive, root.run(volumes("large", 1, 50)).State())
		require.Equal(t, api.BootActive, root.run(order("all", 4, 4)).State())
		large := root.volumesOf("large")[0]
		require.NotEmpty(t, large.Link, "only the child has so much")
		assert.Empty(t, root.view().OfReservation("p", "large")[0].Host)
		var here, there *api.Instance
		for _, i := range root.instances("all") {
			if i.Link == large.Link {
				there = i
			} else {
				here = i
			}
		}
		err := attach(large, here)
		require.Equal(t, api.CodeConflict, api.CodeOf(err))
		assert.Contains(t, api.MessageOf(err), "the volume is in zone kid and the server in zone root")
		require.NoError(t, attach(large, there))
		require.NoError(t, attach(large, there), "a repeat")
		root.untilAttached(large.ID, there.ID)
		err = w.retry(func() error { return intake.DeleteServer(w.ctx, root.lead().Zone, large.ID) })
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "%v", err)

		require.NoError(t, detach(large, there))
		require.NoError(t, detach(large, there), "a repeat")
		root.untilAttached(large.ID, "")
		require.Equal(t, api.CodeNotFound, api.CodeOf(root.lead().Attach(w.ctx, api.Tenant{Project: "q"}, &api.VolumeCall{Volume: large.ID, Instance: there.ID})))
		require.NoError(t, attach(large, there))
		root.untilAttached(large.ID, there.ID)
		require.NoError(t, w.retry(func() error { return intake.DeleteServer(w.ctx, root.lead().Zone, there.ID) }))
		root.untilAttached(large.ID, "") // a server that ends gives it back
		require.NoError(t, w.retry(func() error { return intake.DeleteServer(w.ctx, root.lead().Zone, large.ID) }))
		w.settle()
		assert.Empty(t, root.volumesOf("large"))
		assert.Empty(t, kid.volumesOf("large"))
		w.check()
	})
}

// TestAParentIsToldNoZone: what is below the child that a volume is in stays unknown above it.
func TestAParentIsToldNoZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		mid := w.zone("mid", root, 2)
		w.zone("leaf", mid, 4).giveDisk(100)
		mid.giveDisk(1)
		require.Equal(t, api.BootActive, root.run(volumes("v", 1, 50)).State())
		require.Equal(t, api.BootActive, root.run(order("s", 6, 6)).State())
		vol := root.volumesOf("v")[0]
		for _, i := range mid.instances("s") {
			if i.Host != "" {
				err := root.lead().Attach(w.ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID, Instance: i.ID})
				require.Equal(t, api.CodeConflict, api.CodeOf(err))
				assert.NotContains(t, api.MessageOf(err), "leaf")
			} else {
				require.NoError(t, root.lead().Attach(w.ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID, Instance: i.ID}))
				root.untilAttached(vol.ID, i.ID)
				require.NoError(t, root.lead().Detach(w.ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID}))
				root.untilAttached(vol.ID, "")
			}
		}
		w.settle()
	})
}

// TestBootedWithVolumes: instances and volumes of one boot are in one zone, on one host, attached;
// if that has no room for all, nothing is.
func TestBootedWithVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 4)
		kid := w.zone("kid", root, 4)
		root.giveDisk(10)
		kid.giveDisk(100)
		together := func(res string, n int, gb int64) *intake.BootOrder {
			o := volumes(res, n, gb)
			o.Request.Groups = append([]api.Group{group("web", n, n)}, o.Request.Groups...)
			o.Request.Groups[1].AttachTo = "web"
			o.Request.Rules, o.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, true
			return o
		}
		require.Equal(t, api.BootActive, root.run(together("both", 2, 40)).State())
		servers := kid.instances("both")
		require.Len(t, servers, 2)
		for _, i := range kid.volumesOf("both") {
			assert.NotEmpty(t, i.Attached)
			root.untilAttached(i.ID, i.Attached)
		}
		for _, i := range servers {
			assert.Len(t, i.Volumes, 1)
		}
		require.Equal(t, api.BootFailed, root.run(together("more", 1, 40)).State(), "there is room for the instance, and for the volume nowhere")
		w.settle()
		w.check()
	})
}
