package zone_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/intake"
)

// Keys of the project p.
var (
	generalKey = api.BindingKey{}
	cadKey     = api.BindingKey{Tags: []string{"affinity:resource=CAD"}}
)

// cadFlavor asks for zones with the tag affinity:resource=CAD.
var cadFlavor = &api.Flavor{ID: "cad", Name: "cad", Resources: flavor.Resources, ExtraSpecs: map[string]string{"affinity:resource": "CAD"}}

// pods returns a root with own hosts of 2 and general children pod1 to pod3 and children for CAD pod4 to
// pod6, with room for 2 each, which uses bindings.
func pods(w *world, mode api.BindingMode) *member {
	root := w.zone("root", nil, 2)
	root.config(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
	for n := 1; n <= 6; n++ {
		name := fmt.Sprint("pod", n)
		w.zone(name, root, 2)
		if n > 3 {
			root.terms(name, func(t *api.LinkTerms) { t.Tags = cadKey.Tags })
		}
	}
	return root
}

// terms changes what is said of a child.
func (m *member) terms(child string, edit func(*api.LinkTerms)) {
	id := api.LinkID("link-" + child)
	l, ok := m.view().Link(id)
	require.True(m.w.t, ok)
	t := l.Terms
	edit(&t)
	headroom := map[api.ResourceClass]int64{}
	maps.Copy(headroom, t.Headroom)
	m.do(command.LinkSet{
		Stamp: m.lead().Stamp(), ID: id, AZ: &t.AZ, Maintenance: &t.Maintenance, Tags: append([]string{}, t.Tags...), Headroom: headroom,
	})
}

// cad asks for instances for CAD.
func cad(res string, least, most int) *intake.BootOrder {
	o := order(res, least, most)
	o.Request.Groups[0] = ofFlavor(o.Request.Groups[0], cadFlavor)
	return o
}

// boundTo returns the child that the project p is bound to for a key, "" for none.
func (m *member) boundTo(k api.BindingKey) string {
	b, ok := m.view().ActiveBinding(api.Tenant{Project: "p"}, k)
	if !ok {
		return ""
	}
	return b.Zone
}

// where counts the live instances of a reservation by child, "" for own hosts.
func (m *member) where(res string) map[string]int {
	out := map[string]int{}
	for _, i := range m.instances(res) {
		name := ""
		if l, ok := m.view().Link(i.Link); ok {
			name = l.Name
		}
		out[name]++
	}
	return out
}

// history returns the past bindings of p for a key as "zone why", the newest first.
func (m *member) history(k api.BindingKey) (out []string) {
	time.Sleep(time.Millisecond) // what ends next has another time
	for _, b := range m.view().PastBindings(api.Tenant{Project: "p"}) {
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
				w := newWorld(t)
				root := pods(w, mode)
				root.run(order("a", 1, 1))
				root.run(cad("b", 1, 1))
				assert.Equal(t, at{"pod1": 1}, root.where("a"))
				assert.Equal(t, at{"pod4": 1}, root.where("b"))
				assert.Equal(t, []string{"pod1", "pod4"}, []string{root.boundTo(generalKey), root.boundTo(cadKey)})
				root.run(order("c", 1, 1)) // both are full now
				root.run(cad("d", 1, 1))
				assert.Equal(t, at{"pod1": 1}, root.where("c"))
				assert.Equal(t, at{"pod4": 1}, root.where("d"))
				w.settle()

				if mode == api.BindingPrefer { // own hosts are among the others
					root.run(order("own", 2, 2))
					assert.Equal(t, at{"": 2}, root.where("own"))
					assert.Equal(t, "pod1", root.boundTo(generalKey), "own hosts are never bound")
				}
				root.run(order("e", 1, 1))
				root.run(cad("f", 1, 1))
				assert.Equal(t, at{"pod2": 1}, root.where("e"))
				assert.Equal(t, at{"pod5": 1}, root.where("f"))
				told, _ := root.lead().Explanation("p", "e")
				assert.Equal(t, []api.BindingUse{{Zone: "pod2", Was: "pod1", Why: api.BindingNoRoom}}, told.Bindings)
				told, _ = root.lead().Explanation("p", "c")
				assert.Equal(t, []api.BindingUse{{Zone: "pod1"}}, told.Bindings)
				assert.Equal(t, []string{"pod1 no_room"}, root.history(generalKey))
				assert.Equal(t, []string{"pod4 no_room"}, root.history(cadKey))

				root.terms("pod2", func(t *api.LinkTerms) { t.Maintenance = true })
				root.run(order("g", 1, 1))
				assert.Equal(t, at{"pod3": 1}, root.where("g"))
				assert.Equal(t, at{"pod2": 1}, root.where("e"), "what runs stays")
				assert.Equal(t, []string{"pod2 maintenance", "pod1 no_room"}, root.history(generalKey))
				assert.Equal(t, "pod5", root.boundTo(cadKey))

				root.terms("pod2", func(t *api.LinkTerms) { t.Maintenance = false })
				root.run(order("h", 1, 1))
				assert.Equal(t, at{"pod3": 1}, root.where("h"), "nobody moves back by himself")
				root.run(order("i", 1, 1))
				assert.Equal(t, at{"pod2": 1}, root.where("i"), "but to a former zone when the present one is full")
				assert.Equal(t, []string{"pod3 no_room", "pod2 maintenance", "pod1 no_room"}, root.history(generalKey))
				w.settle()
			})
		})
	}
}

// TestStrictKeepsTogether: all that has one key is in one child, or nowhere; own hosts are not used.
func TestStrictKeepsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		b := root.run(order("large", 3, 3))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Empty(t, root.boundTo(generalKey), "what failed leaves no binding")
		root.run(order("a", 1, 1))
		root.run(order("b", 2, 2))
		assert.Equal(t, at{"pod2": 2}, root.where("b"), "it does not fit beside a")
		root.run(order("c", 1, 2))
		assert.Equal(t, at{"pod3": 2}, root.where("c"))
		root.run(order("d", 1, 2))
		assert.Equal(t, at{"pod1": 1}, root.where("d"), "a part of it is more than nothing")
		b = root.run(order("e", 1, 1))
		assert.Equal(t, api.BootFailed, b.State(), "general work does not go to zones with tags, nor to own hosts")
		assert.Equal(t, "pod1", root.boundTo(generalKey))

		two := order("f", 0, 0)
		two.Request.Groups = []api.Group{ofFlavor(api.Group{Name: "x", Count: 1, Min: 1}, cadFlavor), ofFlavor(api.Group{Name: "y", Count: 1, Min: 1}, cadFlavor)}
		root.run(two)
		assert.Equal(t, at{"pod4": 2}, root.where("f"))
		root.config(func(c *api.ZoneConfig) { c.Bindings.GeneralOnTagged = true })
		root.run(order("g", 1, 1))
		assert.Equal(t, at{"pod5": 1}, root.where("g"), "unless an operator allows it")
		w.settle()
	})
}

// TestPreferSpills: others have what the bound child has no room for.
func TestPreferSpills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingPrefer)
		root.run(order("a", 1, 1))
		before := w.made("select", "root", "pod2")
		root.run(order("b", 1, 1))
		assert.Equal(t, before, w.made("select", "root", "pod2"), "the bound child is enough")
		w.settle()
		root.release("b")
		root.outcome("b")
		w.settle()
		root.run(order("c", 6, 6))
		got := root.where("c")
		assert.Equal(t, 1, got["pod1"], "the bound child first")
		assert.Zero(t, got["pod4"]+got["pod5"]+got["pod6"])
		w.settle()
	})
}

// TestExemptIsNotBound: who says where it lies is neither bound nor binds.
func TestExemptIsNotBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		for name, edit := range map[string]func(*api.Request){
			"zones":     func(r *api.Request) { r.Zones.Allowed = []string{"pod3"} },
			"two-zones": func(r *api.Request) { r.Zones.MinZones = 2 },
		} {
			o := order(name, 2, 2)
			edit(&o.Request)
			b := root.run(o)
			require.Equal(t, api.BootActive, b.State(), "%s: %s", name, b.Reason)
			assert.Empty(t, root.boundTo(generalKey), name)
			root.release(name)
			w.settle()
		}
		o := order("not-pod1", 1, 1)
		o.Request.Zones.Excluded = []string{"pod1"}
		root.run(o)
		assert.Equal(t, "pod2", root.boundTo(generalKey), "an exclusion is a filter")
		w.settle()
	})
}

// TestTagsStandForHosts: hosts of a child need not have its tags as attributes, whatever the mode and
// however deep they are; a child below that has tags of its own is chosen by them, too.
func TestTagsStandForHosts(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingOff, api.BindingPrefer, api.BindingStrict} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 4)
				w.zone("plain", root, 4)
				region := w.zone("region", root, 4)
				w.zone("slow", region, 4)
				fast := w.zone("fast", region, 4)
				for _, m := range []*member{root, region} {
					m.config(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				}
				root.terms("region", func(t *api.LinkTerms) { t.Tags = []string{"gpu=cad"} })
				region.terms("fast", func(t *api.LinkTerms) { t.Tags = []string{"disk=fast"} })
				with := func(res string, specs map[string]string) *intake.BootOrder {
					o := order(res, 3, 3)
					o.Request.Groups[0] = ofFlavor(o.Request.Groups[0], &api.Flavor{ID: "f", Name: "f", Resources: flavor.Resources, ExtraSpecs: specs})
					return o
				}
				require.Equal(t, api.BootActive, root.run(with("a", map[string]string{"gpu": "cad"})).State())
				assert.Equal(t, at{"region": 3}, root.where("a"))
				require.Equal(t, api.BootActive, root.run(with("b", map[string]string{"gpu": "cad", "disk": "fast"})).State())
				assert.Equal(t, at{"region": 3}, root.where("b"))
				assert.Len(t, fast.instances("b"), 3)
				assert.Equal(t, api.BootFailed, root.run(with("c", map[string]string{"gpu": "other"})).State())
				w.settle()
			})
		})
	}
}

// TestMaintenanceGetsNoNewWork: whether or not projects are bound.
func TestMaintenanceGetsNoNewWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingOff)
		for _, pod := range []string{"pod1", "pod2", "pod4", "pod5", "pod6"} {
			root.terms(pod, func(t *api.LinkTerms) { t.Maintenance = true })
		}
		assert.Equal(t, api.BootFailed, root.run(order("a", 5, 5)).State())
		root.run(order("b", 4, 4))
		assert.Equal(t, at{"": 2, "pod3": 2}, root.where("b"))
		w.settle()
	})
}

// TestLostChildIsLeft: a bound child that does not answer is waited for, until it is lost.
func TestLostChildIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		root.run(order("a", 1, 1))
		w.settle()
		cut := func(on bool) { w.sever("root", "pod1", on) }
		w.when(func(now call) fault { // it cannot be reached, which is known while there is time to ask others
			if now.to == "pod1" {
				return refused
			}
			return ""
		})
		assert.Equal(t, api.BootFailed, root.run(order("refused", 1, 1)).State())
		assert.Equal(t, "pod1", root.boundTo(generalKey))
		w.when(nil)
		cut(true)
		b := root.run(order("b", 1, 1))
		assert.Equal(t, api.BootFailed, b.State())
		assert.Equal(t, "pod1", root.boundTo(generalKey))
		w.tell("pod1", api.Digest{}, zone.LinkFresh+1)
		root.until("pod1 is silent", func(v *state.State) bool {
			l, _ := v.Link("link-pod1")
			return l.SilentSince != 0
		})
		time.Sleep(api.BindingLostAfter)
		root.run(order("c", 1, 1))
		assert.Equal(t, at{"pod2": 1}, root.where("c"))
		assert.Equal(t, []string{"pod1 away"}, root.history(generalKey))
		cut(false)
		w.tell("pod1", api.Digest{}, 0)
		w.settle()
	})
}

// TestHeadroomIsLeft: a child above its threshold gets no new work of others, and its own goes elsewhere.
func TestHeadroomIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		root.run(order("a", 1, 1))
		w.settle()
		root.terms("pod1", func(t *api.LinkTerms) { t.Headroom = map[api.ResourceClass]int64{api.VCPU: 50} })
		totals := func(free int64) api.Digest {
			return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 2, Free: free, SlotMax: 2}, api.MemoryMB: {Total: 4096, Free: 4096, SlotMax: 4096}}}
		}
		w.tell("pod1", totals(1), api.BindingUsageAge+1)
		root.run(order("b", 1, 1))
		assert.Equal(t, at{"pod1": 1}, root.where("b"), "what is not known of its use counts as room")
		root.release("b")
		w.settle()
		w.tell("pod1", totals(1), 0)
		root.run(order("c", 1, 1))
		assert.Equal(t, at{"pod2": 1}, root.where("c"))
		assert.Equal(t, []string{"pod1 headroom"}, root.history(generalKey))
		w.settle()
	})
}

// TestOneRebinding: of boots of a project at once, when its zone is full, one moves it, and the others
// go with it.
func TestOneRebinding(t *testing.T) {
	for seed := range 8 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			root := pods(w, api.BindingStrict)
			root.run(order("full", 2, 2))
			w.settle()
			w.delay(func(c call) time.Duration {
				return time.Duration((len(c.op)*7+c.n*13*(seed+1))%50) * time.Millisecond
			})
			root.boot(order("a", 1, 1))
			root.boot(order("b", 1, 1))
			require.Equal(t, api.BootActive, root.outcome("a").State())
			require.Equal(t, api.BootActive, root.outcome("b").State())
			assert.Equal(t, at{"pod2": 1}, root.where("a"))
			assert.Equal(t, at{"pod2": 1}, root.where("b"))
			assert.Equal(t, []string{"pod1 no_room"}, root.history(generalKey))
			w.settle()
		})
	}
}

// TestEveryStepOfARebindingGoesWrongOnce: whatever befalls a boot that moves its project, the project
// is bound to where the boot is, and has moved if and only if the boot was committed.
func TestEveryStepOfARebindingGoesWrongOnce(t *testing.T) {
	var counts map[command.Kind]int
	run := func(name string, prepare func(*world, *member)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := pods(w, api.BindingStrict)
				root.run(order("full", 2, 2))
				w.settle()
				prepare(w, root)
				root.run(order("next", 2, 2))
				w.settle()
				if b := root.outcome("next"); b.State() == api.BootFailed {
					assert.Equal(t, "pod1", root.boundTo(generalKey), "%s", b.Reason)
					assert.Empty(t, root.history(generalKey))
					assert.Empty(t, root.where("next"))
					return
				}
				to := root.boundTo(generalKey)
				assert.Equal(t, at{to: 2}, root.where("next"))
				assert.Equal(t, []string{"pod1 no_room"}, root.history(generalKey))
				if counts == nil {
					counts = root.log.counts()
				}
			})
		})
	}
	run("nothing", func(_ *world, root *member) { root.log.recount() })
	for _, k := range []command.Kind{command.KindBootCreate, command.KindHold, command.KindHoldParts, command.KindBootDecide, command.KindPartAck} {
		for n := 1; n <= counts[k]; n++ {
			for _, what := range []mishap{notLeader, unapplied, unconfirmed, doubled, deposed, delayed} {
				run(fmt.Sprintf("kind %d entry %d %s", k, n, what), func(w *world, root *member) { w.entryGoesWrong(root, k, n, what) })
			}
		}
	}
}

// TestCase77PodBinding: pod1 is in az1, pod2 and pod3 are in az2, and a project has one binding for each
// availability zone that it asks for, and one for work that asks for none. The zone itself is never bound.
func TestCase77PodBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		root.config(func(c *api.ZoneConfig) { c.Bindings.Mode, c.DefaultAZ = api.BindingStrict, "az3" })
		for i, az := range []string{"az1", "az2", "az2"} {
			name := fmt.Sprint("pod", i+1)
			w.zone(name, root, 4).config(func(c *api.ZoneConfig) { c.DefaultAZ = az })
			root.terms(name, func(t *api.LinkTerms) { t.AZ = az })
		}
		boot := func(res, az string) *state.Boot {
			o := order(res, 1, 1)
			o.Request.Groups[0].AZ = az
			return root.run(o)
		}
		bound := func(of ...string) { // child and availability zone of each active binding
			t.Helper()
			var got []string
			for _, b := range root.view().ActiveBindings(api.Tenant{Project: "p"}) {
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
		assert.Equal(t, at{"pod2": 1}, root.where("other-again"))
		boot("named", "az1") // another kind of work
		bound("pod1 ", "pod1 az1", "pod2 az2")
		assert.Equal(t, api.BootFailed, boot("unknown", "az9").State())
		assert.Equal(t, api.BootFailed, boot("top", "az3").State(), "this zone has room there, and is no pod")
		bound("pod1 ", "pod1 az1", "pod2 az2")
		assert.Empty(t, root.view().PastBindings(api.Tenant{Project: "p"}))
		root.run(order("wide", 2, 2)) // pod1 has room for one
		bound("pod2 ", "pod1 az1", "pod2 az2")
		assert.Equal(t, at{"pod2": 2}, root.where("wide"), "who asks for none may go to any")
		root.config(func(c *api.ZoneConfig) { c.Bindings.Mode = api.BindingOff })
		assert.Equal(t, api.BootActive, boot("own", "az3").State(), "nobody is bound")
		w.settle()
	})
}

// TestAnEndedBindingIsChosenAnew: the next work of a project goes to the best child, also if that is the
// one that it was bound to.
func TestAnEndedBindingIsChosenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		root.run(order("a", 1, 1))
		for n, res := range []string{"b", "c"} {
			b, ok := root.view().ActiveBinding(api.Tenant{Project: "p"}, generalKey)
			require.True(t, ok)
			root.do(command.BindingEnd{Stamp: root.lead().Stamp(), ID: b.ID})
			assert.Empty(t, root.boundTo(generalKey))
			root.run(order(res, n+1, n+1)) // pod1 has room for one more
			b, _ = root.view().ActiveBinding(api.Tenant{Project: "p"}, generalKey)
			require.NotNil(t, b)
			assert.Equal(t, api.BindingFirst, b.Why)
		}
		assert.Equal(t, at{"pod1": 1}, root.where("b"))
		assert.Equal(t, at{"pod2": 2}, root.where("c"))
		assert.Equal(t, []string{"pod1 operator", "pod1 operator"}, root.history(generalKey))
		w.settle()
	})
}

// TestAnotherZoneIsRoom: when all are full a zone that is linked then has what is booted next.
func TestAnotherZoneIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		for _, res := range []string{"a", "b", "c"} {
			require.Equal(t, api.BootActive, root.run(order(res, 2, 2)).State())
		}
		assert.Equal(t, api.BootFailed, root.run(order("d", 1, 1)).State())
		w.zone("pod7", root, 2)
		root.run(order("e", 1, 1))
		assert.Equal(t, at{"pod7": 1}, root.where("e"))
		assert.Equal(t, "pod7", root.boundTo(generalKey))
		assert.Len(t, root.history(generalKey), 3)
		w.settle()
	})
}

// TestProjectsOfAParentAreBoundApart: a project of the parent is bound like an own one of the same name,
// and neither moves the other. The parent is told nothing of it.
func TestProjectsOfAParentAreBoundApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		mid := w.zone("mid", root)
		mid.config(func(c *api.ZoneConfig) { c.Bindings.Mode = api.BindingStrict })
		w.zone("leaf1", mid, 3)
		w.zone("leaf2", mid, 4)
		up, _ := mid.view().Parent()
		theirs := func() string {
			b, ok := mid.view().ActiveBinding(api.Tenant{Origin: up.ID, Project: "p"}, generalKey)
			require.True(t, ok)
			return b.Zone
		}
		root.run(order("theirs", 1, 1))
		assert.Equal(t, "leaf1", theirs())
		assert.Empty(t, mid.boundTo(generalKey), "it is another project")
		mid.run(order("own", 1, 1))
		assert.Equal(t, "leaf1", mid.boundTo(generalKey))
		root.run(order("more", 2, 2)) // leaf1 has room for one
		assert.Equal(t, "leaf2", theirs())
		assert.Equal(t, "leaf1", mid.boundTo(generalKey))
		mid.run(order("last", 1, 1))
		assert.Equal(t, at{"leaf1": 1}, mid.where("last"))
		assert.Empty(t, root.view().Bindings())
		w.settle()
	})
}

// TestChildrenThatLieAboutTheirUse: one that seems to be idle gets the question first, and no binding
// without room.
func TestChildrenThatLieAboutTheirUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := pods(w, api.BindingStrict)
		root.config(func(c *api.ZoneConfig) {
			c.Bindings.Weighers = []api.BindingWeigher{{Name: "idle_capacity", Multiplier: 1}}
		})
		use := func(free int64) api.Digest {
			return api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
				api.VCPU: {Total: 1000, Free: free, SlotMax: free}, api.MemoryMB: {Total: 1 << 20, Free: 1 << 20, SlotMax: 1 << 20},
			}}
		}
		require.Equal(t, api.BootActive, w.zones[3].run(order("own", 2, 2)).State()) // pod3 is full
		w.settle()
		w.tell("pod1", use(300), 0)
		w.tell("pod2", use(400), 0)
		w.tell("pod3", use(1000), 0)
		before := w.made("select", "root", "pod3")
		root.run(order("a", 1, 1))
		assert.Greater(t, w.made("select", "root", "pod3"), before, "it is asked")
		assert.Equal(t, at{"pod2": 1}, root.where("a"))
		assert.Equal(t, "pod2", root.boundTo(generalKey))
		assert.Empty(t, root.history(generalKey))
		w.tell("pod2", use(0), 0) // that is not true either
		root.run(order("b", 1, 1))
		assert.Equal(t, at{"pod2": 1}, root.where("b"), "without a headroom it is asked all the same")
		w.settle()
	})
}
