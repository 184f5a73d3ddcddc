package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/zonetest"
)

// TestServersOfALeaseGetVolumes: a server that runs in a reservation gets a volume as the documents say: one is made on its host, beside
// the room of the lease, and attached. One call for both is refused, and says so.
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
		both := boot.Request
		both.Groups, both.Zones.Pack = append(both.Groups[:1:1], zonetest.Volumes("", 1, 10).Request.Groups...), true
		both.Groups[0].Name = "web"
		says := both.Validate()
		require.Equal(t, api.CodeInvalid, api.CodeOf(says))
		assert.Contains(t, api.MessageOf(says), "with the hint same_host, and attach it")
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
