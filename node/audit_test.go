package node

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/identity"
)

// TestAuditOfAZone: changes by operators are recorded with who made them, under the id of the
// call, done or refused; each record is chained to the one before; and a restore is recorded
// and takes none of them back.
func TestAuditOfAZone(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		backup := r.backup()
		do := func(method, path, body string, want int) {
			t.Helper()
			status, said := r.answers(call{method, path, body, r.home.token, map[string]string{"Content-Type": "application/json"}})
			require.Equal(t, want, status, said)
		}
		do(http.MethodPost, "/operator/tokens", `{"user_id": "eve", "project_id": "web", "roles": ["admin"]}`, http.StatusCreated)
		do(http.MethodPost, "/flavors", `{"flavor": {"id": "f", "name": "f", "resources": {"VCPU": 1}}}`, http.StatusCreated)
		do(http.MethodPost, "/flavors", `{"flavor": {"id": "f", "name": "f", "resources": {"VCPU": 1}}}`, http.StatusConflict)
		do(http.MethodPost, "/operator/keyring/rotate", "", http.StatusNoContent)
		require.NoError(t, r.Restore(t.Context(), backup, false))

		list, said := r.audited()
		var last *rest.AuditRecord
		found := map[string]rest.AuditRecord{}
		for i := range list {
			one := &list[i]
			require.NoError(t, one.Check(last))
			found[one.Call+" "+one.Change+" "+one.Outcome] = *one
			last = one
		}
		var admin api.TokenID
		for _, token := range r.view().Tokens() {
			admin = token.ID
		}
		for _, want := range []string{"POST /operator/tokens TokenPut done", "POST /flavors FlavorPut done", "POST /flavors FlavorPut conflict", "POST /operator/keyring/rotate EpochAdd done"} {
			got, ok := found[want]
			require.True(t, ok, "%s in %s", want, said)
			assert.Equal(t, api.ActorToken, got.Actor.Kind)
			assert.Equal(t, string(admin), got.Actor.ID)
			assert.NotEmpty(t, got.Request)
		}
		restored := found["  done"]
		assert.Equal(t, "sealed backup", restored.Target)
		assert.NotContains(t, said, r.home.token, "no secret is in it")

		forged := list[1]
		forged.Outcome = "forbidden"
		require.ErrorContains(t, forged.Check(nil), "changed")
		require.ErrorContains(t, list[2].Check(&list[0]), "taken out")
	})
}

// audited returns the records of the audit log as an operator reads them, and their text.
func (r *running) audited() (all []rest.AuditRecord, said string) {
	r.t.Helper()
	status, said := r.answers(call{method: http.MethodGet, path: "/operator/audit", token: r.home.token})
	require.Equal(r.t, http.StatusOK, status, said)
	var list struct{ Audit []rest.AuditRecord }
	require.NoError(r.t, json.Unmarshal([]byte(said), &list))
	return list.Audit, said
}

// TestAuditOfAgentsAndLinks: what an agent and a linked zone change through their own doors is
// recorded with who did it, by its certificate, under the id of the call; what changes nothing is not.
func TestAuditOfAgentsAndLinks(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r, child := newZone(t, "a").run(), newZone(t, "c").run()
		child.isBelow(r)
		r.home.clock.setForward(time.Minute) // a link may change again
		agent := r.certified(identity.RoleAgent, "agent-1")
		hosts := func(names ...string) (q api.AgentRegister) {
			for _, name := range names {
				q.Hosts = append(q.Hosts, api.AgentHost{
					Name: name, Driver: "fake", Pool: api.PoolShared,
					Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 1}, api.MemoryMB: {Total: 1}},
				})
			}
			return q
		}
		hello := api.Hello{Endpoints: []string{"127.0.0.1:1", child.Addresses().Gateway}}
		toAgents, toGateway := r.dialAs(agent, identity.RoleNode, api.ALPNHTTP), r.dialAs(child.gatewayCredentials(), identity.RoleGateway, api.ALPNHTTP)
		for _, c := range []struct {
			conf       *tls.Config
			addr, path string
			body       any
			request    string
			want       *rest.AuditRecord // nil for none
		}{
			{toAgents, r.Addresses().Agent, api.PathAgentRegister, hosts("h1", "h2"), "req-first", &rest.AuditRecord{
				Actor: rest.AuditActor{Kind: api.ActorAgent, ID: "agent-1"}, Change: "HostsPut", Target: "h1 h2",
			}},
			{toAgents, r.Addresses().Agent, api.PathAgentRegister, hosts("h1", "h2"), "req-again", nil},
			{toGateway, r.Addresses().Gateway, "/zones/hello", hello, "req-hello", &rest.AuditRecord{
				Actor: rest.AuditActor{Kind: api.ActorLink, ID: string(child.rec.Zone)}, Change: "LinkSet", Target: string(r.linkTo(child).ID),
			}},
			{toGateway, r.Addresses().Gateway, "/zones/hello", hello, "req-hello-again", nil},
		} {
			status, said := over(t, c.conf, c.addr, http.MethodPost, c.path, c.body, map[string]string{api.HeaderRequestID: c.request})
			require.Less(t, status, 300, "%s: %s", c.request, said)
			all, _ := r.audited()
			i := slices.IndexFunc(all, func(a rest.AuditRecord) bool { return string(a.Request) == c.request })
			if c.want == nil {
				assert.Negative(t, i, c.request)
				continue
			}
			require.GreaterOrEqual(t, i, 0, c.request)
			got := all[i]
			assert.Equal(t, c.want.Actor, got.Actor)
			assert.Equal(t, []string{"POST " + c.path, c.want.Change, c.want.Target, "done"}, []string{got.Call, got.Change, got.Target, got.Outcome})
		}
	})
}
