package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// testNow is the moment at which every test takes place.
var testNow = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

func testClock() time.Time { return testNow }

func newTestCA(tb testing.TB, zone api.ZoneID) *CA {
	tb.Helper()
	ca, err := NewCA(zone, testNow)
	require.NoError(tb, err)
	return ca
}

func newTestKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := NewKey()
	require.NoError(tb, err)
	return key
}

// credentials are issued as they should be.
func credentials(tb testing.TB, ca *CA, role Role, id string) *Credentials {
	tb.Helper()
	key := newTestKey(tb)
	var der []byte
	var err error
	if role == RoleAPI {
		der, err = ca.IssueAPI(id, []string{"127.0.0.1", "::1", "api.example.org"}, &key.PublicKey, testNow, LeafTTL)
	} else {
		der, err = ca.Issue(Subject{ca.Zone(), role, id}, &key.PublicKey, testNow, LeafTTL)
	}
	require.NoError(tb, err)
	c, err := NewCredentials(key, der, ca.CertDER())
	require.NoError(tb, err)
	return c
}

// forged is a node's certificate that edit has changed before ca signed it,
// which CA.Issue would never do.
func forged(tb testing.TB, ca *CA, edit func(*x509.Certificate)) *Credentials {
	tb.Helper()
	return forgedKey(tb, ca, newTestKey(tb), edit)
}

func forgedKey(tb testing.TB, ca *CA, key crypto.Signer, edit func(*x509.Certificate)) *Credentials {
	tb.Helper()
	c := &x509.Certificate{
		URIs:        []*url.URL{{Scheme: "berth", Host: string(ca.zone), Path: "/node/n1"}},
		NotBefore:   testNow.Add(-time.Hour),
		NotAfter:    testNow.Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	edit(c)
	der, err := x509.CreateCertificate(rand.Reader, c, ca.cert, key.Public(), ca.key)
	require.NoError(tb, err)
	return &Credentials{Cert: tls.Certificate{Certificate: [][]byte{der, ca.CertDER()}, PrivateKey: key}}
}

// forgedCA is a zone's authority that edit has changed before it signed itself.
func forgedCA(tb testing.TB, zone api.ZoneID, edit func(*x509.Certificate)) *CA {
	tb.Helper()
	key := newTestKey(tb)
	c := &x509.Certificate{
		Subject:   pkix.Name{CommonName: caName},
		URIs:      []*url.URL{{Scheme: "berth", Host: string(zone)}},
		NotBefore: testNow.Add(-time.Hour), NotAfter: testNow.Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	edit(c)
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(tb, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	return &CA{zone: zone, cert: cert, key: key}
}

// chain replaces the certificates that c presents.
func chain(c *Credentials, der ...[]byte) *Credentials {
	return &Credentials{Cert: tls.Certificate{Certificate: der, PrivateKey: c.Cert.PrivateKey}}
}

func always(c *Credentials) func() *Credentials { return func() *Credentials { return c } }

// dialing is a client that presents c, offers alpn and trusts every server.
func dialing(c *Credentials, alpn ...string) *tls.Config {
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: alpn, Time: testClock}
	if c != nil {
		conf.Certificates = []tls.Certificate{c.Cert}
	}
	return conf
}

// listening is a server that presents c, speaks alpn and trusts every client.
func listening(c *Credentials, alpn ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.Cert}, NextProtos: alpn, ClientAuth: tls.RequestClientCert, Time: testClock}
}

// side is what one end of a connection saw.
type side struct {
	err   error // of its handshake
	state tls.ConnectionState
	read  int // bytes of protocol that it got after the handshake
}

// meet lets a client and a server shake hands over loopback. Each sends one byte
// as soon as its handshake is done and reads until the other has closed.
func meet(t *testing.T, server, client *tls.Config) (s, c side) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	done := make(chan side)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- side{err: err}
			return
		}
		done <- talk(tls.Server(conn, server), conn)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	c = talk(tls.Client(conn, client), conn)
	return <-done, c
}

func talk(c *tls.Conn, raw net.Conn) side {
	defer raw.Close()
	out := side{err: c.Handshake()}
	if out.err == nil {
		_, _ = c.Write([]byte("x"))
		_ = c.CloseWrite()
	}
	out.state = c.ConnectionState()
	n, _ := io.Copy(io.Discard, c)
	out.read = int(n)
	return out
}

// assertMet fails t unless both ends took the other for who it is.
func assertMet(t *testing.T, s, c side) {
	t.Helper()
	require.NoError(t, s.err, "server")
	require.NoError(t, c.err, "client")
	assert.Equal(t, 1, s.read)
	assert.Equal(t, 1, c.read)
	assert.Equal(t, uint16(tls.VersionTLS13), s.state.Version)
}
