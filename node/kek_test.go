package node

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/raftstore/state"
)

// TestTheKeyChangesWithARemoval: the disk of a removed node opens nothing that is written later, and
// the zone, a node that was down and one that joins have what they need.
func TestTheKeyChangesWithARemoval(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		nodes := threeNodes(t, "a")
		first, down, gone := nodes[0], nodes[1], nodes[2]
		backup := first.backup()
		before := first.keys.KEKs()
		fourth := first.adopt("node-4")
		require.NoError(t, down.stop())
		require.NoError(t, first.RemoveMember(t.Context(), "node-3"))
		require.NoError(t, gone.stop())
		first.until("another key is in use", func(v *state.State) bool { return len(v.KEK) > 0 && v.KEKDue == 0 })
		assert.Len(t, first.keys.KEKs(), len(before)+1)
		left, err := readKEKs(gone.home.opts.Dir, nil)
		require.NoError(t, err)
		assert.Equal(t, before, left, "it was given none")

		opens := func(r *running) {
			t.Helper()
			await.True(t, "it has the key", func() bool {
				v := r.view()
				_, err := r.keys.Ring(v)
				return err == nil && len(v.KEK) > 0
			})
		}
		opens(fourth)
		down = down.home.run()
		opens(down)
		opens(first.adopt("node-5"))
		again := first.again()
		opens(again)

		err = again.Restore(t.Context(), bytes.NewReader(backup.Bytes()), false)
		require.ErrorContains(t, err, "--accept-unauthenticated", "the removed node could have written it")
	})
}
