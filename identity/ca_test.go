package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestIssuedCertificateTellsNothingElse(t *testing.T) {
	a := newTestCA(t, "zone-a")
	for _, role := range []Role{RoleNode, RoleGateway, RoleAgent} {
		c := credentials(t, a, role, "n1")
		leaf := c.Cert.Leaf
		assert.Equal(t, Subject{"zone-a", role, "n1"}, c.Subject)
		assert.Equal(t, "berth://zone-a/"+string(role)+"/n1", leaf.URIs[0].String())
		assert.Equal(t, emptyName, leaf.RawSubject)
		assert.Equal(t, "CN="+caName, leaf.Issuer.String())
		assert.Empty(t, leaf.DNSNames)
		assert.Empty(t, leaf.IPAddresses)
		assert.False(t, leaf.IsCA)
		assert.Equal(t, testNow.Add(-min(backdate, testNow.Sub(a.cert.NotBefore))), leaf.NotBefore)
		assert.Equal(t, testNow.Add(LeafTTL), leaf.NotAfter)
	}
	assert.Equal(t, testNow.Add(caTTL), a.cert.NotAfter)
	assert.Equal(t, api.ZoneID("zone-a"), a.Zone())
}

func TestIssueRefuses(t *testing.T) {
	a, key := newTestCA(t, "zone-a"), newTestKey(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	good := Subject{"zone-a", RoleNode, "n1"}
	for name, c := range map[string]struct {
		s   Subject
		pub any
		ttl time.Duration
	}{
		"another zone":  {Subject{"zone-b", RoleNode, "n1"}, &key.PublicKey, time.Hour},
		"no zone":       {Subject{"", RoleNode, "n1"}, &key.PublicKey, time.Hour},
		"unknown role":  {Subject{"zone-a", "root", "n1"}, &key.PublicKey, time.Hour},
		"role api":      {Subject{"zone-a", RoleAPI, "n1"}, &key.PublicKey, time.Hour},
		"no id":         {Subject{"zone-a", RoleNode, ""}, &key.PublicKey, time.Hour},
		"id with slash": {Subject{"zone-a", RoleNode, "n/1"}, &key.PublicKey, time.Hour},
		"id too long":   {Subject{"zone-a", RoleNode, strings.Repeat("n", api.NameMaxBytes+1)}, &key.PublicKey, time.Hour},
		"no key":        {good, nil, time.Hour},
		"P-384":         {good, &p384.PublicKey, time.Hour},
		"no time":       {good, &key.PublicKey, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Issue(c.s, c.pub, testNow, c.ttl)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		})
	}
	_, err = a.Issue(Subject{"zone-a", RoleNode, strings.Repeat("n", api.NameMaxBytes)}, &key.PublicKey, testNow, time.Hour)
	assert.NoError(t, err)
}

func TestIssueWithinTheAuthority(t *testing.T) {
	a, key := newTestCA(t, "zone-a"), newTestKey(t)
	s := Subject{"zone-a", RoleNode, "n1"}
	for _, now := range []time.Time{a.cert.NotBefore, testNow, a.cert.NotAfter.Add(-time.Second)} {
		der, err := a.Issue(s, &key.PublicKey, now, 2*caTTL)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(der)
		require.NoError(t, err)
		assert.False(t, leaf.NotBefore.Before(a.cert.NotBefore))
		assert.Equal(t, a.cert.NotAfter, leaf.NotAfter)
		_, err = NewCredentials(key, der, a.CertDER())
		require.NoError(t, err)
	}
	for _, now := range []time.Time{a.cert.NotBefore.Add(-time.Second), a.cert.NotAfter} {
		_, err := a.Issue(s, &key.PublicKey, now, time.Hour)
		require.Error(t, err)
	}
}

func TestIssueAPI(t *testing.T) {
	a, key := newTestCA(t, "zone-a"), newTestKey(t)
	issue := func(hosts ...string) error {
		_, err := a.IssueAPI("n1", hosts, &key.PublicKey, testNow, time.Hour)
		return err
	}
	many := make([]string, APIHostsMax+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.example.org", i)
	}
	label := strings.Repeat("a", dnsLabelMaxBytes)
	long := strings.Join([]string{label, label, label, label[:61]}, ".")
	require.Len(t, long, dnsNameMaxBytes)
	for _, ok := range [][]string{many[:APIHostsMax], {long}, {label}, {"localhost", "10.0.0.1", "2001:db8::1"}} {
		require.NoError(t, issue(ok...))
	}
	for _, bad := range [][]string{
		many,
		{},
		{""},
		{long + "a"},
		{label + "a"},
		{"*.example.org"},
		{"a..b"},
		{"a."},
		{"-a"},
		{"a-"},
		{"a b"},
		{"fe80::1%eth0"},
		{"a:443"},
		{"ä.org"},
	} {
		assert.Equal(t, api.CodeInvalid, api.CodeOf(issue(bad...)), "%.80q", bad)
	}
}

func TestLoadCA(t *testing.T) {
	a := newTestCA(t, "zone-a")
	keyDER, err := a.KeyDER()
	require.NoError(t, err)
	again, err := LoadCA(a.CertDER(), keyDER)
	require.NoError(t, err)
	assert.Equal(t, a.Zone(), again.Zone())
	assert.Equal(t, a.CertDER(), again.CertDER())
	key := newTestKey(t)
	der, err := again.Issue(Subject{"zone-a", RoleNode, "n1"}, &key.PublicKey, testNow, time.Hour)
	require.NoError(t, err)
	_, err = NewCredentials(key, der, a.CertDER())
	require.NoError(t, err)

	otherDER, err := newTestCA(t, "zone-a").KeyDER()
	require.NoError(t, err)
	leaf := credentials(t, a, RoleNode, "n1").Cert.Certificate[0]
	for name, parts := range map[string][2][]byte{
		"another key":             {a.CertDER(), otherDER},
		"a leaf":                  {leaf, keyDER},
		"no certificate":          {nil, keyDER},
		"no key":                  {a.CertDER(), nil},
		"cut certificate":         {a.CertDER()[:50], keyDER},
		"certificate for a key":   {a.CertDER(), a.CertDER()},
		"key for a certificate":   {keyDER, keyDER},
		"more than a certificate": {append(bytes.Clone(a.CertDER()), 0), keyDER},
	} {
		_, err := LoadCA(parts[0], parts[1])
		require.Error(t, err, name)
	}
}

func TestZoneIDLimit(t *testing.T) {
	long := api.ZoneID(strings.Repeat("z", ZoneMaxBytes))
	_, err := NewCA(long, testNow)
	require.NoError(t, err)
	_, err = NewCA(api.ZoneID(api.NewUUID()), testNow)
	require.NoError(t, err)
	for _, bad := range []api.ZoneID{long + "z", "", "-a", "Zone", "a.b", "a_b", "a/b", "ä"} {
		_, err = NewCA(bad, testNow)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%q", bad)
	}
}

func TestCheckCSR(t *testing.T) {
	key := newTestKey(t)
	der, err := CSR(key)
	require.NoError(t, err)
	pub, err := CheckCSR(der)
	require.NoError(t, err)
	assert.True(t, key.PublicKey.Equal(pub))

	padded := func(n int) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: strings.Repeat("x", n)},
		}, key)
		require.NoError(t, err)
		return der
	}
	empty := len(padded(CSRMaxBytes / 2))
	fits := CSRMaxBytes/2 + CSRMaxBytes - empty
	for len(padded(fits)) > CSRMaxBytes { // signatures differ in length by a byte or two
		fits--
	}
	_, err = CheckCSR(padded(fits - 4))
	require.NoError(t, err, "what it asks for is ignored")
	_, err = CheckCSR(padded(fits + 8))
	require.ErrorContains(t, err, "at most")

	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	foreign, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, rsaKey)
	require.NoError(t, err)
	forgery := bytes.Clone(der)
	forgery[len(forgery)-1] ^= 1
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut": der[:len(der)-1], "longer": append(bytes.Clone(der), 0), "RSA": foreign, "signature": forgery,
	} {
		_, err := CheckCSR(bad)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
	}
}
