package foreign

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/zonetest"
)

// TestZonesShareEvenly, report 21: work that was to be on several clusters lay on the largest one but for one of each
// other, or on that one alone, and was gone with it.
func TestZonesShareEvenly(t *testing.T) {
	for name, c := range map[string]struct {
		count int
		want  map[api.LinkID]int
	}{
		"there is room":          {9, map[api.LinkID]int{"link-big": 3, "link-small": 3, "link-tiny": 3}},
		"some have no more room": {24, map[api.LinkID]int{"link-big": 13, "link-small": 8, "link-tiny": 3}},
		"all of it":              {51, map[api.LinkID]int{"link-big": 40, "link-small": 8, "link-tiny": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				w.Zone("big", root, 20, 20)
				w.Zone("small", root, 8)
				w.Zone("tiny", root, 3)
				o := zonetest.Order("web", c.count, c.count)
				o.Request.Zones.MinZones = 3
				require.Equal(t, api.BootActive, root.Run(o).State())
				assert.Equal(t, c.want, root.Spread("web", ""))
				w.Settle()
			})
		})
	}
}
