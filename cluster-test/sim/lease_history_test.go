package sim

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
	"berth/cluster-test/check"
	"berth/internal/await"
)

// newRecorder returns a recorder by the time of a bubble. Time stands still there while something runs, and what
// began after another thing had returned must have a later time.
func newRecorder() *check.Recorder {
	began, last := time.Now(), int64(0)
	return check.NewRecorder(func() int64 {
		last = max(last+1, int64(time.Since(began)))
		return last
	}, nil)
}

// Sizes of what is done to leases beside everything else.
const (
	leaseOthers = 2               // clients
	leaseLooks  = 4               // reads of each, of which the second is followed by an update now and then
	leasePause  = 8 * time.Second // between them, at most
)

// useBeside lets clients at other nodes read one of the newest leases again and again, and change it, while other
// things happen to it.
func (w *world) useBeside(t *tenancy) {
	root := w.root()
	for n := range leaseOthers {
		if len(t.made) == 0 {
			return
		}
		id := t.made[len(t.made)-1-w.dice.IntN(min(4, len(t.made)))]
		calls, updates, amount := check.LeaseCalls{To: t.rec, Zone: root.name, Client: n + 1}, w.dice.IntN(2) == 0, 1+w.dice.IntN(12)
		var at []*process
		var pauses []time.Duration
		for range leaseLooks {
			at = append(at, w.nodeOf(root))
			pauses = append(pauses, time.Duration(w.dice.Int64N(int64(leasePause))))
		}
		w.ops.Go(func() {
			for i, p := range at {
				ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
				l, err := calls.Read(ctx, root.client(p), id)
				if err == nil && i == 1 && updates && len(l.Reservations) > 0 {
					u := rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{ID: l.Reservations[0].ID, Amount: &amount}}}
					err = calls.Update(ctx, root.client(p), id, u)
					w.tally.op("lease update beside", err)
					_, _ = calls.Read(ctx, root.client(at[0]), id)
				}
				cancel()
				await.Sleep(pauses[i])
			}
		})
	}
}

// judgeCalls holds that there is an order of all calls about leases that explains their answers. No call may be
// under way.
func (w *world) judgeCalls(t *tenancy) {
	w.t.Helper()
	root := w.root()
	for i, id := range t.made {
		calls := t.calls(root)
		ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
		_, _ = calls.Read(ctx, root.client(root.nodes[i%len(root.nodes)]), id) // what came of it is judged
		cancel()
	}
	ops, err := t.rec.Close()
	require.NoError(w.t, err)
	sum, bad := check.History(ops, check.HistoryOptions{Limit: time.Hour})
	assert.Empty(w.t, bad)
	t.count["calls about leases"] += sum.Ops
	t.count["histories of leases"] += sum.Partitions
}
