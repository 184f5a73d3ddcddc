package raftstore

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
)

// byHand is a leader of a zone whose messages a test writes: to node b.
type byHand struct {
	t  *testing.T
	to *transport
}

func (l byHand) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("a"), Addr: []byte("a:1")}
}

// appends sends entries without contents behind prev, and reports whether b took them.
func (l byHand) appends(term uint64, prev position, terms ...uint64) bool {
	l.t.Helper()
	req := raft.AppendEntriesRequest{RPCHeader: l.header(), Term: term, PrevLogEntry: prev.index, PrevLogTerm: prev.term}
	for i, t := range terms {
		req.Entries = append(req.Entries, &raft.Log{Index: prev.index + 1 + uint64(i), Term: t, Type: raft.LogNoop})
	}
	var resp raft.AppendEntriesResponse
	require.NoError(l.t, l.to.AppendEntries("b", "b:1", &req, &resp))
	return resp.Success
}

// installs sends a snapshot that ends at end.
func (l byHand) installs(term uint64, end position) error {
	_, err := l.offers(term, end)
	return err
}

// offers is installs with the answer.
func (l byHand) offers(term uint64, end position) (raft.InstallSnapshotResponse, error) {
	l.t.Helper()
	st := state.New()
	st.Apply(end.index, initZone())
	var body bytes.Buffer
	require.NoError(l.t, st.Save(&body))
	members := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a:1"}, {ID: "b", Address: "b:1"}}}
	req := raft.InstallSnapshotRequest{
		RPCHeader: l.header(), SnapshotVersion: raft.SnapshotVersionMax, Term: term, LastLogIndex: end.index, LastLogTerm: end.term,
		Configuration: raft.EncodeConfiguration(members), ConfigurationIndex: 1, Size: int64(body.Len()),
	}
	var resp raft.InstallSnapshotResponse
	err := l.to.InstallSnapshot("b", "b:1", &req, &resp, &body)
	return resp, err
}

// nobody has a log without entries: nobody calls a leader by hand.
type nobody struct{}

func (nobody) holdsUpTo(position) bool { return false }
func (nobody) term() uint64            { return 0 }

// lead returns a leader by hand, and node b that follows it and tells its end to ended.
func lead(t *testing.T, ended *error) (byHand, *node) {
	t.Helper()
	over := newNetwork()
	cfg := Config{ID: "a", Advertise: "a:1", Stream: over.listen("a:1"), Log: discard()}.withDefaults()
	to := newTransport(cfg, newRaftLog(cfg.Log, nil), newProgress(), newPaces(time.Now), nobody{}, cfg.Fatal)
	t.Cleanup(func() { assert.NoError(t, to.Close()) })
	b := start(t, Config{
		ID: "b", Memory: NewMemory(), Advertise: "b:1", Stream: over.listen("b:1"), Timing: defaultTiming(), Fatal: func(err error) { *ended = err },
	})
	return byHand{t, to}, b
}

// TestEntriesBehindASnapshotAreReplaced: a node that was brought up to date by a
// snapshot takes other entries in place of the first behind it, as when two leaders
// followed each other quickly.
func TestEntriesBehindASnapshotAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		l, _ := lead(t, &ended)
		require.NoError(t, l.installs(2, position{10, 2}))
		require.True(t, l.appends(2, position{10, 2}, 2, 2))
		assert.True(t, l.appends(3, position{10, 2}, 3), "the leader has nothing before the snapshot and could only send it again")
		assert.True(t, l.appends(3, position{11, 3}, 3))
		require.NoError(t, ended)
	})
}

// TestASnapshotThatContradictsTheLog: a node whose log goes beyond a snapshot of its
// zone, and has something else where that ends, begins anew and takes what follows.
func TestASnapshotThatContradictsTheLog(t *testing.T) {
	for _, end := range []position{{5, 3}, {4, 3}} {
		synctest.Test(t, func(t *testing.T) {
			var ended error
			l, b := lead(t, &ended)
			require.True(t, l.appends(2, position{}, 2, 2, 2, 2, 2))
			require.Error(t, l.installs(3, end))
			require.ErrorIs(t, ended, ErrDiverged)
			require.NotEqual(t, api.CodeConflict, api.CodeOf(ended), "nothing is damaged")
			b.restart()
			require.True(t, l.appends(3, end, 3, 3))
			require.False(t, l.appends(3, position{5, 2}, 3), "what the zone never confirmed is gone")
		})
	}
}

// TestALateSnapshotTakesNothingBack: a call to install a snapshot whose last entry a node has
// already, sent by its leader a while ago, deletes nothing of what the node has acknowledged.
func TestALateSnapshotTakesNothingBack(t *testing.T) {
	for name, late := range map[string]struct {
		end position
		ok  bool // it is answered as if it had been installed
	}{
		"the snapshot that it has":            {position{10, 2}, true},
		"one before":                          {position{8, 1}, true},
		"one of what is in its log":           {position{11, 2}, true},
		"one of the last that is in its log":  {position{12, 2}, true},
		"one of another entry than its log's": {position{11, 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended error
				l, b := lead(t, &ended)
				require.NoError(t, l.installs(2, position{10, 2}))
				require.True(t, l.appends(2, position{10, 2}, 2, 2))
				err := l.installs(2, late.end)
				if !late.ok {
					require.Error(t, err)
					require.ErrorIs(t, ended, ErrDiverged)
					return
				}
				require.NoError(t, err)
				require.NoError(t, ended)
				require.True(t, l.appends(2, position{12, 2}, 2))
				l.to.CloseStreams()
				b.restart()
				require.True(t, l.appends(2, position{13, 2}), "it has acknowledged that entry")
			})
		})
	}
}

// TestALateSnapshotOfAnOldTerm is refused as before.
func TestALateSnapshotOfAnOldTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended error
		l, _ := lead(t, &ended)
		require.NoError(t, l.installs(3, position{10, 2}))
		answer, err := l.offers(2, position{10, 2})
		require.NoError(t, err)
		assert.False(t, answer.Success)
		assert.EqualValues(t, 3, answer.Term)
	})
}

// TestPlaces are taken apart as they were made.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		id api.NodeID
		at string
	}{{"node-1", "127.0.0.1:7602"}, {"a@b", "[::1]:7602"}, {"", "zone.example:7602"}} {
		id, at := splitPlace(placeOf(raft.ServerID(c.id), raft.ServerAddress(c.at)))
		assert.Equal(t, c.id, id)
		assert.Equal(t, c.at, at)
	}
	id, at := splitPlace("127.0.0.1:7602")
	assert.Empty(t, id)
	assert.Equal(t, "127.0.0.1:7602", at)
}
