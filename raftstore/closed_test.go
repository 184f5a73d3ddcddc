package raftstore

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
)

// TestAStoreThatIsClosed does nothing more, says so, and is no sign of a loop that hangs.
func TestAStoreThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		n.must(put("a", "1"))
		require.NoError(t, n.Alive(within(t)))
		stored, ok := n.Stored()
		require.True(t, ok)
		assert.Positive(t, stored.LogBytes)
		assert.Zero(t, stored.SnapshotBytes)
		require.NoError(t, n.raft.Snapshot().Error())
		stored, _ = n.Stored()
		assert.Positive(t, stored.SnapshotBytes)
		assert.NotZero(t, stored.Newest)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, n.awaitCall(gone, func() error { <-n.closing; return nil }), context.Canceled)
		require.Error(t, n.confirmTerm(gone, n.Term()+1), "nothing is known of that term")
		assert.NotEqual(t, n.Term()+1, n.ready.Load())
		_, err := n.Linearizable(gone)
		require.Error(t, err)

		n.stop()
		require.NoError(t, n.Alive(within(t)))
		for name, call := range map[string]func(ctx context.Context) error{
			"propose":      func(ctx context.Context) error { _, err := n.Propose(ctx, put("a", "2")); return err },
			"linearizable": func(ctx context.Context) error { _, err := n.Linearizable(ctx); return err },
			"restore": func(ctx context.Context) error {
				return n.Restore(ctx, io.LimitReader(nil, 0), func() command.Stamp { return command.Stamp{} })
			},
			"add":      func(ctx context.Context) error { return n.AddNonvoter(ctx, "n2", "n2:1") },
			"vote":     func(ctx context.Context) error { return n.AddVoter(ctx, "n2", "n2:1") },
			"remove":   func(ctx context.Context) error { return n.Remove(ctx, "n1") },
			"transfer": func(ctx context.Context) error { return n.Transfer(ctx, "n2") },
		} {
			require.Error(t, call(within(t)), name)
		}
		assert.Equal(t, "1", addrOf(n.View(), "a"))
	})
}

// TestFormsOfEntries: what an entry needs is that of its newest command, and that to which one raises the zone.
func TestFormsOfEntries(t *testing.T) {
	entry := func(cs ...[]byte) (b []byte) {
		for _, c := range cs {
			b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
		}
		return b
	}
	raise, err := command.Encode(command.FormRaise{To: 9}, api.FormNewest)
	require.NoError(t, err)
	low, high := []byte{1, 3, 0xa0}, []byte{2, 4}
	for name, c := range map[string]struct {
		entry []byte
		want  api.Form
	}{
		"nothing": {nil, 0}, "one": {entry(low), 3}, "two": {entry(low, high), 4}, "the other way": {entry(high, low), 4}, "raised": {entry(low, raise), 9},
		"cut":          {entry(low, high)[:len(entry(low, high))-1], 3},
		"a short one":  {entry(low, []byte{7}), 3},
		"a bad length": {slices.Concat(entry(low), []byte{0x80}), 3},
	} {
		assert.Equal(t, c.want, formOfEntry(c.entry), name)
	}

	logs := raft.NewInmemStore()
	require.NoError(t, checkForms(logs, 1), "an empty log")
	require.NoError(t, logs.StoreLogs([]*raft.Log{
		{Index: 1, Data: entry(high)}, {Index: 2, Data: entry(low)}, {Index: 3, Type: raft.LogNoop, Data: []byte{2, 9, 9}},
	}))
	require.NoError(t, checkForms(logs, 3), "forms never fall, so the newest is looked at")
	assert.Equal(t, api.CodeConflict, api.CodeOf(checkForms(logs, 2)))
	for _, broken := range []string{"first", "last", "get"} {
		require.ErrorIs(t, checkForms(brokenLogs{logs, broken}, 3), errDisk, broken)
	}
}

// brokenLogs is a log one of whose calls fails.
type brokenLogs struct {
	*raft.InmemStore
	call string
}

func (l brokenLogs) FirstIndex() (uint64, error) {
	if l.call == "first" {
		return 1, errDisk
	}
	return l.InmemStore.FirstIndex()
}

func (l brokenLogs) LastIndex() (uint64, error) {
	if l.call == "last" {
		return 3, errDisk
	}
	return l.InmemStore.LastIndex()
}

func (l brokenLogs) GetLog(index uint64, out *raft.Log) error {
	if l.call == "get" {
		return errDisk
	}
	return l.InmemStore.GetLog(index, out)
}
