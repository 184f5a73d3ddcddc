package fleet_test

import (
	"slices"
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

// TestDetachedServersMove: a server that was booted with a volume stays beside it as long as that is attached, and leaves
// a host that is drained once it is not. What else keeps it on a host does so all the time.
func TestDetachedServersMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4, 4)
		m.GiveDisk(100)
		o := zonetest.Volumes("b", 2, 10)
		o.Request.Groups = append([]api.Group{zonetest.Group("web", 2, 2)}, o.Request.Groups...)
		o.Request.Groups[1].AttachTo = "web"
		o.Request.Rules, o.Request.Zones.Pack = []api.Rule{{Policy: api.Affinity, Groups: []int{0, 1}}}, true
		require.Equal(t, api.BootActive, m.Run(o).State())
		m.Until("both are attached", func(v *state.State) bool {
			return !slices.ContainsFunc(m.VolumesOf("b"), func(i *api.Instance) bool { return i.Attached == "" || i.Status != api.StatusActive })
		})
		from, to := m.Host("root-host-1"), m.Host("root-host-2")
		servers := func() map[api.HostID]int {
			out := map[api.HostID]int{}
			for _, i := range m.Instances("b") {
				out[i.Host]++
			}
			return out
		}
		m.Drain(from, api.DrainMove)
		await.Sleep(time.Minute)
		assert.Equal(t, map[api.HostID]int{from: 2}, servers(), "both are attached")
		answer, err := m.Lead().WhatIf(w.Ctx, []string{"root-host-1"}, 0)
		require.NoError(t, err)
		for _, p := range answer.Owners[0].Parts {
			if p.Instance.Volume == "" {
				assert.Equal(t, fleet.OutcomeBreaks, p.Outcome)
				assert.Contains(t, p.Reason, "detach them first")
			}
		}

		vol := m.VolumesOf("b")[0]
		require.NoError(t, m.Lead().Detach(w.Ctx, api.Tenant{Project: "p"}, &api.VolumeCall{Volume: vol.ID}))
		m.Until("one has left", func(v *state.State) bool {
			i, _ := v.Instance(vol.Attached)
			return i.Host == to && i.Status == api.StatusActive
		})
		await.Sleep(time.Minute)
		assert.Equal(t, map[api.HostID]int{from: 1, to: 1}, servers())
		w.Settle()
		w.Check()
	})
}
