package raftstore

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
)

// TestEntriesAreMeasured: each entry with its commands and its time, each batch that is applied, and each write to
// the disk, which a slow disk shows in.
func TestEntriesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool // once it leads: two writes of a second each are as long as an election may take
		n := solo(t, func(c *Config) {
			c.wrap = func(u under) under {
				return &faulty{under: u, write: func() error {
					if slow.Load() {
						await.Sleep(time.Second)
					}
					return nil
				}}
			}
		})
		m := n.Measures()
		await.True(t, "the beginning is applied", func() bool { return n.Waiting() == 0 && n.Lag() == 0 })
		slow.Store(true)
		entries, writes, applied := m.Commands.Read(), m.Write.Read(), m.Apply.Read()
		n.must(put("a", "1"), put("b", "1"), put("c", "1"))
		after := m.Commands.Read()
		assert.Equal(t, entries.Count+1, after.Count)
		assert.InDelta(t, entries.Sum+3, after.Sum, 0)
		assert.Equal(t, after.Count, m.Commit.Read().Count)
		assert.Greater(t, m.Write.Read().Count, writes.Count)
		assert.Greater(t, m.Apply.Read().Count, applied.Count)
		now := m.Write.Read()
		assert.InDelta(t, now.Count-writes.Count, now.Sum-writes.Sum, 0, "a second each")
		assert.Empty(t, m.Failed.Read())
		await.True(t, "counted as done a moment after the answer", func() bool { return n.Waiting() == 0 && n.Lag() == 0 })
		assert.Equal(t, "leader", n.Role())
	})
}

// TestAnEntryThatIsNotCommittedIsCounted: and has no time.
func TestAnEntryThatIsNotCommittedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		old := nodes[0]
		over.cut(old.cfg.Advertise, true)
		before := old.Measures().Commit.Read().Count
		_, err := old.Propose(t.Context(), put("a", "lost"))
		require.Equal(t, api.CodeTimeout, api.CodeOf(err))
		await.Sleep(time.Minute)
		assert.Equal(t, before, old.Measures().Commit.Read().Count)
		assert.Equal(t, map[string]uint64{FailedLeadership: 1}, old.Measures().Failed.Read())
		assert.NotEqual(t, "leader", old.Role())
	})
}

func TestOtherFailuresAreCounted(t *testing.T) {
	m := newMeasures()
	m.noteEntry(1, time.Second, raft.ErrEnqueueTimeout)
	assert.Equal(t, map[string]uint64{FailedOther: 1}, m.Failed.Read())
	assert.Zero(t, m.Commit.Read().Count)
}

// TestWaitingProposalsAreCounted: those that no entry has yet.
func TestWaitingProposalsAreCounted(t *testing.T) {
	s := &Store{queue: newQueue()}
	body, err := encodeCommands([]command.Command{put("a", "1")}, api.FormNewest)
	require.NoError(t, err)
	for range 3 {
		s.queue.putProposals([]*proposal{{body: body, count: 1}})
	}
	assert.Equal(t, 3, s.Waiting())
}
