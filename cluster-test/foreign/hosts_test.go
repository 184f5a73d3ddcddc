package foreign

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// untilHost waits until a host is up or down.
func untilHost(m *zonetest.Member, id api.HostID, is api.HostState) {
	m.World.T.Helper()
	m.Until("the host is "+string(is), func(v *state.State) bool {
		h, _ := v.Host(id)
		return h.State == is
	})
}

// TestAHostComesBackUnderItsName, report 13: a host was deleted and another one registered under its name; the load of
// the first was counted at the second, which took nothing.
func TestAHostComesBackUnderItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 2)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 2, 2)).State())
		old := m.Host("root-host-b1")
		a.FallSilent()
		untilHost(m, old, api.HostDown)
		await.Sleep(time.Minute)
		m.Propose(func(at command.Stamp) command.Command {
			h, _ := m.View().Host(old)
			return command.HostWriteOff{Stamp: at, ID: old, Since: h.DownSince}
		})
		require.Empty(t, m.View().AllHosts())
		m.Elect() // agents register with each new leader
		a.Speak()
		m.Until("a host is there", func(v *state.State) bool { return len(v.AllHosts()) == 1 })
		fresh := m.Host("root-host-b1")
		assert.NotEqual(t, old, fresh)
		assert.Zero(t, usedOn(m, fresh))
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("b", 2, 2)).State())
		w.Settle()
		assert.EqualValues(t, 2, usedOn(m, fresh))
	})
}

// TestADeletionWhileItsHostIsSilent, report 14: a server was deleted while its host could not be reached. Its room was
// given back although it ran on, or was counted for ever and kept the host from being deleted.
func TestADeletionWhileItsHostIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 2)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 2, 2)).State())
		host := m.Host("root-host-b1")
		a.FallSilent()
		untilHost(m, host, api.HostDown)
		for _, i := range m.Instances("a") {
			m.Delete(i.ID)
		}
		await.Sleep(20 * time.Minute)
		assert.EqualValues(t, 2, usedOn(m, host), "they may run on")
		z := m.Lead()
		_, err := z.Propose(w.Ctx, command.HostDelete{Stamp: z.Stamp(), ID: host})
		require.Error(t, err)
		a.Speak()
		m.Until("they are gone", func(v *state.State) bool { return v.CountByStatus()[api.StatusDeleted] == 2 })
		assert.Zero(t, usedOn(m, host))
		untilHost(m, host, api.HostUp)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("b", 2, 2)).State(), "it takes new work")
		w.Settle()
	})
}

// TestNothingIsPlacedOverWhatStillStops, report 15: what was ending counted as gone for the scheduler and not for the
// host, which refused what was sent to it.
func TestNothingIsPlacedOverWhatStillStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 2)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 2, 2)).State())
		host := m.Host("root-host-b1")
		a.IgnoreStops()
		for _, i := range m.Instances("a") {
			m.Delete(i.ID)
		}
		await.Sleep(10 * time.Minute)
		assert.EqualValues(t, 2, usedOn(m, host), "nobody has said that they stopped")
		assert.Len(t, w.AllRan(), 2)
		require.Equal(t, api.BootFailed, m.Run(zonetest.Order("b", 1, 1)).State())
		m.Agent("c", 1)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("c", 1, 1)).State())
		assert.Len(t, w.AllRan(), 3)
		assert.EqualValues(t, 2, usedOn(m, host))
	})
}

// TestADrainOfASilentHost, report 16: what ran on a host that could not be reached was started elsewhere because
// the host was drained, and was there twice when the host came back.
func TestADrainOfASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("b", 3)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 3, 3)).State())
		m.Agent("c", 4)
		host, to := m.Host("root-host-b1"), m.Host("root-host-c1")
		a.FallSilent()
		untilHost(m, host, api.HostDown)
		m.Drain(host, api.DrainMove)
		await.Sleep(20 * time.Minute)
		for _, where := range w.AllRan() { // which would have noted one that runs twice
			assert.Equal(t, "root/"+string(host), where)
		}
		assert.Len(t, m.Instances("a"), 3)
		a.Speak()
		m.Until("the host is empty", func(v *state.State) bool { return len(v.OnHost(host)) == 0 })
		m.Until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 3 })
		assert.Equal(t, map[api.HostID]int{to: 3}, m.OnHosts("a"))
		assert.Zero(t, usedOn(m, host))
		assert.EqualValues(t, 3, usedOn(m, to))
		w.Settle()
	})
}
