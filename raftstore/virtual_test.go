package raftstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
)

// TestPartitionsInVirtualTime isolates one node after the other for many minutes of
// zone time. Whatever was acknowledged must be everywhere in the end, and nothing
// that was refused for certain may be anywhere.
func TestPartitionsInVirtualTime(t *testing.T) {
	for _, seed := range dice.Seeds(t, 3) {
		synctest.Test(t, func(t *testing.T) {
			over := newNetwork()
			draw := rand.New(rand.NewPCG(seed, 0))
			nodes := trio(t, over, func(c *Config) {
				c.Compact = Compaction{Threshold: 50, Interval: time.Second, Trailing: 10}
				c.Timeout = 2 * time.Second
			})
			acked, refusedIDs := map[string]bool{}, map[string]bool{}
			for round := range 60 {
				victim := nodes[draw.IntN(len(nodes))]
				over.cut(victim.cfg.Advertise, true)
				for step := range 5 {
					for _, n := range nodes {
						id := fmt.Sprintf("k%d-%d-%s", round, step, n.ID())
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						_, err := n.Propose(ctx, put(id, "x"))
						cancel()
						switch code := api.CodeOf(err); {
						case err == nil:
							acked[id] = true
						case code == api.CodeUnavailable:
							refusedIDs[id] = true
						default:
							require.Equal(t, api.CodeTimeout, code, "seed %d: %v", seed, err)
						}
					}
					await.Sleep(time.Duration(draw.IntN(400)) * time.Millisecond)
				}
				over.cut(victim.cfg.Advertise, false)
				if draw.IntN(4) == 0 {
					i := draw.IntN(len(nodes))
					nodes[i] = nodes[i].restart()
				}
			}
			leaderOf(t, nodes...).must(put("end", "y"))
			require.Greater(t, len(acked), 100, "seed %d: too little traffic", seed)
			for _, n := range nodes {
				n.sees("end", "y")
				for id := range acked {
					require.Equal(t, "x", addrOf(n.View(), id), "seed %d: lost %s on %s", seed, id, n.ID())
				}
				for id := range refusedIDs {
					require.Empty(t, addrOf(n.View(), id), "seed %d: ghost %s on %s", seed, id, n.ID())
				}
			}
		})
	}
}

// TestCutOffLeader shows what a leader without a majority says, and that it steps
// down with a cause.
func TestCutOffLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		old := nodes[0]
		term := old.Term()
		cause := make(chan error, 1)
		leading := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			old.Leading(ctx, func(ctx context.Context) {
				close(leading)
				<-ctx.Done()
				cause <- context.Cause(ctx)
			})
		}()
		<-leading
		over.cut(old.cfg.Advertise, true)
		_, err := old.Propose(t.Context(), put("a", "lost"))
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err), "it was written here, and may survive")
		require.ErrorIs(t, <-cause, ErrDeposed)
		_, err = old.Linearizable(t.Context())
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
		age, heard := old.Age(time.Now().Add(time.Minute))
		assert.True(t, heard)
		assert.GreaterOrEqual(t, age, time.Minute)

		next := leaderOf(t, others(nodes, old)...)
		next.must(put("a", "kept"))
		assert.Greater(t, next.Term(), term)
		over.cut(old.cfg.Advertise, false)
		old.sees("a", "kept")
		cancel()
		<-done
	})
}

// TestDeposedReadIsNeverStale asks a leader that does not know yet that it was cut
// off for a linearizable view while another leader writes.
func TestDeposedReadIsNeverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		old := nodes[0]
		old.must(put("a", "0"))
		_, err := old.Linearizable(t.Context()) // so that a majority is all that is left to ask
		require.NoError(t, err)
		over.cut(old.cfg.Advertise, true)
		stale := make(chan error, 1)
		go func() {
			st, err := old.Linearizable(t.Context())
			if err == nil && addrOf(st, "a") != "1" {
				err = errors.New("stale")
			}
			stale <- err
		}()
		next := leaderOf(t, others(nodes, old)...)
		next.must(put("a", "1"))
		err = <-stale
		assert.Contains(t, []api.Code{api.CodeUnavailable, api.CodeTimeout}, api.CodeOf(err), err)
		st, err := next.Linearizable(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "1", addrOf(st, "a"))
	})
}

// TestNewLeaderReads has a new leader read before it has taken any proposal: the
// entries of its own that the state machine never sees must not hold it up.
func TestNewLeaderReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, newNetwork(), nil)
		nodes[0].must(put("a", "1"))
		require.NoError(t, nodes[0].Transfer(t.Context(), "n2"))
		for {
			st, err := nodes[1].Linearizable(t.Context())
			if api.CodeOf(err) == api.CodeUnavailable {
				await.Sleep(10 * time.Millisecond)
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, "1", addrOf(st, "a"))
			break
		}
	})
}

// TestCaughtUpAfterARestart restarts a node that cannot hear of the zone at first:
// it must not take the little that it has loaded for all there is.
func TestCaughtUpAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		leader := leaderOf(t, nodes...)
		leader.must(put("before", "x"))
		n := others(nodes, leader)[0]
		n.sees("before", "x")
		assert.True(t, n.CaughtUp())
		require.NoError(t, leader.raft.Barrier(0).Error()) // an entry of Raft's own is the last

		n.stop()
		cfg := n.cfg
		cfg.Stream = over.listen(n.cfg.Advertise)
		over.cut(n.cfg.Advertise, true)
		n = start(t, cfg)
		await.Sleep(10 * time.Second)
		assert.False(t, n.CaughtUp(), "nobody has told it what is committed")
		assert.Empty(t, addrOf(n.View(), "before"))

		over.cut(n.cfg.Advertise, false)
		for ctx := within(t); !n.CaughtUp(); await.Sleep(time.Millisecond) {
			require.NoError(t, ctx.Err())
		}
		assert.Equal(t, "x", addrOf(n.View(), "before"))
		for ctx := within(t); !leader.CaughtUp(); await.Sleep(time.Millisecond) {
			require.NoError(t, ctx.Err())
		}
	})
}
