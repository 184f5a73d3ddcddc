package foreign

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/quota"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// TestARefusedRepeatCountsNothing, report 1: a create that was refused because its name was taken had been counted all
// the same, and each repeat was counted again.
func TestARefusedRepeatCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 8)
		limit(m, quota.Limits{quota.Instances: 3})
		o := zonetest.Order("a", 2, 2)
		o.Instances = zonetest.Specs("a", 2)
		require.Equal(t, api.BootActive, m.Run(o).State())
		for range 5 {
			again := zonetest.Order("a", 2, 2)
			again.Name = "another"
			requireRefused(t, m, again, api.CodeConflict)
			m.Boot(o) // a repeat
			requireRefused(t, m, zonetest.Order("b", 2, 2), api.CodeOverQuota)
			require.EqualValues(t, 2, used(m, quota.Instances))
		}
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("c", 1, 1)).State(), "what is left can be had")
		m.Release("a")
		m.Release("c")
		untilReleased(m, "a")
		untilReleased(m, "c")
		assert.Zero(t, used(m, quota.Instances))
		w.Settle()
	})
}

// TestALimitBelowItsUse, report 2: a limit was set below what was there, and what the system showed and allowed then
// was not defined.
func TestALimitBelowItsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 8)
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 4, 4)).State())
		limit(m, quota.Limits{quota.Instances: 2})
		end := func() {
			id, before := m.Instances("a")[0].ID, used(m, quota.Instances)
			m.Delete(id)
			m.Until("it is gone", func(v *state.State) bool { return v.Usage("p").At(v.Now())[quota.Instances] < before })
		}
		await.Sleep(20 * time.Minute)
		for n := range 3 {
			assert.Len(t, m.Instances("a"), 4-n, "nothing ends for a limit")
			_, err := m.Lead().Boot(w.Ctx, zonetest.Order("b", 1, 1))
			require.Equal(t, api.CodeOverQuota, api.CodeOf(err))
			assert.Contains(t, api.MessageOf(err), "so 0 are left", "and never less than none")
			end()
		}
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("c", 1, 1)).State())
		assert.EqualValues(t, 2, used(m, quota.Instances))
		w.Settle()
	})
}

// TestWhatWaitsIsBootedWithinItsQuota, report 3: what was evicted came back into the queue as if it asked for nothing,
// and was admitted beyond the quota.
func TestWhatWaitsIsBootedWithinItsQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 2)
		limit(m, quota.Limits{quota.Preemptibles: 2, quota.Preemptibles.Of(api.VCPU): 2})
		require.Equal(t, api.BootActive, m.Run(soft("soft", 2)).State())
		require.Equal(t, api.BootActive, m.Run(urgent("firm", 2)).State())
		m.Until("both wait", func(v *state.State) bool { return v.CountRequeued() == 2 })
		require.Zero(t, used(m, quota.Preemptibles))

		m.Agent("b", 3)
		require.Equal(t, api.BootActive, m.Run(soft("other", 1)).State())
		for range 30 {
			await.Sleep(time.Minute)
			require.LessOrEqual(t, used(m, quota.Preemptibles), int64(2))
			require.LessOrEqual(t, used(m, quota.Preemptibles.Of(api.VCPU)), int64(2))
		}
		m.Release("other")
		m.Until("all are back", func(v *state.State) bool { return v.CountRequeued() == 0 && len(m.Instances("soft")) == 2 })
		m.Until("they run", func(v *state.State) bool { return v.CountByStatus()[api.StatusBuild] == 0 })
		assert.EqualValues(t, 2, used(m, quota.Preemptibles.Of(api.VCPU)), "they count in full")
		w.Settle()
	})
}

// TestAStoppedInstanceKeepsItsRoom, report 4: a part of a job that had ended for a while was counted as free, and the
// room was sold twice when it began again.
func TestAStoppedInstanceKeepsItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		w.AgentForm = api.FormNewest
		m := w.Zone("root", nil, 2)
		limit(m, quota.Limits{quota.Instances: 2})
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("a", 2, 2)).State())
		host, id := m.Host("root-host-1"), m.Instances("a")[0].ID
		power := func(o api.PowerOrder, want api.Status) {
			require.NoError(t, w.Retry(func() error { return m.Lead().OrderPower(w.Ctx, api.Tenant{Project: "p"}, id, o) }))
			m.Until("it is "+string(want), func(v *state.State) bool {
				i, _ := v.Instance(id)
				return i.Status == want
			})
		}
		power(api.PowerStop, api.StatusShutoff)
		assert.EqualValues(t, 2, usedOn(m, host))
		assert.EqualValues(t, 2, used(m, quota.Instances))
		requireRefused(t, m, zonetest.Order("b", 1, 1), api.CodeOverQuota)
		limit(m, quota.Limits{quota.Instances: 9})
		require.Equal(t, api.BootFailed, m.Run(zonetest.Order("c", 1, 1)).State())
		power(api.PowerStart, api.StatusActive)
		assert.EqualValues(t, 2, usedOn(m, host))
		w.Settle()
	})
}
