package node

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
	"berth/internal/await"
	"berth/raftstore/state"
)

// TestJoinOverTLS lets a node and an agent join a zone whose public API they know
// by the token's pin alone.
func TestJoinOverTLS(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a", func(o *InitOptions) { o.Names = []string{"first.example"} })
		h.opts.Plain = false
		r := h.run()
		assert.Contains(t, r.apiCredentials().Cert.Leaf.DNSNames, "first.example")

		dir := filepath.Join(t.TempDir(), "node-2")
		listen := anyPorts()
		listen.API = "127.0.0.2:0"
		require.NoError(t, JoinNode(t.Context(), JoinOptions{
			Dir: dir, Token: r.joinToken(api.JoinNode, "node-2"), Placement: Placement{Listen: listen, Names: []string{"berth.example", "192.0.2.7"}}, Now: time.Now, Net: t.net,
		}))
		creds, err := openWallet(dir)
		require.NoError(t, err)
		leaf := creds.Get(identity.RoleAPI).Cert.Leaf
		assert.Equal(t, []string{"localhost", "berth.example"}, leaf.DNSNames)
		var ips []string
		for _, ip := range leaf.IPAddresses {
			ips = append(ips, ip.String())
		}
		assert.Equal(t, []string{"127.0.0.1", "192.0.2.7", "127.0.0.2"}, ips)
		assert.Equal(t, identity.Subject{Zone: r.rec.Zone, Role: identity.RoleNode, ID: "node-2"}, creds.Get(identity.RoleNode).Subject)
		assert.Empty(t, creds.Get(identity.RoleNode).Cert.Leaf.DNSNames, "only the public API has names")
		keks, err := readKEKs(dir, nil)
		require.NoError(t, err)
		assert.Equal(t, r.keys.KEKs(), keks)

		agent := r.joinedAgent("agent-1")
		home, wallet, err := LoadAgent(agent)
		require.NoError(t, err)
		assert.Equal(t, &AgentHome{Zone: r.rec.Zone, Agent: "agent-1", Addresses: []string{r.Addresses().Agent}}, home)
		assert.Equal(t, identity.Subject{Zone: r.rec.Zone, Role: identity.RoleAgent, ID: "agent-1"}, wallet.Get(identity.RoleAgent).Subject)
		assert.Equal(t, 0o600, int(files(t, agent)[fileAgent].Perm()))
		assert.NoFileExists(t, filepath.Join(agent, fileKEK), "an agent opens no secret of the zone")

		require.NoError(t, KeepAddresses(agent, nil), "no address is no news")
		require.NoError(t, KeepAddresses(agent, []string{"n1:1", "n2:1"}))
		home, _, err = LoadAgent(agent)
		require.NoError(t, err)
		assert.Equal(t, &AgentHome{Zone: r.rec.Zone, Agent: "agent-1", Addresses: []string{"n1:1", "n2:1"}}, home)
		assert.Equal(t, 0o600, int(files(t, agent)[fileAgent].Perm()))

		other := newZone(t, "b")
		other.opts.Plain = false
		token := withPinOf(t, other.run(), r.joinToken(api.JoinAgent, "agent-2"))
		_, err = JoinAgent(t.Context(), JoinOptions{Dir: t.TempDir(), Token: token, Now: time.Now, Net: t.net})
		assert.ErrorContains(t, err, "another authority", "the zone is not the one that the token pins")
	})
}

// withPinOf returns a token that pins the authority of another zone.
func withPinOf(t *world, r *running, token string) string {
	t.Helper()
	return altered(t, token, func(j *identity.JoinToken) { j.CA = identity.PinOf(r.apiCredentials().CA.Raw) })
}

// altered returns a token that somebody has changed.
func altered(t *world, token string, change func(*identity.JoinToken)) string {
	t.Helper()
	j, err := identity.ParseJoinToken(token)
	require.NoError(t, err)
	change(&j)
	text, err := j.Text()
	require.NoError(t, err)
	return text.Reveal()
}

// TestJoinTokensAreForTheirKind: what a token is for is checked before anybody is called.
func TestJoinTokensAreForTheirKind(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		asNode := func(token string) error {
			return JoinNode(t.Context(), JoinOptions{
				Dir: filepath.Join(t.TempDir(), "n"), Token: token, Placement: Placement{Listen: anyPorts()}, Plain: true, Now: time.Now, Net: t.net,
			})
		}
		asAgent := func(token string) error {
			_, err := JoinAgent(t.Context(), JoinOptions{Dir: t.TempDir(), Token: token, Plain: true, Now: time.Now, Net: t.net})
			return err
		}
		node, agent := r.joinToken(api.JoinNode, "node-2"), r.joinToken(api.JoinAgent, "agent-1")
		refusedAs(t, api.CodeInvalid, asNode(agent))
		refusedAs(t, api.CodeInvalid, asAgent(node))
		refusedAs(t, api.CodeInvalid, asNode(r.linkToken("child")))
		refusedAs(t, api.CodeInvalid, asNode("berth-join-x"))
		lie := altered(t, agent, func(j *identity.JoinToken) { j.Kind = api.JoinNode })
		refusedAs(t, api.CodeUnauthenticated, asNode(lie))
		require.NoError(t, asAgent(agent), "refusals have not used it up")
		require.NoError(t, asNode(node))
		refusedAs(t, api.CodeUnauthenticated, asNode(node))
	})
}

func TestJoinChecksTheRequest(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		status, said := r.answers(call{method: http.MethodPost, path: "/operator/join", body: `{"token": "berth-join-x"}`})
		assert.Equal(t, http.StatusBadRequest, status, said)
	})
}

// announces sends a node's announcement under a certificate.
func (r *running) announces(as *identity.Credentials, m api.Node) int {
	r.t.Helper()
	status, _ := over(r.t, r.dialAs(as, identity.RoleNode, api.ALPNHTTP), r.Addresses().Node, http.MethodPost, pathAnnounce, m, nil)
	return status
}

// refusesNode expects that a certificate opens no protocol of the node listener.
func (r *running) refusesNode(as *identity.Credentials) {
	r.t.Helper()
	for _, alpn := range []string{api.ALPNRaft, api.ALPNHTTP, api.ALPNGossip} {
		c := r.dialled(as, alpn)
		hangsUp(r.t, c)
	}
}

// dialled opens a connection to the node listener.
func (r *running) dialled(as *identity.Credentials, alpn string) net.Conn {
	r.t.Helper()
	c, err := dialTLS(r.t.net, r.dialAs(as, identity.RoleNode, alpn))(r.t.Context(), "tcp", r.Addresses().Node)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

// TestOnlyWhoHasJoinedIsAdmitted: a node that is joining is admitted with the key with which it has used its token. Another certificate in its
// name, which somebody with the key of the authority can make, opens nothing, also when the node has joined once more.
func TestOnlyWhoHasJoinedIsAdmitted(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first := newZone(t, "a").run()
		home := first.joined("node-2")
		forged := first.certified(identity.RoleNode, "node-2")
		first.refusesNode(forged)
		first.joined("node-2")
		first.refusesNode(forged)
		assert.False(t, first.view().AdmittedWith("node-2", nil))
		assert.False(t, first.view().AdmittedWith("node-3", nil))
		second := home.run()
		first.until("it is a member", func(*state.State) bool { return first.store.HasMember("node-2") })
		assert.Equal(t, []api.NodeID{"node-1", "node-2"}, second.members())
	})
}

// TestARemovedNodeIsRefused: the connections that a node has are closed when it is removed,
// and its certificate, which is valid for months yet, opens none. Before, a term of its own
// choosing and an entry could be sent over the first, and any call over the second.
func TestARemovedNodeIsRefused(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Timing = patient // a busy machine must not depose anybody
		first := home.run()
		second := first.adopt("node-2")
		thief := second.nodeCredentials() // as anybody has it who finds the disk
		open := map[string]net.Conn{}
		for _, alpn := range []string{api.ALPNRaft, api.ALPNHTTP, api.ALPNGossip} {
			open[alpn] = first.dialled(thief, alpn)
		}
		const preVote = "\x04\x80" // of no node and no term
		for alpn, call := range map[string]string{api.ALPNRaft: preVote, api.ALPNHTTP: "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"} {
			_, err := io.WriteString(open[alpn], call)
			require.NoError(t, err)
			require.NoError(t, open[alpn].SetReadDeadline(time.Now().Add(await.Limit)))
			_, err = open[alpn].Read(make([]byte, 1))
			require.NoError(t, err, "a member is answered")
		}

		status, said := second.answers(call{method: http.MethodDelete, path: "/operator/members/node-2", token: home.token})
		require.Equal(t, http.StatusNoContent, status, "a node passes on the call that ends it, and its answer: %s", said)
		for _, c := range open {
			hangsUp(t, c)
		}
		late := httptest.NewRequest(http.MethodPost, pathKEKs, nil)
		late = late.WithContext(context.WithValue(t.Context(), peerKey{}, peer{Subject: identity.Subject{Role: identity.RoleNode, ID: "node-2"}, issued: time.Now()}))
		answer := httptest.NewRecorder()
		first.onlyMembers(first.fromNodes()).ServeHTTP(answer, late)
		assert.Equal(t, http.StatusForbidden, answer.Code, "it asks over a connection that is not closed yet")
		first.refusesNode(thief)
		require.NoError(t, second.stop())
		first.offers("f")
		assert.True(t, first.leading.Load())
		assert.Equal(t, []api.NodeID{"node-1"}, first.members())
	})
}

// TestANodeWithALeaderIsAMember: whatever it was told before.
func TestANodeWithALeaderIsAMember(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		await.True(t, "it refuses", func() bool { // unless it has just looked for its leader
			r.removed.Store(true)
			status, said := r.answers(call{method: http.MethodGet, path: "/flavors", token: r.home.token})
			return status == http.StatusServiceUnavailable && strings.Contains(said, "removed from the zone")
		})
		await.True(t, "it answers", func() bool {
			status, _ := r.answers(call{method: http.MethodGet, path: "/flavors", token: r.home.token})
			return status == http.StatusOK
		})
	})
}

func (r *running) members() (ids []api.NodeID) {
	for _, m := range r.Members() {
		ids = append(ids, m.ID)
	}
	return ids
}

// TestACertificateIsNoMembership: who has one of the zone, but has not joined with
// a token, cannot become a voter, and nobody can speak for another node.
func TestACertificateIsNoMembership(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		stranger := r.certified(identity.RoleNode, "node-9")
		m := api.Node{ID: "node-9", NodeAddr: "127.0.0.1:9"}
		r.refusesNode(stranger)
		r.refusesNode(r.certified(identity.RoleNode, "node-1")) // who has made one in the name of this node itself
		assert.Equal(t, http.StatusForbidden, r.announces(r.joined("node-2").credentials(), m), "it speaks for another node")
		refusedAs(t, api.CodeForbidden, r.AdmitNode(t.Context(), api.Node{ID: "node-9", NodeAddr: m.NodeAddr}))

		_ = r.joinToken(api.JoinNode, "node-9") // and nobody has used it
		r.refusesNode(stranger)
		assert.Equal(t, []api.NodeID{"node-1"}, r.members())
		_, known := r.view().Node("node-9")
		assert.False(t, known)
		addr := r.view().Nodes()[0].NodeAddr
		assert.Equal(t, r.Addresses().Node, addr)
	})
}

// TestRemovedNodes are refused with what they have, and admitted anew with a new
// token, under the same id.
func TestRemovedNodes(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		home := newZone(t, "a")
		home.opts.Timing = patient // a busy machine must not depose anybody
		first := home.run()
		second := first.adopt("node-2")
		assert.Equal(t, []api.NodeID{"node-1", "node-2"}, first.members())

		require.NoError(t, first.RemoveMember(t.Context(), "node-2"))
		assert.Equal(t, []api.NodeID{"node-1"}, first.members())
		first.refusesNode(second.nodeCredentials())
		require.NoError(t, second.stop())

		await.Sleep(time.Minute)
		again := first.adopt("node-2")
		first.until("the node is back", func(v *state.State) bool {
			m, ok := v.Node("node-2")
			return ok && m.NodeAddr == again.Addresses().Node
		})
		assert.Equal(t, []api.NodeID{"node-1", "node-2"}, first.members())
		for _, m := range first.Members() {
			assert.True(t, m.Voter, "%s", m.ID)
		}
		first.refusesNode(second.nodeCredentials()) // they are of the node before, and valid for months yet
		refusedAs(t, api.CodeNotFound, first.RemoveMember(t.Context(), "node-7"))
	})
}

// TestTheLastVoterStays, and cannot hand over to nobody.
func TestTheLastVoterStays(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		require.Error(t, r.RemoveMember(t.Context(), "node-1"))
		refusedAs(t, api.CodeConflict, r.Transfer(t.Context(), ""))
		assert.Equal(t, []api.NodeID{"node-1"}, r.members())
	})
}

func TestAPINames(t *testing.T) {
	t.Parallel()
	always := []string{"localhost", "127.0.0.1"}
	for listen, more := range map[string][]string{
		"127.0.0.1:1": nil, "localhost:1": nil, ":1": nil, "0.0.0.0:1": nil, "[::]:1": nil,
		"192.0.2.1:1": {"192.0.2.1"}, "berth.example:1": {"berth.example"}, "[2001:db8::1]:1": {"2001:db8::1"},
	} {
		assert.Equal(t, append(always[:2:2], more...), apiNames([]string{listen}, nil), listen)
	}
	assert.True(t, isLoopback(&net.TCPAddr{IP: net.IPv6loopback}))
	assert.False(t, isLoopback(&net.TCPAddr{IP: net.IPv4zero}))
	assert.False(t, isLoopback(&net.UnixAddr{}))
}

func TestAnnouncingWhatIsKnownWritesNothing(t *testing.T) {
	virtually(t, func(t *world) {
		nodes := threeNodes(t, "root")
		leader, follower := nodes[0], nodes[1]
		leader.until("all are known, and when their certificates end", func(v *state.State) bool {
			return len(v.Nodes()) == len(nodes) && !slices.ContainsFunc(v.Nodes(), func(m *api.Node) bool { return m.Expires == 0 })
		})
		before := leader.store.View().Index()
		members := leader.store.Members()
		assert.Equal(t, http.StatusNoContent, leader.announces(follower.nodeCredentials(), follower.nodeRecord()))
		assert.Equal(t, before, leader.store.View().Index())
		assert.Equal(t, members, leader.store.Members())
	})
}
