package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
)

// A slot that is lent leaves a lost host: what runs in it is evicted, and gone when its agent must have
// ended it. Where the slot goes, others leave for it.
func TestLentSlotIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.zone("one", nil)
		agents := map[api.AgentID]*agent{}
		for _, name := range []string{"a", "b"} {
			a := m.agent(name, 1)
			agents[a.id()] = a
		}
		terms := leaseOf("l", 0, time.Hour, 1)
		terms.Reservations[0].ShareIdle = true
		id, err := m.lease(terms)
		require.NoError(t, err)
		l := m.untilLease(id, api.LeaseActive)
		m.soft("s", 2)
		slot := m.view().LeaseSlots(l)[0]
		require.Len(t, m.view().Within(slot.ID), 1)
		host, _ := m.view().Host(slot.Host)
		agents[host.Agent].fallSilent()
		m.until("the slot is active elsewhere", func(v *state.State) bool {
			now, ok := v.Instance(slot.ID)
			return ok && now.Host != slot.Host && now.Status == api.StatusActive
		})
		assert.Equal(t, 2, m.evicted())
	})
}
