package rogue

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
)

// stranger has an address of the zone, and no token or certificate of it: but any that it made
// itself.
func stranger() party {
	return party{name: "stranger", budget: size{state: 1 << 20, log: 8 << 20, index: 100}, attacks: func(t *testing.T, p *phase) []attack {
		t.Helper()
		s := &strangerCalls{phase: p, api: p.caller(plain(), "http://"+p.root.node.Addresses().API, jsonHead("")), own: newAuthority(t)}
		return []attack{
			{"joins with tokens of nobody", s.join},
			{"enrolments with tokens of nobody", s.enrol},
			{"certificates of nobody", s.present},
			{"connections that wait", s.wait},
			{"bytes that are no protocol", s.babble},
		}
	}}
}

// strangerCalls are the calls of a stranger.
type strangerCalls struct {
	*phase
	api *caller
	own *authority
}

// authority issues certificates of a zone that does not exist.
type authority struct{ ca *identity.CA }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := identity.NewCA(api.ZoneID(api.NewUUID()), time.Now())
	require.NoError(t, err)
	return &authority{ca}
}

// issue returns credentials with a role.
func (a *authority) issue(role identity.Role, id string) (*identity.Credentials, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	der, err := a.ca.Issue(identity.Subject{Zone: a.ca.Zone(), Role: role, ID: id}, key.Public(), time.Now(), time.Hour)
	if err != nil {
		return nil, err
	}
	return identity.NewCredentials(key, der, a.ca.CertDER())
}

// join asks to join as a node and as an agent, with tokens that parse.
func (s *strangerCalls) join(ctx context.Context, r *record) error {
	v := s.root.node.Store().View()
	for _, kind := range []api.JoinKind{api.JoinNode, api.JoinAgent} {
		made, err := identity.NewJoinToken(kind, v.Zone, []string{s.root.node.Addresses().API}, identity.PinOf(v.CA), identity.Pin{})
		if err != nil {
			return err
		}
		text, err := made.Text()
		if err != nil {
			return err
		}
		key, err := identity.NewKey()
		if err != nil {
			return err
		}
		csr, err := identity.CSR(key)
		if err != nil {
			return err
		}
		status, b := s.api.call(ctx, r, "POST", "/operator/join", fmt.Sprintf(`{"token":%q,"csr":%q}`, text.Reveal(), base64.StdEncoding.EncodeToString(csr)))
		if !refused(status) {
			return fmt.Errorf("a join with a token of nobody: %d %s", status, b)
		}
	}
	return nil
}

// enrol asks to be a child.
func (s *strangerCalls) enrol(ctx context.Context, r *record) error {
	v := s.root.node.Store().View()
	creds, err := s.own.issue(identity.RoleGateway, "node-1")
	if err != nil {
		return err
	}
	made, err := identity.NewJoinToken(api.JoinLink, v.Zone, []string{s.root.node.Addresses().Gateway}, identity.PinOf(v.CA), identity.Pin{})
	if err != nil {
		return err
	}
	text, err := made.Text()
	if err != nil {
		return err
	}
	conf := identity.ClientTLS(func() *identity.Credentials { return creds }, api.ALPNEnrol, identity.PinTo(v.CA),
		identity.Subject{Zone: v.Zone, Role: identity.RoleGateway}, time.Now)
	rt := over(conf)
	defer rt.CloseIdleConnections()
	c := &caller{http: &http.Client{Transport: rt}, base: "https://" + s.root.node.Addresses().Gateway, head: cborHead()}
	status, b := c.call(ctx, r, "POST", "/links/enrol", api.Enrolment{
		Token: text.Reveal(), Zone: s.own.ca.Zone(), Name: "evil", CA: s.own.ca.CertDER(), Endpoints: []string{"127.0.0.1:1"}, KeyCheck: []byte("x"),
	})
	if !refused(status) {
		return fmt.Errorf("an enrolment with a token of nobody: %d %s", status, b)
	}
	status, b = c.call(ctx, r, "GET", "/zones/info", nil)
	return unless(refused(status), "a call of linked zones: %d %s", status, b)
}

// present shows certificates of an authority of its own at every listener.
func (s *strangerCalls) present(ctx context.Context, r *record) error {
	a := s.root.node.Addresses()
	v := s.root.node.Store().View()
	for _, at := range []struct {
		role    identity.Role
		addr    string
		alpn    string
		theirs  identity.Role
		request string
	}{
		{identity.RoleNode, a.Node, api.ALPNHTTP, identity.RoleNode, "GET /operator/members HTTP/1.1\r\nHost: x\r\nBerth-Door: native\r\n\r\n"},
		{identity.RoleNode, a.Node, api.ALPNRaft, identity.RoleNode, "\x00"},
		{identity.RoleAgent, a.Agent, api.ALPNHTTP, identity.RoleNode, "POST /agent/work HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
		{identity.RoleGateway, a.Gateway, api.ALPNHTTP, identity.RoleGateway, "GET /zones/info HTTP/1.1\r\nHost: x\r\n\r\n"},
		{identity.RoleGateway, a.Gateway, api.ALPNGossip, identity.RoleGateway, "\x00\x01\xa0"},
	} {
		creds, err := s.own.issue(at.role, "node-1")
		if err != nil {
			return err
		}
		conf := identity.ClientTLS(func() *identity.Credentials { return creds }, at.alpn, identity.PinTo(v.CA),
			identity.Subject{Zone: v.Zone, Role: at.theirs}, time.Now)
		if b := hear(ctx, r, at.addr, conf, at.request); len(b) > 0 {
			return fmt.Errorf("a stranger with the role %s hears from the listener of %s: %q", at.role, at.alpn, b)
		}
	}
	return nil
}

// hear says something over TLS and returns what comes back before the other end hangs up.
func hear(ctx context.Context, r *record, addr string, conf *tls.Config, say string) []byte {
	raw, err := from(rogueAddr)(ctx, addr)
	if err != nil {
		r.note("not connected")
		return nil
	}
	defer func() { _ = raw.Close() }() // whoever closes first
	c := tls.Client(raw, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		r.note("refused in the handshake")
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(time.Second)) // it is open
	if _, err := io.WriteString(c, say); err != nil {
		r.note("hung up on")
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(c, 1<<16))
	if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // of the connection itself
		r.note("not hung up on")
	} else {
		r.note("hung up on")
	}
	r.keep(b)
	return b
}

// waiters are the connections of one try that wait.
const waiters = 50

// wait opens connections and says little or nothing.
func (s *strangerCalls) wait(ctx context.Context, r *record) error {
	a := s.root.node.Addresses()
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close() // it was of no use
		}
	}()
	for n := range waiters {
		c, err := from(rogueAddr)(ctx, []string{a.API, a.Gateway, a.Node, a.Agent}[n%4])
		if err != nil {
			r.note("not connected")
			return nil
		}
		open = append(open, c)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ") // as far as it gets
		r.note("open")
	}
	return nil
}

// babble sends what is no protocol of any listener.
func (s *strangerCalls) babble(ctx context.Context, r *record) error {
	a := s.root.node.Addresses()
	for _, addr := range []string{a.API, a.Gateway, a.Node, a.Agent} {
		for _, text := range []string{"\x16\x03\x01\xff\xff\x01", "SSH-2.0-x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "GET /%zz HTTP/9.9\r\n\r\n", "\x00"} {
			c, err := from(rogueAddr)(ctx, addr)
			if err != nil {
				r.note("not connected")
				return nil //nolint:nilerr // refused
			}
			_, _ = io.WriteString(c, text) // as far as it gets
			_ = c.Close()
			r.note("said")
		}
	}
	return nil
}
