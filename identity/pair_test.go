package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// company is an authority that knows nothing of Berth, with one below its root.
type company struct {
	root, below       *x509.Certificate
	rootKey, belowKey crypto.Signer
}

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{rootKey: newTestKey(t), belowKey: newTestKey(t)}
	authority := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: testNow.Add(-time.Hour), NotAfter: testNow.Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, below := authority, authority
	root.Subject.CommonName, below.Subject.CommonName = "Acme Root", "Acme Issuing"
	c.root = signed(t, &root, &root, c.rootKey.Public(), c.rootKey)
	c.below = signed(t, &below, c.root, c.belowKey.Public(), c.rootKey)
	return c
}

func signed(t *testing.T, template, by *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, by, pub, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// issue makes a certificate of a server, changed by edit, and its key.
func (c *company) issue(t *testing.T, edit func(*x509.Certificate)) (*x509.Certificate, []byte) {
	t.Helper()
	key := newTestKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: testNow.Add(-time.Hour), NotAfter: testNow.Add(time.Hour), DNSNames: []string{"berth.acme.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	edit(leaf)
	der, err := marshalKey(key)
	require.NoError(t, err)
	return signed(t, leaf, c.below, key.Public(), c.belowKey), pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der})
}

func inPEM(certs ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: c.Raw})...)
	}
	return text
}

func load(t *testing.T, certs, key []byte) (*Pair, error) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "fullchain.pem"), filepath.Join(dir, "privkey.pem")
	require.NoError(t, os.WriteFile(certFile, certs, 0o644))
	require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	return LoadPair(certFile, keyFile)
}

// TestPairsThatCannotBeUsed: each is refused before anybody sees it, with a sentence that says what is wrong.
func TestPairsThatCannotBeUsed(t *testing.T) {
	c := newCompany(t)
	leaf, key := c.issue(t, func(*x509.Certificate) {})
	_, otherKey := c.issue(t, func(*x509.Certificate) {})
	edited := func(edit func(*x509.Certificate)) [2][]byte {
		cert, own := c.issue(t, edit)
		return [2][]byte{inPEM(cert, c.below), own}
	}
	whole := inPEM(leaf, c.below)
	fill := func(text []byte, to int) []byte {
		return append([]byte(strings.Repeat("#", to-len(text)-1)+"\n"), text...)
	}
	long := func(n int) []byte {
		chain := []*x509.Certificate{leaf, c.below, c.root}
		for len(chain) < n {
			chain = append(chain, c.root) // which has signed itself
		}
		return inPEM(chain...)
	}
	for name, files := range map[string][2][]byte{
		"whole": {whole, key}, "without those that lead to the root": {inPEM(leaf), key}, "with the root": {inPEM(leaf, c.below, c.root), key},
		"for any use":    edited(func(l *x509.Certificate) { l.ExtKeyUsage = nil }),
		"limit of bytes": {fill(whole, PairMaxBytes), fill(key, PairMaxBytes)}, "limit of certificates": {long(PairChainMax), key},
	} {
		p, err := load(t, files[0], files[1])
		require.NoError(t, err, name)
		assert.True(t, p.Covers("berth.acme.example"), name)
		assert.False(t, p.Covers("127.0.0.1"), name)
	}
	for want, files := range map[string][2][]byte{
		"it has 0 certificates in PEM": {nil, key}, "it has 9 certificates": {long(PairChainMax + 1), key},
		"must have certificates alone":            {append(inPEM(leaf), key...), key},
		"reading certificate 1":                   {pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: []byte("x")}), key},
		"fullchain.pem has more than 65536 bytes": {fill(whole, PairMaxBytes+1), key},
		"privkey.pem has more than 65536 bytes":   {whole, fill(key, PairMaxBytes+1)},
		"is not the key of the certificate":       {whole, otherKey},
		"find any PEM data":                       {whole, []byte("no key")},
		"certificate 2 has not signed":            {inPEM(leaf, c.root), key},
		"the server's must be the first":          {inPEM(c.below, leaf), key},
		"no DNS name and no IP address":           edited(func(l *x509.Certificate) { l.DNSNames = nil }),
		"its extended key usage lacks serverAuth": edited(func(l *x509.Certificate) { l.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
	} {
		p, err := load(t, files[0], files[1])
		assert.Nil(t, p, want)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), want)
		assert.ErrorContains(t, err, want)
	}
	whenValid, err := load(t, whole, key)
	require.NoError(t, err)
	for at, want := range map[time.Time]string{
		whenValid.Leaf().NotBefore: "", whenValid.Leaf().NotBefore.Add(-1): "it is valid from",
		whenValid.Leaf().NotAfter.Add(-1): "", whenValid.Leaf().NotAfter: "it has expired at",
	} {
		if err = whenValid.CheckTime(at); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
	_, err = LoadPair("/nowhere/cert", "/nowhere/key")
	assert.ErrorContains(t, err, "/nowhere/cert")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/c", whole, 0o600))
	require.NoError(t, os.WriteFile(dir+"/k", key, 0o640))
	_, err = LoadPair(dir+"/c", dir+"/k")
	assert.ErrorContains(t, err, "chmod 600")
}

// TestWhoIsShownWhat: clients see the certificate that was brought, and who joins that of the zone, also if the
// certificate is the zone's alone.
func TestWhoIsShownWhat(t *testing.T) {
	c, ca := newCompany(t), newTestCA(t, "zone-a")
	leaf, key := c.issue(t, func(*x509.Certificate) {})
	p, err := load(t, inPEM(leaf, c.below), key)
	require.NoError(t, err)
	own := p
	server := APITLS(always(credentials(t, ca, RoleAPI, "n1")), func() *Pair { return own }, testClock)
	roots := x509.NewCertPool()
	roots.AddCert(c.root)
	client := &tls.Config{RootCAs: roots, ServerName: "berth.acme.example", Time: testClock}
	joiner := func() *tls.Config { return JoinTLS("zone-a", PinTo(ca.CertDER()), testClock) }

	s, of := meet(t, server, client)
	assertMet(t, s, of)
	s, of = meet(t, server, joiner()) // which is shown the certificate of the zone
	assertMet(t, s, of)
	assert.Equal(t, api.ALPNHTTP, of.state.NegotiatedProtocol)
	_, of = meet(t, server, JoinTLS("zone-a", PinTo(newTestCA(t, "zone-a").CertDER()), testClock))
	require.ErrorContains(t, of.err, "another authority")

	own = nil
	s, of = meet(t, server, joiner())
	assertMet(t, s, of)
	_, of = meet(t, server, client)
	require.Error(t, of.err)
}
