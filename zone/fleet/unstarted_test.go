package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// TestWhatHasNotBegunLeaves: what was booted to a host whose agent was silent already is started elsewhere when
// the host is lost. What its agent was given stays, also if it never said that it runs; and so does all that
// the leader before may have given.
func TestWhatHasNotBegunLeaves(t *testing.T) {
	for name, elected := range map[string]bool{"one leader": false, "a new leader": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				m := w.Zone("root", nil)
				a := m.Agent("lost", 4)
				m.Host("root-host-lost1")
				await.Sleep(2 * fleet.EvacuateAfter)
				require.Equal(t, api.BootActive, m.Run(zonetest.Order("given", 1, 1)).State())
				a.FallSilent()
				m.Boot(zonetest.Order("late", 2, 2))
				m.Until("it is booted", func(v *state.State) bool { return len(v.OnHost(m.Host("root-host-lost1"))) == 3 })
				if elected {
					m.Elect()
				}
				m.Agent("other", 4)
				m.Until("the host is down", func(v *state.State) bool {
					h, _ := v.Host(m.Host("root-host-lost1"))
					return h.State == api.HostDown
				})
				e, err := m.Lead().ReportEvacuation(m.Host("root-host-lost1"))
				require.NoError(t, err)
				if elected {
					assert.Equal(t, []int{0, 3}, []int{e.Movable, e.Staying})
					await.Sleep(5 * time.Minute)
					assert.Len(t, m.View().OnHost(m.Host("root-host-lost1")), 3)
				} else {
					assert.Equal(t, []int{2, 1}, []int{e.Movable, e.Staying})
					m.Until("it runs elsewhere", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 3 })
					assert.Equal(t, map[api.HostID]int{m.Host("root-host-other1"): 2}, m.OnHosts("late"))
					assert.Equal(t, map[api.HostID]int{m.Host("root-host-lost1"): 1}, m.OnHosts("given"))
				}
				a.Speak()
				m.Until("the host is back", func(v *state.State) bool {
					h, _ := v.Host(m.Host("root-host-lost1"))
					return h.State == api.HostUp
				})
				m.Until("all run", func(v *state.State) bool { return v.CountByStatus()[api.StatusActive] == 3 })
				w.Settle()
			})
		})
	}
}
