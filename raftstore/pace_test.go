package raftstore

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

// TestASlowDiskLeadsNoMore writes to a zone whose leader has a slower disk than the others, but none that hangs.
func TestASlowDiskLeadsNoMore(t *testing.T) {
	const slow = 100 * time.Millisecond
	for _, c := range []struct {
		name  string
		disks [3]time.Duration // of one write; the first node leads
		moves bool
	}{
		{"leader", [3]time.Duration{slow, 0, 0}, true},
		{"leader, very slow", [3]time.Duration{2 * time.Second, time.Millisecond, time.Millisecond}, true},
		{"leader, and a follower", [3]time.Duration{slow, slow, 0}, true},
		{"a follower", [3]time.Duration{0, slow, 0}, false},
		{"all", [3]time.Duration{slow, slow, slow}, false},
		{"leader, not many times as slow", [3]time.Duration{slow, slow/slowTimes + time.Millisecond, slow/slowTimes + time.Millisecond}, false},
		{"leader, but quick enough", [3]time.Duration{slowLeast - time.Millisecond, 0, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var on atomic.Bool
				i := 0
				nodes := trio(t, newNetwork(), func(conf *Config) {
					takes := c.disks[i]
					i++
					conf.wrap = func(u under) under {
						return &faulty{under: u, write: func() error {
							if on.Load() {
								await.Sleep(takes)
							}
							return nil
						}}
					}
				})
				nodes[0].leads()
				on.Store(true)
				for began := time.Now(); nodes[0].IsLeader() && time.Since(began) < 20*time.Second; await.Sleep(time.Millisecond) {
					_, _ = nodes[0].Propose(t.Context(), put("a", "1")) // refused while it hands over
				}
				assert.Equal(t, c.moves, !nodes[0].IsLeader())
				if c.moves {
					next := leaderOf(t, nodes[1:]...)
					assert.Zero(t, c.disks[next.ID()[1]-'1'].Round(10*time.Millisecond), "one of the quick ones")
					next.must(put("b", "1"))
				}
			})
		})
	}
}

// slowFirst is a zone whose first node leads, and has a slow disk while on is set. said is what that node warns of.
func slowFirst(t *testing.T) (nodes []*node, on *atomic.Bool, said *bytes.Buffer) {
	t.Helper()
	on, said = new(atomic.Bool), new(bytes.Buffer)
	nodes = trio(t, newNetwork(), func(c *Config) {
		if c.ID != "n1" {
			return
		}
		c.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		c.wrap = func(u under) under {
			return &faulty{under: u, write: func() error {
				if on.Load() {
					await.Sleep(2 * slowLeast)
				}
				return nil
			}}
		}
	})
	nodes[0].leads()
	return nodes, on, said
}

// writesFor proposes to a node, one entry after the other, for a while.
func (n *node) writesFor(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; await.Sleep(time.Millisecond) {
		_, _ = n.Propose(n.t.Context(), put("a", "1")) // refused while it hands over
	}
}

// TestALeadThatIsHandedBackStays for a while, though the disk is as slow as before: an operator has reasons, and elections cost more.
func TestALeadThatIsHandedBackStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, on, said := slowFirst(t)
		first := nodes[0]
		on.Store(true)
		began := time.Now()
		for first.IsLeader() && time.Since(began) < slowPause {
			first.writesFor(time.Millisecond)
		}
		moved := time.Now()
		require.Less(t, moved.Sub(began), slowPause)
		next := leaderOf(t, nodes[1:]...)
		on.Store(false)
		next.must(put("a", "2"))
		first.sees("a", "2")
		require.NoError(t, next.Transfer(within(t), first.ID()))
		first.leads()
		on.Store(true)
		first.writesFor(slowPause - 2*time.Second - time.Since(moved))
		assert.True(t, first.IsLeader())
		first.writesFor(5 * time.Second)
		assert.False(t, first.IsLeader())
		first.stop()
		assert.Equal(t, 2, strings.Count(said.String(), "holds the zone back"), "%s", said)
	})
}

// TestASlowFollowerHandsNothingOver, though it has led a moment ago.
func TestASlowFollowerHandsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, on, said := slowFirst(t)
		on.Store(true)
		nodes[0].writesFor(time.Second)
		require.NoError(t, nodes[0].Transfer(within(t), nodes[1].ID()))
		nodes[1].leads().writesFor(2 * paceSpan)
		assert.True(t, nodes[1].IsLeader())
		nodes[0].stop()
		assert.NotContains(t, said.String(), "the leadership was not handed over")
		assert.NotContains(t, said.String(), "holds the zone back")
	})
}

func TestBetterOf(t *testing.T) {
	const n2, n3 = raft.ServerID("n2"), raft.ServerID("n3")
	all := []raft.ServerID{n2, n3}
	// worlds of writes each second, the newest now.
	play := func(seconds int, own, second, third time.Duration) *paces {
		at := time.Time{}
		p := newPaces(func() time.Time { return at })
		for range seconds {
			at = at.Add(time.Second)
			p.noteOwn(own)
			p.noteOther(n2, second)
			p.noteOther(n3, third)
		}
		return p
	}
	for _, c := range []struct {
		name string
		p    *paces
		of   []raft.ServerID
		want raft.ServerID
	}{
		{"the fastest", play(3, 400*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond), all, n3},
		{"that may lead", play(3, 400*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond), []raft.ServerID{n2}, n2},
		{"as many times as fast", play(4, slowLeast, slowLeast/slowTimes, time.Second), all, n2},
		{"not as many", play(4, slowLeast, slowLeast/slowTimes+1, time.Second), all, ""},
		{"too quick", play(4, slowLeast-1, 0, 0), all, ""},
		{"not for long", play(2, 900*time.Millisecond, 0, 0), all, ""},
		{"long enough", play(2, time.Second, 0, 0), all, n2},
		{"one write", play(1, 4*time.Second, 0, 0), all, ""},
		{"nobody else", play(4, time.Second, 0, 0), []raft.ServerID{"n4"}, ""},
		{"nothing", play(0, 0, 0, 0), all, ""},
	} {
		got, _, _ := c.p.betterOf(c.of)
		assert.Equal(t, c.want, got, c.name)
	}

	p := play(8, time.Second, 0, 0)
	past := p.now().Add(paceSpan)
	p.now = func() time.Time { return past }
	_, own, _ := p.betterOf(all)
	assert.Zero(t, own, "one write of the past is no row of them")
	for i := range 2 * paceKept {
		p.noteOwn(time.Duration(i))
	}
	assert.Len(t, p.own, paceKept)
	assert.Equal(t, time.Duration(paceKept), p.own[0].took, "the newest stay")
	assert.Equal(t, time.Duration(paceKept+(paceKept-1)/4), p.own.quartile(1))
}
