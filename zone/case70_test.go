package zone_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// Case 70: taking up a plan asks no zone to select again; it places locally and
// forwards to just the children that it names.
func TestCase70NoNewSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, _, _ := three(w)
		w.zone("unused", root)
		o := order("b", 5, 6)
		req := o.Request
		a, err := root.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		selects := func() [2]int { return [2]int{w.made("select", "root", "mid"), w.made("select", "mid", "leaf")} }
		asked := selects()
		o.Blob = a.Blob
		b := root.run(o)
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Equal(t, 6, b.Counts.Live())
		assert.Equal(t, asked, selects())
		assert.Zero(t, w.made("hold", "root", "unused"))
		w.settle()
	})
}

// Case 70, the other half: when a plan cannot be kept, its boot ends; no other
// plan is made for it.
func TestCase70NeverAnotherPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		kid := w.zone("kid", root, 2)
		o := order("b", 4, 4)
		req := o.Request
		a, err := root.lead().Select(t.Context(), "", &req)
		require.NoError(t, err)
		kid.resize(1)
		o.Blob = a.Blob
		b := root.run(o)
		assert.Equal(t, api.BootFailed, b.State())
		assert.Len(t, b.Attempts, 1)
		w.settle()
		assert.Zero(t, root.used()+kid.used())
	})
}
