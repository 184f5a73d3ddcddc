package node

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/internal/await"
	"berth/raftstore/state"
)

// TestARevokedAgentIsRefused: its connections are closed, also at a node that does not lead, and
// its certificate opens none. Others stay, and the agent may join again.
func TestARevokedAgentIsRefused(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Timing = patient // a busy machine must not depose anybody
		first := home.run()
		nodes := []*running{first, first.adopt("node-2")}
		thief, other := first.certified(identity.RoleAgent, "agent-1"), first.certified(identity.RoleAgent, "agent-2")
		dial := func(r *running, c *identity.Credentials) net.Conn {
			conn, err := dialTLS(t.net, r.dialAs(c, identity.RoleNode, api.ALPNHTTP))(t.Context(), "tcp", r.Addresses().Agent)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
			return conn
		}
		answered := func(c net.Conn) {
			t.Helper()
			_, err := io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(await.Limit)))
			_, err = c.Read(make([]byte, 4096))
			require.NoError(t, err)
		}
		register := func(c *identity.Credentials, host string) (int, string) {
			hosts := api.AgentRegister{Hosts: []api.AgentHost{{
				Name: host, Driver: "fake", Pool: api.PoolShared,
				Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}, api.MemoryMB: {Total: 1}},
			}}}
			return over(t, first.dialAs(c, identity.RoleNode, api.ALPNHTTP), first.Addresses().Agent, http.MethodPost, api.PathAgentRegister, hosts, nil)
		}
		status, said := register(thief, "h")
		require.Equal(t, http.StatusOK, status, said)
		var open, kept []net.Conn
		for _, r := range nodes {
			open, kept = append(open, dial(r, thief)), append(kept, dial(r, other))
		}
		for _, c := range append(open, kept...) {
			answered(c)
		}
		require.NoError(t, first.fleet.RevokeAgent(t.Context(), "agent-1"))
		nodes[1].until("it knows", func(v *state.State) bool {
			a, ok := v.Agent("agent-1")
			return ok && a.IsRevoked()
		})
		for i, c := range open {
			hangsUp(t, c)
			hangsUp(t, dial(nodes[i], thief))
			answered(kept[i])
		}
		late := first.view().Agents()[0].Revoked.Time().Add(time.Second)
		require.Error(t, first.checkAgent("agent-1", late.Add(-time.Second)))
		assert.NoError(t, first.checkAgent("agent-1", late), "a certificate of a later join")
	})
}
