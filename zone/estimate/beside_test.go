package estimate_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/estimate"
	"berth/zone/zonetest"
)

// TestAdviceBesideWhatABootHas: what is advised for a part of a boot would work for it, and its rule for zones is about
// what the boot has already, too.
func TestAdviceBesideWhatABootHas(t *testing.T) {
	less := []api.Advice{{Change: api.AdviceAmount, Class: api.VCPU, Value: 3}}
	for _, c := range []struct {
		name         string
		least, count int
		beside, held bool
		want         []api.Advice
	}{
		{"one, beside one in another zone", 2, 1, true, false, less},
		{"one, with one held there", 2, 1, false, true, less},
		{"two, beside one in another zone", 2, 2, true, false, less},
		{"two alone", 2, 2, false, false, nil},
		{"two, and three zones are needed", 3, 2, true, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 3, 3)
				kid := w.Zone("kid", root, 1)
				require.Equal(t, api.BootActive, kid.Run(zonetest.Order("all", 1, 1)).State())
				w.Settle()
				l, _ := root.View().LinkByName("kid")
				req := kindsOf("b", kind{4, 1, c.count}).Request
				req.Groups[0].Resources = api.Resources{api.VCPU: 4}
				req.Zones.MinZones = c.least
				there := []map[api.LinkID]int{{l.ID: 1}}
				want := &estimate.Want{Request: &req}
				if c.beside {
					want.Beside = there
				}
				if c.held {
					want.Held = there
				}
				ctx, cancel := context.WithTimeout(w.Ctx, api.SelectTimeout)
				defer cancel()
				p := root.Lead().PlanFor(ctx, root.View(), want)
				var got []api.Advice
				for _, a := range p.Refusals[0].Advice {
					if a.Change != api.AdviceDrop {
						got = append(got, a)
					}
				}
				assert.Equal(t, c.want, got)
			})
		})
	}
}
