package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
	"berth/zone/zonetest"
)

// A slot that is lent leaves a lost host: what runs in it is evicted, and gone when its agent must have
// ended it. Where the slot goes, others leave for it.
func TestLentSlotIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("one", nil)
		agents := map[api.AgentID]*zonetest.Agent{}
		for _, name := range []string{"a", "b"} {
			a := m.Agent(name, 1)
			agents[a.ID()] = a
		}
		terms := zonetest.LeaseOf("l", 0, time.Hour, 1)
		terms.Reservations[0].ShareIdle = true
		id, err := m.Lease(terms)
		require.NoError(t, err)
		l := m.UntilLease(id, api.LeaseActive)
		m.Soft("s", 2)
		slot := m.View().LeaseSlots(l)[0]
		require.Len(t, m.View().Within(slot.ID), 1)
		host, _ := m.View().Host(slot.Host)
		agents[host.Agent].FallSilent()
		m.Until("the slot is active elsewhere", func(v *state.State) bool {
			now, ok := v.Instance(slot.ID)
			return ok && now.Host != slot.Host && now.Status == api.StatusActive
		})
		assert.Equal(t, 2, m.Evicted())
	})
}
