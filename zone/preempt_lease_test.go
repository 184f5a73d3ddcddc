package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// Preemptibles are booted in any zone, leave for a lease that the parent makes, and use idle room
// that its owner lends.
func TestPreemptiblesOfAChildLeaveForALeaseOfTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		kid := w.zone("kid", root, 4)
		root.soft("s", 3)
		terms := leaseOf("l", 5*time.Minute, time.Hour, 2)
		terms.Reservations[0].ShareIdle = true
		id, err := root.lease(terms)
		require.NoError(t, err)
		l := root.untilLease(id, api.LeaseActive)
		assert.Equal(t, 1, kid.evicted(), "no more than needed")
		assert.False(t, l.Terms.Window.Start.Time().After(time.Now()))
		gone := 0
		for _, i := range root.view().OfReservation("p", "s") {
			if i.Eviction != nil {
				gone++
				assert.True(t, i.Eviction.Lease)
				assert.Equal(t, l.Terms.Reservations[0].ID, i.Eviction.For, "its owner learns who needs the room")
			}
		}
		assert.Equal(t, 1, gone)

		root.soft("idle", 2)
		within := 0
		for _, i := range kid.view().OnHost(kid.view().AllHosts()[0].ID) {
			if i.Within != "" {
				within++
			}
		}
		assert.Equal(t, 2, within, "its owner does not use the room yet")
		o := order("own", 2, 2)
		o.Request.Within = l.Terms.Reservations[0].ID
		o.Instances = specs("own", 2)
		root.boot(o)
		assert.Equal(t, api.BootActive, root.outcome("own").State())
		assert.Equal(t, 3, kid.evicted())
	})
}
