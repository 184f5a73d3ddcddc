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

// Preemptibles are booted in any zone, leave for a lease that the parent makes, and use idle room
// that its owner lends.
func TestPreemptiblesOfAChildLeaveForALeaseOfTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 4)
		root.Soft("s", 3)
		terms := zonetest.LeaseOf("l", 5*time.Minute, time.Hour, 2)
		terms.Reservations[0].ShareIdle = true
		id, err := root.Lease(terms)
		require.NoError(t, err)
		l := root.UntilLease(id, api.LeaseActive)
		assert.Equal(t, 1, kid.Evicted(), "no more than needed")
		assert.False(t, l.Terms.Window.Start.Time().After(time.Now()))
		gone := 0
		for _, i := range root.View().OfReservation("p", "s") {
			if i.Eviction != nil {
				gone++
				assert.True(t, i.Eviction.Lease)
				assert.Equal(t, l.Terms.Reservations[0].ID, i.Eviction.For, "its owner learns who needs the room")
			}
		}
		assert.Equal(t, 1, gone)

		root.Soft("idle", 2)
		within := 0
		for _, i := range kid.View().OnHost(kid.View().AllHosts()[0].ID) {
			if i.Within != "" {
				within++
			}
		}
		assert.Equal(t, 2, within, "its owner does not use the room yet")
		o := zonetest.Order("own", 2, 2)
		o.Request.Within = l.Terms.Reservations[0].ID
		o.Instances = zonetest.Specs("own", 2)
		root.Boot(o)
		assert.Equal(t, api.BootActive, root.Outcome("own").State())
		assert.Equal(t, 3, kid.Evicted())
	})
}
