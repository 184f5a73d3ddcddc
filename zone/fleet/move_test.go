package fleet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
)

// TestNothingIsLeftThatIsHeard: what was to be moved off a lost host stays there when the
// agent of that host has been heard since, and is moved when it has been silent for long
// enough.
func TestNothingIsLeftThatIsHeard(t *testing.T) {
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	m := memstore.New()
	z := zone.New(zone.Config{Store: m, Now: func() time.Time { return clock }, Log: slog.New(slog.DiscardHandler)})
	host := func(agent, id string) command.HostsPut {
		return command.HostsPut{Stamp: z.Stamp(), Agent: api.AgentID(agent), Hosts: []command.HostEntry{{ID: api.HostID(id), Host: api.AgentHost{
			Name: id, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 2}},
		}}}}
	}
	req := api.Request{
		Reservation: "r", Project: "p", User: "u", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{
			Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}, ExtraSpecs: map[string]string{"berth:evacuate": "true"},
		}},
	}
	spec := api.InstanceSpec{ID: "i", Name: "i"}
	m.Must(t,
		command.Init{Stamp: z.Stamp(), Zone: "z", Name: "zone"}, host("a", "lost"),
		command.BootCreate{Stamp: z.Stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "i", Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}},
		command.Hold{
			Stamp: z.Stamp(), ID: "h", Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: spec, Host: "lost"}},
		},
		command.HostsState{Stamp: z.Stamp(), State: api.HostDown, Hosts: []api.HostID{"lost"}}, host("b", "other"),
	)
	f := New(z, estimate.New(estimate.Config{Zone: z}))
	i, ok := m.View().Instance("i")
	require.True(t, ok)
	require.True(t, i.Movable)
	f.beats.noteBeat("a", clock)
	require.NoError(t, f.moveInstance(t.Context(), i, true))
	now, _ := m.View().Instance("i")
	assert.Equal(t, api.HostID("lost"), now.Host, "its agent was heard: it may run here")
	clock = clock.Add(EvacuateAfter)
	require.NoError(t, f.moveInstance(t.Context(), i, true))
	now, _ = m.View().Instance("i")
	assert.Equal(t, api.HostID("other"), now.Host)
}
