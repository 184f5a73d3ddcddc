package raftstore

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
	"berth/raftstore/command"
)

func (n *node) backup() ([]byte, Backup) {
	n.t.Helper()
	r, about, err := n.Snapshot(within(n.t))
	require.NoError(n.t, err)
	b, err := io.ReadAll(r)
	require.NoError(n.t, err)
	require.NoError(n.t, r.Close())
	return b, about
}

func (n *node) restore(b []byte) error {
	n.t.Helper()
	return n.Restore(within(n.t), bytes.NewReader(b), stampNow)
}

func stampNow() command.Stamp { return command.Stamp{At: api.InstantOf(time.Now())} }

func TestBackupAndRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, newNetwork(), nil)
		lead := nodes[0]
		lead.must(put("a", "old"))
		b, about := lead.backup()
		assert.Equal(t, lead.View().Index(), about.Index)
		assert.Equal(t, int64(len(b)), about.Bytes)
		assert.Equal(t, lead.ID(), about.Node)
		assert.Equal(t, b[len(b)-32:], about.SHA256[:])
		lead.must(put("a", "new"), put("b", "new"))

		assert.Equal(t, api.CodeUnavailable, api.CodeOf(nodes[1].restore(b)))
		require.NoError(t, lead.restore(b))
		assert.Equal(t, "old", addrOf(lead.View(), "a"))
		assert.Greater(t, lead.View().Index(), about.Index+1, "the index goes on")
		st, err := lead.Linearizable(within(t))
		require.NoError(t, err)
		assert.Empty(t, addrOf(st, "b"))
		lead.must(put("c", "1"))
		for _, n := range nodes {
			n.sees("c", "1")
			assert.Equal(t, "old", addrOf(n.View(), "a"), "the followers got it too")
			assert.Empty(t, addrOf(n.View(), "b"))
		}
		for i := range nodes {
			nodes[i] = nodes[i].restart()
		}
		leaderOf(t, nodes...).must(put("d", "1"))
		for _, n := range nodes {
			n.sees("d", "1")
			assert.Equal(t, "old", addrOf(n.View(), "a"))
			assert.Equal(t, "1", addrOf(n.View(), "c"))
			assert.Empty(t, addrOf(n.View(), "b"))
		}
	})
}

// TestRestoreBehindTheBackup restores a backup whose index the log has not reached.
func TestRestoreBehindTheBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := solo(t, nil)
		for range 50 {
			from.must(put("a", "1"))
		}
		b, about := from.backup()
		into := solo(t, func(c *Config) { c.Dir, c.Memory = "", NewMemory() })
		require.NoError(t, into.restore(b))
		assert.Equal(t, "1", addrOf(into.View(), "a"))
		assert.Less(t, into.View().Index(), about.Index)
		before := into.View().Index()
		into.must(put("b", "1"))
		assert.Equal(t, before+1, into.View().Index())
		again, _ := into.backup()
		assert.NotEmpty(t, again)
	})
}

func TestDamagedBackupChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		b, _ := n.backup()
		n.must(put("a", "1"))
		before, last := n.View(), n.raft.LastIndex()
		damaged := map[string][]byte{"empty": nil, "short": b[:len(b)-1], "longer": append(bytes.Clone(b), 0)}
		for _, at := range []int{0, 9, 20, len(b) / 2, len(b) - 1} {
			bad := bytes.Clone(b)
			bad[at] ^= 0x80
			damaged[string(rune('0'+at%10))+"th byte"] = bad
		}
		for name, bad := range damaged {
			assert.Equal(t, api.CodeInvalid, api.CodeOf(n.restore(bad)), name)
		}
		whole := &bytes.Buffer{} // verified, but not a state
		w, err := beginArchive(whole, archiveHeader{Index: 1})
		require.NoError(t, err)
		_, err = w.Write([]byte("nonsense"))
		require.NoError(t, err)
		_, err = w.finishArchive()
		require.NoError(t, err)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(n.restore(whole.Bytes())))

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, n.Restore(gone, bytes.NewReader(b), stampNow), context.Canceled)
		_, _, err = n.Snapshot(gone)
		require.ErrorIs(t, err, context.Canceled)

		assert.Same(t, before, n.View())
		assert.Equal(t, last, n.raft.LastIndex())
		left, err := filepath.Glob(filepath.Join(n.cfg.Dir, "*"+tempSuffix))
		require.NoError(t, err)
		assert.Empty(t, left)
	})
}

func TestBackupLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		b, _ := n.backup()
		size := int64(len(b))
		_, err := receiveArchive(t.Context(), bytes.NewReader(b), &scratchMemory{}, size)
		require.NoError(t, err)
		_, err = receiveArchive(t.Context(), bytes.NewReader(b), &scratchMemory{}, size-1)
		assert.Equal(t, api.CodeTooLarge, api.CodeOf(err))
	})
}

func TestArchiveNoticesEveryBit(t *testing.T) {
	var b bytes.Buffer
	w, err := beginArchive(&b, archiveHeader{Node: "n1", Index: 5, Term: 2})
	require.NoError(t, err)
	_, err = w.Write([]byte("the state"))
	require.NoError(t, err)
	_, err = w.finishArchive()
	require.NoError(t, err)

	a, err := openArchive(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	assert.Equal(t, archiveHeader{Node: "n1", Index: 5, Term: 2}, a.archiveHeader)
	payload, err := io.ReadAll(a.payload)
	require.NoError(t, err)
	assert.Equal(t, "the state", string(payload))

	for bit := range b.Len() * 8 {
		bad := bytes.Clone(b.Bytes())
		bad[bit/8] ^= 1 << (bit % 8)
		_, err := openArchive(bytes.NewReader(bad), int64(len(bad)))
		require.ErrorIs(t, err, ErrDamaged, "bit %d", bit)
	}
	for cut := range b.Len() {
		_, err := openArchive(bytes.NewReader(b.Bytes()), int64(cut))
		require.ErrorIs(t, err, ErrDamaged, "cut at %d", cut)
	}
}

func TestArchiveHeaderLimit(t *testing.T) {
	fixed := len(mustHeader(t, archiveHeader{Members: make([]byte, headerMaxBytes/2)})) - headerMaxBytes/2
	_, err := beginArchive(io.Discard, archiveHeader{Members: make([]byte, headerMaxBytes-fixed)})
	require.NoError(t, err)
	_, err = beginArchive(io.Discard, archiveHeader{Members: make([]byte, headerMaxBytes-fixed+1)})
	assert.Error(t, err)
}

func mustHeader(t *testing.T, h archiveHeader) []byte {
	t.Helper()
	b, err := codec.Marshal(h)
	require.NoError(t, err)
	return b
}

func TestSnapshotStore(t *testing.T) {
	dir := t.TempDir()
	s, err := openSnapshots(dir, guardOf("n1"))
	require.NoError(t, err)
	s.tell(func(position) error { return nil })
	members := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "h:1"}}}
	write := func(index uint64) raft.SnapshotSink {
		sink, failed := s.Create(raft.SnapshotVersionMax, index, 3, members, 2, nil)
		require.NoError(t, failed)
		_, failed = sink.Write([]byte{byte(index)})
		require.NoError(t, failed)
		return sink
	}
	_, err = s.Create(raft.SnapshotVersionMin, 1, 1, members, 1, nil)
	require.Error(t, err)

	cancelled := write(9)
	require.NoError(t, cancelled.Cancel())
	require.NoError(t, cancelled.Close(), "it stays cancelled")
	write(8) // cut off by a crash
	for _, index := range []uint64{5, 7, 6, 7} {
		sink := write(index)
		require.NoError(t, sink.Close())
		require.NoError(t, sink.Close(), "again")
		require.NoError(t, sink.Cancel(), "too late")
	}
	check := func(s *snapshots) {
		list, failed := s.List()
		require.NoError(t, failed)
		require.Len(t, list, snapshotsKept)
		for i, want := range []uint64{7, 6} {
			assert.Equal(t, want, list[i].Index)
			meta, r, failed := s.Open(list[i].ID)
			require.NoError(t, failed)
			assert.Equal(t, list[i], meta)
			assert.Equal(t, members, meta.Configuration)
			assert.Equal(t, uint64(2), meta.ConfigurationIndex)
			assert.Equal(t, int64(1), meta.Size)
			b, failed := io.ReadAll(r)
			require.NoError(t, failed)
			assert.Equal(t, []byte{byte(want)}, b)
			require.NoError(t, r.Close())
		}
	}
	check(s)
	s, err = openSnapshots(dir, guardOf("n1"))
	require.NoError(t, err)
	check(s)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, snapshotsKept, "nothing is left of the one that was cut off")

	require.NoError(t, os.Rename(s.pathOf(snapshotID(7, 3)), s.pathOf(snapshotID(6, 3))))
	_, _, err = s.Open(snapshotID(6, 3))
	assert.ErrorIs(t, err, ErrDamaged, "a snapshot under another's name")
}
