package zone_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/intake"
)

// TestVolumesMindTheHeadroomOfInstances: a volume is not bound to a child that has no room for the instance
// that comes after it, if the operator keeps a headroom of that.
func TestVolumesMindTheHeadroomOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		root.config(func(c *api.ZoneConfig) { c.Bindings.Headroom = map[api.ResourceClass]int64{api.VCPU: 1} })
		for _, m := range w.zones[1:] {
			m.giveDisk(100)
		}
		for pod, free := range map[string]int64{"pod1": 0, "pod2": 2} {
			w.tell(pod, api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
				api.VCPU: {Total: 2, Free: free, SlotMax: 2}, api.MemoryMB: {Total: 4096, Free: 4096, SlotMax: 4096}, api.DiskGB: {Total: 100, Free: 100, SlotMax: 100},
			}}, 0)
		}
		root.run(volumes("v", 1, 10))
		root.run(order("s", 1, 1))
		assert.Equal(t, at{"pod2": 1}, root.where("s"))
		require.NoError(t, root.lead().Attach(w.ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: root.volumesOf("v")[0].ID, Instance: root.instances("s")[0].ID}))
		w.settle()
	})
}

// TestVolumesAreBoundLikeInstances: a volume and an instance of one project and tag go to one child,
// whichever comes first, and on to another one together.
func TestVolumesAreBoundLikeInstances(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := pods(w, mode)
				for _, m := range w.zones[1:] { // own hosts, which nobody is bound to, take no volumes
					m.giveDisk(100)
				}
				place := func(res string) string {
					t.Helper()
					i := root.view().OfReservation("p", api.ReservationID(res))
					require.NotEmpty(t, i)
					for _, o := range i {
						assert.Equal(t, i[0].Link, o.Link, "all of it is in one zone")
					}
					l, ok := root.view().Link(i[0].Link)
					require.True(t, ok)
					return l.Name
				}
				meet := func(volume, server, in string) {
					t.Helper()
					assert.Equal(t, []string{in, in}, []string{place(volume), place(server)})
					vol, to := root.volumesOf(volume)[0], root.instances(server)[0]
					require.NoError(t, w.retry(func() error {
						return root.lead().Attach(w.ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID, Instance: to.ID})
					}))
					root.untilAttached(vol.ID, to.ID)
				}
				tagged := func(res string) *intake.BootOrder {
					o := volumes(res, 1, 10)
					o.Request.Groups[0].ExtraSpecs = cadFlavor.ExtraSpecs
					return o
				}
				root.run(volumes("v1", 1, 10)) // the volume first
				root.run(order("s1", 1, 1))
				meet("v1", "s1", "pod1")
				root.run(cad("s2", 1, 1)) // the instance first
				root.run(tagged("v2"))
				meet("v2", "s2", "pod4")
				b, _ := root.view().ActiveBinding(api.Tenant{Project: "p"}, cadKey)
				err := root.lead().Attach(w.ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: root.volumesOf("v2")[0].ID, Instance: root.instances("s1")[0].ID})
				assert.Equal(t, api.CodeConflict, api.CodeOf(err))
				assert.Contains(t, api.MessageOf(err), "the volume is in zone pod4 (binding "+string(b.ID)+") and the server in zone pod1")
				root.terms("pod1", func(t *api.LinkTerms) { t.Maintenance = true })
				root.run(volumes("v3", 1, 10))
				root.run(order("s3", 1, 1))
				meet("v3", "s3", "pod2")
				root.run(volumes("v4", 1, 95)) // pod2 has no room for it
				root.run(order("s4", 1, 1))
				meet("v4", "s4", "pod3")

				both := cad("both", 1, 1)
				both.Request.Groups = append(both.Request.Groups, volumes("", 1, 10).Request.Groups[0])
				both.Request.Groups[0].Name, both.Request.Groups[1].AttachTo = "web", "web"
				both.Request.Rules, both.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, true
				require.Equal(t, api.BootActive, root.run(both).State())
				assert.Equal(t, "pod4", place("both"), "where the instance is bound")
				w.settle()
			})
		})
	}
}
