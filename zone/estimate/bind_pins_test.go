package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/zone/zonetest"
)

// TestTaggedWorkStaysOnTags: work that asks for tags goes nowhere else, even if no child may take it.
func TestTaggedWorkStaysOnTags(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := pods(w, mode)
				for _, pod := range []string{"pod4", "pod5", "pod6"} {
					root.SetTerms(pod, func(t *api.LinkTerms) { t.Maintenance = true })
				}
				assert.Equal(t, api.BootFailed, root.Run(cad("a", 1, 1)).State())
				assert.Empty(t, placedOf(root, "a"))
				w.Settle()
			})
		})
	}
}

// TestBoundBesidePinned: a group that must lie beside an instance does, and the one with it goes where its
// project is bound.
func TestBoundBesidePinned(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				w.Zone("pod1", root, 2)
				w.Zone("pod2", root, 4)
				o := zonetest.Order("old", 1, 1)
				o.Request.Zones.Allowed = []string{"pod2"}
				root.Run(o)
				w.Settle()
				beside := zonetest.Group("beside", 1, 1)
				beside.Hints.SameHost = []api.InstanceID{root.Instances("old")[0].ID}
				b := root.Run(zonetest.Groups("new", beside, zonetest.Group("free", 1, 1)))
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Equal(t, map[api.LinkID]int{"link-pod2": 1}, root.Spread("new", "beside"))
				assert.Equal(t, map[api.LinkID]int{"link-pod1": 1}, root.Spread("new", "free"))
				w.Settle()
			})
		})
	}
}
