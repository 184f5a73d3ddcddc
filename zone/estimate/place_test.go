package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone/zonetest"
)

// TestANewNameBelowIsFound: an availability zone that a zone two levels below was given just now is found, although no digest has it, and one
// that is nowhere is not. What the order wants in all is not looked at.
func TestANewNameBelowIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root, 2)
		kid := w.Zone("kid", mid, 2)
		w.HearAll()
		kid.Configure(func(c *api.ZoneConfig) { c.DefaultAZ = "az-new" })
		in := func(az string) *api.Request {
			o := zonetest.Order("", 40, 50)
			o.Request.Groups[0].AZ, o.Request.Zones.MinZones = az, 2
			return &o.Request
		}
		ctx, cancel := root.Within(api.SelectTimeout)
		defer cancel()
		assert.True(t, root.Lead().HasPlace(ctx, in("az-new")))
		assert.False(t, root.Lead().HasPlace(ctx, in("az-typo")))
		two := in("az-new")
		two.Groups = append(two.Groups, zonetest.Group("other", 1, 1))
		two.Groups[0].Name, two.Groups[1].AZ = "one", "az-typo"
		assert.False(t, root.Lead().HasPlace(ctx, two), "each group needs one")
		kid.Kill(true)
		assert.False(t, root.Lead().HasPlace(ctx, in("az-new")))
	})
}
