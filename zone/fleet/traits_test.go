package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// TestTraitThatAnAgentDrops: the report of an agent is taken though a slot and a server need a trait that it has no
// more. The host shows it, a drain says which trait keeps them there, and so does an update of the lease.
func TestTraitThatAnAgentDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ssd = "CUSTOM_SSD"
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4)
		a := m.Agent("b", 4)
		register := func(traits ...string) {
			t.Helper()
			hosts := a.Hosts()
			hosts[0].Traits = traits
			_, err := m.Lead().RegisterHosts(t.Context(), a.ID(), &api.AgentRegister{Hosts: hosts})
			require.NoError(t, err)
		}
		register(ssd)
		host := m.Host(a.Hosts()[0].Name)
		o := zonetest.Order("r", 1, 1)
		o.Request.Groups[0].Traits.Required = []string{ssd}
		require.Equal(t, api.BootActive, m.Run(o).State())
		terms := zonetest.LeaseOf("l", time.Hour, 2*time.Hour, 1)
		terms.Reservations[0].Traits.Required = []string{ssd}
		id, err := m.Lease(terms)
		require.NoError(t, err)
		w.Settle()
		require.Len(t, m.View().SlotsOn(host), 1)
		assert.Empty(t, m.View().MissingTraits(host))

		register()
		missing := m.View().MissingTraits(host)
		require.Len(t, missing, 1)
		assert.Equal(t, []string{ssd}, missing[0].Traits)
		assert.Len(t, missing[0].Of, 2, "a server and a slot")
		plan, err := m.Lead().WhatIf(w.Ctx, []string{string(host)}, 0)
		require.NoError(t, err)
		require.Len(t, plan.Owners, 2)
		for _, o := range plan.Owners {
			require.Equal(t, fleet.OutcomeBreaks, o.Outcome)
			assert.Equal(t, "no other host of the zone takes it (hosts turned away: ignored_hosts 1, traits 1): none has the trait CUSTOM_SSD", o.Parts[0].Reason)
		}
		l, ok := m.View().Lease(id)
		require.True(t, ok)
		longer := l.Terms.Window.End.Add(time.Hour)
		update := func() error {
			return m.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{End: &longer})
		}
		err = update()
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
		require.ErrorContains(t, err, "no host of this zone has the trait CUSTOM_SSD")

		register(ssd)
		assert.Empty(t, m.View().MissingTraits(host))
		require.NoError(t, update())
		w.Settle()
	})
}
