package fleet_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// TestSilentHosts takes hosts down when their agent is silent for too long, and
// up when it is heard again. What runs there keeps its claim.
func TestSilentHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("root", nil, 2)
		assert.Equal(t, api.BootActive, z.Run(zonetest.Order("a", 1, 1)).State())
		z.Silence(true)
		await.Sleep(fleet.HostGraceDefault - fleet.AgentBeat)
		assert.True(t, up(z.View()))
		await.Sleep(3 * fleet.AgentBeat)
		assert.False(t, up(z.View()))
		b := z.Run(zonetest.Order("b", 1, 1))
		assert.Equal(t, api.BootFailed, b.State(), "nothing is placed on a host that is down")
		assert.Equal(t, int64(1), z.Used())

		z.Silence(false)
		await.Sleep(3 * fleet.AgentBeat)
		assert.True(t, up(z.View()))
		assert.Equal(t, api.BootActive, z.Run(zonetest.Order("c", 1, 1)).State())
		w.Settle()
	})
}

// TestHostThatIsNotServed has an agent start again without one of its hosts: that one
// is down at once and stays so while the agent is heard, nothing is placed there, and
// it is up when it is registered again. A host that runs nothing can be deleted.
func TestHostThatIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 2, 3)
		all := a.Hosts()
		left := m.Host(all[1].Name)
		state := func() api.HostState {
			h, _ := m.View().Host(left)
			return h.State
		}
		register := func(hosts ...api.AgentHost) {
			t.Helper()
			_, err := m.Lead().RegisterHosts(t.Context(), a.ID(), &api.AgentRegister{Hosts: hosts})
			require.NoError(t, err)
		}
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("r", 1, 1)).State())
		register(all[0])
		assert.Equal(t, api.HostDown, state())
		h, _ := m.View().Host(left)
		assert.True(t, h.Unserved)
		await.Sleep(2 * fleet.HostGraceDefault)
		assert.Equal(t, api.HostDown, state(), "that the agent is heard says nothing for it")
		assert.Empty(t, m.View().WorkAfter(a.ID(), 0)[1:], "its agent is not asked for it")
		assert.Equal(t, api.BootFailed, m.Run(zonetest.Order("s", 3, 3)).State(), "it takes no work")

		register(all...)
		assert.Equal(t, api.HostUp, state())
		h, _ = m.View().Host(left)
		assert.False(t, h.Unserved)
		assert.Equal(t, api.BootActive, m.Run(zonetest.Order("t", 3, 3)).State())
		w.Settle()
	})
}

func up(v *state.State) bool { return v.AllHosts()[0].State == api.HostUp }

// TestNewLeaderGivesGrace has a leader come to power that has heard nobody: it
// waits as long as for anybody else before it takes hosts down.
func TestNewLeaderGivesGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		z := w.Zone("root", nil, 2)
		for range 4 { // together far longer than the grace
			z.Silence(true)
			await.Sleep(fleet.HostGraceDefault - fleet.AgentBeat)
			z.Elect()
			assert.True(t, up(z.View()))
		}
		await.Sleep(fleet.HostGraceDefault - fleet.AgentBeat)
		assert.True(t, up(z.View()))
		await.Sleep(2 * fleet.AgentBeat)
		assert.False(t, up(z.View()))
		z.Elect()
		await.Sleep(fleet.AgentBeat)
		assert.False(t, up(z.View()), "that a leader is new says nothing for a host")
	})
}
