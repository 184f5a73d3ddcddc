package fleet_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// untilEmpty waits until nothing is on a host any more.
func untilEmpty(m *zonetest.Member, host api.HostID) {
	m.World.T.Helper()
	m.Until("a host is empty", func(v *state.State) bool { return len(v.OnHost(host)) == 0 })
}

// TestDrain takes a host out of service in each way. Nothing new comes, what is
// there stays, ends, or runs on elsewhere under its id.
func TestDrain(t *testing.T) {
	for policy, left := range map[api.DrainPolicy]int{api.DrainWait: 3, api.DrainEnd: 0, api.DrainMove: 3} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil)
				m := w.Zone("kid", root, 4, 9)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 3, 3)).State())
				from := m.Host("kid-host-1")
				require.Equal(t, map[api.HostID]int{from: 3}, m.OnHosts("b"), "the fuller host is filled first")
				m.Drain(from, policy)
				if policy == api.DrainWait {
					await.Sleep(time.Minute)
					assert.Equal(t, map[api.HostID]int{from: 3}, m.OnHosts("b"))
				} else {
					untilEmpty(m, from)
				}
				m.Until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == left })
				w.Settle()
				assert.Len(t, root.Instances("b"), left)
				require.Equal(t, api.BootActive, root.Run(zonetest.Order("next", 1, 1)).State())
				assert.NotContains(t, m.OnHosts("next"), from)
				w.Settle()
			})
		})
	}
}

// TestDrainWithFullPool moves an instance that draws on a pool with nothing left: it
// keeps what the pool gives it.
func TestDrainWithFullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const licence api.ResourceClass = "CUSTOM_LICENCE"
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4, 9)
		sets, traits := []string{"c0c0c0c0-0000-4000-8000-000000000000"}, []string{api.TraitShares}
		inventory := map[api.ResourceClass]api.Inventory{licence: {Total: 2}}
		licensed := *zonetest.Flavor
		licensed.Resources = maps.Clone(zonetest.Flavor.Resources)
		licensed.Resources[licence] = 1
		for _, compose := range []func(command.Stamp) command.Command{
			func(at command.Stamp) command.Command { return command.ClassPut{Stamp: at, Name: licence} },
			func(at command.Stamp) command.Command {
				return command.ProviderCreate{Stamp: at, ID: "pool", Name: "pool"}
			},
			func(at command.Stamp) command.Command {
				return command.ProviderSet{Stamp: at, ID: "pool", Inventory: &inventory, Traits: &traits, Aggregates: &sets}
			},
			func(at command.Stamp) command.Command {
				return command.ProviderSet{Stamp: at, ID: root.Host("root-host-1"), Aggregates: &sets}
			},
			func(at command.Stamp) command.Command {
				return command.ProviderSet{Stamp: at, ID: root.Host("root-host-2"), Aggregates: &sets}
			},
		} {
			root.Propose(compose)
		}
		o := zonetest.Order("b", 2, 2)
		o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &licensed)
		require.Equal(t, api.BootActive, root.Run(o).State())
		from := root.Host("root-host-1")
		require.Equal(t, map[api.HostID]int{from: 2}, root.OnHosts("b"))
		root.Drain(from, api.DrainMove)
		untilEmpty(root, from)
		root.Until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 2 })
		pool, _ := root.View().Provider("pool")
		assert.Equal(t, api.Resources{licence: 2}, pool.Used)
		w.Settle()
	})
}

// TestDrainKeepsRules moves one of three instances that must be apart: it goes to
// the one host that is left, and with none left it stays where it is.
func TestDrainKeepsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2, 2, 2, 2)
		m.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "sg", Policy: api.AntiAffinity, Max: 1}})
		o := zonetest.Order("b", 3, 3)
		o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
		require.Equal(t, api.BootActive, m.Run(o).State())
		var used []api.HostID
		for h := range m.OnHosts("b") {
			used = append(used, h)
		}
		m.Drain(used[0], api.DrainMove)
		untilEmpty(m, used[0])
		m.Until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 3 })
		for _, n := range m.OnHosts("b") {
			assert.Equal(t, 1, n)
		}
		m.Drain(used[1], api.DrainMove)
		await.Sleep(time.Minute)
		assert.Equal(t, 1, m.OnHosts("b")[used[1]], "there is no host for it")
		w.Settle()
	})
}

// TestDrainAfterItsGroup moves members of a server group that is deleted: its rule keeps them from no host, neither
// one where another member is, nor out of all others. The group may be that of a zone above.
func TestDrainAfterItsGroup(t *testing.T) {
	for policy, most := range map[api.Policy]int{api.AntiAffinity: 1, api.Affinity: 0} {
		for _, levels := range []int{1, 2, 3} {
			t.Run(fmt.Sprint(policy, " over ", levels), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { drainAfterItsGroup(t, policy, most, levels) })
			})
		}
	}
}

func drainAfterItsGroup(t *testing.T, policy api.Policy, most, levels int) {
	t.Helper()
	w := zonetest.NewWorld(t)
	var m *zonetest.Member
	for n := range levels {
		var hosts []int64
		if n == levels-1 {
			hosts = []int64{2, 2}
		}
		m = w.Zone(fmt.Sprint("z", n), m, hosts...)
	}
	root := w.Zones[0]
	group := api.ServerGroup{ID: "5e5e5e5e-0000-4000-8000-000000000000", Project: "p", Name: "g", Policy: policy, Max: most}
	root.Do(command.GroupPut{Group: group})
	o := zonetest.Order("b", 2, 2)
	o.Request.Rules = []api.Rule{{ID: group.ID, Policy: policy, Max: most, Groups: []int{0}}}
	require.Equal(t, api.BootActive, root.Run(o).State())
	from, left := m.Instances("b")[0].Host, 0
	if policy == api.Affinity { // there is room for one of them
		left = 1
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("other", 1, 1)).State())
	}
	m.Drain(from, api.DrainMove)
	await.Sleep(time.Minute)
	require.Contains(t, m.OnHosts("b"), from, "its rule keeps it here")
	root.Do(command.GroupDelete{Project: "p", ID: group.ID})
	m.Until("one has left", func(*state.State) bool { return m.OnHosts("b")[from] == left })
	w.Settle()
}

// TestDrainMovesALoneMember moves the only member of a group that must stay
// together: it is together wherever it is.
func TestDrainMovesALoneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2, 3)
		m.Do(command.GroupPut{Group: api.ServerGroup{ID: "sg", Project: "p", Name: "sg", Policy: api.Affinity}})
		o := zonetest.Order("b", 1, 1)
		o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.Affinity, Groups: []int{0}}}
		require.Equal(t, api.BootActive, m.Run(o).State())
		from := m.Host("root-host-1")
		require.Contains(t, m.OnHosts("b"), from)
		m.Drain(from, api.DrainMove)
		untilEmpty(m, from)
		w.Settle()
	})
}

// TestLostHostIsLeft starts what may be moved elsewhere when a host is lost, but
// not before its agent has stopped it, and not what may not be moved.
func TestLostHostIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4)
		a := m.Agent("b", 2)
		lost := m.Host("root-host-b1")
		movable := zonetest.Order("movable", 1, 1)
		f := *zonetest.Flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": "true"}
		movable.Request.Groups[0] = zonetest.OfFlavor(movable.Request.Groups[0], &f)
		require.Equal(t, api.BootActive, m.Run(movable).State())
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("fixed", 1, 1)).State())
		require.Contains(t, m.OnHosts("movable"), lost)
		require.Contains(t, m.OnHosts("fixed"), lost)
		began := time.Now()
		a.FallSilent()
		m.Until("the host is down", func(v *state.State) bool {
			h, _ := v.Host(lost)
			return h.State == api.HostDown
		})
		e, err := m.Lead().ReportEvacuation(lost)
		require.NoError(t, err)
		assert.Equal(t, 1, e.Movable)
		assert.Equal(t, 1, e.Staying)
		assert.Positive(t, e.Wait)
		assert.Less(t, e.Wait, fleet.EvacuateAfter-fleet.HostGraceDefault, "it was silent for a while")
		m.Until("it runs elsewhere", func(*state.State) bool {
			_, here := m.OnHosts("movable")[lost]
			return !here && m.View().CountByStatus()[api.StatusBuild] == 0
		})
		assert.GreaterOrEqual(t, time.Since(began), fleet.EvacuateAfter-fleet.AgentBeat)
		assert.Less(t, time.Since(began), fleet.EvacuateAfter+10*time.Second)
		assert.Contains(t, m.OnHosts("fixed"), lost)
		a.Speak()
		m.Until("the host is back", func(v *state.State) bool {
			h, _ := v.Host(lost)
			return h.State == api.HostUp
		})
		await.Sleep(time.Minute)
		w.Settle()
	})
}

// TestAgentIsBackBeforeItsHost has an agent come back at the moment at which its host
// may be evacuated, before the log says that the host is up: it gets no list, and what
// was about to be started elsewhere is not.
func TestAgentIsBackBeforeItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 2) // there is no other host yet, so that it stays where it is
		lost := m.Host("root-host-b1")
		o := zonetest.Order("r", 1, 1)
		f := *zonetest.Flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": "true"}
		o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &f)
		require.Equal(t, api.BootActive, m.Run(o).State())
		a.FallSilent()
		m.Until("the host is down", func(v *state.State) bool { return v.AllHosts()[0].State == api.HostDown })
		await.Sleep(2*fleet.EvacuateAfter + fleet.AgentBeat/5) // between two looks at the hosts
		i, z := m.Instances("r")[0], m.Lead()
		require.Equal(t, lost, i.Host)
		work := func() []api.HostWorkload {
			got, err := z.Work(t.Context(), a.ID(), &api.AgentWork{})
			require.NoError(t, err)
			return got.Hosts
		}
		// Its first question, before the zone looks at its hosts again. Only now is there
		// a host that it could be started on.
		assert.Empty(t, work(), "it may be started elsewhere at any moment")
		c := m.IdleAgent("c", 2).Hosts()
		m.Propose(func(at command.Stamp) command.Command {
			return command.HostsPut{Stamp: at, Agent: "c", Hosts: []command.HostEntry{{ID: "c", Host: c[0]}}}
		})
		await.Sleep(fleet.AgentBeat)
		now, _ := m.View().Instance(i.ID)
		assert.Equal(t, lost, now.Host, "its agent was heard: it may run here")
		a.Speak()
		m.Until("the host is back", func(v *state.State) bool {
			h, _ := v.Host(lost)
			return h.State == api.HostUp
		})
		assert.Len(t, work(), 1)
		w.Settle()
	})
}

// TestHostIsLostInAMove drains a host whose agent says nothing any more: when the
// host counts as lost the move goes on as an evacuation, to where it has room.
func TestHostIsLostInAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4, 5)
		a := m.Agent("b", 2)
		lost := m.Host("root-host-b1")
		o := zonetest.Order("b", 1, 1)
		f := *zonetest.Flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": "true"}
		o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &f)
		require.Equal(t, api.BootActive, m.Run(o).State())
		require.Contains(t, m.OnHosts("b"), lost)
		a.FallSilent()
		m.Drain(lost, api.DrainMove)
		id := m.Instances("b")[0].ID
		m.Until("it has a target", func(v *state.State) bool {
			i, _ := v.Instance(id)
			return i.Target != ""
		})
		i, _ := m.View().Instance(id)
		target := i.Target
		untilEmpty(m, lost)
		assert.Equal(t, map[api.HostID]int{target: 1}, m.OnHosts("b"))
		m.Until("it runs", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 1 })
		a.Speak()
		await.Sleep(time.Minute)
		w.Settle()
	})
}

// TestLostHostGivesRoomUp: what was to end on a lost host is gone once its agent must have ended it, so
// that nothing waits for its room; not what has no fence, nor what may run on.
func TestLostHostGivesRoomUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 4)
		m.Host("root-host-b1")
		for name, class := range map[string]api.Class{"firm": api.Firm, "leaves": api.Preemptible, "stays": api.Preemptible} {
			o := zonetest.Order(name, 1, 1)
			o.Request.Class = class
			require.Equal(t, api.BootActive, m.Run(o).State())
		}
		began := time.Now()
		a.FallSilent()
		m.Until("the host is down", func(v *state.State) bool { return v.AllHosts()[0].State == api.HostDown })
		for _, name := range []string{"firm", "leaves"} {
			m.Propose(func(at command.Stamp) command.Command {
				return command.InstanceDelete{Stamp: at, ID: m.Instances(name)[0].ID}
			})
		}
		id := m.Instances("leaves")[0].ID
		m.Until("it counts as gone", func(v *state.State) bool {
			i, _ := v.Instance(id)
			return i.Status == api.StatusDeleted
		})
		assert.GreaterOrEqual(t, time.Since(began), fleet.EvacuateAfter-fleet.AgentBeat)
		assert.Less(t, time.Since(began), fleet.EvacuateAfter+10*time.Second)
		await.Sleep(time.Minute)
		assert.Equal(t, map[api.Status]int{api.StatusDeleting: 1, api.StatusActive: 1, api.StatusDeleted: 1}, m.View().CountByStatus())
		a.Speak()
		m.Until("the rest has ended", func(v *state.State) bool { return v.CountByStatus()[api.StatusDeleted] == 2 })
		assert.Equal(t, api.StatusActive, m.Instances("stays")[0].Status)
		w.Settle()
	})
}
