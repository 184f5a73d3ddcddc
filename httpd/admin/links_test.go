package admin

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// lending returns a zone of eight processors whose parent holds three.
func lending(t *testing.T) *state.State {
	t.Helper()
	s := state.New()
	at := command.Stamp{At: 1}
	for _, c := range []command.Command{
		command.Init{Stamp: at, Zone: "zone-1", Name: "low"},
		command.LinkPut{Stamp: at, Link: api.Link{ID: "l1", Name: "up", Role: api.LinkParent, Zone: "zone-2", Scale: 1, State: api.LinkActive}},
		command.LinkPut{Stamp: at, Link: api.Link{ID: "l2", Name: "down", Role: api.LinkChild, Zone: "zone-3", Scale: 1, State: api.LinkActive}},
		command.HostsPut{Stamp: at, Agent: "a", Hosts: []command.HostEntry{{
			ID: "h1", Host: api.AgentHost{Name: "h1", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}},
		}}},
		command.LinkSet{Stamp: at, ID: "l1", ShareHeld: new(50), ShareCommitted: new(75)},
		command.Hold{
			Stamp: at, ID: "k1", Origin: "l1", Attempt: 1, Expires: api.Forever,
			Slots: []command.Slot{{Instance: api.InstanceSpec{ID: "i1", Name: "i1"}, Host: "h1"}},
			Request: api.Request{
				Reservation: "r1", Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
				Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 3}}},
			},
		},
	} {
		require.NoError(t, s.Apply(s.Index()+1, c).Err)
	}
	return s.Clone()
}

// TestMetricsOfLinks: what a parent has, and may have, is shown by class; nothing of a child.
func TestMetricsOfLinks(t *testing.T) {
	rec := get(t, listener(lending(t), "n-1", true), "/metrics")
	require.Equal(t, http.StatusOK, rec.Code)
	for _, line := range []string{
		`berth_link_held{class="VCPU",zone="up"} 3`, `berth_link_held_max{class="VCPU",zone="up"} 4`,
		`berth_link_committed{class="VCPU",zone="up"} 3`, `berth_link_committed_max{class="VCPU",zone="up"} 6`,
	} {
		assert.Contains(t, rec.Body.String(), line+"\n")
	}
	assert.NotContains(t, rec.Body.String(), `zone="down"`)
}
