package raftstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestReadingAStoppedNode reads what a node has left, and rebuilds its state.
func TestReadingAStoppedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		n.must(put("a", "1"))
		require.NoError(t, n.raft.Snapshot().Error())
		n.must(put("b", "2"), put("c", "3"))
		want, term, last, dir := n.View(), n.Term(), n.raft.LastIndex(), n.cfg.Dir
		_, err := OpenDisk(dir, nil)
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "it runs")
		require.ErrorIs(t, err, syscall.EWOULDBLOCK)
		n.stop()

		d, err := OpenDisk(dir, nil)
		require.NoError(t, err)
		first, end := d.Range()
		assert.Equal(t, []any{api.NodeID("n1"), term, uint64(1), last}, []any{d.Node(), d.Term(), first, end})
		voted, candidate := d.Vote()
		assert.Equal(t, term, voted)
		assert.Equal(t, n.cfg.Advertise, candidate)
		snaps := d.Snapshots()
		require.Len(t, snaps, 1)
		assert.Equal(t, []Member{{ID: "n1", Addr: n.cfg.Advertise, Voter: true}}, snaps[0].Members)
		st, err := d.State(snaps[0].ID)
		require.NoError(t, err)
		assert.Equal(t, "1", addrOf(st, "a"))
		kinds := map[string]int{}
		for range 2 { // it may be read again
			clear(kinds)
			next := first
			for e, err := range d.Entries() {
				require.NoError(t, err)
				assert.Equal(t, next, e.Index)
				next++
				kinds[e.Kind]++
				for _, c := range e.Commands {
					if e.Index > snaps[0].Index {
						applyCommand(st, e.Index, c)
					}
				}
				assert.Equal(t, e.Kind == EntryCommand, len(e.Commands) > 0)
				if e.Kind == EntryConfiguration {
					assert.Equal(t, snaps[0].Members, e.Members)
				}
			}
		}
		assert.Equal(t, "3", addrOf(st, "c"))
		assert.Equal(t, want.Index(), st.Index())
		assert.Equal(t, 1, kinds[EntryConfiguration])
		assert.Positive(t, kinds[EntryNoop])
		assert.Equal(t, 3, kinds[EntryCommand])
		for range d.Entries() {
			break // leaving early is no error
		}
		_, err = d.State("none")
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
		require.Error(t, openAgain(dir), "nobody may write meanwhile")
		require.NoError(t, d.Close())
		require.NoError(t, openAgain(dir))

		_, err = OpenDisk(filepath.Join(dir, "nothing"), nil)
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	})
}

// TestReadingADamagedNode: what is damaged or missing is named, and no node that
// only a damaged file names.
func TestReadingADamagedNode(t *testing.T) {
	for what, c := range map[string]struct {
		damage     func(dir string) error
		says, node string
	}{
		"no JSON": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, nodeFile), []byte("{"), 0o600)
		}, nodeFile + ": damaged", ""},
		"another id": {func(dir string) error {
			path := filepath.Join(dir, nodeFile)
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(b, []byte(`"n1"`), []byte(`"n2"`), 1), 0o600))
		}, nodeFile + ": damaged: its checksum does not match", ""},
		"no log": {func(dir string) error {
			return os.Remove(filepath.Join(dir, logFile))
		}, logFile + " is missing", "berth operator remove n1"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		synctest.Test(t, func(t *testing.T) { solo(t, func(c *Config) { c.Dir = dir }) })
		require.NoError(t, c.damage(dir), what)
		_, err := OpenDisk(dir, nil)
		require.ErrorIs(t, err, ErrDamaged, what)
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), what)
		require.ErrorContains(t, err, filepath.Join(dir, c.says), what)
		if c.node != "" {
			require.ErrorContains(t, err, c.node, what)
			continue
		}
		assert.NotContains(t, err.Error(), "operator remove", what)
		require.ErrorContains(t, err, "berth node --dir "+filepath.Dir(dir), what)
	}
}
