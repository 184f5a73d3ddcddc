package zone_test

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
)

// softOrder asks for preemptible instances that are booted again if they have to leave.
func softOrder(res string, least, most int) *intake.BootOrder {
	o := order(res, least, most)
	o.Request.Class, o.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	return o
}

// untilAgain waits until a boot has a successor that is decided, and returns the last one.
func (m *member) untilAgain(res string, ok func(*state.Boot) bool) *state.Boot {
	m.w.t.Helper()
	var out *state.Boot
	m.until("boot "+res+" is booted again", func(v *state.State) bool {
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
		mishaps []mishap
		leaders bool
	}{
		"nothing goes wrong":   {nil, false},
		"entries go wrong":     {[]mishap{unconfirmed, doubled, unapplied, delayed, notLeader}, false},
		"the leader is killed": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 2)
				kid := w.zone("kid", root, 2)
				require.Equal(t, api.BootActive, root.run(softOrder("soft", 4, 4)).State())
				first := root.instances("soft")
				require.Len(t, first, 4)
				root.log.when(func(k command.Kind, n int) mishap {
					if k == command.KindRequeue && n <= len(c.mishaps) {
						return c.mishaps[n-1]
					}
					return ""
				})
				id, err := root.lease(leaseOf("all", 3*time.Minute, 6*time.Minute, 4))
				require.NoError(t, err)
				root.untilLease(id, api.LeaseActive)
				require.Empty(t, root.instances("soft"), "nothing preemptible runs in a lease")
				root.until("all wait to be booted again", func(v *state.State) bool { return v.CountRequeued() == 4 })
				if c.leaders {
					root.elect()
				}
				root.untilLease(id, api.LeaseTerminated)
				if c.leaders {
					root.until("they are booted again", func(v *state.State) bool {
						r, ok := v.Requeued("p", "soft")
						return !ok || r.Successor != ""
					})
					root.elect()
				}
				b := root.untilAgain("soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
				assert.Equal(t, api.ReservationID("soft"), b.Again)
				assert.Len(t, root.instances(string(b.Request.Reservation)), 4)
				assert.Len(t, kid.instances(string(b.Request.Reservation)), 2)
				assert.Zero(t, root.view().CountRequeued())
				running := root.view().InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}})
				assert.Len(t, running, 4, "nothing was booted twice")
				for _, i := range first {
					old, ok := root.view().Instance(i.ID)
					require.True(t, ok)
					assert.Equal(t, api.StatusDeleted, old.Status, "an id never runs twice")
					assert.NotNil(t, old.Eviction)
				}
				w.settle()
			})
		})
	}
}
