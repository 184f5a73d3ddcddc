package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone/zonetest"
)

// TestNobodyDecidesForOthers has a zone in the middle hold slots of its own and some
// of a child for its parent: only who has all of them below him may be told to
// decide at once.
func TestNobodyDecidesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root, 4)
		leaf := w.Zone("leaf", mid, 2)
		w.Settle()
		said := map[string][]string{}
		w.When(func(now zonetest.Call) zonetest.Fault {
			said[now.To] = append(said[now.To], now.Op)
			return ""
		})
		assert.Equal(t, api.BootActive, root.Run(zonetest.Order("all", 6, 6)).State())
		w.When(nil)
		assert.Contains(t, said[mid.Name], "hold and commit")
		assert.Contains(t, said[leaf.Name], "hold")
		assert.NotContains(t, said[leaf.Name], "hold and commit", "slots of mid may be refused still")
		w.Settle()
	})
}

// TestAskerGivesUp loses a child's answer, so that nobody knows what it holds when
// the parent's call is over: the parent asks again, and the child is asked again.
func TestAskerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		lost := false
		w.When(func(now zonetest.Call) zonetest.Fault {
			if now.Op == "hold" && now.To == leaf.Name && !lost {
				lost = true
				return zonetest.Silenced
			}
			return ""
		})
		b := root.Run(zonetest.Order("all", 6, 6))
		assert.True(t, lost)
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, b.Attempts, 1, "nothing was refused")
		assert.Zero(t, sumTale(b).Refused)
		assert.Len(t, mid.Instances("all"), 4)
		assert.Len(t, leaf.Instances("all"), 2)
		w.Settle()
	})
}
