package estimate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone"
	"berth/zone/zonetest"
)

// TestSilentChildMakesADigestPartial: what a child said long ago is not told as what is
// there now.
func TestSilentChildMakesADigestPartial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		west := w.Zone("west", root)
		d := func(age time.Duration) *api.Digest {
			w.Tell(west.Name, api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 16, Free: 16}}}, age)
			return root.Lead().Digest()
		}
		assert.Equal(t, [2]any{false, int64(20)}, [2]any{d(zone.LinkFresh).Partial, d(zone.LinkFresh).Classes[api.VCPU].Total})
		assert.Equal(t, [2]any{true, int64(4)}, [2]any{d(zone.LinkFresh + 1).Partial, d(zone.LinkFresh + 1).Classes[api.VCPU].Total})
	})
}
