package clustertest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/cluster-test/lab"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/dice"
)

// joinAddresses returns where a join token sends its bearer.
func joinAddresses(t *testing.T, text string) []string {
	t.Helper()
	tok, err := identity.ParseJoinToken(text)
	require.NoError(t, err)
	return tok.Addresses
}

func TestRejections(t *testing.T) {
	t.Parallel()
	w := lab.New(t, lab.Options{})
	z, stranger := w.Zone("home", 2), w.Zone("stranger", 1)
	z.Flavor("unit", unitMB)
	a := z.FakeAgent("fake", 1, 4*unitMB)
	n := z.Nodes[0]

	t.Run("tokens", func(t *testing.T) { rejectTokens(t, z, stranger) })
	t.Run("certificates", func(t *testing.T) { rejectCertificates(t, n, z.Nodes[1], a, stranger.Nodes[0]) })
	t.Run("garbage", func(t *testing.T) { shrugOff(t, n) })

	// After all that the zone works, and its agent was not lost.
	count := 4
	_, err := z.Admin().Boot(t.Context(), rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &count, Reservation: "r-x"}, "")
	require.NoError(t, err)
	require.Equal(t, api.BootActive, z.Outcome(z.Token, "r-x").State)
	w.Audit()
}

func rejectTokens(t *testing.T, z, stranger *lab.Zone) {
	t.Helper()
	n := z.Nodes[0]
	ctx := t.Context()
	for name, token := range map[string]string{
		"none": "", "nonsense": "let me in", "another zone's": stranger.Token, "a wrong secret": z.Token[:len(z.Token)-4] + "0000",
	} {
		_, err := n.Client(token).Flavors(ctx, client.ListOptions{})
		assert.Equal(t, api.CodeUnauthenticated, api.CodeOf(err), "%s: %v", name, err)
		assert.Equal(t, http.StatusUnauthorized, statusOf(err), name)
	}
	count := 1
	order := rest.ServerCreate{Name: "x", FlavorRef: "unit", MaxCount: &count}
	reader, member := n.Client(z.MemberToken("web", api.RoleReader)), n.Client(z.MemberToken("web", api.RoleMember))
	_, err := reader.Boot(ctx, order, "")
	assert.Equal(t, http.StatusForbidden, statusOf(err), "a reader boots: %v", err)
	for what, err := range map[string]error{
		"hosts":     second(member.Hosts(ctx, client.ListOptions{})),
		"members":   second(member.Members(ctx)),
		"flavor":    second(member.CreateFlavor(ctx, rest.FlavorSpec{Name: "mine", RAM: new(int64(1))})),
		"token":     second(member.CreateToken(ctx, rest.TokenSpec{User: "x", Project: "x", Roles: []api.UserRole{api.RoleAdmin}})),
		"join":      second(member.CreateJoinToken(ctx, rest.JoinTokenSpec{Kind: api.JoinNode, Name: "x"})),
		"snapshot":  second(member.Snapshot(ctx, io.Discard)),
		"all":       second(member.Servers(ctx, client.ServerQuery{AllProjects: true}, client.ListOptions{})),
		"transfer":  member.Transfer(ctx, ""),
		"link":      second(member.CreateLinkToken(ctx, rest.ZoneSpec{})),
		"restoring": member.Restore(ctx, strings.NewReader("state")),
	} {
		assert.Equal(t, http.StatusForbidden, statusOf(err), "a member: %s: %v", what, err)
	}

	// A join token is good for one key, and for nothing else.
	join, err := z.Admin().CreateJoinToken(ctx, rest.JoinTokenSpec{Kind: api.JoinAgent, Name: "late"})
	require.NoError(t, err)
	_, err = n.Client(join).Flavors(ctx, client.ListOptions{})
	assert.Equal(t, http.StatusUnauthorized, statusOf(err), "a join token is no bearer token")
	joins := func(csr []byte) error { return second(n.Client("").Join(ctx, rest.JoinBody{Token: join, CSR: csr})) }
	csr := newCSR(t)
	require.NoError(t, joins(csr))
	require.NoError(t, joins(csr), "its answer was lost")
	err = joins(newCSR(t))
	assert.Equal(t, http.StatusUnauthorized, statusOf(err), "used twice: %v", err)
}

func newCSR(t *testing.T) []byte {
	t.Helper()
	key, err := identity.NewKey()
	require.NoError(t, err)
	csr, err := identity.CSR(key)
	require.NoError(t, err)
	return csr
}

// second drops a result.
func second[T any](_ T, err error) error { return err }

// statusOf returns the HTTP status that an error came with, 0 if with none.
func statusOf(err error) int {
	if r, ok := errors.AsType[*client.RefusedError](err); ok {
		return r.Status
	}
	return 0
}

func rejectCertificates(t *testing.T, n, other *lab.NodeProc, a *lab.AgentProc, stranger *lab.NodeProc) {
	t.Helper()
	load := func(dir string, role identity.Role) *identity.Credentials {
		c, err := identity.LoadDir(dir, role)
		require.NoError(t, err)
		return c
	}
	node, gateway := load(other.Dir, identity.RoleNode), load(n.Dir, identity.RoleGateway)
	agent := load(a.Dir, identity.RoleAgent)
	foreign := load(stranger.Dir, identity.RoleGateway)
	for _, c := range []struct {
		what   string
		at     string
		alpn   string
		show   *identity.Credentials
		admits bool
	}{
		{"a node at the node listener", n.At.Node, api.ALPNHTTP, node, true},
		{"a node for raft", n.At.Node, api.ALPNRaft, node, true},
		{"an agent at the agent listener", n.At.Agent, api.ALPNHTTP, agent, true},
		{"a stranger who enrols", n.At.Gateway, api.ALPNEnrol, foreign, true}, // its token is what counts

		{"a node at its own listener", n.At.Node, api.ALPNRaft, load(n.Dir, identity.RoleNode), false},
		{"an agent at the node listener", n.At.Node, api.ALPNHTTP, agent, false},
		{"an agent for raft", n.At.Node, api.ALPNRaft, agent, false},
		{"an agent for gossip", n.At.Node, api.ALPNGossip, agent, false},
		{"an agent at the gateway", n.At.Gateway, api.ALPNHTTP, agent, false},
		{"a gateway at the node listener", n.At.Node, api.ALPNHTTP, gateway, false},
		{"a gateway for raft", n.At.Node, api.ALPNRaft, gateway, false},
		{"a node at the agent listener", n.At.Agent, api.ALPNHTTP, node, false},
		{"a node at the gateway", n.At.Gateway, api.ALPNHTTP, node, false},
		{"a stranger's node at the node listener", n.At.Node, api.ALPNRaft, load(stranger.Dir, identity.RoleNode), false},
		{"a stranger at the gateway", n.At.Gateway, api.ALPNHTTP, foreign, false},
		{"a stranger who gossips", n.At.Gateway, api.ALPNGossip, foreign, false},
		{"nobody at the node listener", n.At.Node, api.ALPNHTTP, nil, false},
		{"nobody at the agent listener", n.At.Agent, api.ALPNHTTP, nil, false},
		{"nobody at the gateway", n.At.Gateway, api.ALPNHTTP, nil, false},
		{"nobody who enrols", n.At.Gateway, api.ALPNEnrol, nil, false},
		{"an agent with an unknown protocol", n.At.Agent, "berth-else/1", agent, false},
		{"a node without a protocol", n.At.Node, "", node, false},
	} {
		err := admitted(t, c.at, c.alpn, c.show, c.admits)
		if c.admits {
			require.NoError(t, err, c.what)
		} else {
			require.Error(t, err, c.what)
		}
	}
	enrolWithoutToken(t, n, foreign)
}

// admitted dials a listener and returns why it did not let the caller in. What a
// server thinks of a certificate shows at the first read: an HTTP listener answers
// a request, and the others wait for more. Of one that is wanted, a moment of silence is enough; one that is
// not must be told, however long that takes.
func admitted(t *testing.T, addr, alpn string, show *identity.Credentials, wanted bool) error {
	t.Helper()
	conf := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true} //nolint:gosec // who we are is tested, not who they are
	if alpn != "" {
		conf.NextProtos = []string{alpn}
	}
	if show != nil {
		conf.Certificates = []tls.Certificate{show.Cert}
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: await.Limit}, Config: conf}
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing more to learn
	asks, patience := alpn == api.ALPNHTTP || alpn == api.ALPNEnrol, await.Limit
	if !asks && wanted {
		patience = 500 * time.Millisecond // no answer is to be expected, but an alert would be
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if asks {
		if _, err := io.WriteString(conn, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
	}
	got := make([]byte, 5)
	_, err = io.ReadFull(conn, got)
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && !asks {
		return nil // it waits for us
	}
	if err == nil && string(got) != "HTTP/" {
		return fmt.Errorf("answered %q", got)
	}
	return err
}

// enrolWithoutToken checks that the one protocol that is open to strangers lets
// nobody in without a token.
func enrolWithoutToken(t *testing.T, n *lab.NodeProc, show *identity.Credentials) {
	t.Helper()
	z := n.Zone
	link, err := z.Admin().CreateLinkToken(t.Context(), rest.ZoneSpec{Name: ptr("child")})
	require.NoError(t, err)
	good, err := identity.ParseJoinToken(link)
	require.NoError(t, err)
	conf := identity.ClientTLS(func() *identity.Credentials { return show }, api.ALPNEnrol, good.Pins,
		identity.Subject{Zone: good.Zone, Role: identity.RoleGateway}, time.Now)
	rt := &http.Transport{DialTLSContext: (&tls.Dialer{Config: conf}).DialContext}
	defer rt.CloseIdleConnections()
	for _, token := range []string{"", "nonsense", link[:len(link)-6] + "AAAAAA"} {
		_, err := client.Enrol(t.Context(), rt, time.Now, []string{n.At.Gateway}, &api.Enrolment{
			Token: token, Zone: show.Subject.Zone, Name: "x", Endpoints: []string{"127.0.0.1:1"}, CA: show.CA.Raw, KeyCheck: []byte("x"),
		})
		require.Error(t, err)
	}
	zones, err := z.Admin().Zones(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, zones.Items, "nobody was linked")
}

func ptr[T any](v T) *T { return &v }

// shrugOff sends nonsense to every listener, keeps connections open that say
// nothing, and expects the node to serve on meanwhile.
func shrugOff(t *testing.T, n *lab.NodeProc) {
	t.Helper()
	draws := dice.Rand(t)
	var silent []net.Conn
	dial := func(addr string) net.Conn {
		d := net.Dialer{Timeout: await.Limit}
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		return conn
	}
	for _, addr := range []string{n.At.API, n.At.Gateway, n.At.Node, n.At.Agent} {
		for i := range 20 {
			silent = append(silent, dial(addr))
			conn := dial(addr)
			b := make([]byte, draws.IntN(4096)+1)
			for j := range b {
				b[j] = byte(draws.Uint32())
			}
			switch i % 4 {
			case 1:
				b = append([]byte{22, 3, 1, 0x40, 0}, b...) // the head of a TLS handshake
			case 2:
				b = []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			case 3:
				b = append([]byte{22, 3, 1, 0xff, 0xff}, b...) // one that is too long
			}
			_, _ = conn.Write(b) // it may be closed under us
			_ = conn.Close()
		}
	}
	await.Until(t, "the zone goes on", func(ctx context.Context) error {
		_, err := n.Client(n.Zone.Token).CreateFlavor(ctx, rest.FlavorSpec{Name: "beside-garbage", RAM: new(int64(1))})
		return err
	})
	require.NoError(t, n.AskReady(t.Context()))
	for _, c := range silent {
		_ = c.Close()
	}
	assert.True(t, n.Running())
}
