package fleet

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/memstore"
	"berth/internal/skew"
	"berth/raftstore/command"
	"berth/zone"
)

// TestWhatIsKnownOfAgents: of those that joined, and of those that only have hosts; when they were heard, and what they said.
func TestWhatIsKnownOfAgents(t *testing.T) {
	m, now := memstore.NewOfForm(api.FormNewest), time.UnixMilli(10_000)
	host := func(id string) command.HostEntry {
		return command.HostEntry{ID: api.HostID(id), Host: api.AgentHost{
			Name: id, Driver: "fake", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}},
		}}
	}
	token := api.JoinToken{ID: "j", Hash: []byte("hash"), Kind: api.JoinAgent, Name: "b", Expires: api.Forever}
	m.Must(t, command.Init{Stamp: command.Stamp{At: 1000}, Zone: "z", Name: "z"},
		command.HostsPut{Stamp: command.Stamp{At: 2000}, Agent: "a", Hosts: []command.HostEntry{host("a1"), host("a2")}},
		command.JoinPut{Stamp: command.Stamp{At: 3000}, Token: token},
		command.JoinUse{Stamp: command.Stamp{At: 4000}, ID: "j", Hash: []byte("hash"), Want: api.JoinAgent},
		command.HostsPut{Stamp: command.Stamp{At: 5000}, Agent: "b", Hosts: []command.HostEntry{host("b1")}})
	f := New(zone.New(zone.Config{Store: m, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}), nil)
	about := About{Version: "v1", Skew: &skew.Skew{Ahead: time.Second}}
	f.NoteAbout("b", about)
	f.beats.noteBeat("b", now)
	all := f.Agents(m.View())
	require.Len(t, all, 2)
	assert.Equal(t, Agent{Agent: api.Agent{ID: "a"}, Hosts: 2, First: 2000}, all[0])
	joined, ok := m.View().Agent("b")
	require.True(t, ok)
	assert.Equal(t, Agent{Agent: *joined, Recorded: true, Hosts: 1, First: 4000, Seen: now, About: about}, all[1])

	count := func(want ...int) {
		t.Helper()
		connected, silent := f.CountAgents(m.View())
		assert.Equal(t, want, []int{connected, silent})
	}
	count(1, 1)
	f.beats.noteBeat("a", now)
	count(2, 0)
	now = now.Add(HostGraceDefault)
	count(2, 0)
	now = now.Add(1)
	count(0, 2)

	f.beats.noteBeat("b", now)
	require.NoError(t, f.AdmitAgent("b", "here"))
	require.NoError(t, f.AdmitAgent("b", "here"))
	require.NoError(t, f.AdmitAgent("b", ""), "of an earlier release")
	assert.Equal(t, api.CodeConflict, api.CodeOf(f.AdmitAgent("b", "there")))
	now = now.Add(HostGraceDefault)
	assert.Equal(t, api.CodeConflict, api.CodeOf(f.AdmitAgent("b", "there")))
	require.NoError(t, f.RevokeAgent(t.Context(), "b"))
	require.NoError(t, f.AdmitAgent("b", "there"), "it may join again anywhere")
	now = now.Add(1)
	require.NoError(t, f.AdmitAgent("b", "elsewhere"), "it was silent for long")
	assert.Equal(t, api.CodeNotFound, api.CodeOf(f.RevokeAgent(t.Context(), "c")))
	require.NoError(t, f.RevokeAgent(t.Context(), "a"), "it has hosts")
}

// TestFactsOfHostsAreLimited: units, attributes and traits at each limit.
func TestFactsOfHostsAreLimited(t *testing.T) {
	good := api.AgentHost{Name: "h", Pool: api.PoolShared, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}}
	many := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[strings.Repeat("a", i+1)] = "x"
		}
		return out
	}
	for name, c := range map[string]struct {
		change func(h *api.AgentHost)
		ok     bool
	}{
		"units":           {func(h *api.AgentHost) { h.Inventory[api.VCPU] = api.Inventory{Total: 8, MinUnit: 3, MaxUnit: 3} }, true},
		"no unit":         {func(h *api.AgentHost) { h.Inventory[api.VCPU] = api.Inventory{Total: 8, MinUnit: 4, MaxUnit: 3} }, false},
		"only a least":    {func(h *api.AgentHost) { h.Inventory[api.VCPU] = api.Inventory{Total: 8, MinUnit: 4} }, true},
		"attributes":      {func(h *api.AgentHost) { h.Attributes = many(api.AttributesMax) }, true},
		"many attributes": {func(h *api.AgentHost) { h.Attributes = many(api.AttributesMax + 1) }, false},
		"traits":          {func(h *api.AgentHost) { h.Traits = make([]string, api.TraitsMax) }, true},
		"many traits":     {func(h *api.AgentHost) { h.Traits = make([]string, api.TraitsMax+1) }, false},
	} {
		h := good
		h.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 8}}
		c.change(&h)
		assert.Equal(t, c.ok, checkHost(&h, map[string]bool{}) == nil, name)
	}
}
