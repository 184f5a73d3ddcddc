package estimate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/zonetest"
)

// TestParentsAreNotToldHowManyHosts: what a zone says upward of its hosts, of the largest
// and the smallest too, has three leading binary digits, its counts of hosts have one; both hide no
// room, and counts add up.
func TestParentsAreNotToldHowManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		hosts := make([]int64, 19)
		for i := range hosts {
			hosts[i] = 9
		}
		hosts[0], hosts[1] = 17, 1
		low := w.Zone("low", root, hosts...)
		d := low.Lead().Digest().Classes[api.VCPU]
		assert.Equal(t, [2]int64{1, 20}, [2]int64{d.SlotMin, d.SlotMax})
		up, _ := low.View().Parent()
		req := zonetest.Order("r", 1, 1).Request
		req.Groups[0].Resources = api.Resources{api.VCPU: 9}
		ctx, cancel := low.Within(time.Minute)
		defer cancel()
		a, err := low.Lead().Select(ctx, up.Zone, &req)
		require.NoError(t, err)
		r := a.Refusals[0]
		assert.Equal(t, 32, r.Offering, "18 of 19")
		sum := r.Offering
		for _, f := range r.Filters {
			sum += f.Hosts
		}
		assert.Equal(t, sum, r.Considered)
	})
}
