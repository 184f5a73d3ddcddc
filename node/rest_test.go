package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/federation"
	"berth/raftstore"
)

// TestSealedNode: the disk of a node with a disk key holds neither what users wrote nor the
// keys of its zone for anybody without that key, also when another one follows them.
func TestSealedNode(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		key := &raftstore.DiskKey{1}
		h := newZone(t, "a", func(o *InitOptions) { o.DiskKey = key })
		n := h.run()
		require.NoError(t, n.federation.RotateKEK(t.Context()))
		keks := n.keys.KEKs()
		require.Len(t, keks, 2)
		n = n.again()
		assert.Equal(t, keks, n.keys.KEKs())
		require.NoError(t, n.stop())

		clear := [][]byte{keks[0][:], keks[1][:]}
		require.NoError(t, filepath.WalkDir(h.opts.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			for _, secret := range clear {
				assert.NotContains(t, string(b), string(secret), path)
			}
			return err
		}))
		got, err := readKEKs(h.opts.Dir, key)
		require.NoError(t, err)
		assert.Equal(t, federation.KEKs(keks), got)

		h.opts.DiskKey = nil
		require.ErrorContains(t, h.refusedToOpen(), "--disk-key-file")
		h.opts.DiskKey = &raftstore.DiskKey{2}
		require.ErrorContains(t, h.refusedToOpen(), "another disk key")
	})
}
