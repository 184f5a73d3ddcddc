package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/raftstore/state"
)

// TestKeysRotateDaily as soon as somebody leads.
func TestKeysRotateDaily(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		const day = 24 * time.Hour
		r := newZone(t, "a").run()
		require.Len(t, r.view().Epochs, 1)
		r.home.clock.setForward(day)
		r = r.again()
		r.until("there is a second key", func(v *state.State) bool { return len(v.Epochs) == 2 })
		assert.GreaterOrEqual(t, r.view().Epochs[0].Created, r.view().Epochs[1].Created.Add(day))
	})
}
