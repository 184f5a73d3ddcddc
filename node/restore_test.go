package node

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/identity"
	"berth/raftstore/state"
)

func (r *running) backup() *bytes.Buffer {
	r.t.Helper()
	var b bytes.Buffer
	require.NoError(r.t, r.Snapshot(r.t.Context(), &b))
	return &b
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	r, other := newZone(t, "a").run(), newZone(t, "b").run()
	r.offers("small")
	refusedAs(t, api.CodeInvalid, r.Restore(t.Context(), other.backup()))
	refusedAs(t, api.CodeInvalid, r.Restore(t.Context(), bytes.NewReader(nil)))
	cut := r.backup()
	cut.Truncate(cut.Len() - 1)
	refusedAs(t, api.CodeInvalid, r.Restore(t.Context(), cut))
	_, ok := r.view().Flavor("small")
	assert.True(t, ok, "nothing was changed")
	assert.Equal(t, r.rec.Zone, r.view().Zone)
}

// runsAgent runs an agent with hosts until the test ends.
func (r *running) runsAgent(id string, hosts int) {
	r.t.Helper()
	home, creds, err := LoadAgent(r.joinedAgent(id))
	require.NoError(r.t, err)
	var list []agent.Host
	drv := fake.New(fake.Options{})
	for _, h := range agent.FakeHosts(id, hosts, agent.Inventory{api.VCPU: {Total: 4}}) {
		list = append(list, agent.Host{AgentHost: h, Driver: drv})
	}
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Hosts: list, Log: quiet, Now: time.Now, Rand: rand.Float64,
		Wait: 100 * time.Millisecond, // it learns that its hosts are forgotten when its question is answered
		TLS: identity.ClientTLS(func() *identity.Credentials { return creds }, api.ALPNHTTP, creds.CA.Raw,
			identity.Subject{Zone: home.Zone, Role: identity.RoleNode}, time.Now),
	})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		assert.NoError(r.t, <-ended)
		assert.NoError(r.t, a.Close())
	})
}

func (r *running) hasHostsUp(want int) {
	r.t.Helper()
	r.until("hosts are up", func(v *state.State) bool {
		up := 0
		for _, h := range v.AllHosts() {
			if h.State == api.HostUp {
				up++
			}
		}
		return up == want
	})
}

// TestRestoreGoesOnWithWhoIsThere: members and agents that came after the backup
// are known again soon, what was deleted is back, and what was made is gone.
func TestRestoreGoesOnWithWhoIsThere(t *testing.T) {
	t.Parallel()
	home := newZone(t, "a")
	home.opts.Timing = patient // a busy machine must not depose anybody
	first := home.run()
	first.offers("before")
	backup := first.backup()
	second := first.adopt("node-2")
	first.runsAgent("agent-1", 2)
	first.hasHostsUp(2)
	first.offers("after")

	require.NoError(t, first.Restore(t.Context(), backup))
	for _, r := range []*running{first, second} {
		r.until("both nodes are known", func(v *state.State) bool { return len(v.Nodes()) == 2 })
		r.hasHostsUp(2)
		_, ok := r.view().Flavor("before")
		assert.True(t, ok)
		_, ok = r.view().Flavor("after")
		assert.False(t, ok)
		m, ok := r.view().Node("node-2")
		require.True(t, ok)
		assert.Equal(t, second.Addresses().Node, m.NodeAddr)
		assert.Equal(t, second.Addresses().Gateway, m.GatewayAddr)
	}
	assert.Equal(t, []api.NodeID{"node-1", "node-2"}, first.members())
}
