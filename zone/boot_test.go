package zone

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// three returns a root, a middle and a leaf zone, with room for two each.
func three(w *world) (root, mid, leaf *member) {
	root = w.zone("root", nil, 2)
	mid = w.zone("mid", root, 2)
	leaf = w.zone("leaf", mid, 2)
	return root, mid, leaf
}

// TestBootOverThreeLevels takes all the room of three zones with one boot, and
// gives it back.
func TestBootOverThreeLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, mid, leaf := three(w)
		b := root.run(order("all", 6, 6))
		assert.Equal(t, api.BootActive, b.State())
		assert.Len(t, root.instances("all"), 6)
		assert.Len(t, mid.instances("all"), 4)
		assert.Len(t, leaf.instances("all"), 2)
		w.settle()
		root.release("all")
		assert.Equal(t, api.BootReleased, root.outcome("all").State())
		w.settle()
	})
}
