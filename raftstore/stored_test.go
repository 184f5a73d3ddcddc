package raftstore

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStored: the log has a size from the start, snapshots have one from the first on, and a store in memory has none.
func TestStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := solo(t, nil)
		before, ok := n.Stored()
		require.True(t, ok)
		assert.Positive(t, before.LogBytes)
		assert.Zero(t, before.SnapshotBytes)
		assert.Zero(t, before.Newest)
		n.must(put("k", "v"))
		require.NoError(t, n.raft.Snapshot().Error())
		after, ok := n.Stored()
		require.True(t, ok)
		info, err := os.Stat(onlySnapshot(t, n.cfg.Dir))
		require.NoError(t, err)
		assert.Equal(t, info.Size(), after.SnapshotBytes)
		assert.Equal(t, info.ModTime(), after.Newest)
		_, ok = (&Store{cfg: Config{Memory: &Memory{}}}).Stored()
		assert.False(t, ok)
	})
}
