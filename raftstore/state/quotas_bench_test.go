package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/quota"
	"berth/raftstore/command"
)

// standing returns a world in which a project has leases one after the other, three of which
// meet at each instant.
func standing(b *testing.B, leases int) *world {
	b.Helper()
	w := newWorld(b)
	w.form = api.FormNewest
	for n := range leases {
		require.NoError(b, w.create(b, fmt.Sprint("l", n), api.Window{Start: start + api.Instant(n+10)*minute, End: start + api.Instant(n+13)*minute}))
	}
	return w
}

// create makes a lease of one slot, and returns why it was refused. It has no order.
func (w *world) create(b *testing.B, id string, window api.Window) error {
	b.Helper()
	c := command.LeaseCreate{Stamp: w.stamp(), Terms: leaseTerms(id, window, 1), Events: leaseEvents(window), Digest: []byte{1}}
	return w.s.Apply(2, w.reread(c)).Err
}

// BenchmarkQuota has what quotas cost a lease and a boot, made and ended, of a project with standing leases. A
// refusal looks for the first instant with room, over all of them.
func BenchmarkQuota(b *testing.B) {
	limits := quota.Limits{quota.Leases: 1000, quota.Reserved: 1000, quota.Reserved.Of(api.VCPU): 1000, quota.Instances: 1000, quota.Instances.Of(api.VCPU): 1000}
	for _, leases := range []int{0, 1_000, 10_000} {
		w := standing(b, leases)
		for _, with := range []quota.Limits{nil, limits} {
			if with != nil {
				w.limit("p", with)
			}
			name := fmt.Sprintf("leases=%d/limits=%t", leases, with != nil)
			b.Run("lease/"+name, func(b *testing.B) {
				for n := range b.N {
					id := fmt.Sprint("x", n)
					require.NoError(b, w.create(b, id, api.Window{Start: start + 10*minute, End: start + api.Instant(n%max(leases, 1)+13)*minute}))
					w.s.Apply(2, w.reread(command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: api.LeaseID(id)}))
				}
			})
			b.Run("boot/"+name, func(b *testing.B) {
				for n := range b.N {
					c := create(w.stamp(), fmt.Sprintf("r%d-%d", b.N, n), 1, 1)
					c.Request.Reservation = api.ReservationID(fmt.Sprintf("%s-%t", c.Request.Reservation, with != nil))
					w.s.Apply(2, w.reread(c))
					w.s.Apply(2, w.reread(bootDecide(w.stamp(), string(c.Request.Reservation), api.DecisionAbort)))
				}
			})
		}
		if leases == 0 {
			continue
		}
		w.limit("p", quota.Limits{quota.Reserved: 3})
		b.Run(fmt.Sprintf("refused/leases=%d", leases), func(b *testing.B) {
			for n := range b.N {
				err := w.create(b, fmt.Sprint("y", n), api.Window{Start: start + 12*minute, End: start + 14*minute})
				require.Equal(b, api.CodeOverQuota, api.CodeOf(err))
			}
		})
	}
}

// BenchmarkQuotaSearch has a refusal whose search for room is as long as one may be: between standing leases
// there are gaps, each too short.
func BenchmarkQuotaSearch(b *testing.B) {
	w := newWorld(b)
	w.form = api.FormNewest
	for n := range 2 * quota.StepsMax {
		from := start + api.Instant(3*n+10)*minute
		require.NoError(b, w.create(b, fmt.Sprint("l", n), api.Window{Start: from, End: from + 2*minute}))
	}
	w.limit("p", quota.Limits{quota.Leases: 1, quota.Reserved: 1, quota.Reserved.Of(api.VCPU): 1})
	b.ResetTimer()
	for n := range b.N {
		err := w.create(b, fmt.Sprint("y", n), api.Window{Start: start + 10*minute, End: start + 12*minute})
		require.Contains(b, err.Error(), "No later time was found")
	}
}
