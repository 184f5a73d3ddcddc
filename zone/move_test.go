package zone_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/fleet"
)

// host returns the id of a host by its name.
func (m *member) host(name string) api.HostID {
	m.w.t.Helper()
	h, ok := m.view().HostByName(name)
	require.True(m.w.t, ok, name)
	return h.ID
}

// drain takes a host out of service.
func (m *member) drain(host api.HostID, p api.DrainPolicy) {
	m.w.t.Helper()
	why := "new disks"
	m.propose(func(at command.Stamp) command.Command {
		return command.HostSet{Stamp: at, ID: host, Maintenance: &why, Drain: &p}
	})
}

// empty waits until nothing is on a host any more.
func (m *member) empty(host api.HostID) {
	m.w.t.Helper()
	m.until("a host is empty", func(v *state.State) bool { return len(v.OnHost(host)) == 0 })
}

// TestDrain takes a host out of service in each way. Nothing new comes, what is
// there stays, ends, or runs on elsewhere under its id.
func TestDrain(t *testing.T) {
	for policy, left := range map[api.DrainPolicy]int{api.DrainWait: 3, api.DrainEnd: 0, api.DrainMove: 3} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil)
				m := w.zone("kid", root, 4, 9)
				require.Equal(t, api.BootActive, root.run(order("b", 3, 3)).State())
				from := m.host("kid-host-1")
				require.Equal(t, map[api.HostID]int{from: 3}, m.onHosts("b"), "the fuller host is filled first")
				m.drain(from, policy)
				if policy == api.DrainWait {
					time.Sleep(time.Minute)
					assert.Equal(t, map[api.HostID]int{from: 3}, m.onHosts("b"))
				} else {
					m.empty(from)
				}
				m.until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == left })
				w.settle()
				assert.Len(t, root.instances("b"), left)
				require.Equal(t, api.BootActive, root.run(order("next", 1, 1)).State())
				assert.NotContains(t, m.onHosts("next"), from)
				w.settle()
			})
		})
	}
}

// TestDrainWithFullPool moves an instance that draws on a pool with nothing left: it
// keeps what the pool gives it.
func TestDrainWithFullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const licence api.ResourceClass = "CUSTOM_LICENCE"
		w := newWorld(t)
		root := w.zone("root", nil, 4, 9)
		sets, traits := []string{"c0c0c0c0-0000-4000-8000-000000000000"}, []string{api.TraitShares}
		inventory := map[api.ResourceClass]api.Inventory{licence: {Total: 2}}
		licensed := *flavor
		licensed.Resources = maps.Clone(flavor.Resources)
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
				return command.ProviderSet{Stamp: at, ID: root.host("root-host-1"), Aggregates: &sets}
			},
			func(at command.Stamp) command.Command {
				return command.ProviderSet{Stamp: at, ID: root.host("root-host-2"), Aggregates: &sets}
			},
		} {
			root.propose(compose)
		}
		o := order("b", 2, 2)
		o.Request.Groups[0] = ofFlavor(o.Request.Groups[0], &licensed)
		require.Equal(t, api.BootActive, root.run(o).State())
		from := root.host("root-host-1")
		require.Equal(t, map[api.HostID]int{from: 2}, root.onHosts("b"))
		root.drain(from, api.DrainMove)
		root.empty(from)
		root.until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 2 })
		pool, _ := root.view().Provider("pool")
		assert.Equal(t, api.Resources{licence: 2}, pool.Used)
		w.settle()
	})
}

// TestDrainKeepsRules moves one of three instances that must be apart: it goes to
// the one host that is left, and with none left it stays where it is.
func TestDrainKeepsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil, 2, 2, 2, 2)
		o := order("b", 3, 3)
		o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
		require.Equal(t, api.BootActive, m.run(o).State())
		var used []api.HostID
		for h := range m.onHosts("b") {
			used = append(used, h)
		}
		m.drain(used[0], api.DrainMove)
		m.empty(used[0])
		m.until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 3 })
		for _, n := range m.onHosts("b") {
			assert.Equal(t, 1, n)
		}
		m.drain(used[1], api.DrainMove)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, m.onHosts("b")[used[1]], "there is no host for it")
		w.settle()
	})
}

// TestDrainMovesALoneMember moves the only member of a group that must stay
// together: it is together wherever it is.
func TestDrainMovesALoneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil, 2, 3)
		o := order("b", 1, 1)
		o.Request.Rules = []api.Rule{{ID: "sg", Policy: api.Affinity, Groups: []int{0}}}
		require.Equal(t, api.BootActive, m.run(o).State())
		from := m.host("root-host-1")
		require.Contains(t, m.onHosts("b"), from)
		m.drain(from, api.DrainMove)
		m.empty(from)
		w.settle()
	})
}

// TestLostHostIsLeft starts what may be moved elsewhere when a host is lost, but
// not before its agent has stopped it, and not what may not be moved.
func TestLostHostIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil, 4)
		a := m.agent("b", 2)
		lost := m.host("root-host-b1")
		movable := order("movable", 1, 1)
		f := *flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": "true"}
		movable.Request.Groups[0] = ofFlavor(movable.Request.Groups[0], &f)
		require.Equal(t, api.BootActive, m.run(movable).State())
		require.Equal(t, api.BootActive, m.run(order("fixed", 1, 1)).State())
		require.Contains(t, m.onHosts("movable"), lost)
		require.Contains(t, m.onHosts("fixed"), lost)
		began := time.Now()
		a.fallSilent()
		m.until("the host is down", func(v *state.State) bool {
			h, _ := v.Host(lost)
			return h.State == api.HostDown
		})
		e, err := m.lead().ReportEvacuation(lost)
		require.NoError(t, err)
		assert.Equal(t, 1, e.Movable)
		assert.Equal(t, 1, e.Staying)
		assert.Positive(t, e.Wait)
		assert.Less(t, e.Wait, fleet.EvacuateAfter-fleet.HostGraceDefault, "it was silent for a while")
		m.until("it runs elsewhere", func(*state.State) bool {
			_, here := m.onHosts("movable")[lost]
			return !here && m.view().CountByStatus()[api.StatusBuild] == 0
		})
		assert.GreaterOrEqual(t, time.Since(began), fleet.EvacuateAfter-fleet.AgentBeat)
		assert.Less(t, time.Since(began), fleet.EvacuateAfter+10*time.Second)
		assert.Contains(t, m.onHosts("fixed"), lost)
		a.speak()
		m.until("the host is back", func(v *state.State) bool {
			h, _ := v.Host(lost)
			return h.State == api.HostUp
		})
		time.Sleep(time.Minute)
		w.settle()
	})
}

// TestAgentIsBackBeforeItsHost has an agent come back at the moment at which its host
// may be evacuated, before the log says that the host is up: it gets no list, and what
// was about to be started elsewhere is not.
func TestAgentIsBackBeforeItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil)
		a := m.agent("b", 2) // there is no other host yet, so that it stays where it is
		lost := m.host("root-host-b1")
		o := order("r", 1, 1)
		f := *flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": "true"}
		o.Request.Groups[0] = ofFlavor(o.Request.Groups[0], &f)
		require.Equal(t, api.BootActive, m.run(o).State())
		a.fallSilent()
		m.until("the host is down", func(v *state.State) bool { return v.AllHosts()[0].State == api.HostDown })
		time.Sleep(2*fleet.EvacuateAfter + fleet.AgentBeat/5) // between two looks at the hosts
		i, z := m.instances("r")[0], m.lead()
		require.Equal(t, lost, i.Host)
		work := func() []api.HostWorkload {
			got, err := z.Work(t.Context(), a.id(), &api.AgentWork{})
			require.NoError(t, err)
			return got.Hosts
		}
		// Its first question, before the zone looks at its hosts again. Only now is there
		// a host that it could be started on.
		assert.Empty(t, work(), "it may be started elsewhere at any moment")
		c := m.idleAgent("c", 2).hosts()
		m.propose(func(at command.Stamp) command.Command {
			return command.HostsPut{Stamp: at, Agent: "c", Hosts: []command.HostEntry{{ID: "c", Host: c[0]}}}
		})
		time.Sleep(fleet.AgentBeat)
		now, _ := m.view().Instance(i.ID)
		assert.Equal(t, lost, now.Host, "its agent was heard: it may run here")
		a.speak()
		m.until("the host is back", func(v *state.State) bool {
			h, _ := v.Host(lost)
			return h.State == api.HostUp
		})
		assert.Len(t, work(), 1)
		w.settle()
	})
}

// TestHostIsLostInAMove drains a host whose agent says nothing any more: when the
// host counts as lost the move goes on as an evacuation, to where it has room.
func TestHostIsLostInAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil, 4, 5)
		a := m.agent("b", 2)
		lost := m.host("root-host-b1")
		o := order("b", 1, 1)
		f := *flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": "true"}
		o.Request.Groups[0] = ofFlavor(o.Request.Groups[0], &f)
		require.Equal(t, api.BootActive, m.run(o).State())
		require.Contains(t, m.onHosts("b"), lost)
		a.fallSilent()
		m.drain(lost, api.DrainMove)
		id := m.instances("b")[0].ID
		m.until("it has a target", func(v *state.State) bool {
			i, _ := v.Instance(id)
			return i.Target != ""
		})
		i, _ := m.view().Instance(id)
		target := i.Target
		m.empty(lost)
		assert.Equal(t, map[api.HostID]int{target: 1}, m.onHosts("b"))
		m.until("it runs", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 1 })
		a.speak()
		time.Sleep(time.Minute)
		w.settle()
	})
}

// TestLostHostGivesRoomUp: what was to end on a lost host is gone once its agent must have ended it, so
// that nothing waits for its room; not what has no fence, nor what may run on.
func TestLostHostGivesRoomUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil)
		a := m.agent("b", 4)
		m.host("root-host-b1")
		for name, class := range map[string]api.Class{"firm": api.Firm, "leaves": api.Preemptible, "stays": api.Preemptible} {
			o := order(name, 1, 1)
			o.Request.Class = class
			require.Equal(t, api.BootActive, m.run(o).State())
		}
		began := time.Now()
		a.fallSilent()
		m.until("the host is down", func(v *state.State) bool { return v.AllHosts()[0].State == api.HostDown })
		for _, name := range []string{"firm", "leaves"} {
			m.propose(func(at command.Stamp) command.Command {
				return command.InstanceDelete{Stamp: at, ID: m.instances(name)[0].ID}
			})
		}
		id := m.instances("leaves")[0].ID
		m.until("it counts as gone", func(v *state.State) bool {
			i, _ := v.Instance(id)
			return i.Status == api.StatusDeleted
		})
		assert.GreaterOrEqual(t, time.Since(began), fleet.EvacuateAfter-fleet.AgentBeat)
		assert.Less(t, time.Since(began), fleet.EvacuateAfter+10*time.Second)
		time.Sleep(time.Minute)
		assert.Equal(t, map[api.Status]int{api.StatusDeleting: 1, api.StatusActive: 1, api.StatusDeleted: 1}, m.view().CountByStatus())
		a.speak()
		m.until("the rest has ended", func(v *state.State) bool { return v.CountByStatus()[api.StatusDeleted] == 2 })
		assert.Equal(t, api.StatusActive, m.instances("stays")[0].Status)
		w.settle()
	})
}
