package raftstore

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestSnapshotsInMemory: the newest counts once it is closed, whole and with all that is known of it, and no other is found.
func TestSnapshotsInMemory(t *testing.T) {
	mem := NewMemory()
	st, err := mem.openStores(guardOf("n1"), func() bool { return false })
	require.NoError(t, err)
	require.NoError(t, st.logs.StoreLogs([]*raft.Log{{Index: 1, Term: 2}, {Index: 2, Term: 2}, {Index: 3, Term: 2}}))
	all, err := st.snapshots.List()
	require.NoError(t, err)
	assert.Empty(t, all)
	members := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1:1"}}}
	begin := func(index uint64) raft.SnapshotSink {
		sink, err := st.snapshots.Create(1, index, 2, members, 7, nil)
		require.NoError(t, err)
		_, err = sink.Write([]byte("state"))
		require.NoError(t, err)
		return sink
	}
	sink := begin(2)
	require.NoError(t, sink.Cancel())
	require.NoError(t, sink.Close(), "too late")
	all, _ = st.snapshots.List()
	assert.Empty(t, all)
	sink = begin(3)
	require.NoError(t, sink.Close())
	require.NoError(t, sink.Close(), "again")
	all, _ = st.snapshots.List()
	assert.Equal(t, []*raft.SnapshotMeta{{
		Version: 1, ID: sink.ID(), Index: 3, Term: 2, Configuration: members, ConfigurationIndex: 7, Size: 5,
	}}, all)
	_, from, err := st.snapshots.Open(sink.ID())
	require.NoError(t, err)
	b, err := io.ReadAll(from)
	require.NoError(t, err)
	assert.Equal(t, "state", string(b))
	_, _, err = st.snapshots.Open("other")
	require.Error(t, err)

	late := begin(3)
	mem.Freeze()
	require.Error(t, late.Close(), "its process was killed")
	_, err = mem.openStores(guardOf("n1"), func() bool { return false })
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	mem.Thaw()
	again, err := mem.openStores(guardOf("n1"), func() bool { return false })
	require.NoError(t, err)
	last, err := again.logs.LastIndex()
	require.NoError(t, err)
	assert.Equal(t, uint64(3), last)
	first, err := again.logs.FirstIndex()
	require.NoError(t, err)
	assert.Equal(t, uint64(1), first)
}

// TestSealedSnapshotsThatFail: what goes wrong under them is said, and what was begun is cancelled.
func TestSealedSnapshotsThatFail(t *testing.T) {
	key := DiskKey{1}
	for name, c := range map[string]struct {
		create error
		left   int // bytes that can be written
		want   error
	}{
		"no room at all": {errDisk, 0, errDisk}, "none for the start": {nil, 0, errDisk}, "none for the end": {nil, 100, errDisk}, "enough": {nil, 1 << 20, nil},
	} {
		k := &brokenKeeper{err: c.create, sink: &brokenSink{brokenWriter: brokenWriter{c.left}}}
		s := sealedSnapshots{k, rest{"n1", &key}}
		sink, err := s.Create(1, 1, 1, raft.Configuration{}, 0, nil)
		if err == nil {
			_, err = sink.Write(make([]byte, 60))
			if err == nil {
				err = sink.Close()
				require.NoError(t, sink.Close(), "again")
			}
		}
		if c.want == nil {
			require.NoError(t, err, name)
			assert.Equal(t, []bool{true, false}, []bool{k.sink.closed, k.sink.cancelled}, name)
			continue
		}
		require.ErrorIs(t, err, c.want, name)
		assert.False(t, k.sink.closed, name)
		assert.Equal(t, c.create == nil, k.sink.cancelled, name)
		if c.create != nil {
			_, _, err = s.Open("x")
			require.ErrorIs(t, err, errDisk)
			_, err = s.List()
			require.ErrorIs(t, err, errDisk)
		}
	}
	m, from := &raft.SnapshotMeta{ID: "x"}, io.NopCloser(nil)
	got, same, err := rest{}.openSnapshot(m, from)
	require.NoError(t, err)
	assert.Same(t, m, got, "it is not sealed")
	assert.Equal(t, from, same)
	l := &raft.Log{Data: []byte("plain")}
	assert.Same(t, l, rest{}.sealData(l))
	require.NoError(t, rest{}.openData(l))
	assert.Equal(t, "plain", string(l.Data))
}

type brokenKeeper struct {
	snapshotKeeper
	err  error
	sink *brokenSink
}

func (k *brokenKeeper) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return k.sink, k.err
}

func (k *brokenKeeper) Open(string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, k.err
}

func (k *brokenKeeper) List() ([]*raft.SnapshotMeta, error) { return nil, k.err }

// brokenSink is a snapshot that takes a number of bytes.
type brokenSink struct {
	brokenWriter
	closed, cancelled bool
}

func (k *brokenSink) ID() string { return "x" }

func (k *brokenSink) Close() error {
	k.closed = true
	return nil
}

func (k *brokenSink) Cancel() error {
	if k.cancelled {
		return errors.New("twice")
	}
	k.cancelled = true
	return nil
}
