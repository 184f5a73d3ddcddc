package identity

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// vouched returns a new authority of the zone of old, which vouches for it.
func vouched(tb testing.TB, old *CA) (*CA, api.Authority) {
	tb.Helper()
	next := newTestCA(tb, old.Zone())
	sig, err := old.Vouch(next.CertDER())
	require.NoError(tb, err)
	return next, api.Authority{Cert: next.CertDER(), Vouch: sig}
}

// TestCheckTold: who trusts the old authority learns of the next one by the old one alone.
func TestCheckTold(t *testing.T) {
	old := newTestCA(t, "zone-a")
	first := api.Authority{Cert: old.CertDER()}
	next, second := vouched(t, old)
	_, third := vouched(t, next)
	stranger := newTestCA(t, "zone-a")
	_, strange := vouched(t, stranger)
	abroad := newTestCA(t, "zone-b")
	sig, err := old.Vouch(abroad.CertDER())
	require.NoError(t, err)
	both := [][]byte{old.CertDER(), next.CertDER()}
	with := func(a api.Authority, vouch []byte) api.Authority { a.Vouch = vouch; return a }
	big := forgedCA(t, "zone-a", func(c *x509.Certificate) {
		c.OCSPServer = []string{string(bytes.Repeat([]byte("x"), api.AuthorityMaxBytes))}
	})

	for name, c := range map[string]struct {
		trusted [][]byte
		told    []api.Authority
		want    bool
	}{
		"what it trusts":               {both[:1], []api.Authority{first}, true},
		"a second one":                 {both[:1], []api.Authority{first, second}, true},
		"both that it trusts":          {both, []api.Authority{first, with(second, nil)}, true},
		"the second one alone":         {both, []api.Authority{with(second, nil)}, true},
		"the second and a third one":   {both, []api.Authority{second, third}, true},
		"none":                         {both, nil, false},
		"three":                        {both, []api.Authority{first, second, third}, false},
		"one twice":                    {both, []api.Authority{first, first}, false},
		"a stranger":                   {both[:1], []api.Authority{{Cert: stranger.CertDER()}}, false},
		"the second one too early":     {both[:1], []api.Authority{second}, false},
		"one that a stranger vouches":  {both[:1], []api.Authority{first, strange}, false},
		"one that nobody vouches":      {both[:1], []api.Authority{first, with(second, nil)}, false},
		"the signature for another":    {both[:1], []api.Authority{first, with(second, third.Vouch)}, false},
		"one that the next vouches":    {both, []api.Authority{first, third}, false},
		"too long a signature":         {both[:1], []api.Authority{first, with(second, append(bytes.Clone(second.Vouch), make([]byte, api.VouchMaxBytes)...))}, false},
		"one of another zone":          {both[:1], []api.Authority{first, {Cert: abroad.CertDER(), Vouch: sig}}, false},
		"too long a certificate":       {[][]byte{big.CertDER()}, []api.Authority{{Cert: big.CertDER()}}, false},
		"a leaf":                       {both[:1], []api.Authority{first, with(second, second.Vouch[:1])}, false},
		"no certificate":               {both[:1], []api.Authority{first, {Cert: []byte("x"), Vouch: second.Vouch}}, false},
		"a certificate of its gateway": {both[:1], []api.Authority{{Cert: credentials(t, old, RoleGateway, "n1").Cert.Certificate[0]}}, false},
	} {
		err := CheckTold("zone-a", c.trusted, c.told)
		if c.want {
			require.NoError(t, err, name)
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
	}
}

// TestAuthoritiesOnTheDisk: one or two of one zone, and nothing else.
func TestAuthoritiesOnTheDisk(t *testing.T) {
	a, b, c := newTestCA(t, "zone-a"), newTestCA(t, "zone-a"), newTestCA(t, "zone-a")
	abroad := newTestCA(t, "zone-b")
	dir := filepath.Join(t.TempDir(), "new")
	none, err := loadAuthorities(dir)
	require.NoError(t, err)
	assert.Empty(t, none)
	for _, good := range [][][]byte{{a.CertDER()}, {a.CertDER(), b.CertDER()}} {
		require.NoError(t, SaveAuthorities(dir, good))
		back, err := loadAuthorities(dir)
		require.NoError(t, err)
		assert.Equal(t, good, back)
	}
	info, err := os.Stat(filepath.Join(dir, caFile))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(caMode), info.Mode())
	for _, bad := range [][][]byte{nil, {a.CertDER(), b.CertDER(), c.CertDER()}, {a.CertDER(), abroad.CertDER()}, {[]byte("x")}} {
		require.Error(t, SaveAuthorities(dir, bad))
	}
	good, err := os.ReadFile(filepath.Join(dir, caFile))
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"nothing": nil, "more text": append(bytes.Clone(good), "x"...),
		"a key":    append(bytes.Clone(good), pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: []byte("x")})...),
		"too long": append(bytes.Clone(good), bytes.Repeat([]byte("\n"), pemMaxBytes+1-len(good))...),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, caFile), text, 0o600))
		_, err := loadAuthorities(dir)
		if name == "nothing" {
			require.ErrorContains(t, err, "0 certificates")
			continue
		}
		require.Error(t, err, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, caFile), append(bytes.Clone(good), bytes.Repeat([]byte("\n"), pemMaxBytes-len(good))...), 0o600))
	_, err = loadAuthorities(dir)
	require.NoError(t, err)
}

// TestAWalletTrustsTwo: what the zone vouches for is kept, and the certificates are renewed under the next
// authority as soon as that issues.
func TestAWalletTrustsTwo(t *testing.T) {
	p := newPurse(t, RoleAgent, RoleAPI)
	old := p.ca
	next, second := vouched(t, old)
	first := api.Authority{Cert: old.CertDER()}
	require.Error(t, p.TrustTold([]api.Authority{second}))
	require.Error(t, p.Trust([][]byte{newTestCA(t, "zone-b").CertDER()}))
	assert.Equal(t, []Pin{PinOf(old.CertDER())}, p.Pins())
	require.NoError(t, p.TrustTold([]api.Authority{first, second}))
	assert.Equal(t, [][]byte{old.CertDER(), next.CertDER()}, p.Trusted())
	assert.Equal(t, api.FingerprintOf(next.CertDER()), p.Newest())
	assert.Equal(t, api.FingerprintOf(old.CertDER()), p.Issuer())

	again, err := OpenWallet(p.dir, RoleAgent, RoleAPI)
	require.NoError(t, err)
	assert.Equal(t, p.Trusted(), again.Trusted())

	var issuer api.Fingerprint
	asked := 0
	renew := func() {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			p.RenewWhenDue(ctx, Renewal{
				Ask:    func(_ context.Context, csr []byte) (map[string][]byte, error) { asked++; return p.issue(csr) },
				Issuer: func() api.Fingerprint { return issuer },
				Now:    testClock, Log: slog.New(slog.DiscardHandler),
			})
		})
	}
	for _, issuer = range []api.Fingerprint{"", api.FingerprintOf(old.CertDER()), api.FingerprintOf([]byte("one that it does not trust"))} {
		renew()
	}
	assert.Zero(t, asked)
	p.ca, issuer = next, api.FingerprintOf(next.CertDER())
	renew()
	assert.Equal(t, 1, asked, "it has them")
	assert.Equal(t, issuer, p.Issuer(), "also when they end no later")
	require.NoError(t, p.TrustTold([]api.Authority{{Cert: next.CertDER()}}))
	require.Error(t, p.TrustTold([]api.Authority{first}))

	saved, err := OpenWallet(p.dir, RoleAgent, RoleAPI)
	require.NoError(t, err)
	assert.Equal(t, p.Issuer(), saved.Issuer())
	assert.Equal(t, [][]byte{next.CertDER()}, saved.Trusted())
	require.NoError(t, os.Remove(filepath.Join(p.dir, caFile)))
	saved, err = OpenWallet(p.dir, RoleAgent, RoleAPI)
	require.NoError(t, err)
	assert.Equal(t, [][]byte{next.CertDER()}, saved.Trusted(), "that of the credentials")
	require.NoError(t, SaveAuthorities(p.dir, [][]byte{newTestCA(t, "zone-b").CertDER()}))
	_, err = OpenWallet(p.dir, RoleAgent, RoleAPI)
	require.ErrorContains(t, err, "zone-b")
}

// TestARenewalThatWasCutShortGoesOn: the certificate with which a node asks is the last one that is replaced.
func TestARenewalThatWasCutShortGoesOn(t *testing.T) {
	p := newPurse(t, RoleNode, RoleGateway, RoleAPI)
	p.now = testNow.Add(250 * day)
	before, err := os.ReadFile(filepath.Join(p.dir, "node.pem"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(p.dir, "api.pem")))
	require.NoError(t, os.Mkdir(filepath.Join(p.dir, "api.pem"), dirMode))
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "api.pem", "x"), nil, keyMode)) // nothing can take its place
	require.Error(t, p.Renew(p.now, p.issue))
	now, err := os.ReadFile(filepath.Join(p.dir, "node.pem"))
	require.NoError(t, err)
	assert.Equal(t, before, now)
}

// TestTwoAuthoritiesAtAListener: peers of both are admitted as long as both are trusted, and from the next handshake on
// those of the dropped one are not.
func TestTwoAuthoritiesAtAListener(t *testing.T) {
	old := newTestCA(t, "zone-a")
	next, _ := vouched(t, old)
	trusted := [][]byte{old.CertDER(), next.CertDER()}
	pins := func() []Pin { return PinsOf(trusted) }
	shown := credentials(t, old, RoleNode, "n0")
	server := ServerTLS(func() *Credentials { return shown }, []string{api.ALPNRaft}, AdmitOwn(pins, RoleNode), testClock)
	want := Subject{Zone: "zone-a", Role: RoleNode}
	as := func(ca *CA) (side, side) {
		return meet(t, server, ClientTLS(always(credentials(t, ca, RoleNode, "n1")), api.ALPNRaft, pins, want, testClock))
	}
	for _, shown = range []*Credentials{shown, credentials(t, next, RoleNode, "n0")} {
		for _, ca := range []*CA{old, next} {
			s, c := as(ca)
			assertMet(t, s, c)
		}
	}
	trusted = trusted[1:]
	s, c := as(next)
	assertMet(t, s, c)
	s, _ = as(old)
	require.ErrorContains(t, s.err, "another authority")
	shown = credentials(t, old, RoleNode, "n0")
	_, c = as(next)
	require.ErrorContains(t, c.err, "another authority")
}
