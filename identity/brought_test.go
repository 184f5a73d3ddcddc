package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// broughtCA is an authority as an operator makes it, in PEM, changed by edit.
func broughtCA(t *testing.T, edit func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	ca := forgedCA(t, "zone-a", func(c *x509.Certificate) {
		c.NotAfter, c.MaxPathLenZero = testNow.Add(LeafTTL), true
		edit(c)
	})
	return inPEM(ca.cert), keyPEM(t, ca.key)
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := marshalKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der})
}

// TestAuthoritiesThatCannotBeBrought are refused, also those that would be found out only by the first certificate.
func TestAuthoritiesThatCannotBeBrought(t *testing.T) {
	cert, key := broughtCA(t, func(*x509.Certificate) {})
	ca, err := ParseCA(cert, key, testNow)
	require.NoError(t, err)
	assert.Equal(t, api.ZoneID("zone-a"), ca.Zone())
	assert.True(t, ca.HasKeyOf(ca.CertDER()))
	assert.False(t, ca.HasKeyOf(newTestCA(t, "zone-a").CertDER()))
	own := newTestCA(t, "zone-a")
	_, err = ParseCA(inPEM(own.cert), keyPEM(t, own.key), testNow)
	require.NoError(t, err, "the zone's own form")
	_, other := broughtCA(t, func(*x509.Certificate) {})
	company := newCompany(t)

	edited := func(edit func(*x509.Certificate)) [2][]byte {
		c, k := broughtCA(t, edit)
		return [2][]byte{c, k}
	}
	below := crossSigned(t, newTestCA(t, "zone-b"), "zone-a")
	for want, files := range map[string][2][]byte{
		"must have 1 to 8":              {nil, key},
		"comes alone":                   {append(inPEM(company.root), cert...), key},
		"private key does not match":    {cert, other},
		"not called":                    {inPEM(company.root), keyPEM(t, company.rootKey.(*ecdsa.PrivateKey))},
		"the authority's own signature": {inPEM(below.cert), keyPEM(t, below.key)},
		"not an authority's":            edited(func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false }),
		"path length must be 0":         edited(func(c *x509.Certificate) { c.MaxPathLenZero = false }),
		"must be from now on":           edited(func(c *x509.Certificate) { c.NotBefore = testNow.Add(time.Second) }),
		"for 8760h0m0s at least":        edited(func(c *x509.Certificate) { c.NotAfter = testNow.Add(LeafTTL - time.Second) }),
		"does not name a zone":          edited(func(c *x509.Certificate) { c.URIs[0].Host = "Zone_A" }),
		"only alternative name":         edited(func(c *x509.Certificate) { c.DNSNames = []string{"acme.example"} }),
		"is not permitted": edited(func(c *x509.Certificate) {
			c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"acme.example"}, true
		}),
		"incompatible key usage":           edited(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }),
		"certificate of an authority has ": edited(func(c *x509.Certificate) { c.SubjectKeyId = make([]byte, api.AuthorityMaxBytes) }),
	} {
		_, err := ParseCA(files[0], files[1], testNow)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), want)
		assert.ErrorContains(t, err, want)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	template := *own.cert
	template.PublicKey = p384.Public()
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, p384.Public(), p384)
	require.NoError(t, err)
	_, err = ParseCA(pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: der}), key, testNow)
	assert.ErrorContains(t, err, "not an authority's")

	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	require.NoError(t, os.WriteFile(certFile, cert, 0o644))
	_, _, err = ReadCAFiles(certFile, keyFile)
	assert.ErrorContains(t, err, keyFile)
	require.NoError(t, os.WriteFile(keyFile, key, 0o644))
	_, _, err = ReadCAFiles(certFile, keyFile)
	assert.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(keyFile, 0o600))
	c, k, err := ReadCAFiles(certFile, keyFile)
	require.NoError(t, err)
	assert.Equal(t, [2][]byte{cert, key}, [2][]byte{c, k})
}
