package zone_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestTaggedWorkStaysOnTags: work that asks for tags goes nowhere else, even if no child may take it.
func TestTaggedWorkStaysOnTags(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := pods(w, mode)
				for _, pod := range []string{"pod4", "pod5", "pod6"} {
					root.terms(pod, func(t *api.LinkTerms) { t.Maintenance = true })
				}
				assert.Equal(t, api.BootFailed, root.run(cad("a", 1, 1)).State())
				assert.Empty(t, root.where("a"))
				w.settle()
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
				w := newWorld(t)
				root := w.zone("root", nil)
				root.config(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				w.zone("pod1", root, 2)
				w.zone("pod2", root, 4)
				o := order("old", 1, 1)
				o.Request.Zones.Allowed = []string{"pod2"}
				root.run(o)
				w.settle()
				beside := group("beside", 1, 1)
				beside.Hints.SameHost = []api.InstanceID{root.instances("old")[0].ID}
				b := root.run(groups("new", beside, group("free", 1, 1)))
				assert.Equal(t, api.BootActive, b.State(), b.Reason)
				assert.Equal(t, map[api.LinkID]int{"link-pod2": 1}, root.spread("new", "beside"))
				assert.Equal(t, map[api.LinkID]int{"link-pod1": 1}, root.spread("new", "free"))
				w.settle()
			})
		})
	}
}
