package saga_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone/zonetest"
)

// Case 72: the host of a slot fills up between select and hold, so the next
// candidate takes it; TestRefusedSlotsAreWantedAgain goes on to where none is
// left, and everything of the request is undone.
func TestCase72NextCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		kid := w.Zone("kid", root, 2, 2) // one instance on the first, a spare on the second
		w.When(func(now zonetest.Call) zonetest.Fault {
			if now.Op == "hold and commit" {
				kid.Resize(0)
			}
			return ""
		})
		b := root.Run(zonetest.Order("b", 1, 1))
		assert.Equal(t, api.BootActive, b.State(), b.Reason)
		assert.Len(t, b.Attempts, 1, "the child had an alternate")
		i := kid.Instances("b")[0]
		h, _ := kid.View().Host(i.Host)
		assert.Equal(t, "kid-host-2", h.Name)
		w.Settle()
	})
}
