package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/zonetest"
)

// Case 70: taking up a plan asks no zone to select again; it places locally and
// forwards to just the children that it names.
func TestCase70NoNewSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, _, _ := zonetest.Three(w)
		w.Zone("unused", root)
		o := zonetest.Order("b", 5, 6)
		req := o.Request
		a, err := root.Lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		selects := func() [2]int { return [2]int{w.Made("select", "root", "mid"), w.Made("select", "mid", "leaf")} }
		asked := selects()
		o.Blob = a.Blob
		b := root.Run(o)
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Equal(t, 6, b.Counts.Live())
		assert.Equal(t, asked, selects())
		assert.Zero(t, w.Made("hold", "root", "unused"))
		w.Settle()
	})
}

// Case 70, the other half: when a plan cannot be kept, its boot ends; no other
// plan is made for it.
func TestCase70NeverAnotherPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		kid := w.Zone("kid", root, 2)
		o := zonetest.Order("b", 4, 4)
		req := o.Request
		a, err := root.Lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		kid.Resize(1)
		o.Blob = a.Blob
		b := root.Run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Len(t, b.Attempts, 1)
		w.Settle()
		assert.Zero(t, root.Used()+kid.Used())
	})
}
