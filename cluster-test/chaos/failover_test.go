//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/internal/await"
)

// What a zone promises about how long nobody leads it.
const (
	failoverMedian = 2 * time.Second
	failoverMax    = 5 * time.Second
	hungDiskMax    = 10 * time.Second
	failovers      = 12
	hangs          = 3

	// A claim that waits for nothing takes its time as well: what is promised is that so many times longer at most.
	plainFactor = 10
	stallMax    = 250 * time.Millisecond // of the machine, in a step that fails
)

// claims boots single servers at every node at once, and keeps when the newest call
// that was acknowledged began.
type claims struct {
	newest atomic.Int64 // ns since the epoch
}

// newClaims starts one caller for each node; all end with ctx.
func newClaims(ctx context.Context, z *one) *claims {
	c := &claims{}
	for n, node := range z.root.Nodes {
		z.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				began := time.Now().UnixNano()
				if z.claim(ctx, node, fmt.Sprintf("f%d-%d", n, i)) == nil {
					for old := c.newest.Load(); began > old && !c.newest.CompareAndSwap(old, began); old = c.newest.Load() {
					}
				}
				lab.Pass(ctx, 20*time.Millisecond)
			}
		})
	}
	return c
}

// claim boots one server at one node and waits for the decision.
func (z *one) claim(ctx context.Context, n *lab.NodeProc, id string) error {
	if !n.Running() {
		return fmt.Errorf("%s does not run", n.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, failoverMax)
	defer cancel()
	c, err := n.TryClient(z.token)
	if err != nil {
		return err
	}
	least := 1
	_, err = c.CreateServer(ctx, rest.ServerCreate{Name: id, FlavorRef: "unit", MinCount: &least, MaxCount: &least, Reservation: id}, id)
	if err == nil {
		z.mu.Lock()
		z.acked = append(z.acked, api.ReservationID(id))
		z.mu.Unlock()
	}
	return err
}

// after returns how long after a moment the first claim was acknowledged that was
// made after it.
func (c *claims) after(t *testing.T, moment time.Time) time.Duration {
	t.Helper()
	await.Until(t, "a claim is acknowledged", func(context.Context) error {
		if c.newest.Load() <= moment.UnixNano() {
			return errors.New("none yet")
		}
		return nil
	})
	return time.Since(moment)
}

// timed breaks something, and returns how long after that the first claim was acknowledged, less what claims
// take that nothing has delayed. It breaks it again if that is more than what is promised, and the machine stood still.
func (c *claims) timed(t *testing.T, promised time.Duration, breaks, mends func()) (took time.Duration) {
	t.Helper()
	await.Steadily(t, stallMax, func(context.Context) error {
		plain := c.after(t, time.Now())
		moment := time.Now() // what was acknowledged until now was written before
		breaks()
		took = c.after(t, moment)
		mends()
		plain = max(plain, c.after(t, time.Now()))
		if took = max(0, took-plainFactor*plain); took > promised {
			return fmt.Errorf("%s, where claims take %s; promised: %s", took, plain, promised)
		}
		return nil
	})
	return took
}

// TestFailover measures how long a zone of three nodes acknowledges nothing after
// its leader was killed, and after the leader's disk has hung; and lets a disk run
// full and have space again.
func TestFailover(t *testing.T) {
	z := newOne(t, lab.Options{})
	z.supervise()
	z.Allow(lab.Exit.DiskBroken)
	ctx, stop := context.WithCancel(t.Context())
	z.stop = stop
	c := newClaims(ctx, z)
	for range failovers {
		var leader *lab.NodeProc
		took := c.timed(t, failoverMax, func() {
			leader = z.root.Leader()
			leader.Crash()
		}, func() { leader.Ready() })
		sums.Failover = append(sums.Failover, took)
		sums.fault("kill leader", 1)
	}
	slices.Sort(sums.Failover)
	t.Logf("kill -9 of the leader to the next acknowledged claim: %v", sums.Failover)
	assert.LessOrEqual(t, sums.Failover[len(sums.Failover)/2], failoverMedian)
	if hasDisks {
		z.hang(t, c)
		z.fillUp(t, c)
	}
	z.quiet()
	t.Logf("%d acknowledged boots, none lost", z.remembers(t))
	z.agree(t)
	z.Audit()
}

// hang lets the disk of the leader hang.
func (z *one) hang(t *testing.T, c *claims) {
	t.Helper()
	for range hangs {
		var leader *lab.NodeProc
		took := c.timed(t, hungDiskMax, func() {
			leader = z.root.Leader()
			require.NoError(t, leader.Machine.Hang())
		}, func() {
			require.NoError(t, leader.Machine.Unhang())
			leader.Ready()
		})
		sums.HungDisk = append(sums.HungDisk, took)
		sums.fault("hung disk", 1)
	}
	t.Logf("hang of the leader's disk to the next acknowledged claim: %v", sums.HungDisk)
}

// fillUp fills the disks of one node, then of all, and gives the space back. Nobody
// does anything else.
func (z *one) fillUp(t *testing.T, c *claims) {
	t.Helper()
	for _, nodes := range [][]*lab.NodeProc{z.root.Nodes[:1], z.root.Nodes} {
		for _, n := range nodes {
			require.NoError(t, n.Machine.Fill())
		}
		sums.fault("full disk", len(nodes))
		lab.Pass(t.Context(), 3*time.Second)
		for _, n := range nodes {
			require.NoError(t, n.Machine.Space())
		}
		took := c.after(t, time.Now())
		for _, n := range nodes {
			n.Ready()
		}
		t.Logf("%d full disks: the next claim was acknowledged %v after there was space", len(nodes), took)
	}
}
