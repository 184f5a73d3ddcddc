package estimate_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// Keys of the project p.
var (
	generalKey = api.BindingKey{}
	cadKey     = api.BindingKey{Tags: []string{"affinity:resource=CAD"}}
)

// cadFlavor asks for zones with the tag affinity:resource=CAD.
var cadFlavor = &api.Flavor{ID: "cad", Name: "cad", Resources: zonetest.Flavor.Resources, ExtraSpecs: map[string]string{"affinity:resource": "CAD"}}

// pods returns a root with own hosts of 2 and general children pod1 to pod3 and children for CAD pod4 to
// pod6, with room for 2 each, which uses bindings.
func pods(w *zonetest.World, mode api.BindingMode) *zonetest.Member {
	root := w.Zone("root", nil, 2)
	root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
	for n := 1; n <= 6; n++ {
		name := fmt.Sprint("pod", n)
		w.Zone(name, root, 2)
		if n > 3 {
			root.SetTerms(name, func(t *api.LinkTerms) { t.Tags = cadKey.Tags })
		}
	}
	return root
}

// cad asks for instances for CAD.
func cad(res string, least, most int) *intake.BootOrder {
	o := zonetest.Order(res, least, most)
	o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], cadFlavor)
	return o
}

// boundTo returns the child that the project p is bound to for a key, "" for none.
func boundTo(m *zonetest.Member, k api.BindingKey) string {
	b, ok := m.View().ActiveBinding(api.Tenant{Project: "p"}, k)
	if !ok {
		return ""
	}
	return b.Zone
}

// placedOf counts the live instances of a reservation by child, "" for own hosts.
func placedOf(m *zonetest.Member, res string) map[string]int {
	out := map[string]int{}
	for _, i := range m.Instances(res) {
		name := ""
		if l, ok := m.View().Link(i.Link); ok {
			name = l.Name
		}
		out[name]++
	}
	return out
}

// historyOf returns the past bindings of p for a key as "zone why", the newest first.
func historyOf(m *zonetest.Member, k api.BindingKey) (out []string) {
	await.Sleep(time.Millisecond) // what ends next has another time
	for _, b := range m.View().PastBindings(api.Tenant{Project: "p"}) {
		if b.Key.String() == k.String() {
			out = append(out, fmt.Sprint(b.Zone, " ", b.Ended))
		}
	}
	return out
}

type at = map[string]int

// TestTwoGroupsOfThreeZones: a project is bound to a general and to a CAD zone, moves on when they are
// full, and when one is under maintenance; it may come back. What runs stays where it is.
func TestTwoGroupsOfThreeZones(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := pods(w, mode)
				root.Run(zonetest.Order("a", 1, 1))
				root.Run(cad("b", 1, 1))
				assert.Equal(t, at{"pod1": 1}, placedOf(root, "a"))
				assert.Equal(t, at{"pod4": 1}, placedOf(root, "b"))
				assert.Equal(t, []string{"pod1", "pod4"}, []string{boundTo(root, generalKey), boundTo(root, cadKey)})
				root.Run(zonetest.Order("c", 1, 1)) // both are full now
				root.Run(cad("d", 1, 1))
				assert.Equal(t, at{"pod1": 1}, placedOf(root, "c"))
				assert.Equal(t, at{"pod4": 1}, placedOf(root, "d"))
				w.Settle()

				if mode == api.BindingPrefer { // own hosts are among the others
					root.Run(zonetest.Order("own", 2, 2))
					assert.Equal(t, at{"": 2}, placedOf(root, "own"))
					assert.Equal(t, "pod1", boundTo(root, generalKey), "own hosts are never bound")
				}
				root.Run(zonetest.Order("e", 1, 1))
				root.Run(cad("f", 1, 1))
				assert.Equal(t, at{"pod2": 1}, placedOf(root, "e"))
				assert.Equal(t, at{"pod5": 1}, placedOf(root, "f"))
				told, _ := root.Lead().Explanation("p", "e")
				assert.Equal(t, []api.BindingUse{{Zone: "pod2", Was: "pod1", Why: api.BindingNoRoom}}, told.Bindings)
				told, _ = root.Lead().Explanation("p", "c")
				assert.Equal(t, []api.BindingUse{{Zone: "pod1"}}, told.Bindings)
				assert.Equal(t, []string{"pod1 no_room"}, historyOf(root, generalKey))
				assert.Equal(t, []string{"pod4 no_room"}, historyOf(root, cadKey))

				root.SetTerms("pod2", func(t *api.LinkTerms) { t.Maintenance = true })
				root.Run(zonetest.Order("g", 1, 1))
				assert.Equal(t, at{"pod3": 1}, placedOf(root, "g"))
				assert.Equal(t, at{"pod2": 1}, placedOf(root, "e"), "what runs stays")
				assert.Equal(t, []string{"pod2 maintenance", "pod1 no_room"}, historyOf(root, generalKey))
				assert.Equal(t, "pod5", boundTo(root, cadKey))

				root.SetTerms("pod2", func(t *api.LinkTerms) { t.Maintenance = false })
				root.Run(zonetest.Order("h", 1, 1))
				assert.Equal(t, at{"pod3": 1}, placedOf(root, "h"), "nobody moves back by himself")
				root.Run(zonetest.Order("i", 1, 1))
				assert.Equal(t, at{"pod2": 1}, placedOf(root, "i"), "but to a former zone when the present one is full")
				assert.Equal(t, []string{"pod3 no_room", "pod2 maintenance", "pod1 no_room"}, historyOf(root, generalKey))
				w.Settle()
			})
		})
	}
}

// TestStrictKeepsTogether: all that has one key is in one child, or nowhere; own hosts are not used.
func TestStrictKeepsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		b := root.Run(zonetest.Order("large", 3, 3))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Empty(t, boundTo(root, generalKey), "what failed leaves no binding")
		root.Run(zonetest.Order("a", 1, 1))
		root.Run(zonetest.Order("b", 2, 2))
		assert.Equal(t, at{"pod2": 2}, placedOf(root, "b"), "it does not fit beside a")
		root.Run(zonetest.Order("c", 1, 2))
		assert.Equal(t, at{"pod3": 2}, placedOf(root, "c"))
		root.Run(zonetest.Order("d", 1, 2))
		assert.Equal(t, at{"pod1": 1}, placedOf(root, "d"), "a part of it is more than nothing")
		b = root.Run(zonetest.Order("e", 1, 1))
		assert.Equal(t, api.BootFailed, b.State(), "general work does not go to zones with tags, nor to own hosts")
		assert.Equal(t, "pod1", boundTo(root, generalKey))

		two := zonetest.Order("f", 0, 0)
		two.Request.Groups = []api.Group{zonetest.OfFlavor(api.Group{Name: "x", Count: 1, Min: 1}, cadFlavor), zonetest.OfFlavor(api.Group{Name: "y", Count: 1, Min: 1}, cadFlavor)}
		root.Run(two)
		assert.Equal(t, at{"pod4": 2}, placedOf(root, "f"))
		root.Configure(func(c *api.ZoneConfig) { c.Bindings.GeneralOnTagged = true })
		root.Run(zonetest.Order("g", 1, 1))
		assert.Equal(t, at{"pod5": 1}, placedOf(root, "g"), "unless an operator allows it")
		w.Settle()
	})
}

// TestPreferSpills: others have what the bound child has no room for.
func TestPreferSpills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingPrefer)
		root.Run(zonetest.Order("a", 1, 1))
		before := w.Made("select", "root", "pod2")
		root.Run(zonetest.Order("b", 1, 1))
		assert.Equal(t, before, w.Made("select", "root", "pod2"), "the bound child is enough")
		w.Settle()
		root.Release("b")
		root.Outcome("b")
		w.Settle()
		root.Run(zonetest.Order("c", 6, 6))
		got := placedOf(root, "c")
		assert.Equal(t, 1, got["pod1"], "the bound child first")
		assert.Zero(t, got["pod4"]+got["pod5"]+got["pod6"])
		w.Settle()
	})
}

// TestExemptIsNotBound: who says where it lies is neither bound nor binds.
func TestExemptIsNotBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		for name, edit := range map[string]func(*api.Request){
			"zones":     func(r *api.Request) { r.Zones.Allowed = []string{"pod3"} },
			"two-zones": func(r *api.Request) { r.Zones.MinZones = 2 },
		} {
			o := zonetest.Order(name, 2, 2)
			edit(&o.Request)
			b := root.Run(o)
			require.Equal(t, api.BootActive, b.State(), "%s: %s", name, b.Reason)
			assert.Empty(t, boundTo(root, generalKey), name)
			root.Release(name)
			w.Settle()
		}
		o := zonetest.Order("not-pod1", 1, 1)
		o.Request.Zones.Excluded = []string{"pod1"}
		root.Run(o)
		assert.Equal(t, "pod2", boundTo(root, generalKey), "an exclusion is a filter")
		w.Settle()
	})
}

// TestTagsStandForHosts: hosts of a child need not have its tags as attributes, whatever the mode and
// however deep they are; a child below that has tags of its own is chosen by them, too.
func TestTagsStandForHosts(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingOff, api.BindingPrefer, api.BindingStrict} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 4)
				w.Zone("plain", root, 4)
				region := w.Zone("region", root, 4)
				w.Zone("slow", region, 4)
				fast := w.Zone("fast", region, 4)
				for _, m := range []*zonetest.Member{root, region} {
					m.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				}
				root.SetTerms("region", func(t *api.LinkTerms) { t.Tags = []string{"gpu=cad"} })
				region.SetTerms("fast", func(t *api.LinkTerms) { t.Tags = []string{"disk=fast"} })
				with := func(res string, specs map[string]string) *intake.BootOrder {
					o := zonetest.Order(res, 3, 3)
					o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &api.Flavor{ID: "f", Name: "f", Resources: zonetest.Flavor.Resources, ExtraSpecs: specs})
					return o
				}
				require.Equal(t, api.BootActive, root.Run(with("a", map[string]string{"gpu": "cad"})).State())
				assert.Equal(t, at{"region": 3}, placedOf(root, "a"))
				require.Equal(t, api.BootActive, root.Run(with("b", map[string]string{"gpu": "cad", "disk": "fast"})).State())
				assert.Equal(t, at{"region": 3}, placedOf(root, "b"))
				assert.Len(t, fast.Instances("b"), 3)
				assert.Equal(t, api.BootFailed, root.Run(with("c", map[string]string{"gpu": "other"})).State())
				w.Settle()
			})
		})
	}
}

// TestMaintenanceGetsNoNewWork: whether or not projects are bound.
func TestMaintenanceGetsNoNewWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingOff)
		for _, pod := range []string{"pod1", "pod2", "pod4", "pod5", "pod6"} {
			root.SetTerms(pod, func(t *api.LinkTerms) { t.Maintenance = true })
		}
		assert.Equal(t, api.BootFailed, root.Run(zonetest.Order("a", 5, 5)).State())
		root.Run(zonetest.Order("b", 4, 4))
		assert.Equal(t, at{"": 2, "pod3": 2}, placedOf(root, "b"))
		w.Settle()
	})
}

// TestLostChildIsLeft: a bound child that does not answer is waited for, until it is lost.
func TestLostChildIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		root.Run(zonetest.Order("a", 1, 1))
		w.Settle()
		cut := func(on bool) { w.Sever("root", "pod1", on) }
		w.When(func(now zonetest.Call) zonetest.Fault { // it cannot be reached, which is known while there is time to ask others
			if now.To == "pod1" {
				return zonetest.Refused
			}
			return ""
		})
		assert.Equal(t, api.BootFailed, root.Run(zonetest.Order("refused", 1, 1)).State())
		assert.Equal(t, "pod1", boundTo(root, generalKey))
		w.When(nil)
		cut(true)
		b := root.Run(zonetest.Order("b", 1, 1))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, "pod1", boundTo(root, generalKey))
		w.Tell("pod1", api.Digest{}, zone.LinkFresh+1)
		root.Until("pod1 is silent", func(v *state.State) bool {
			l, _ := v.Link("link-pod1")
			return l.SilentSince != 0
		})
		await.Sleep(api.BindingLostAfter)
		root.Run(zonetest.Order("c", 1, 1))
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "c"))
		assert.Equal(t, []string{"pod1 away"}, historyOf(root, generalKey))
		cut(false)
		w.Tell("pod1", api.Digest{}, 0)
		w.Settle()
	})
}

// TestHeadroomIsLeft: a child above its threshold gets no new work of others, and its own goes elsewhere.
func TestHeadroomIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		root.Run(zonetest.Order("a", 1, 1))
		w.Settle()
		root.SetTerms("pod1", func(t *api.LinkTerms) { t.Headroom = map[api.ResourceClass]int64{api.VCPU: 50} })
		totals := func(free int64) api.Digest {
			return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 2, Free: free, SlotMax: 2}, api.MemoryMB: {Total: 4096, Free: 4096, SlotMax: 4096}}}
		}
		w.Tell("pod1", totals(1), api.BindingUsageAge+1)
		root.Run(zonetest.Order("b", 1, 1))
		assert.Equal(t, at{"pod1": 1}, placedOf(root, "b"), "what is not known of its use counts as room")
		root.Release("b")
		w.Settle()
		w.Tell("pod1", totals(1), 0)
		root.Run(zonetest.Order("c", 1, 1))
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "c"))
		assert.Equal(t, []string{"pod1 headroom"}, historyOf(root, generalKey))
		w.Settle()
	})
}

// TestOneRebinding: of boots of a project at once, when its zone is full, one moves it, and the others
// go with it.
func TestOneRebinding(t *testing.T) {
	for seed := range 8 {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := pods(w, api.BindingStrict)
			root.Run(zonetest.Order("full", 2, 2))
			w.Settle()
			w.Delay(func(c zonetest.Call) time.Duration {
				return time.Duration((len(c.Op)*7+c.N*13*(seed+1))%50) * time.Millisecond
			})
			root.Boot(zonetest.Order("a", 1, 1))
			root.Boot(zonetest.Order("b", 1, 1))
			require.Equal(t, api.BootActive, root.Outcome("a").State())
			require.Equal(t, api.BootActive, root.Outcome("b").State())
			assert.Equal(t, at{"pod2": 1}, placedOf(root, "a"))
			assert.Equal(t, at{"pod2": 1}, placedOf(root, "b"))
			assert.Equal(t, []string{"pod1 no_room"}, historyOf(root, generalKey))
			w.Settle()
		})
	}
}

// TestEveryStepOfARebindingGoesWrongOnce: whatever befalls a boot that moves its project, the project
// is bound to where the boot is, and has moved if and only if the boot was committed.
func TestEveryStepOfARebindingGoesWrongOnce(t *testing.T) {
	var counts map[command.Kind]int
	run := func(name string, prepare func(*zonetest.World, *zonetest.Member)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := pods(w, api.BindingStrict)
				root.Run(zonetest.Order("full", 2, 2))
				w.Settle()
				prepare(w, root)
				root.Run(zonetest.Order("next", 2, 2))
				w.Settle()
				if b := root.Outcome("next"); b.State() == api.BootFailed {
					assert.Equal(t, "pod1", boundTo(root, generalKey), "%s", b.Reason)
					assert.Empty(t, historyOf(root, generalKey))
					assert.Empty(t, placedOf(root, "next"))
					return
				}
				to := boundTo(root, generalKey)
				assert.Equal(t, at{to: 2}, placedOf(root, "next"))
				assert.Equal(t, []string{"pod1 no_room"}, historyOf(root, generalKey))
				if counts == nil {
					counts = root.Log.Counts()
				}
			})
		})
	}
	run("nothing", func(_ *zonetest.World, root *zonetest.Member) { root.Log.Recount() })
	steps := []command.Kind{command.KindBootCreate, command.KindHold, command.KindHoldParts, command.KindBootDecide, command.KindPartAck}
	for _, e := range dice.Part(t, zonetest.EachEntry([]map[command.Kind]int{counts}, steps, math.MaxInt), 10) {
		run(e.String(), func(w *zonetest.World, _ *zonetest.Member) { w.EntryGoesWrong(e) })
	}
}

// TestCase77PodBinding: pod1 is in az1, pod2 and pod3 are in az2, and a project has one binding for each
// availability zone that it asks for, and one for work that asks for none. The zone itself is never bound.
func TestCase77PodBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode, c.DefaultAZ = api.BindingStrict, "az3" })
		for i, az := range []string{"az1", "az2", "az2"} {
			name := fmt.Sprint("pod", i+1)
			w.Zone(name, root, 4).Configure(func(c *api.ZoneConfig) { c.DefaultAZ = az })
			root.SetTerms(name, func(t *api.LinkTerms) { t.AZ = az })
		}
		boot := func(res, az string) *state.Boot {
			o := zonetest.Order(res, 1, 1)
			o.Request.Groups[0].AZ = az
			return root.Run(o)
		}
		bound := func(of ...string) { // child and availability zone of each active binding
			t.Helper()
			var got []string
			for _, b := range root.View().ActiveBindings(api.Tenant{Project: "p"}) {
				got = append(got, b.Zone+" "+b.Key.AZ)
			}
			assert.Equal(t, of, got)
		}
		boot("new", "")
		bound("pod1 ")
		boot("again", "")
		bound("pod1 ")
		boot("other", "az2")
		bound("pod1 ", "pod2 az2")
		boot("other-again", "az2")
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "other-again"))
		boot("named", "az1") // another kind of work
		bound("pod1 ", "pod1 az1", "pod2 az2")
		assert.Equal(t, api.BootFailed, boot("unknown", "az9").State())
		assert.Equal(t, api.BootFailed, boot("top", "az3").State(), "this zone has room there, and is no pod")
		bound("pod1 ", "pod1 az1", "pod2 az2")
		assert.Empty(t, root.View().PastBindings(api.Tenant{Project: "p"}))
		root.Run(zonetest.Order("wide", 2, 2)) // pod1 has room for one
		bound("pod2 ", "pod1 az1", "pod2 az2")
		assert.Equal(t, at{"pod2": 2}, placedOf(root, "wide"), "who asks for none may go to any")
		root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = api.BindingOff })
		assert.Equal(t, api.BootActive, boot("own", "az3").State(), "nobody is bound")
		w.Settle()
	})
}

// TestAnEndedBindingIsChosenAnew: the next work of a project goes to the best child, also if that is the
// one that it was bound to.
func TestAnEndedBindingIsChosenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		root.Run(zonetest.Order("a", 1, 1))
		for n, res := range []string{"b", "c"} {
			b, ok := root.View().ActiveBinding(api.Tenant{Project: "p"}, generalKey)
			require.True(t, ok)
			root.Do(command.BindingEnd{Stamp: root.Lead().Stamp(), ID: b.ID})
			assert.Empty(t, boundTo(root, generalKey))
			root.Run(zonetest.Order(res, n+1, n+1)) // pod1 has room for one more
			b, _ = root.View().ActiveBinding(api.Tenant{Project: "p"}, generalKey)
			require.NotNil(t, b)
			assert.Equal(t, api.BindingFirst, b.Why)
		}
		assert.Equal(t, at{"pod1": 1}, placedOf(root, "b"))
		assert.Equal(t, at{"pod2": 2}, placedOf(root, "c"))
		assert.Equal(t, []string{"pod1 operator", "pod1 operator"}, historyOf(root, generalKey))
		w.Settle()
	})
}

// TestAnotherZoneIsRoom: when all are full a zone that is linked then has what is booted next.
func TestAnotherZoneIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		for _, res := range []string{"a", "b", "c"} {
			require.Equal(t, api.BootActive, root.Run(zonetest.Order(res, 2, 2)).State())
		}
		assert.Equal(t, api.BootFailed, root.Run(zonetest.Order("d", 1, 1)).State())
		w.Zone("pod7", root, 2)
		root.Run(zonetest.Order("e", 1, 1))
		assert.Equal(t, at{"pod7": 1}, placedOf(root, "e"))
		assert.Equal(t, "pod7", boundTo(root, generalKey))
		assert.Len(t, historyOf(root, generalKey), 3)
		w.Settle()
	})
}

// TestProjectsOfAParentAreBoundApart: a project of the parent is bound like an own one of the same name,
// and neither moves the other. The parent is told nothing of it.
func TestProjectsOfAParentAreBoundApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		mid := w.Zone("mid", root)
		mid.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = api.BindingStrict })
		w.Zone("leaf1", mid, 3)
		w.Zone("leaf2", mid, 4)
		up, _ := mid.View().Parent()
		theirs := func() string {
			b, ok := mid.View().ActiveBinding(api.Tenant{Origin: up.ID, Project: "p"}, generalKey)
			require.True(t, ok)
			return b.Zone
		}
		root.Run(zonetest.Order("theirs", 1, 1))
		assert.Equal(t, "leaf1", theirs())
		assert.Empty(t, boundTo(mid, generalKey), "it is another project")
		mid.Run(zonetest.Order("own", 1, 1))
		assert.Equal(t, "leaf1", boundTo(mid, generalKey))
		root.Run(zonetest.Order("more", 2, 2)) // leaf1 has room for one
		assert.Equal(t, "leaf2", theirs())
		assert.Equal(t, "leaf1", boundTo(mid, generalKey))
		mid.Run(zonetest.Order("last", 1, 1))
		assert.Equal(t, at{"leaf1": 1}, placedOf(mid, "last"))
		assert.Empty(t, root.View().Bindings())
		w.Settle()
	})
}

// TestChildrenThatLieAboutTheirUse: one that seems to be idle gets the question first, and no binding
// without room.
func TestChildrenThatLieAboutTheirUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		root.Configure(func(c *api.ZoneConfig) {
			c.Bindings.Weighers = []api.BindingWeigher{{Name: "idle_capacity", Multiplier: 1}}
		})
		use := func(free int64) api.Digest {
			return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
				api.VCPU: {Total: 1000, Free: free, SlotMax: free}, api.MemoryMB: {Total: 1 << 20, Free: 1 << 20, SlotMax: 1 << 20},
			}}
		}
		require.Equal(t, api.BootActive, w.Zones[3].Run(zonetest.Order("own", 2, 2)).State()) // pod3 is full
		w.Settle()
		w.Tell("pod1", use(300), 0)
		w.Tell("pod2", use(400), 0)
		w.Tell("pod3", use(1000), 0)
		before := w.Made("select", "root", "pod3")
		root.Run(zonetest.Order("a", 1, 1))
		assert.Greater(t, w.Made("select", "root", "pod3"), before, "it is asked")
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "a"))
		assert.Equal(t, "pod2", boundTo(root, generalKey))
		assert.Empty(t, historyOf(root, generalKey))
		w.Tell("pod2", use(0), 0) // that is not true either
		root.Run(zonetest.Order("b", 1, 1))
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "b"), "without a headroom it is asked all the same")
		w.Settle()
	})
}
