package zone_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestNobodyDecidesForOthers has a zone in the middle hold slots of its own and some
// of a child for its parent: only who has all of them below him may be told to
// decide at once.
func TestNobodyDecidesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		mid := w.zone("mid", root, 4)
		leaf := w.zone("leaf", mid, 2)
		w.settle()
		said := map[string][]string{}
		w.when(func(now call) fault {
			said[now.to] = append(said[now.to], now.op)
			return ""
		})
		assert.Equal(t, api.BootActive, root.run(order("all", 6, 6)).State())
		w.when(nil)
		assert.Contains(t, said[mid.name], "hold and commit")
		assert.Contains(t, said[leaf.name], "hold")
		assert.NotContains(t, said[leaf.name], "hold and commit", "slots of mid may be refused still")
		w.settle()
	})
}

// TestAskerGivesUp loses a child's answer, so that nobody knows what it holds when
// the parent's call is over: the parent asks again, and the child is asked again.
func TestAskerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, mid, leaf := three(w)
		lost := false
		w.when(func(now call) fault {
			if now.op == "hold" && now.to == leaf.name && !lost {
				lost = true
				return silenced
			}
			return ""
		})
		b := root.run(order("all", 6, 6))
		assert.True(t, lost)
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, b.Attempts, 1, "nothing was refused")
		assert.Zero(t, sumTale(b).Refused)
		assert.Len(t, mid.instances("all"), 4)
		assert.Len(t, leaf.instances("all"), 2)
		w.settle()
	})
}
