package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// TestServersOfALeaseGetVolumes: a server that runs in a reservation gets a volume later on: one is made on its host, beside
// the room of the lease, and attached.
func TestServersOfALeaseGetVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		root.GiveDisk(100)
		id, err := root.Lease(zonetest.LeaseOf("l", time.Minute, time.Hour, 1))
		require.NoError(t, err)
		l := root.UntilLease(id, api.LeaseActive)
		boot := zonetest.Order("own", 1, 1)
		boot.Request.Within = l.Terms.Reservations[0].ID
		require.Equal(t, api.BootActive, root.Run(boot).State())
		server := root.Instances("own")[0]
		o := zonetest.Volumes("vol", 1, 10)
		o.Request.Groups[0].Hints.SameHost = []api.InstanceID{server.ID}
		made := root.Run(o)
		require.Equal(t, api.BootActive, made.State(), made.Reason)
		volume := root.VolumesOf("vol")[0]
		assert.Equal(t, server.Host, volume.Host)
		require.NoError(t, w.Retry(func() error {
			return root.Lead().Attach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: volume.ID, Instance: server.ID})
		}))
		root.UntilAttached(volume.ID, server.ID)
		w.Settle()
	})
}

// withVolumes asks for servers in a reservation, each with a volume.
func withVolumes(res string, within api.ReservationID, n int, gb int64) *intake.BootOrder {
	o := zonetest.Volumes(res, n, gb)
	o.Request.Groups = append([]api.Group{zonetest.Group("web", n, n)}, o.Request.Groups...)
	o.Request.Groups[1].AttachTo, o.Request.Within = "web", within
	o.Request.Rules, o.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}, Pairs: true}}, true
	return o
}

// TestBootedIntoALeaseWithVolumes: one call boots servers into slots of a lease and makes a volume for each, in free room of the
// host that its slot is on, or does neither. The volumes count for the project, and are left when the lease ends.
func TestBootedIntoALeaseWithVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2, 1, 1)
		root.GiveDisk(100) // of the first host alone
		id, err := root.Lease(zonetest.LeaseOf("l", time.Minute, 6*time.Minute, 4))
		require.NoError(t, err)
		l := root.UntilLease(id, api.LeaseActive)
		within := l.Terms.Reservations[0].ID
		free := func() int { return len(root.View().FreeSlots("", within, "p")) }

		refused := root.Run(withVolumes("large", within, 2, 60))
		require.Equal(t, api.BootFailed, refused.State(), "there is room for one such volume")
		assert.Equal(t, api.CodeNoCapacity, refused.Code, refused.Reason)
		require.Equal(t, 4, free())
		made := root.Run(withVolumes("both", within, 2, 40))
		require.Equal(t, api.BootActive, made.State(), made.Reason)
		require.Equal(t, 2, free())
		servers := map[api.InstanceID]*api.Instance{}
		for _, i := range root.Instances("both") {
			servers[i.ID] = i
			assert.NotEmpty(t, i.Within)
			assert.Len(t, i.Volumes, 1)
			assert.Equal(t, l.Terms.Window.End, i.Window.End)
		}
		volumes := root.VolumesOf("both")
		require.Len(t, volumes, 2)
		for _, i := range volumes {
			assert.Equal(t, servers[i.Attached].Host, i.Host)
			assert.Empty(t, i.Within)
			assert.Equal(t, api.Forever, i.Window.End)
		}
		require.Equal(t, api.BootFailed, root.Run(withVolumes("more", within, 1, 10)).State(), "the slots that are left are on hosts without a disk")
		w.Settle()
		w.Check()

		root.UntilLease(id, api.LeaseTerminated)
		w.Settle()
		assert.Empty(t, root.Instances("both"))
		for _, i := range root.VolumesOf("both") {
			assert.Empty(t, i.Attached)
			assert.Equal(t, api.VolumeAvailable, i.VolumeStatus())
		}
		w.Check()
	})
}

// TestBootedIntoALeaseOfTwoZones: servers with volumes go to the slots of one zone, this one or one below, whichever has room for
// all of them.
func TestBootedIntoALeaseOfTwoZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		kid := w.Zone("kid", root, 2, 2)
		root.GiveDisks(100)
		kid.GiveDisks(100)
		id, err := root.Lease(zonetest.LeaseOf("l", time.Minute, time.Hour, 5))
		require.NoError(t, err)
		within := root.UntilLease(id, api.LeaseActive).Terms.Reservations[0].ID
		require.Equal(t, api.BootFailed, root.Run(withVolumes("all", within, 5, 10)).State(), "no zone has so many slots")
		made := root.Run(withVolumes("most", within, 4, 10))
		require.Equal(t, api.BootActive, made.State(), made.Reason)
		at := map[api.InstanceID]api.HostID{}
		for _, i := range kid.Instances("most") {
			at[i.ID] = i.Host
			assert.NotEmpty(t, i.Within)
		}
		require.Len(t, at, 4)
		for _, i := range kid.VolumesOf("most") {
			assert.Equal(t, at[i.Attached], i.Host)
			assert.Equal(t, api.Forever, i.Window.End)
			above, _ := root.View().Instance(i.ID)
			assert.Equal(t, api.Forever, above.Window.End)
			assert.False(t, above.InLease)
		}
		made = root.Run(withVolumes("rest", within, 1, 10))
		require.Equal(t, api.BootActive, made.State(), made.Reason)
		assert.NotEmpty(t, root.Instances("rest")[0].Host, "in this zone")
		w.Settle()
		w.Check()
	})
}
