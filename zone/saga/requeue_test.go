package saga_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// softOrder asks for preemptible instances that are booted again if they have to leave.
func softOrder(res string, least, most int) *intake.BootOrder {
	o := zonetest.Order(res, least, most)
	o.Request.Class, o.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	return o
}

// untilAgain waits until a boot has a successor that is decided, and returns the last one.
func untilAgain(m *zonetest.Member, res string, ok func(*state.Boot) bool) *state.Boot {
	m.World.T.Helper()
	var out *state.Boot
	m.Until("boot "+res+" is booted again", func(v *state.State) bool {
		b, _ := v.Boot("p", api.ReservationID(res))
		if len(b.Successors) == 0 {
			return false
		}
		out, _ = v.Boot("p", b.Successors[len(b.Successors)-1])
		return out != nil && ok(out)
	})
	return out
}

// TestPreemptedInstancesBootAgain: a lease needs the room of preemptible instances, here and below.
// They leave, wait while there is no room, and are booted again when the lease has ended: once,
// whatever becomes of entries and leaders meanwhile.
func TestPreemptedInstancesBootAgain(t *testing.T) {
	for name, c := range map[string]struct {
		mishaps []zonetest.Mishap
		leaders bool
	}{
		"nothing goes wrong":   {nil, false},
		"entries go wrong":     {[]zonetest.Mishap{zonetest.Unconfirmed, zonetest.Doubled, zonetest.Unapplied, zonetest.Delayed, zonetest.NotLeader}, false},
		"the leader is killed": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				require.Equal(t, api.BootActive, root.Run(softOrder("soft", 4, 4)).State())
				first := root.Instances("soft")
				require.Len(t, first, 4)
				root.Log.When(func(k command.Kind, n int) zonetest.Mishap {
					if k == command.KindRequeue && n <= len(c.mishaps) {
						return c.mishaps[n-1]
					}
					return ""
				})
				id, err := root.Lease(zonetest.LeaseOf("all", 3*time.Minute, 6*time.Minute, 4))
				require.NoError(t, err)
				root.UntilLease(id, api.LeaseActive)
				require.Empty(t, root.Instances("soft"), "nothing preemptible runs in a lease")
				root.Until("all wait to be booted again", func(v *state.State) bool { return v.CountRequeued() == 4 })
				if c.leaders {
					root.Elect()
				}
				root.UntilLease(id, api.LeaseTerminated)
				if c.leaders {
					root.Until("they are booted again", func(v *state.State) bool {
						r, ok := v.Requeued("p", "soft")
						return !ok || r.Successor != ""
					})
					root.Elect()
				}
				b := untilAgain(root, "soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
				assert.Equal(t, api.ReservationID("soft"), b.Again)
				assert.Len(t, root.Instances(string(b.Request.Reservation)), 4)
				assert.Len(t, kid.Instances(string(b.Request.Reservation)), 2)
				assert.Zero(t, root.View().CountRequeued())
				running := root.View().InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}})
				assert.Len(t, running, 4, "nothing was booted twice")
				for _, i := range first {
					old, ok := root.View().Instance(i.ID)
					require.True(t, ok)
					assert.Equal(t, api.StatusDeleted, old.Status, "an id never runs twice")
					assert.NotNil(t, old.Eviction)
				}
				w.Settle()
			})
		})
	}
}
