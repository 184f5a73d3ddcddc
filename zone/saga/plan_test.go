package saga_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestPlanUsedByMany has six clients take up one plan while the leader works, many
// times: one of them gets what the plan has.
func TestPlanUsedByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		w.Zone("kid", root, 2)
		for round := range 100 {
			o := zonetest.Order(fmt.Sprint("b", round), 4, 4)
			req := o.Request
			a, err := root.Lead().Select(t.Context(), "", &req)
			require.NoError(t, err)
			o.Blob = a.Blob
			var done sync.WaitGroup
			var mu sync.Mutex
			accepted := 0
			for range 6 {
				mine := *o
				done.Go(func() {
					if _, err := root.Lead().Boot(t.Context(), &mine); err == nil {
						mu.Lock()
						accepted++
						mu.Unlock()
					}
				})
			}
			done.Wait()
			assert.Equal(t, 1, accepted)
			b := root.Outcome(string(o.Request.Reservation))
			require.Equal(t, api.BootActive, b.State(), b.Reason)
			root.Release(string(o.Request.Reservation))
			root.Until("it is gone", func(v *state.State) bool {
				b, _ := v.Boot("p", o.Request.Reservation)
				return b.State() == api.BootReleased
			})
			w.Settle()
		}
	})
}
