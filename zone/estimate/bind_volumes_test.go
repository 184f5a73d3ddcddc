package estimate_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// TestVolumesMindTheHeadroomOfInstances: a volume is not bound to a child that has no room for the instance
// that comes after it, if the operator keeps a headroom of that.
func TestVolumesMindTheHeadroomOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		root.Configure(func(c *api.ZoneConfig) { c.Bindings.Headroom = map[api.ResourceClass]int64{api.VCPU: 1} })
		for _, m := range w.Zones[1:] {
			m.GiveDisk(100)
		}
		for pod, free := range map[string]int64{"pod1": 0, "pod2": 2} {
			w.Tell(pod, api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
				api.VCPU: {Total: 2, Free: free, SlotMax: 2}, api.MemoryMB: {Total: 4096, Free: 4096, SlotMax: 4096}, api.DiskGB: {Total: 100, Free: 100, SlotMax: 100},
			}}, 0)
		}
		root.Run(zonetest.Volumes("v", 1, 10))
		root.Run(zonetest.Order("s", 1, 1))
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "s"))
		require.NoError(t, root.Lead().Attach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: root.VolumesOf("v")[0].ID, Instance: root.Instances("s")[0].ID}))
		w.Settle()
	})
}

// TestVolumesAreBoundLikeInstances: a volume and an instance of one project and tag go to one child,
// whichever comes first, and on to another one together.
func TestVolumesAreBoundLikeInstances(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := pods(w, mode)
				for _, m := range w.Zones[1:] { // own hosts, which nobody is bound to, take no volumes
					m.GiveDisk(100)
				}
				place := func(res string) string {
					t.Helper()
					i := root.View().OfReservation("p", api.ReservationID(res))
					require.NotEmpty(t, i)
					for _, o := range i {
						assert.Equal(t, i[0].Link, o.Link, "all of it is in one zone")
					}
					l, ok := root.View().Link(i[0].Link)
					require.True(t, ok)
					return l.Name
				}
				meet := func(volume, server, in string) {
					t.Helper()
					assert.Equal(t, []string{in, in}, []string{place(volume), place(server)})
					vol, to := root.VolumesOf(volume)[0], root.Instances(server)[0]
					require.NoError(t, w.Retry(func() error {
						return root.Lead().Attach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID, Instance: to.ID})
					}))
					root.UntilAttached(vol.ID, to.ID)
				}
				tagged := func(res string) *intake.BootOrder {
					o := zonetest.Volumes(res, 1, 10)
					o.Request.Groups[0].ExtraSpecs = cadFlavor.ExtraSpecs
					return o
				}
				root.Run(zonetest.Volumes("v1", 1, 10)) // the volume first
				root.Run(zonetest.Order("s1", 1, 1))
				meet("v1", "s1", "pod1")
				root.Run(cad("s2", 1, 1)) // the instance first
				root.Run(tagged("v2"))
				meet("v2", "s2", "pod4")
				b, _ := root.View().ActiveBinding(api.Tenant{Project: "p"}, cadKey)
				err := root.Lead().Attach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: root.VolumesOf("v2")[0].ID, Instance: root.Instances("s1")[0].ID})
				assert.Equal(t, api.CodeConflict, api.CodeOf(err))
				assert.Contains(t, api.MessageOf(err), "the volume is in zone pod4 (binding "+string(b.ID)+") and the server in zone pod1")
				root.SetTerms("pod1", func(t *api.LinkTerms) { t.Maintenance = true })
				root.Run(zonetest.Volumes("v3", 1, 10))
				root.Run(zonetest.Order("s3", 1, 1))
				meet("v3", "s3", "pod2")
				root.Run(zonetest.Volumes("v4", 1, 95)) // pod2 has no room for it
				root.Run(zonetest.Order("s4", 1, 1))
				meet("v4", "s4", "pod3")

				both := cad("both", 1, 1)
				both.Request.Groups = append(both.Request.Groups, zonetest.Volumes("", 1, 10).Request.Groups[0])
				both.Request.Groups[0].Name, both.Request.Groups[1].AttachTo = "web", "web"
				both.Request.Rules, both.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, true
				require.Equal(t, api.BootActive, root.Run(both).State())
				assert.Equal(t, "pod4", place("both"), "where the instance is bound")
				w.Settle()
			})
		})
	}
}
