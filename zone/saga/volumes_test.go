package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// TestVolumesOfTwoZones: volumes are made where there is room for them, and attached in the zone
// that owns them at the request of the one where they were made.
func TestVolumesOfTwoZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 4)
		root.GiveDisk(10)
		kid.GiveDisk(100)
		owner := api.Tenant{Project: "p"}
		call := func(vol, to *api.Instance, do func(m *zonetest.Member, q *api.VolumeCall) error) error {
			return w.Retry(func() error { return do(root, &api.VolumeCall{Volume: vol.ID, Instance: to.ID}) })
		}
		attach := func(vol, to *api.Instance) error {
			return call(vol, to, func(m *zonetest.Member, q *api.VolumeCall) error { return m.Lead().Attach(w.Ctx, owner, q) })
		}
		detach := func(vol, to *api.Instance) error {
			return call(vol, to, func(m *zonetest.Member, q *api.VolumeCall) error { return m.Lead().Detach(w.Ctx, owner, q) })
		}

		require.Equal(t, api.BootActive, root.Run(zonetest.Volumes("large", 1, 50)).State())
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("all", 4, 4)).State())
		large := root.VolumesOf("large")[0]
		require.NotEmpty(t, large.Link, "only the child has so much")
		assert.Empty(t, root.View().OfReservation("p", "large")[0].Host)
		var here, there *api.Instance
		for _, i := range root.Instances("all") {
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
		root.UntilAttached(large.ID, there.ID)
		err = w.Retry(func() error { return intake.DeleteServer(w.Ctx, root.Lead().Zone, large.ID) })
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "%v", err)

		require.NoError(t, detach(large, there))
		require.NoError(t, detach(large, there), "a repeat")
		root.UntilAttached(large.ID, "")
		require.Equal(t, api.CodeNotFound, api.CodeOf(root.Lead().Attach(w.Ctx, api.Tenant{Project: "q"}, &api.VolumeCall{Volume: large.ID, Instance: there.ID})))
		require.NoError(t, attach(large, there))
		root.UntilAttached(large.ID, there.ID)
		require.NoError(t, w.Retry(func() error { return intake.DeleteServer(w.Ctx, root.Lead().Zone, there.ID) }))
		root.UntilAttached(large.ID, "") // a server that ends gives it back
		require.NoError(t, w.Retry(func() error { return intake.DeleteServer(w.Ctx, root.Lead().Zone, large.ID) }))
		w.Settle()
		assert.Empty(t, root.VolumesOf("large"))
		assert.Empty(t, kid.VolumesOf("large"))
		w.Check()
	})
}

// TestAParentIsToldNoZone: what is below the child that a volume is in stays unknown above it.
func TestAParentIsToldNoZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root, 2)
		w.Zone("leaf", mid, 4).GiveDisk(100)
		mid.GiveDisk(1)
		require.Equal(t, api.BootActive, root.Run(zonetest.Volumes("v", 1, 50)).State())
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("s", 6, 6)).State())
		vol := root.VolumesOf("v")[0]
		for _, i := range mid.Instances("s") {
			if i.Host != "" {
				err := root.Lead().Attach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID, Instance: i.ID})
				require.Equal(t, api.CodeConflict, api.CodeOf(err))
				assert.NotContains(t, api.MessageOf(err), "leaf")
			} else {
				require.NoError(t, root.Lead().Attach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID, Instance: i.ID}))
				root.UntilAttached(vol.ID, i.ID)
				require.NoError(t, root.Lead().Detach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID}))
				root.UntilAttached(vol.ID, "")
			}
		}
		w.Settle()
	})
}

// TestBootedInPairs: of instances with a volume each, every pair has a host of its own choice, as costs have it, in one
// zone; more than fit on one host are had.
func TestBootedInPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4, 4)
		kid := w.Zone("kid", root, 4, 4, 4)
		root.GiveDisks(100)
		kid.GiveDisks(100)
		pairs := func(res string, n int, gb int64) *intake.BootOrder {
			o := zonetest.Volumes(res, n, gb)
			o.Request.Groups = append([]api.Group{zonetest.Group("web", n, n)}, o.Request.Groups...)
			o.Request.Groups[1].AttachTo = "web"
			o.Request.Rules, o.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}, true
			return o
		}
		require.Equal(t, api.BootActive, root.Run(pairs("wide", 10, 10)).State())
		at := map[api.InstanceID]api.HostID{}
		for _, i := range kid.Instances("wide") {
			at[i.ID] = i.Host
			assert.Len(t, i.Volumes, 1)
		}
		require.Len(t, at, 10, "no other zone has room for all")
		for _, i := range kid.VolumesOf("wide") {
			assert.Equal(t, at[i.Attached], i.Host)
		}
		require.Equal(t, api.BootActive, root.Run(pairs("thick", 2, 60)).State(), "a host has room for one such volume")
		require.Equal(t, api.BootFailed, root.Run(pairs("more", 3, 60)).State())
		w.Settle()
		w.Check()
	})
}

// TestBootedWithVolumes: instances and volumes of one boot are in one zone, on one host, attached;
// if that has no room for all, nothing is.
func TestBootedWithVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		kid := w.Zone("kid", root, 4)
		root.GiveDisk(10)
		kid.GiveDisk(100)
		together := func(res string, n int, gb int64) *intake.BootOrder {
			o := zonetest.Volumes(res, n, gb)
			o.Request.Groups = append([]api.Group{zonetest.Group("web", n, n)}, o.Request.Groups...)
			o.Request.Groups[1].AttachTo = "web"
			o.Request.Rules, o.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, true
			return o
		}
		require.Equal(t, api.BootActive, root.Run(together("both", 2, 40)).State())
		servers := kid.Instances("both")
		require.Len(t, servers, 2)
		for _, i := range kid.VolumesOf("both") {
			assert.NotEmpty(t, i.Attached)
			root.UntilAttached(i.ID, i.Attached)
		}
		for _, i := range servers {
			assert.Len(t, i.Volumes, 1)
		}
		require.Equal(t, api.BootFailed, root.Run(together("more", 1, 40)).State(), "there is room for the instance, and for the volume nowhere")
		w.Settle()
		w.Check()
	})
}
