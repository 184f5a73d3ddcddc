package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// A firm boot goes where nobody has to leave as long as there is room, and then to the zone whose
// offer costs least: nobody is pushed out in two zones for one slot.
func TestPreemptingBootTakesOneOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		east, west := w.Zone("east", root, 4), w.Zone("west", root, 4)
		east.Soft("e", 4)
		west.Soft("w", 2)
		boot := func(res string, n int, preempt bool) *state.Boot {
			o := zonetest.Order(res, n, n)
			o.Request.Preempt = preempt
			o.Instances = zonetest.Specs(res, n)
			root.Boot(o)
			return root.Outcome(res)
		}
		assert.Equal(t, api.BootActive, boot("a", 2, true).State())
		assert.Zero(t, east.Evicted()+west.Evicted(), "west had room")
		assert.Equal(t, api.BootFailed, boot("b", 1, false).State(), "it did not ask that anybody leaves")
		assert.Equal(t, api.BootActive, boot("c", 3, true).State())
		assert.Equal(t, 3, east.Evicted()+west.Evicted(), "one for each slot")
		for _, m := range []*zonetest.Member{east, west} {
			m.Until("nothing waits", func(v *state.State) bool {
				for _, h := range v.Holds() {
					for _, id := range h.Held() {
						if i, ok := v.Instance(id); ok && i.Waits {
							return false
						}
					}
				}
				return true
			})
		}
	})
}

// Whoever finds no room is told that preemptibles would make some, if that would be enough, and
// only of those on hosts of the zone itself: what a zone below has is not said.
func TestWhoMayPreemptIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		w.Zone("east", root, 2).Soft("e", 2)
		root.Soft("r", 3)
		refused := func(n int, change func(*api.Request)) string {
			o := zonetest.Order("", n, n)
			o.Request.Reservation = api.ReservationID(api.NewUUID())
			o.Instances = zonetest.Specs(string(o.Request.Reservation), n)
			change(&o.Request)
			b := root.Run(o)
			require.Equal(t, api.BootFailed, b.State())
			return b.Reason
		}
		plain := func(*api.Request) {}
		const told = "; with preempt, preemptible instances would make room for it"
		assert.Equal(t, "1 of 4 could be had, 4 are needed"+told, refused(4, plain))
		assert.Equal(t, "1 of 5 could be had, 5 are needed", refused(5, plain), "only the zone below could help")
		assert.NotContains(t, refused(7, func(r *api.Request) { r.Preempt = true }), "preempt", "it was asked already")
		for what, change := range map[string]func(*api.Request){
			"preemptible":     func(r *api.Request) { r.Class = api.Preemptible },
			"not here":        func(r *api.Request) { r.Zones.Allowed = []string{"east"} },
			"balanced":        func(r *api.Request) { r.Zones.MaxSkew = 4 },
			"in one place":    func(r *api.Request) { r.Zones.Pack = true },
			"over zones":      func(r *api.Request) { r.Zones.MinZones = 2 },
			"larger than any": func(r *api.Request) { r.Groups[0].Resources = api.Resources{api.VCPU: 1_000} },
		} {
			assert.NotContains(t, refused(4, change), "preempt", what)
		}
	})
}
