package fleet_test

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

// TestAGroupLeavesTogether: members of a group under affinity leave their host together, whatever makes
// them leave, to the one host that has room for all; a host for some of them is none.
func TestAGroupLeavesTogether(t *testing.T) {
	const group = api.ServerGroupID("5e5e5e5e-0000-4000-8000-000000000000")
	lease := func(m *zonetest.Member, from time.Duration) {
		terms, together := zonetest.LeaseOf("l", from, 2*time.Hour, 3), true
		terms.Reservations[0].Affinity = &together
		_, err := m.Lease(terms)
		require.NoError(m.World.T, err)
	}
	boot := func(m *zonetest.Member, name string, n int, id api.ServerGroupID, evacuate string) {
		o, f := zonetest.Order(name, n, n), *zonetest.Flavor
		f.ExtraSpecs = map[string]string{"berth:evacuate": evacuate}
		o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &f)
		if id != "" {
			m.Do(command.GroupPut{Group: api.ServerGroup{ID: id, Project: "p", Name: "g", Policy: api.Affinity}})
		}
		o.Request.Rules = []api.Rule{{ID: id, Policy: api.Affinity, Groups: []int{0}}}
		require.Equal(m.World.T, api.BootActive, m.Run(o).State())
	}
	drain := func(m *zonetest.Member, _ *zonetest.Agent) { m.Drain(m.Host("root-host-from1"), api.DrainMove) }
	lose := func(_ *zonetest.Member, a *zonetest.Agent) { a.FallSilent() }
	for name, c := range map[string]struct {
		fill  func(m *zonetest.Member)
		leave func(m *zonetest.Member, a *zonetest.Agent)
	}{
		"slots of a lost host":       {func(m *zonetest.Member) { lease(m, 30*time.Minute) }, lose},
		"slots of an active lease":   {func(m *zonetest.Member) { lease(m, 0) }, lose},
		"slots of a drained host":    {func(m *zonetest.Member) { lease(m, 30*time.Minute) }, drain},
		"instances of a boot":        {func(m *zonetest.Member) { boot(m, "b", 3, "", "false") }, drain},
		"instances of a lost host":   {func(m *zonetest.Member) { boot(m, "b", 3, "", "true") }, lose},
		"two boots of a lost group":  {func(m *zonetest.Member) { boot(m, "b", 2, group, "true"); boot(m, "c", 1, group, "true") }, lose},
		"two boots of a moved group": {func(m *zonetest.Member) { boot(m, "b", 1, group, "false"); boot(m, "c", 2, group, "false") }, drain},
		"slots in the way of maintenance": {func(m *zonetest.Member) { lease(m, 30*time.Minute) }, func(m *zonetest.Member, _ *zonetest.Agent) {
			terms := zonetest.LeaseOf("repair", 40*time.Minute, time.Hour, 1)
			terms.Hosts, terms.Reservations = []string{"root-host-from1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
			ctx, cancel := m.Within(10 * time.Minute)
			defer cancel()
			_, err := m.Lead().Create(ctx, api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}, terms, "")
			require.NoError(m.World.T, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				m := w.Zone("root", nil)
				a := m.Agent("from", 4)
				c.fill(m)
				m.Agent("small", 2)
				m.Agent("big", 4)
				c.leave(m, a)
				m.Until("all are on the other host", func(v *state.State) bool {
					to := m.Host("root-host-big1")
					return len(v.OnHost(to))+len(v.SlotsOn(to)) == 3
				})
				assert.Empty(t, m.View().SlotsOn(m.Host("root-host-small1")))
				assert.Empty(t, m.View().OnHost(m.Host("root-host-small1")))
				w.Settle()
			})
		})
	}
}

// TestAGroupStaysTogether: one that may not leave keeps the others of its group.
func TestAGroupStaysTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil)
		a := m.Agent("from", 4)
		m.Do(command.GroupPut{Group: api.ServerGroup{ID: "5e5e5e5e-0000-4000-8000-000000000000", Project: "p", Name: "sg", Policy: api.Affinity}})
		for name, evacuate := range map[string]string{"stays": "false", "may-leave": "true"} {
			o, f := zonetest.Order(name, 1, 1), *zonetest.Flavor
			f.ExtraSpecs = map[string]string{"berth:evacuate": evacuate}
			o.Request.Groups[0] = zonetest.OfFlavor(o.Request.Groups[0], &f)
			o.Request.Rules = []api.Rule{{ID: "5e5e5e5e-0000-4000-8000-000000000000", Policy: api.Affinity, Groups: []int{0}}}
			require.Equal(t, api.BootActive, m.Run(o).State())
		}
		m.Agent("big", 4)
		a.FallSilent()
		await.Sleep(5 * time.Minute)
		assert.Len(t, m.View().OnHost(m.Host("root-host-from1")), 2)
		w.Settle()
	})
}
