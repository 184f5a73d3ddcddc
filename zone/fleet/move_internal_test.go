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
	"berth/raftstore/state"
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
	require.NoError(t, f.moveGroup(t.Context(), []*api.Instance{i}, true))
	now, _ := m.View().Instance("i")
	assert.Equal(t, api.HostID("lost"), now.Host, "its agent was heard: it may run here")
	clock = clock.Add(EvacuateAfter)
	require.NoError(t, f.moveGroup(t.Context(), []*api.Instance{i}, true))
	now, _ = m.View().Instance("i")
	assert.Equal(t, api.HostID("other"), now.Host)
}

// TestGoneIsCountedOnce: what is to end on a lost host counts as gone when its agent has been silent
// for long enough; not when it was heard since, nor by a word of an outage before.
func TestGoneIsCountedOnce(t *testing.T) {
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	m := memstore.New()
	z := zone.New(zone.Config{Store: m, Now: func() time.Time { return clock }, Log: slog.New(slog.DiscardHandler)})
	set := func(st api.HostState) {
		m.Must(t, command.HostsState{Stamp: z.Stamp(), State: st, Hosts: []api.HostID{"lost"}})
	}
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "zone"}, command.HostsPut{
		Stamp: z.Stamp(), Agent: "a", Hosts: []command.HostEntry{{ID: "lost", Host: api.AgentHost{
			Name: "lost", Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		}}},
	})
	for id, class := range map[string]api.Class{"firm": api.Firm, "one": api.Preemptible, "two": api.Preemptible} {
		req := api.Request{
			Reservation: api.ReservationID(id), Project: "p", User: "u", Class: class, Window: api.Window{End: api.Forever},
			Groups: []api.Group{{Count: 1, Flavor: "f", Resources: api.Resources{api.VCPU: 1}}},
		}
		spec := api.InstanceSpec{ID: api.InstanceID(id), Name: id}
		m.Must(t,
			command.BootCreate{Stamp: z.Stamp(), BootTerms: command.BootTerms{Digest: []byte(id), Name: id, Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}},
			command.Hold{
				Stamp: z.Stamp(), ID: api.HoldID(id), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
				Slots: []command.Slot{{Instance: spec, Host: "lost"}},
			})
	}
	end := func(id api.InstanceID) { m.Must(t, command.InstanceDelete{Stamp: z.Stamp(), ID: id}) }
	status := func(id api.InstanceID) api.Status {
		i, _ := m.View().Instance(id)
		return i.Status
	}
	f := New(z, estimate.New(estimate.Config{Zone: z}))
	host := func() *state.Host { h, _ := m.View().Host("lost"); return h }
	end("firm")
	end("one")
	clock = clock.Add(EvacuateAfter)
	assert.Empty(t, f.dueSilences(m.View()), "its host is up")
	f.beats.noteBeat("a", clock)
	set(api.HostDown)
	clock = clock.Add(EvacuateAfter - 1)
	assert.Empty(t, f.dueSilences(m.View()), "its agent was heard")
	clock = clock.Add(1)
	require.Len(t, f.dueSilences(m.View()), 1)
	before := host()
	f.beats.noteBeat("a", clock)
	require.NoError(t, f.countGone(t.Context(), before))
	assert.Equal(t, api.StatusDeleting, status("one"), "its agent was heard: it may have got a list")

	set(api.HostUp) // it was, and the host went down again
	clock = clock.Add(time.Second)
	set(api.HostDown)
	clock = clock.Add(EvacuateAfter)
	require.NoError(t, f.countGone(t.Context(), before))
	assert.Equal(t, api.StatusDeleting, status("one"), "the word is of the outage before")
	for _, j := range f.dueSilences(m.View()) {
		require.NoError(t, j.Run(t.Context()))
	}
	assert.Equal(t, []api.Status{api.StatusDeleting, api.StatusDeleted, api.StatusBuild}, []api.Status{status("firm"), status("one"), status("two")})
	assert.Empty(t, f.dueSilences(m.View()))
	assert.True(t, mayBeLeft(m.View(), []*state.Host{host()}), "one that is evicted now would count as gone")
	end("two")
	assert.Len(t, f.dueSilences(m.View()), 1)
}
