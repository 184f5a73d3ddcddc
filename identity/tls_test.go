package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// listeners are those of zone a. Zone b is linked to it, zone c is not.
type listeners struct {
	a, b, c              *CA
	node, agent, gateway *tls.Config
}

func newListeners(t *testing.T) listeners {
	t.Helper()
	l := listeners{a: newTestCA(t, "zone-a"), b: newTestCA(t, "zone-b"), c: newTestCA(t, "zone-c")}
	pinned := func(zone api.ZoneID) []Pin {
		if zone == "zone-b" {
			return []Pin{PinOf(l.b.CertDER())}
		}
		return nil
	}
	node, gateway := always(credentials(t, l.a, RoleNode, "n0")), always(credentials(t, l.a, RoleGateway, "n0"))
	l.node = ServerTLS(node, []string{api.ALPNRaft, api.ALPNGossip, api.ALPNHTTP}, AdmitOwn(PinTo(l.a.CertDER()), RoleNode), testClock)
	l.agent = ServerTLS(node, []string{api.ALPNHTTP}, AdmitOwn(PinTo(l.a.CertDER()), RoleAgent), testClock)
	l.gateway = ServerTLS(gateway, []string{api.ALPNHTTP, api.ALPNGossip, api.ALPNEnrol}, AdmitLinked(pinned), testClock)
	return l
}

func TestServerAdmits(t *testing.T) {
	l := newListeners(t)
	for _, c := range []struct {
		name   string
		server *tls.Config
		peer   *Credentials
		alpn   string
	}{
		{"node for raft", l.node, credentials(t, l.a, RoleNode, "n1"), api.ALPNRaft},
		{"node for gossip", l.node, credentials(t, l.a, RoleNode, "n1"), api.ALPNGossip},
		{"node for requests", l.node, credentials(t, l.a, RoleNode, "n1"), api.ALPNHTTP},
		{"agent", l.agent, credentials(t, l.a, RoleAgent, "host-7"), api.ALPNHTTP},
		{"linked gateway for requests", l.gateway, credentials(t, l.b, RoleGateway, "n1"), api.ALPNHTTP},
		{"linked gateway for gossip", l.gateway, credentials(t, l.b, RoleGateway, "n1"), api.ALPNGossip},
		{"linked gateway that enrols again", l.gateway, credentials(t, l.b, RoleGateway, "n1"), api.ALPNEnrol},
		{"unlinked gateway that enrols", l.gateway, credentials(t, l.c, RoleGateway, "n1"), api.ALPNEnrol},
		{"forgery that changes nothing", l.node, forged(t, l.a, func(*x509.Certificate) {}), api.ALPNRaft},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := meet(t, c.server, dialing(c.peer, c.alpn))
			assertMet(t, server, client)
			assert.Equal(t, c.alpn, server.state.NegotiatedProtocol)
			peer, err := Peer(server.state)
			require.NoError(t, err)
			leaf, err := x509.ParseCertificate(c.peer.Cert.Certificate[0])
			require.NoError(t, err)
			assert.Equal(t, leaf.URIs[0].String(), peer.String())
		})
	}
}

// refusal is a client that a server must refuse within the handshake, and a part
// of the server's reason.
type refusal struct {
	name   string
	server *tls.Config
	client *tls.Config
	reason string
}

func assertServerRefuses(t *testing.T, rows []refusal) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			server, client := meet(t, r.server, r.client)
			require.ErrorContains(t, server.err, r.reason)
			assert.Zero(t, server.read, "the server read a byte of protocol")
			assert.Zero(t, client.read, "the client got a byte of protocol")
			_, err := Peer(server.state)
			require.Error(t, err)
		})
	}
}

func TestServerRefusesPeers(t *testing.T) {
	l := newListeners(t)
	node := func(c *Credentials, alpn ...string) *tls.Config { return dialing(c, append(alpn, api.ALPNRaft)...) }
	twin := newTestCA(t, "zone-a") // another authority that claims zone a
	twinB := newTestCA(t, "zone-b")
	honest := credentials(t, l.a, RoleNode, "n1")
	stolen := chain(credentials(t, l.a, RoleNode, "n2"), honest.Cert.Certificate...)
	old := dialing(honest, api.ALPNRaft)
	old.MaxVersion = tls.VersionTLS12
	nobody := ServerTLS(always(nil), []string{api.ALPNRaft}, AdmitOwn(PinTo(l.a.CertDER()), RoleNode), testClock)

	assertServerRefuses(t, []refusal{
		{"agent at the node listener", l.node, node(credentials(t, l.a, RoleAgent, "x")), "not of role node"},
		{"gateway at the node listener", l.node, node(credentials(t, l.a, RoleGateway, "x")), "not of role node"},
		{"api at the node listener", l.node, node(credentials(t, l.a, RoleAPI, "x")), "incompatible key usage"},
		{"node at the agent listener", l.agent, dialing(honest, api.ALPNHTTP), "not of role agent"},
		{"node of another zone", l.node, node(credentials(t, l.b, RoleNode, "n1")), "another authority"},
		{"foreign authority of the same zone id", l.node, node(credentials(t, twin, RoleNode, "n1")), "another authority"},
		{"foreign leaf with the true authority", l.node, node(chain(credentials(t, twin, RoleNode, "n1"),
			credentials(t, twin, RoleNode, "n1").Cert.Certificate[0], l.a.CertDER())), "unknown authority"},
		{"certificate without its key", l.node, node(stolen), "invalid signature"},
		{"no certificate", l.node, node(nil), "didn't provide a certificate"},
		{"leaf alone", l.node, node(chain(honest, honest.Cert.Certificate[0])), "sent 1 certificates"},
		{"leaf and two authorities", l.node, node(chain(honest, append(honest.Cert.Certificate, l.a.CertDER())...)), "sent 3 certificates"},
		{"authority as a leaf", l.node, node(&Credentials{Cert: tls.Certificate{
			Certificate: [][]byte{l.a.CertDER(), l.a.CertDER()}, PrivateKey: l.a.key,
		}}), "not a leaf certificate"},
		{"TLS 1.2", l.node, old, "unsupported versions"},
		{"no protocol named", l.node, dialing(honest), "named no protocol"},
		{"agent listener asked for raft", l.agent, dialing(credentials(t, l.a, RoleAgent, "x"), api.ALPNRaft), "requested unsupported application protocols"},
		{"node listener asked to enrol", l.node, dialing(credentials(t, l.c, RoleGateway, "x"), api.ALPNEnrol), "requested unsupported application protocols"},
		{"listener without credentials", nobody, node(honest), "no certificate yet"},

		{"unlinked gateway", l.gateway, dialing(credentials(t, l.c, RoleGateway, "x"), api.ALPNHTTP), "without an active link"},
		{"unlinked gateway for gossip", l.gateway, dialing(credentials(t, l.c, RoleGateway, "x"), api.ALPNGossip), "without an active link"},
		{"unlinked gateway that offers to enrol but gets requests", l.gateway, dialing(credentials(t, l.c, RoleGateway, "x"), api.ALPNEnrol, api.ALPNHTTP), "without an active link"},
		{"linked zone with another authority", l.gateway, dialing(credentials(t, twinB, RoleGateway, "x"), api.ALPNHTTP), "that its link pins"},
		{"node of a linked zone", l.gateway, dialing(credentials(t, l.b, RoleNode, "x"), api.ALPNHTTP), "not a gateway"},
		{"node that enrols", l.gateway, dialing(credentials(t, l.c, RoleNode, "x"), api.ALPNEnrol), "not a gateway"},
		{"agent that enrols", l.gateway, dialing(credentials(t, l.c, RoleAgent, "x"), api.ALPNEnrol), "not a gateway"},
	})
}

func TestServerRefusesCertificates(t *testing.T) {
	l := newListeners(t)
	uri := func(text string) func(*x509.Certificate) {
		u, err := url.Parse(text)
		require.NoError(t, err)
		return func(c *x509.Certificate) { c.URIs = []*url.URL{u} }
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	rows := []refusal{{
		name: "key of another kind", reason: "not ECDSA P-256",
		client: dialing(forgedKey(t, l.a, p384, func(*x509.Certificate) {}), api.ALPNRaft),
	}}
	for _, r := range []struct {
		name, reason string
		edit         func(*x509.Certificate)
	}{
		{"expired", "expired", func(c *x509.Certificate) { c.NotAfter = testNow.Add(-time.Second) }},
		{"not yet valid", "not yet valid", func(c *x509.Certificate) { c.NotBefore = testNow.Add(time.Second) }},
		{"DNS name", "beside its URI", func(c *x509.Certificate) { c.DNSNames = []string{"host.example.org"} }},
		{"IP address", "beside its URI", func(c *x509.Certificate) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} }},
		{"mail address", "beside its URI", func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example.org"} }},
		{"name of a type that crypto/x509 skips", "beside its URI", otherName(t, "berth://zone-a/node/n1")},
		{"alternative names that are none", "malformed", malformedNames},
		{"two URIs", "has 2 URIs", func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }},
		{"no URI", "has 0 URIs", func(c *x509.Certificate) { c.URIs = nil }},
		{"common name", "distinguished name", func(c *x509.Certificate) { c.Subject.CommonName = "n1" }},
		{"organisation", "distinguished name", func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{"o"}} }},
		{"for servers only", "incompatible key usage", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }},
		{"right authority, wrong zone", "signed for zone zone-b", uri("berth://zone-b/node/n1")},
		{"other scheme", "not of the form", uri("https://zone-a/node/n1")},
		{"unknown role", "role", uri("berth://zone-a/root/n1")},
		{"no id", "id in a certificate", uri("berth://zone-a/node/")},
		{"deeper path", "not of the form", uri("berth://zone-a/node/n1/n2")},
		{"query", "id in a certificate", uri("berth://zone-a/node/n1?x=1")},
		{"user", "zone id", uri("berth://u@zone-a/node/n1")},
		{"port", "zone id", uri("berth://zone-a:1/node/n1")},
		{"upper case", "zone id", uri("berth://ZONE-A/node/n1")},
		{"escaped", "id in a certificate", uri("berth://zone-a/node/%6e1")},
	} {
		rows = append(rows, refusal{name: r.name, reason: r.reason, client: dialing(forged(t, l.a, r.edit), api.ALPNRaft)})
	}
	for i := range rows {
		rows[i].server = l.node
	}
	assertServerRefuses(t, rows)
}

// otherName puts an otherName (RFC 5280) beside the URI.
func otherName(t *testing.T, uri string) func(*x509.Certificate) {
	t.Helper()
	value, err := asn1.Marshal([]asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: nameURI, Bytes: []byte(uri)},
		{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: []byte{6, 2, 42, 3, 0xa0, 2, 12, 0}},
	})
	require.NoError(t, err)
	return func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: oidAlternativeNames, Value: value}}
	}
}

// malformedNames puts a name of no class of general names beside the URI.
func malformedNames(c *x509.Certificate) {
	c.ExtraExtensions = []pkix.Extension{{Id: oidAlternativeNames, Value: []byte{0x30, 3, 0x0c, 1, 'a'}}}
}

// TestServerRefusesAuthorities tries what the enrol protocol, which knows no
// authority beforehand, must still refuse.
func TestServerRefusesAuthorities(t *testing.T) {
	l := newListeners(t)
	gateway := func(ca *CA) *tls.Config {
		return dialing(forged(t, ca, func(c *x509.Certificate) { c.URIs[0].Path = "/gateway/n1" }), api.ALPNEnrol)
	}
	rows := []refusal{
		{name: "signed by another", reason: "own signature", client: gateway(crossSigned(t, l.b, "zone-c"))},
		{name: "well-formed zone, wrong authority", reason: "signed for zone", client: dialing(forged(t, l.c, func(c *x509.Certificate) {
			c.URIs = []*url.URL{{Scheme: "berth", Host: "zone-d", Path: "/gateway/n1"}}
		}), api.ALPNEnrol)},
	}
	for _, r := range []struct {
		name, reason string
		edit         func(*x509.Certificate)
	}{
		{"expired", "expired", func(c *x509.Certificate) { c.NotAfter = testNow.Add(-time.Second) }},
		{"not yet valid", "not yet valid", func(c *x509.Certificate) { c.NotBefore = testNow.Add(time.Second) }},
		{"other name", "not called", func(c *x509.Certificate) { c.Subject.CommonName = "Example CA" }},
		{"organisation", "not called", func(c *x509.Certificate) { c.Subject.Organization = []string{"o"} }},
		{"no zone", "only alternative name", func(c *x509.Certificate) { c.URIs = nil }},
		{"zone and DNS name", "only alternative name", func(c *x509.Certificate) { c.DNSNames = []string{"x.org"} }},
		{"a leaf's URI", "does not name a zone", func(c *x509.Certificate) { c.URIs[0].Path = "/gateway/n1" }},
		{"no authority", "not an authority's", func(c *x509.Certificate) { c.IsCA = false }},
		{"may not sign", "not an authority's", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }},
	} {
		rows = append(rows, refusal{name: r.name, reason: r.reason, client: gateway(forgedCA(t, "zone-c", r.edit))})
	}
	for i := range rows {
		rows[i].server = l.gateway
	}
	assertServerRefuses(t, rows)
}

// crossSigned is an authority of zone whose certificate by signed.
func crossSigned(t *testing.T, by *CA, zone api.ZoneID) *CA {
	t.Helper()
	ca := forgedCA(t, zone, func(*x509.Certificate) {})
	der, err := x509.CreateCertificate(rand.Reader, ca.cert, by.cert, &ca.key.PublicKey, by.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &CA{zone: zone, cert: cert, key: ca.key}
}

func TestClientAdmits(t *testing.T) {
	l := newListeners(t)
	me := always(credentials(t, l.b, RoleGateway, "n1"))
	anyGateway, newcomer := Subject{Zone: "zone-a", Role: RoleGateway}, always(credentials(t, l.c, RoleGateway, "n1"))
	public := APITLS(always(credentials(t, l.a, RoleAPI, "n0")), func() *Pair { return nil }, testClock)
	pin := PinTo(l.a.CertDER())
	for name, c := range map[string]struct{ server, client *tls.Config }{
		"any gateway":      {l.gateway, ClientTLS(me, api.ALPNHTTP, PinTo(l.a.CertDER()), anyGateway, testClock)},
		"one gateway":      {l.gateway, ClientTLS(me, api.ALPNGossip, PinTo(l.a.CertDER()), Subject{"zone-a", RoleGateway, "n0"}, testClock)},
		"enrol by the pin": {l.gateway, ClientTLS(newcomer, api.ALPNEnrol, pin, anyGateway, testClock)},
		"join by the pin":  {public, ClientTLS(nil, api.ALPNHTTP, pin, Subject{Zone: "zone-a", Role: RoleAPI}, testClock)},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := meet(t, c.server, c.client)
			assertMet(t, server, client)
			peer, err := Peer(client.state)
			require.NoError(t, err)
			assert.Equal(t, "n0", peer.ID)
		})
	}
}

func TestClientRefuses(t *testing.T) {
	a, twin := newTestCA(t, "zone-a"), newTestCA(t, "zone-a")
	b := newTestCA(t, "zone-b")
	me, want := always(credentials(t, b, RoleGateway, "n1")), Subject{Zone: "zone-a", Role: RoleGateway}
	dial := func(want Subject) *tls.Config {
		return ClientTLS(me, api.ALPNHTTP, PinTo(a.CertDER()), want, testClock)
	}
	serve := func(c *Credentials) *tls.Config { return listening(c, api.ALPNHTTP) }
	edited := func(edit func(*x509.Certificate)) *tls.Config {
		return serve(forged(t, a, func(c *x509.Certificate) { c.URIs[0].Path = "/gateway/n0"; edit(c) }))
	}
	honest := credentials(t, a, RoleGateway, "n0")
	old := serve(honest)
	old.MaxVersion = tls.VersionTLS12
	for _, r := range []struct {
		name           string
		server, client *tls.Config
		reason         string
	}{
		{"another authority of the same zone", serve(credentials(t, twin, RoleGateway, "n0")), dial(want), "another authority"},
		{"another zone", serve(credentials(t, b, RoleGateway, "n0")), dial(want), "another authority"},
		{"node for a gateway", serve(credentials(t, a, RoleNode, "n0")), dial(want), "expected"},
		{"api for a gateway", serve(credentials(t, a, RoleAPI, "n0")), dial(want), "expected"},
		{"agent that listens", serve(credentials(t, a, RoleAgent, "n0")), dial(want), "incompatible key usage"},
		{"another node", serve(honest), dial(Subject{"zone-a", RoleGateway, "n7"}), "expected"},
		{"nobody wanted", serve(honest), dial(Subject{}), "expected"},
		{"expired", edited(func(c *x509.Certificate) { c.NotAfter = testNow.Add(-time.Second) }), dial(want), "expired"},
		{"DNS name", edited(func(c *x509.Certificate) { c.DNSNames = []string{"x.org"} }), dial(want), "beside its URI"},
		{"leaf alone", serve(chain(honest, honest.Cert.Certificate[0])), dial(want), "sent 1 certificates"},
		{"no protocol", listening(honest), dial(want), "does not speak"},
		{"TLS 1.2", old, dial(want), "protocol version"},
		{"wrong pin", serve(honest), ClientTLS(me, api.ALPNHTTP, func() []Pin { return []Pin{{1}} }, want, testClock), "another authority"},
		{"pinned, wrong zone", serve(honest), ClientTLS(me, api.ALPNHTTP, PinTo(a.CertDER()), Subject{Zone: "zone-b", Role: RoleGateway}, testClock), "expected"},
		{"no credentials of our own", serve(honest), ClientTLS(always(nil), api.ALPNHTTP, PinTo(a.CertDER()), want, testClock), "no certificate yet"},
	} {
		t.Run(r.name, func(t *testing.T) {
			server, client := meet(t, r.server, r.client)
			require.ErrorContains(t, client.err, r.reason)
			assert.Zero(t, server.read)
			assert.Zero(t, client.read)
		})
	}
}

// TestAPICertificateSatisfiesAnyClient plays curl --cacert: a client that knows
// the authority's certificate and checks host names as always.
func TestAPICertificateSatisfiesAnyClient(t *testing.T) {
	a := newTestCA(t, "zone-a")
	server := APITLS(always(credentials(t, a, RoleAPI, "n0")), func() *Pair { return nil }, testClock)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for _, name := range []string{"127.0.0.1", "::1", "api.example.org"} {
		s, c := meet(t, server, &tls.Config{RootCAs: roots, ServerName: name, Time: testClock, NextProtos: []string{"h2", "http/1.1"}})
		assertMet(t, s, c)
		assert.Equal(t, "h2", c.state.NegotiatedProtocol)
	}
	_, c := meet(t, server, &tls.Config{RootCAs: roots, ServerName: "10.0.0.1", Time: testClock})
	assert.ErrorContains(t, c.err, "10.0.0.1")
}

// TestRenewalAndUnlinkingTakeEffect shows that every connection is checked
// afresh: nothing is resumed, and new credentials and policies apply at once.
func TestRenewalAndUnlinkingTakeEffect(t *testing.T) {
	a, b := newTestCA(t, "zone-a"), newTestCA(t, "zone-b")
	current, linked := credentials(t, a, RoleGateway, "n0"), true
	server := ServerTLS(func() *Credentials { return current }, []string{api.ALPNHTTP},
		AdmitLinked(func(api.ZoneID) []Pin {
			if linked {
				return []Pin{PinOf(b.CertDER())}
			}
			return nil
		}), testClock)
	client := ClientTLS(always(credentials(t, b, RoleGateway, "n1")), api.ALPNHTTP, PinTo(a.CertDER()), Subject{Zone: "zone-a", Role: RoleGateway}, testClock)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	for _, id := range []string{"n0", "n0", "renewed"} {
		if id == "renewed" {
			current = credentials(t, a, RoleGateway, id)
		}
		s, c := meet(t, server, client)
		assertMet(t, s, c)
		assert.False(t, c.state.DidResume)
		peer, err := Peer(c.state)
		require.NoError(t, err)
		assert.Equal(t, id, peer.ID)
	}
	linked = false
	s, _ := meet(t, server, client)
	assert.ErrorContains(t, s.err, "without an active link")
}

func TestPeerNeedsAHandshake(t *testing.T) {
	_, err := Peer(tls.ConnectionState{})
	require.Error(t, err)
	_, err = Peer(tls.ConnectionState{HandshakeComplete: true})
	require.Error(t, err)
}
