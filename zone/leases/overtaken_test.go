package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/leases"
	"berth/zone/zonetest"
)

// TestAnUpdateThatIsOvertaken: an update whose room is decided has taken place, also if the next one was faster than
// the look at it; one that failed, or whose lease is deleted, has not.
func TestAnUpdateThatIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		id, err := root.Lease(zonetest.LeaseOf("l", time.Hour, time.Hour, 1))
		require.NoError(t, err)
		lease := func() *state.Lease {
			l, _ := root.View().Lease(id)
			return l
		}
		resize := func(n int) error {
			change := []api.ReservationChange{{ID: lease().Terms.Reservations[0].ID, Min: &n, Max: &n}}
			return root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{Reservations: change})
		}
		was := lease()
		require.NoError(t, resize(2))
		overtaken := lease().Order
		assert.True(t, leases.WasUpdated(root.View(), was, overtaken))
		require.NoError(t, resize(3))
		require.NotEqual(t, overtaken, lease().Order)
		assert.True(t, leases.WasUpdated(root.View(), was, overtaken), "the next one was faster")
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(resize(5)))
		for _, b := range root.View().BootsPage(was.Terms.Project, state.Page{Limit: api.PageMax}) {
			failed := b.Decision == api.DecisionAbort
			assert.Equal(t, !failed, leases.WasUpdated(root.View(), was, b.Request.Reservation), "%s", b.Request.Reservation)
		}
		assert.False(t, leases.WasUpdated(root.View(), was, "no such order"))
		require.NoError(t, root.Lead().Delete(w.Ctx, zonetest.Caller, id))
		w.Settle()
		assert.False(t, leases.WasUpdated(root.View(), was, overtaken), "the lease is deleted")
	})
}
