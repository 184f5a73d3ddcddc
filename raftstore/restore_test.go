package raftstore

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/dice"
	"berth/raftstore/command"
)

// fills makes the state so large that a backup of it has several parts.
func (n *node) fills() {
	n.t.Helper()
	for i := range 5 {
		n.must(put(fmt.Sprint("filler", i), strings.Repeat("x", command.BackupPartMaxBytes-1000)))
	}
}

func saved(tb testing.TB, n *node) string {
	tb.Helper()
	var b bytes.Buffer
	require.NoError(tb, n.View().Save(&b))
	return b.String()
}

// agree waits until all nodes have what the leader has, and holds that they have
// the same.
func agree(t *testing.T, nodes ...*node) {
	t.Helper()
	leader := leaderOf(t, nodes...)
	mark := strconv.FormatUint(leader.View().Index(), 10)
	leader.must(put("agree", mark))
	for _, n := range nodes {
		n.sees("agree", mark)
		if saved(t, leader) != saved(t, n) { // too long to be shown
			require.Fail(t, "nodes differ", "%s from %s", n.ID(), leader.ID())
		}
	}
}

// onceAt calls f the first time that node n1 reaches a point after it was armed.
func onceAt(at crash.Point, armed *bool, f func(c *Config)) func(*Config) {
	return func(c *Config) {
		if c.Bootstrap {
			c.Crash = func(p crash.Point) {
				if p == at && *armed {
					*armed = false
					f(c)
				}
			}
		}
	}
}

// TestLeaderDiesInARestore ends the leader before and after the moment at which it
// takes a backup up. The others go on, and it must agree with them again.
func TestLeaderDiesInARestore(t *testing.T) {
	for _, at := range []crash.Point{crash.RestoreLoading, crash.RestoreLoaded} {
		t.Run(string(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := newNetwork()
				armed, died := false, make(chan struct{})
				nodes := trio(t, over, onceAt(at, &armed, func(c *Config) {
					c.Memory.Freeze()
					over.cut(c.Advertise, true)
					close(died)
				}))
				old := nodes[0]
				old.fills()
				b, _ := old.backup()
				old.must(put("since", "1"))
				armed = true
				_ = old.restore(b) // it cannot know
				<-died
				next := leaderOf(t, nodes[1:]...)
				assert.Empty(t, addrOf(next.View(), "since"), "it was committed before anybody took it up")
				next.must(put("b", "1"))
				old.cfg.Memory.Thaw()
				over.cut(old.cfg.Advertise, false)
				nodes[0] = old.restart()
				agree(t, nodes...)
			})
		})
	}
}

// TestRestoreCutOff cuts the leader off in the middle of the parts. Nothing may
// change, and the next restore begins anew.
func TestRestoreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		old := nodes[0]
		old.fills()
		b, _ := old.backup()
		old.must(put("since", "1"))
		parts := 0
		err := old.Restore(within(t), bytes.NewReader(b), func() command.Stamp {
			if parts++; parts == 3 {
				over.cut(old.cfg.Advertise, true)
			}
			return stampNow()
		})
		assert.Equal(t, 3, parts)
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), "a part that is lost restores nothing: %v", err)
		next := leaderOf(t, nodes[1:]...)
		next.must(put("meanwhile", "1"))
		over.cut(old.cfg.Advertise, false)
		agree(t, nodes...)
		assert.Equal(t, "1", addrOf(old.View(), "since"))
		assert.Equal(t, "1", addrOf(old.View(), "meanwhile"))

		require.NoError(t, leaderOf(t, nodes...).restore(b))
		agree(t, nodes...)
		assert.Empty(t, addrOf(old.View(), "since"))
		assert.Empty(t, addrOf(old.View(), "meanwhile"))
	})
}

// TestSnapshotInARestore lets every node be restarted from a snapshot that was
// taken between two parts, and one be sent it.
func TestSnapshotInARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, func(c *Config) { c.Compact.Trailing = 1 })
		lead := nodes[0]
		lead.fills()
		b, _ := lead.backup()
		lead.must(put("since", "1"))
		nodes[2].stop()
		parts := 0
		require.NoError(t, lead.Restore(within(t), bytes.NewReader(b), func() command.Stamp {
			if parts++; parts != 3 {
				return stampNow()
			}
			for _, n := range nodes[:2] {
				require.NoError(t, n.raft.Snapshot().Error())
			}
			middle, about := lead.backup()
			assert.Less(t, about.Bytes, int64(len(b)+1000), "a backup holds no part of another")
			assert.NotEmpty(t, middle)
			nodes[1] = nodes[1].restart()
			nodes[2] = nodes[2].restart()
			return stampNow()
		}))
		require.Greater(t, parts, 3)
		agree(t, nodes...)
		for _, n := range nodes {
			assert.Empty(t, addrOf(n.View(), "since"))
		}
	})
}

// TestTwoRestores begins a restore in the middle of another one, which is told.
func TestTwoRestores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := trio(t, newNetwork(), nil)[0]
		n.fills()
		first, _ := n.backup()
		n.must(put("second", "1"))
		second, _ := n.backup()
		n.must(put("since", "1"))
		parts := 0
		err := n.Restore(within(t), bytes.NewReader(first), func() command.Stamp {
			if parts++; parts == 2 {
				require.NoError(t, n.restore(second))
			}
			return stampNow()
		})
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), err)
		assert.Equal(t, "1", addrOf(n.View(), "second"))
		assert.Empty(t, addrOf(n.View(), "since"))
	})
}

// TestRestoresInVirtualTime restores again and again while nodes are cut off and
// restarted. A restore whose fate is known has happened or has not, and the nodes
// agree after each.
func TestRestoresInVirtualTime(t *testing.T) {
	fates := map[string]int{}
	seeds := dice.Seeds(t, 20)
	for i, seed := range seeds {
		if len(fates) == 3 && i >= len(seeds)-18 { // two of those that are drawn at least, and more until each fate came
			break
		}
		synctest.Test(t, func(t *testing.T) {
			over := newNetwork()
			draw := rand.New(rand.NewPCG(seed, 0))
			nodes := trio(t, over, func(c *Config) {
				c.Compact = Compaction{Threshold: 20, Interval: time.Second, Trailing: 5}
				c.Timeout = 2 * time.Second
			})
			nodes[0].fills()
			for round := range 20 {
				lead := leaderOf(t, nodes...)
				b, _ := lead.backup()
				since := fmt.Sprint("since", round)
				lead.must(put(since, "1"))
				outcome, pause := make(chan error, 1), time.Duration(10+draw.IntN(50))*time.Millisecond
				go func() { outcome <- lead.restoreSlowly(b, pause) }()
				await.Sleep(time.Duration(draw.IntN(400)) * time.Millisecond)
				victim := draw.IntN(len(nodes))
				if draw.IntN(2) == 0 {
					victim = slices.Index(nodes, lead)
				}
				over.cut(nodes[victim].cfg.Advertise, true)
				await.Sleep(time.Duration(500+draw.IntN(3000)) * time.Millisecond)
				if draw.IntN(2) == 0 && nodes[victim] != lead {
					nodes[victim] = nodes[victim].restart()
				}
				over.cut(nodes[victim].cfg.Advertise, false)
				err := <-outcome
				agree(t, nodes...)
				kept := addrOf(leaderOf(t, nodes...).View(), since) != ""
				switch code := api.CodeOf(err); {
				case err == nil:
					require.False(t, kept, "seed %d, round %d: it was not restored", seed, round)
					fates["done"]++
				case code == api.CodeUnavailable:
					require.True(t, kept, "seed %d, round %d: it was restored: %v", seed, round, err)
					fates["refused"]++
				default:
					require.Equal(t, api.CodeTimeout, code, "seed %d: %v", seed, err)
					fates["unknown"]++
				}
			}
		})
	}
	require.Len(t, fates, 3, "some fate never came: %v", fates)
}

func (n *node) restoreSlowly(b []byte, pause time.Duration) error {
	return n.Restore(context.Background(), bytes.NewReader(b), func() command.Stamp {
		await.Sleep(pause)
		return stampNow()
	})
}
