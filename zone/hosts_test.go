package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/fleet"
)

// TestSilentHosts takes hosts down when their agent is silent for too long, and
// up when it is heard again. What runs there keeps its claim.
func TestSilentHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		z := w.zone("root", nil, 2)
		assert.Equal(t, api.BootActive, z.run(order("a", 1, 1)).State())
		z.silence(true)
		time.Sleep(fleet.HostGraceDefault - fleet.AgentBeat)
		assert.True(t, up(z.view()))
		time.Sleep(3 * fleet.AgentBeat)
		assert.False(t, up(z.view()))
		b := z.run(order("b", 1, 1))
		assert.Equal(t, api.BootFailed, b.State(), "nothing is placed on a host that is down")
		assert.Equal(t, int64(1), z.used())

		z.silence(false)
		time.Sleep(3 * fleet.AgentBeat)
		assert.True(t, up(z.view()))
		assert.Equal(t, api.BootActive, z.run(order("c", 1, 1)).State())
		w.settle()
	})
}

// TestHostThatIsNotServed has an agent start again without one of its hosts: that one
// is down at once and stays so while the agent is heard, nothing is placed there, and
// it is up when it is registered again. A host that runs nothing can be deleted.
func TestHostThatIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("root", nil)
		a := m.agent("b", 2, 3)
		all := a.hosts()
		left := m.host(all[1].Name)
		state := func() api.HostState {
			h, _ := m.view().Host(left)
			return h.State
		}
		register := func(hosts ...api.AgentHost) {
			t.Helper()
			_, err := m.lead().RegisterHosts(t.Context(), a.id(), &api.AgentRegister{Hosts: hosts})
			require.NoError(t, err)
		}
		require.Equal(t, api.BootActive, m.run(order("r", 1, 1)).State())
		register(all[0])
		assert.Equal(t, api.HostDown, state())
		h, _ := m.view().Host(left)
		assert.True(t, h.Unserved)
		time.Sleep(2 * fleet.HostGraceDefault)
		assert.Equal(t, api.HostDown, state(), "that the agent is heard says nothing for it")
		assert.Empty(t, m.view().WorkAfter(a.id(), 0)[1:], "its agent is not asked for it")
		assert.Equal(t, api.BootFailed, m.run(order("s", 3, 3)).State(), "it takes no work")

		register(all...)
		assert.Equal(t, api.HostUp, state())
		h, _ = m.view().Host(left)
		assert.False(t, h.Unserved)
		assert.Equal(t, api.BootActive, m.run(order("t", 3, 3)).State())
		w.settle()
	})
}

func up(v *state.State) bool { return v.AllHosts()[0].State == api.HostUp }

// TestNewLeaderGivesGrace has a leader come to power that has heard nobody: it
// waits as long as for anybody else before it takes hosts down.
func TestNewLeaderGivesGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		z := w.zone("root", nil, 2)
		for range 4 { // together far longer than the grace
			z.silence(true)
			time.Sleep(fleet.HostGraceDefault - fleet.AgentBeat)
			z.elect()
			assert.True(t, up(z.view()))
		}
		time.Sleep(fleet.HostGraceDefault - fleet.AgentBeat)
		assert.True(t, up(z.view()))
		time.Sleep(2 * fleet.AgentBeat)
		assert.False(t, up(z.view()))
		z.elect()
		time.Sleep(fleet.AgentBeat)
		assert.False(t, up(z.view()), "that a leader is new says nothing for a host")
	})
}
