package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestMembersOfAConfiguration: each with its address, its vote and whether it leads, by id.
func TestMembersOfAConfiguration(t *testing.T) {
	c := raft.Configuration{Servers: []raft.Server{
		{ID: "n2", Address: "b:1", Suffrage: raft.Nonvoter}, {ID: "n1", Address: "a:1", Suffrage: raft.Voter}, {Address: "c:1", Suffrage: raft.Voter},
	}}
	assert.Equal(t, []Member{{Addr: "c:1", Voter: true}, {ID: "n1", Addr: "a:1", Voter: true, Leader: true}, {ID: "n2", Addr: "b:1"}}, membersOf(c, "n1"))
	for _, m := range membersOf(c, "") {
		assert.False(t, m.Leader, "nobody leads, not who has no name either")
	}
}

// TestReadsThatWait: up to the limit, each is told once, and a closed list takes none.
func TestReadsThatWait(t *testing.T) {
	q := newAsks()
	assert.Empty(t, q.take())
	a := make(ask, 1)
	for range queueMax {
		require.NoError(t, q.put(a))
	}
	assert.Len(t, q.ready, 1)
	assert.Equal(t, api.CodeOverloaded, api.CodeOf(q.put(a)))
	assert.Len(t, q.take(), queueMax)
	assert.Empty(t, q.take())
	require.NoError(t, q.put(a))
	q.close()
	require.ErrorIs(t, (<-a).err, raft.ErrRaftShutdown)
	require.Error(t, q.put(a))
	assert.Empty(t, q.take())
}

// TestProgressOfMembers: what a node has told last, which wakes those who wait, until it is forgotten.
func TestProgressOfMembers(t *testing.T) {
	p := newProgress()
	last, told, changed := p.indexOf("n1")
	assert.Equal(t, []any{uint64(0), false}, []any{last, told})
	p.noteIndex("n1", 7)
	<-changed
	p.noteIndex("n2", 9)
	last, told, changed = p.indexOf("n1")
	assert.Equal(t, []any{uint64(7), true}, []any{last, told})
	select {
	case <-changed:
		t.Fatal("nothing has changed since")
	default:
	}
	p.forgetNode("n1")
	last, told, _ = p.indexOf("n1")
	assert.Equal(t, []any{uint64(0), false}, []any{last, told})
	last, told, _ = p.indexOf("n2")
	assert.Equal(t, []any{uint64(9), true}, []any{last, told})
}

// TestViewsArePosted: what was applied never falls, and a mark without a view that tells nothing new wakes nobody.
func TestViewsArePosted(t *testing.T) {
	b := newBoard(emptyState())
	first := b.cur.Load()
	b.postView(nil, 0)
	assert.Same(t, first, b.cur.Load())
	b.postView(nil, 5)
	<-first.changed
	now := b.cur.Load()
	assert.Equal(t, uint64(5), now.applied)
	assert.Same(t, first.state, now.state)
	b.postView(nil, 5)
	assert.Same(t, now, b.cur.Load())
	next := emptyState()
	b.postView(next, 3)
	assert.Equal(t, uint64(5), b.cur.Load().applied)
	assert.Same(t, next, b.cur.Load().state)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan struct{})
	close(stopped)
	never := make(chan struct{})
	for name, c := range map[string]struct {
		ctx  context.Context
		stop chan struct{}
	}{"gone": {gone, never}, "stopped": {t.Context(), stopped}} {
		p, ok := b.awaitPage(c.ctx, c.stop, func(*page) bool { return false })
		assert.False(t, ok, name)
		assert.Same(t, b.cur.Load(), p, name)
		st, ok := b.awaitView(c.ctx, c.stop, state.Everything, func(*state.State) bool { return false })
		assert.False(t, ok, name)
		assert.Same(t, next, st, name)
		_, ok = b.awaitPage(c.ctx, c.stop, func(p *page) bool { return p.applied == 5 })
		assert.True(t, ok, "it is there: %s", name)
		_, ok = b.awaitView(c.ctx, c.stop, state.Everything, func(s *state.State) bool { return s == next })
		assert.True(t, ok, "it is there: %s", name)
	}
}

// TestABrokenStateMachine applies nothing more, takes no snapshot and loads none; it is told once.
func TestABrokenStateMachine(t *testing.T) {
	var told []error
	f := newFSM(api.FormNewest, func(err error) { told = append(told, err) })
	entry := func(index uint64, typ raft.LogType, data []byte) *raft.Log {
		return &raft.Log{Index: index, Type: typ, Data: data}
	}
	good, err := encodeCommands([]command.Command{put("a", "1")}, api.FormNewest)
	require.NoError(t, err)
	answers := f.ApplyBatch([]*raft.Log{entry(1, raft.LogConfiguration, nil), entry(2, raft.LogCommand, good), entry(3, raft.LogNoop, nil)})
	assert.Equal(t, []any{nil, nil}, []any{answers[0], answers[2]})
	assert.IsType(t, []state.Result{}, answers[1])
	assert.Equal(t, uint64(1), f.members.Load())
	before := f.board.cur.Load()
	assert.Equal(t, []uint64{3, 2}, []uint64{before.applied, before.state.Index()})
	saved := &bytes.Buffer{}
	snap, err := f.Snapshot()
	require.NoError(t, err)
	require.NoError(t, saveState(snap.(frozen).state, saved))

	answers = f.ApplyBatch([]*raft.Log{entry(4, raft.LogCommand, []byte{1, 2}), entry(5, raft.LogCommand, good), entry(6, raft.LogConfiguration, nil)})
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], errBroken)
	for _, a := range answers {
		assert.Equal(t, told[0], a)
	}
	assert.Equal(t, uint64(6), f.members.Load())
	assert.Same(t, before, f.board.cur.Load(), "no view of it is shown")
	_, err = f.Snapshot()
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, f.Restore(io.NopCloser(bytes.NewReader(saved.Bytes()))), errBroken)

	whole := newFSM(api.FormNewest, func(error) {})
	whole.members.Store(7)
	require.Error(t, whole.Restore(io.NopCloser(bytes.NewReader(saved.Bytes()[:saved.Len()-1]))))
	assert.Equal(t, uint64(7), whole.members.Load())
	require.NoError(t, whole.Restore(io.NopCloser(bytes.NewReader(saved.Bytes()))))
	assert.Zero(t, whole.members.Load(), "it may hold a newer change")
	assert.Equal(t, uint64(2), whole.board.cur.Load().applied)
}

// TestBatchesReadAhead: up to their size, and no further than an error or a panic.
func TestBatchesReadAhead(t *testing.T) {
	fails := errors.New("the end")
	for _, c := range []struct {
		records int
		want    int
		err     bool
	}{{0, 0, true}, {1, 1, true}, {aheadRecords - 1, aheadRecords - 1, true}, {aheadRecords, aheadRecords, false}, {aheadRecords + 1, aheadRecords, false}} {
		n := 0
		b := readBatch(func() (any, error) {
			if n == c.records {
				return nil, fails
			}
			n++
			return n, nil
		})
		assert.Len(t, b.records, c.want)
		assert.Equal(t, c.err, b.err != nil)
	}
	b := readBatch(func() (any, error) { panic("bad") })
	require.ErrorContains(t, b.err, "bad")
}

// TestWhichSnapshotFitsALog: none that is older than the log knows, and none that leaves a gap.
func TestWhichSnapshotFitsALog(t *testing.T) {
	for _, c := range []struct {
		b      ledger
		newest uint64
		ok     bool
	}{
		{ledger{First: 1}, 0, true},
		{ledger{First: 1, Snap: 5}, 5, true},
		{ledger{First: 1, Snap: 5}, 6, true},
		{ledger{First: 1, Snap: 5}, 4, false},
		{ledger{First: 6}, 5, true},
		{ledger{First: 7}, 5, false},
	} {
		assert.Equal(t, c.ok, checkSnapshot(c.b, c.newest) == nil, "%+v", c)
	}
	b := ledger{First: 3, Last: 5, DeadFrom: 1, DeadTo: 2}
	for index, is := range [][2]bool{{false, false}, {false, true}, {false, true}, {true, false}, {true, false}, {true, false}, {false, false}} {
		assert.Equal(t, is, [2]bool{b.hasEntry(uint64(index)), b.isDead(uint64(index))}, "%d", index)
	}
	assert.False(t, ledger{}.isDead(0))
	assert.False(t, b.isEmpty())
	assert.False(t, ledger{First: 3, Last: 3}.isEmpty())
	assert.True(t, ledger{First: 3, Last: 2}.isEmpty())
}

// TestWhyEntriesFail: each way to lose the lead is one, and all else another.
func TestWhyEntriesFail(t *testing.T) {
	for _, c := range []struct {
		err  error
		want map[string]uint64
	}{
		{raft.ErrNotLeader, map[string]uint64{FailedLeadership: 1}},
		{fmt.Errorf("so: %w", raft.ErrLeadershipLost), map[string]uint64{FailedLeadership: 1}},
		{raft.ErrLeadershipTransferInProgress, map[string]uint64{FailedLeadership: 1}},
		{errors.New("x"), map[string]uint64{FailedOther: 1}},
	} {
		m := newMeasures()
		m.noteEntry(3, time.Second, c.err)
		assert.Equal(t, c.want, m.Failed.Read(), c.err)
		assert.InDelta(t, 3, m.Commands.Read().Sum, 0)
		assert.Zero(t, m.Commit.Read().Count)
	}
	m := newMeasures()
	m.noteEntry(3, time.Second, nil)
	assert.Empty(t, m.Failed.Read())
	assert.InDelta(t, 1, m.Commit.Read().Sum, 0)
}

// TestWhatRaftSaysOften: each of its usual lines is no warning, and only those.
func TestWhatRaftSaysOften(t *testing.T) {
	for _, start := range usual {
		assert.True(t, isUsual(start+" n2"), start)
		assert.False(t, isUsual("now "+start), start)
		assert.False(t, isUsual(start[:len(start)-1]), start)
	}
	assert.False(t, isUsual("failed to contact quorum of nodes, stepping down"))
	l := newRaftLog(discard(), &atomic.Bool{})
	assert.Equal(t, []any{"a", 1, "b"}, l.With("a", 1).With("b").ImpliedArgs())
	assert.Empty(t, l.ImpliedArgs())
	assert.Equal(t, []string{"raft", "raft.net", "other"}, []string{l.Name(), l.Named("net").Name(), l.ResetNamed("other").Name()})
}

// TestProposalsOfAnEarlierForm are answered, and leave their batch.
func TestProposalsOfAnEarlierForm(t *testing.T) {
	st := emptyState()
	s := &Store{views: newBoard(st)}
	old, now := someProposal(1, 1), someProposal(1, 1)
	old.form, now.form = s.Form()+1, s.Form()
	assert.Equal(t, []*proposal{now}, s.dropOutdated([]*proposal{old, now}))
	assert.Equal(t, api.CodeUnavailable, api.CodeOf((<-old.done).Err))
	assert.Empty(t, now.done)
}
