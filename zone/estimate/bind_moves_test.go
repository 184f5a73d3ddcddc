package estimate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// TestNobodyWaitsForItself: of boots at once of which the bound child has room for one, the others are placed in other
// children as soon as that one is decided: what they were refused there keeps neither them nor each other waiting.
func TestNobodyWaitsForItself(t *testing.T) {
	for _, projects := range [][]api.ProjectID{{"p", "p"}, {"p", "q"}, {"p", "p", "p"}, {"p", "q", "r"}} {
		for seed := range 4 {
			t.Run(fmt.Sprint(projects, " ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := zonetest.NewWorld(t)
					root := w.Zone("root", nil)
					root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = api.BindingStrict })
					for n := range 3 {
						w.Zone(fmt.Sprint("pod", n+1), root, 8)
					}
					boot := func(p api.ProjectID, res string, n int) {
						o := zonetest.Order(res, n, n)
						o.Request.Project = p
						root.Boot(o)
					}
					outcome := func(p api.ProjectID, res string) *state.Boot {
						var out *state.Boot
						root.Until(res+" has an outcome", func(v *state.State) (ok bool) {
							out, ok = v.Boot(p, api.ReservationID(res))
							return ok && out.State().Outcome()
						})
						return out
					}
					for _, p := range slices.Compact(slices.Clone(projects)) {
						boot(p, "home-"+string(p), 1)
						require.Equal(t, api.BootActive, outcome(p, "home-"+string(p)).State())
					}
					w.Settle()
					w.Delay(func(c zonetest.Call) time.Duration {
						return time.Duration((len(c.Op)*7+c.N*13*(seed+1))%50) * time.Millisecond
					})
					began, pods := time.Now(), map[api.LinkID]bool{}
					for n, p := range projects {
						boot(p, fmt.Sprint("r", n), 5)
					}
					for n, p := range projects {
						b := outcome(p, fmt.Sprint("r", n))
						require.Equal(t, api.BootActive, b.State(), "%s", b.Reason)
						for _, i := range root.View().OfReservation(p, api.ReservationID(fmt.Sprint("r", n))) {
							pods[i.Link] = true
						}
					}
					assert.Len(t, pods, len(projects), "each is in one child, with nobody else")
					assert.Less(t, time.Since(began), 5*time.Second)
					w.Settle()
				})
			})
		}
	}
}

// TestABindingMovesForWantOfRoom: what the bound child cannot take although it has room goes to another one, and leaves
// the binding where it is, also when it needs several attempts; what it has no room for moves it.
func TestABindingMovesForWantOfRoom(t *testing.T) {
	change := func(m *zonetest.Member, host int, f func(at command.Stamp, id api.HostID) command.Command) {
		m.Propose(func(at command.Stamp) command.Command { return f(at, m.Host(fmt.Sprint(m.Name, "-host-", host))) })
	}
	for name, c := range map[string]struct {
		odd   func(o *intake.BootOrder, w *zonetest.World, pod2 *zonetest.Member)
		moves bool
	}{
		"trait": {odd: func(o *intake.BootOrder, _ *zonetest.World, pod2 *zonetest.Member) {
			pod2.Propose(func(at command.Stamp) command.Command { return command.TraitPut{Stamp: at, Name: "CUSTOM_SSD"} })
			change(pod2, 1, func(at command.Stamp, id api.HostID) command.Command {
				return command.ProviderSet{Stamp: at, ID: id, Traits: &[]string{"CUSTOM_SSD"}}
			})
			o.Request.Groups[0].Traits.Required = []string{"CUSTOM_SSD"}
		}},
		"preemptible": {odd: func(o *intake.BootOrder, w *zonetest.World, pod2 *zonetest.Member) {
			for _, m := range w.Zones[1:] {
				change(m, 1, func(at command.Stamp, id api.HostID) command.Command {
					return command.HostSet{Stamp: at, ID: id, Pool: new(map[bool]api.Pool{true: api.PoolShared, false: api.PoolOnDemand}[m == pod2])}
				})
			}
			o.Request.Class = api.Preemptible
		}},
		"preemptible without room": {odd: func(o *intake.BootOrder, w *zonetest.World, _ *zonetest.Member) {
			for _, m := range w.Zones[1:] {
				change(m, 1, func(at command.Stamp, id api.HostID) command.Command {
					return command.HostSet{Stamp: at, ID: id, Pool: new(api.PoolShared)}
				})
			}
			o.Request.Class, o.Request.Groups[0].Count, o.Request.Groups[0].Min = api.Preemptible, 4, 4
		}},
		"size": {odd: func(o *intake.BootOrder, _ *zonetest.World, _ *zonetest.Member) {
			o.Request.Groups[0].Resources = api.Resources{api.VCPU: 5}
		}},
		"class, beside a headroom": {odd: func(o *intake.BootOrder, w *zonetest.World, pod2 *zonetest.Member) {
			w.Zones[0].SetTerms("pod1", func(t *api.LinkTerms) { t.Headroom = map[api.ResourceClass]int64{api.VCPU: 10} })
			w.Tell("pod1", api.Digest{Classes: map[api.ResourceClass]api.ClassTotals{
				api.VCPU: {Total: 4, Free: 3, SlotMax: 4}, api.MemoryMB: {Total: 4096, Free: 4096, SlotMax: 4096},
			}}, 0)
			change(pod2, 1, func(at command.Stamp, id api.HostID) command.Command {
				h, _ := pod2.View().Host(id)
				inventory := maps.Clone(h.Inventory)
				inventory["PGPU"] = api.Inventory{Total: 1}
				return command.ProviderSet{Stamp: at, ID: id, Inventory: &inventory}
			})
			o.Request.Groups[0].Resources = api.Resources{api.VCPU: 1, "PGPU": 1}
		}},
		"rule": {odd: func(o *intake.BootOrder, _ *zonetest.World, _ *zonetest.Member) {
			o.Request.Groups[0].Count, o.Request.Groups[0].Min = 2, 2
			o.Request.Rules = []api.Rule{{Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
		}},
		"excluded": {odd: func(o *intake.BootOrder, _ *zonetest.World, _ *zonetest.Member) {
			o.Request.Zones.Excluded = []string{"pod1"}
		}},
		"a slot is refused": {odd: func(o *intake.BootOrder, w *zonetest.World, _ *zonetest.Member) {
			o.Request.Groups[0].Resources, o.Request.Groups[0].Count, o.Request.Groups[0].Min = api.Resources{api.VCPU: 5}, 1, 1
			first := true
			w.When(func(c zonetest.Call) zonetest.Fault {
				if first && c.To == "pod2" && strings.HasPrefix(c.Op, "hold") {
					first = false
					return zonetest.Refused
				}
				return ""
			})
		}},
		"room": {odd: func(o *intake.BootOrder, _ *zonetest.World, _ *zonetest.Member) {
			o.Request.Groups[0].Count, o.Request.Groups[0].Min = 4, 4
		}, moves: true},
	} {
		for _, mode := range []api.BindingMode{api.BindingStrict, api.BindingPrefer} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := zonetest.NewWorld(t)
					root := w.Zone("root", nil)
					root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
					w.Zone("pod1", root, 4)
					pod2 := w.Zone("pod2", root, 8, 8)
					root.Run(zonetest.Order("home", 1, 1))
					w.Settle()
					require.Equal(t, "pod1", boundTo(root, generalKey))
					o := zonetest.Order("odd", 1, 1)
					c.odd(o, w, pod2)
					b := root.Run(o)
					require.Equal(t, api.BootActive, b.State(), "%s", b.Reason)
					w.When(nil)
					w.Settle()
					assert.NotZero(t, placedOf(root, "odd")["pod2"])
					if c.moves {
						assert.Equal(t, "pod2", boundTo(root, generalKey))
						assert.Equal(t, []string{"pod1 no_room"}, historyOf(root, generalKey))
						return
					}
					assert.Equal(t, "pod1", boundTo(root, generalKey))
					assert.Empty(t, historyOf(root, generalKey))
					root.Release("odd")
					w.Settle()
					require.Equal(t, api.BootActive, root.Run(zonetest.Order("next", 1, 1)).State())
					assert.Equal(t, at{"pod1": 1}, placedOf(root, "next"))
					w.Settle()
				})
			})
		}
	}
}

// TestOddWorkWaitsForNoChoice: what the bound child cannot take does not wait for the other work of its project there
// that is not decided.
func TestOddWorkWaitsForNoChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = api.BindingStrict })
		w.Zone("pod1", root, 4)
		w.Zone("pod2", root, 8)
		root.Run(zonetest.Order("home", 1, 1))
		w.Settle()
		w.Delay(func(c zonetest.Call) time.Duration {
			if strings.HasPrefix(c.Op, "hold") && c.To == "pod1" {
				return 2 * time.Second // each way
			}
			return 0
		})
		w.Go(func() { _, _ = root.Lead().Boot(w.Ctx, zonetest.Order("slow", 1, 1)) }) // its outcome is looked at below
		root.Until("pod1 is asked", func(v *state.State) bool {
			others, _ := v.ChosenLinks("", &api.Request{Project: "p"}, generalKey)
			return others == "link-pod1"
		})
		began, odd := time.Now(), zonetest.Order("odd", 1, 1)
		odd.Request.Groups[0].Resources = api.Resources{api.VCPU: 5}
		require.Equal(t, api.BootActive, root.Run(odd).State())
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, at{"pod2": 1}, placedOf(root, "odd"))
		require.Equal(t, api.BootActive, root.Outcome("slow").State())
		told, _ := root.Lead().Explanation("p", "slow")
		assert.Len(t, told.Attempts, 1, "it does not leave pod1 for pod1, though that is late")
		assert.Equal(t, "pod1", boundTo(root, generalKey))
		w.Settle()
	})
}

// TestPreemptibleWorkBindsNothing: a project that has only preemptible work is bound by its first other work.
func TestPreemptibleWorkBindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := pods(w, api.BindingStrict)
		for _, m := range w.Zones[1:] {
			m.Propose(func(at command.Stamp) command.Command {
				return command.HostSet{Stamp: at, ID: m.Host(m.Name + "-host-1"), Pool: new(api.PoolShared)}
			})
		}
		soft := zonetest.Order("soft", 1, 1)
		soft.Request.Class = api.Preemptible
		require.Equal(t, api.BootActive, root.Run(soft).State())
		assert.Empty(t, boundTo(root, generalKey))
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("firm", 1, 1)).State())
		assert.Equal(t, "pod1", boundTo(root, generalKey))
		w.Settle()
	})
}

// TestAZOfAChildIsItsName: what an operator says is the availability zone of a child stands for all below it, whatever
// these zones and their hosts call theirs, in every mode.
func TestAZOfAChildIsItsName(t *testing.T) {
	for _, mode := range []api.BindingMode{api.BindingOff, api.BindingPrefer, api.BindingStrict} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				top := w.Zone("top", nil)
				root := w.Zone("root", top, 4)
				root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				pod := w.Zone("pod", root, 2)
				w.Zone("deep", pod, 2)
				w.Zone("other", root, 4)
				root.SetTerms("pod", func(t *api.LinkTerms) { t.AZ = "az1" })
				classes := map[api.ResourceClass]api.ClassTotals{}
				w.Tell("pod", api.Digest{Classes: classes, AZs: []string{"deep", "pod"}}, 0)
				boot := func(m *zonetest.Member, res, az string, n int) *state.Boot {
					o := zonetest.Order(res, n, n)
					o.Request.Groups[0].AZ = az
					return m.Run(o)
				}
				b := boot(root, "a", "az1", 3)
				require.Equal(t, api.BootActive, b.State(), "%s", b.Reason)
				assert.Equal(t, at{"pod": 3}, placedOf(root, "a"), "as all hosts below it are in az1")
				w.Settle()
				b = boot(top, "b", "az1", 1)
				require.Equal(t, api.BootActive, b.State(), "%s", b.Reason)
				assert.Equal(t, at{"pod": 1}, placedOf(root, "b"))
				assert.Equal(t, api.BootFailed, boot(root, "c", "az1", 1).State(), "the others are not in it")
				require.Equal(t, mode == api.BindingOff, slices.Contains(root.Lead().Digest().AZs, "pod"))
				assert.Contains(t, root.Lead().Digest().AZs, "az1")
				w.Settle()
			})
		})
	}
}
