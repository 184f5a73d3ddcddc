package node

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/agent/driver/fake"
	"berth/api"
	"berth/api/rest"
	"berth/federation"
	"berth/identity"
	"berth/internal/await"
	"berth/raftstore/state"
)

const (
	day     = 24 * time.Hour
	dueSure = 300 * day // a certificate of a year is due by then
)

func certificateRequest(tb testing.TB) []byte {
	tb.Helper()
	key, err := identity.NewKey()
	require.NoError(tb, err)
	csr, err := identity.CSR(key)
	require.NoError(tb, err)
	return csr
}

func shownBy(c *identity.Credentials) federation.Shown {
	return federation.Shown{Issued: identity.IssuedAt(c.Cert.Leaf), Authority: identity.PinOf(c.CA.Raw)}
}

// setAllForward sets the clocks of several nodes forward.
func setAllForward(by time.Duration, nodes ...*running) {
	for _, r := range nodes {
		r.home.clock.setForward(by)
	}
}

// TestNodesRenewTheirCertificates: the leader and the others replace their own while they run. New
// connections use the new ones, also when the old ones have expired, and the zone knows when they end.
func TestNodesRenewTheirCertificates(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Timing = patient // a busy machine must not depose anybody
		first := home.run()
		nodes := []*running{first, first.adopt("node-2")}
		joinedAt := map[*running]*identity.Credentials{}
		for _, r := range nodes {
			joinedAt[r] = r.gatewayCredentials()
			r.until("the ends are recorded", func(v *state.State) bool {
				m, ok := v.Node(r.rec.Node)
				return ok && m.Expires == api.InstantOf(r.nodeCredentials().Cert.Leaf.NotAfter)
			})
		}
		setAllForward(dueSure, nodes...)
		for _, r := range nodes {
			r.until("it is renewed", func(v *state.State) bool {
				m, _ := v.Node(r.rec.Node)
				return m.Expires > api.InstantOf(time.Now().Add(dueSure+identity.LeafTTL-day))
			})
			assert.NotEqual(t, joinedAt[r].Subject, r.gatewayCredentials().Subject, "its id tells nothing")
			assert.Equal(t, identity.Subject{Zone: r.rec.Zone, Role: identity.RoleNode, ID: string(r.rec.Node)}, r.nodeCredentials().Subject)
			assert.Contains(t, r.apiCredentials().Cert.Leaf.DNSNames, "localhost")
			saved, err := openWallet(r.opts.Dir)
			require.NoError(t, err)
			for _, role := range []identity.Role{identity.RoleNode, identity.RoleGateway, identity.RoleAPI} {
				assert.Equal(t, r.wallet.Get(role), saved.Get(role), "%s", role)
			}
		}
		setAllForward(100*day, nodes...) // the first ones have expired
		nodes[1] = nodes[1].again()
		first.toNodes.CloseIdleConnections()
		_, err := first.askNode(t.Context(), nodes[1].Addresses().Node, pathUses, []api.TokenUse{})
		require.NoError(t, err)
		require.Len(t, first.federation.Members(), 2)
		for _, m := range first.federation.Members() {
			assert.Greater(t, m.Expires.Time().Sub(first.now()), 200*day, "%s", m.ID)
		}
		assert.Len(t, first.certificates(), 3)
	})
}

// TestOnlyTheLeaderRenews, and only members, who have shown a certificate that is old enough.
func TestOnlyTheLeaderRenews(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Timing = patient // a busy machine must not depose anybody
		first := home.run()
		second := first.adopt("node-2")
		ask := renewal{CSR: certificateRequest(t), Names: []string{"localhost"}}
		renew := func(at *running, as *identity.Credentials) int {
			conf := at.dialAs(as, identity.RoleNode, api.ALPNHTTP)
			status, _ := over(t, conf, at.Addresses().Node, http.MethodPost, pathRenew, ask, nil)
			return status
		}
		old := second.nodeCredentials()
		assert.Equal(t, http.StatusConflict, renew(first, old), "it is too young")
		assert.Equal(t, http.StatusServiceUnavailable, renew(second, first.nodeCredentials()), "it does not lead")
		first.home.clock.setForward(200 * day) // the zone's, not the node's: it is not due
		assert.Equal(t, http.StatusOK, renew(first, old))
		require.NoError(t, first.RemoveMember(t.Context(), "node-2"))
		_, err := first.federation.RenewNode(t.Context(), "node-2", shownBy(old), ask.CSR, ask.Names)
		refusedAs(t, api.CodeForbidden, err)
		conf := first.dialAs(old, identity.RoleNode, api.ALPNHTTP)
		c, err := dialTLS(t.net, conf)(t.Context(), "tcp", first.Addresses().Node)
		require.NoError(t, err)
		hangsUp(t, c)
		_ = c.Close() // the other end has closed it
	})
}

// runsAgentThatRenews runs an agent with one host from its folder until the test ends, and returns its certificates.
func (r *running) runsAgentThatRenews(dir string) *identity.Wallet {
	r.t.Helper()
	home, wallet, err := LoadAgent(dir)
	require.NoError(r.t, err)
	a, err := agent.New(agent.Config{
		Addresses: home.Addresses, Log: slog.New(slog.DiscardHandler), Now: r.now, Rand: rand.Float64, Wait: 100 * time.Millisecond,
		Hosts: []agent.Host{{AgentHost: agent.FakeHosts("h", 1, agent.Inventory{api.VCPU: {Total: 4}})[0], Driver: fake.New(fake.Options{})}},
		TLS: identity.ClientTLS(wallet.Of(identity.RoleAgent), api.ALPNHTTP, wallet.Pins,
			identity.Subject{Zone: home.Zone, Role: identity.RoleNode}, r.now), Wallet: wallet, Dial: r.t.dial,
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
	return wallet
}

// TestAgentsRenewTheirCertificates: a new connection uses the new one, when the old one has expired, too. It is revoked
// as any other.
func TestAgentsRenewTheirCertificates(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first := newZone(t, "a").run()
		dir := first.joinedAgent("agent-1")
		wallet := first.runsAgentThatRenews(dir)
		first.hasHostsUp(1)
		old := wallet.Get(identity.RoleAgent)
		setAllForward(dueSure, first)
		first.until("it is renewed", func(v *state.State) bool {
			a, ok := v.Agent("agent-1")
			return ok && a.Renewed > 0
		})
		await.True(t, "the agent has the new one", func() bool { return wallet.Get(identity.RoleAgent) != old })
		fresh := wallet.Get(identity.RoleAgent)
		assert.Equal(t, old.Subject, fresh.Subject)
		known, _ := first.view().Agent("agent-1")
		assert.Equal(t, known.Renewed.Time().Truncate(time.Second), identity.IssuedAt(fresh.Cert.Leaf), "a later revocation refuses it")
		assert.Equal(t, known.Issued().Add(identity.LeafTTL).Time().Truncate(time.Second), fresh.Cert.Leaf.NotAfter)
		saved, err := identity.LoadDir(dir, identity.RoleAgent)
		require.NoError(t, err)
		assert.Equal(t, fresh, saved)

		setAllForward(100*day, first)
		status := func(as *identity.Credentials) int {
			conf := identity.ClientTLS(func() *identity.Credentials { return as }, api.ALPNHTTP, wallet.Pins,
				identity.Subject{Zone: first.rec.Zone, Role: identity.RoleNode}, first.now)
			got, _ := over(t, conf, first.Addresses().Agent, http.MethodPost, api.PathAgentReport, api.AgentReport{}, nil)
			return got
		}
		assert.Equal(t, http.StatusOK, status(fresh))
		require.NoError(t, first.fleet.RevokeAgent(t.Context(), "agent-1"))
		require.Error(t, first.checkAgent("agent-1", identity.IssuedAt(fresh.Cert.Leaf)))
		_, err = first.federation.RenewAgent(t.Context(), "agent-1", shownBy(old), certificateRequest(t))
		refusedAs(t, api.CodeForbidden, err)
	})
}

// TestAnAgentRenewsWithTheNextAuthority: when another authority issues, an agent has a certificate of it, however young its own is. Nodes that have
// one of it too admit the agent, and so does one that was away and still shows one of the old authority; until the end of the change
// they admit what the agent had before, and from then on they do not.
func TestAnAgentRenewsWithTheNextAuthority(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first := newZone(t, "a").run()
		second, away := first.adopt("node-2"), first.adopt("node-3")
		wallet := first.runsAgentThatRenews(first.joinedAgent("agent-1"))
		first.hasHostsUp(1)
		old := wallet.Get(identity.RoleAgent)
		admitted := map[int]bool{http.StatusOK: true, http.StatusMisdirectedRequest: true} // by the leader, and by others, which name it
		report := func(as *identity.Credentials, at *running) bool {
			conf := identity.ClientTLS(func() *identity.Credentials { return as }, api.ALPNHTTP, wallet.Pins,
				identity.Subject{Zone: first.rec.Zone, Role: identity.RoleNode}, first.now)
			got, _ := over(t, conf, at.Addresses().Agent, http.MethodPost, api.PathAgentReport, api.AgentReport{}, nil)
			return admitted[got]
		}
		nobody := func(v *state.State) bool { return len(v.CAWaits()) == 0 }
		require.NoError(t, first.RotateCA(t.Context(), rest.CABrought{}))
		first.until("all trust the next one", nobody)
		assert.Equal(t, api.FingerprintOf(first.view().Change.Cert), wallet.Newest())
		assert.Same(t, old, wallet.Get(identity.RoleAgent), "it issues nothing yet")
		require.NoError(t, away.stop())

		require.NoError(t, first.UseCA(t.Context(), false))
		issuer := first.view().CA
		await.True(t, "the agent has one of the next authority", func() bool { return wallet.Issuer() == api.FingerprintOf(issuer) })
		fresh := wallet.Get(identity.RoleAgent)
		require.NoError(t, fresh.Cert.Leaf.CheckSignatureFrom(fresh.CA))
		assert.Equal(t, issuer, fresh.CA.Raw)
		assert.Equal(t, old.Subject, fresh.Subject)
		for _, r := range []*running{first, second} {
			await.True(t, "the node has one too", func() bool { return r.wallet.Issuer() == api.FingerprintOf(issuer) })
			assert.True(t, report(fresh, r), "%s", r.rec.Node)
			assert.True(t, report(old, r), "%s", r.rec.Node)
		}
		away = away.home.start()
		before := away.nodeCredentials()
		require.NotEqual(t, issuer, before.CA.Raw)
		assert.True(t, report(fresh, away), "it is admitted")
		require.Same(t, before, away.nodeCredentials(), "with its old certificate")
		await.True(t, "the node has one too", func() bool { return away.wallet.Issuer() == api.FingerprintOf(issuer) })
		assert.True(t, report(fresh, away))

		first.until("nobody is refused", nobody)
		require.NoError(t, first.FinishCA(t.Context(), false))
		for _, r := range []*running{first, second, away} {
			await.True(t, "the old one is dropped", func() bool { return len(r.wallet.Trusted()) == 1 })
			assert.True(t, report(fresh, r), "%s", r.rec.Node)
			assert.Error(t, r.checkAgentPeer(peer{Subject: old.Subject, pin: identity.PinOf(old.CA.Raw), issued: identity.IssuedAt(old.Cert.Leaf)}), "%s", r.rec.Node)
		}
		await.True(t, "the agent has dropped it too", func() bool { return len(wallet.Trusted()) == 1 })
	})
}
