package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/zonetest"
)

// TestHiddenHostsServeTheZoneAlone: a zone that hides its layout offers a parent slots on a power of two of its hosts and
// says so when that is not enough; its own boots have all of them.
func TestHiddenHostsServeTheZoneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		low := w.Zone("low", root, 4, 4, 4, 4, 4, 4, 4)
		low.Configure(func(c *api.ZoneConfig) { c.HidesLayout = true })
		w.Settle()
		ask := func(n int) *api.SelectAnswer {
			req := zonetest.Order("q", 1, n).Request
			req.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
			return answerTo(low, &req)
		}
		a := ask(7)
		assert.Len(t, a.Weights[0], 4, "of 7 hosts")
		assert.Contains(t, a.Refusals[0].Filters, api.FilterCount{Filter: "layout", Hosts: 1, Tier: api.TierNotAllowed})
		assert.Equal(t, []api.Advice{{Change: api.AdviceCount, Value: 4}}, a.Refusals[0].Advice)
		a = ask(4)
		assert.Len(t, a.Weights[0], 4)
		assert.NotContains(t, a.Refusals[0].Filters, api.FilterCount{Filter: "layout", Hosts: 1, Tier: api.TierNotAllowed}, "nothing was missing")
		own := zonetest.Order("own", 1, 7)
		own.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
		b := low.Run(own)
		require.Equal(t, 7, b.Counts.Active)
	})
}
