package identity

import (
	"bytes"
	"context"
	"errors"
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

const day = 24 * time.Hour

// TestRenewAt: after two thirds of the life of a certificate, and not with all that were issued with it.
func TestRenewAt(t *testing.T) {
	a := newTestCA(t, "zone-a")
	at := map[time.Time]bool{}
	for range 32 {
		leaf := credentials(t, a, RoleNode, "n1").Cert.Leaf
		life, when := leaf.NotAfter.Sub(leaf.NotBefore), renewAt(leaf)
		assert.GreaterOrEqual(t, when.Sub(leaf.NotBefore), life*2/3)
		assert.Less(t, when.Sub(leaf.NotBefore), life*3/4)
		assert.Greater(t, when.Sub(IssuedAt(leaf)), RenewableAge(LeafTTL), "the zone does it by then")
		at[when] = true
	}
	assert.Greater(t, len(at), 1, "they are spread")
}

// purse is a wallet of a node, and the zone that renews it.
type purse struct {
	*Wallet
	dir string
	ca  *CA
	now time.Time
}

func newPurse(t *testing.T, roles ...Role) *purse {
	t.Helper()
	p := &purse{dir: t.TempDir(), ca: newTestCA(t, "zone-a"), now: testNow}
	for _, r := range roles {
		require.NoError(t, credentials(t, p.ca, r, "n1").SaveDir(p.dir))
	}
	w, err := OpenWallet(p.dir, roles...)
	require.NoError(t, err)
	p.Wallet = w
	return p
}

// issue answers a certificate request as a zone does.
func (p *purse) issue(csr []byte) (map[string][]byte, error) {
	pub, err := CheckCSR(csr)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for r, id := range map[Role]string{RoleNode: "n1", RoleGateway: api.NewUUID(), RoleAgent: "n1"} {
		if out[string(r)], err = p.ca.Issue(Subject{p.ca.zone, r, id}, pub, p.now, LeafTTL); err != nil {
			return nil, err
		}
	}
	out[string(RoleAPI)], err = p.ca.IssueAPI("n1", APIHosts(p.Get(RoleAPI).Cert.Leaf), pub, p.now, LeafTTL)
	return out, err
}

// TestRenew: all certificates of a process are replaced on its disk and in memory, for a new key.
func TestRenew(t *testing.T) {
	roles := []Role{RoleNode, RoleGateway, RoleAPI}
	p := newPurse(t, roles...)
	before := map[Role]*Credentials{}
	for _, r := range roles {
		before[r] = p.Get(r)
	}
	assert.Equal(t, testNow.Add(LeafTTL), p.FirstEnd())
	p.now = testNow.Add(250 * day)
	require.NoError(t, p.Renew(p.now, p.issue))
	for _, r := range roles {
		c := p.Get(r)
		assert.Equal(t, p.now.Add(LeafTTL), c.Cert.Leaf.NotAfter, "%s", r)
		assert.Equal(t, before[r].CA, c.CA)
		assert.NotEqual(t, before[r].Cert.PrivateKey, c.Cert.PrivateKey)
		assert.Same(t, c, p.Of(r)())
		saved, err := LoadDir(p.dir, r)
		require.NoError(t, err)
		assert.Equal(t, c, saved)
	}
	assert.Equal(t, before[RoleNode].Subject, p.Get(RoleNode).Subject)
	assert.Equal(t, before[RoleAPI].Subject, p.Get(RoleAPI).Subject)
	assert.Equal(t, []string{"api.example.org", "127.0.0.1", "::1"}, APIHosts(p.Get(RoleAPI).Cert.Leaf))
	assert.Equal(t, p.now.Add(LeafTTL), p.FirstEnd())
	assert.Equal(t, [][]byte{p.ca.CertDER()}, p.Trusted())
}

// TestRenewRefuses: what is no successor changes nothing, in memory or on the disk.
func TestRenewRefuses(t *testing.T) {
	issueAs := func(s Subject, from *CA, at time.Time) func(*purse, []byte) (map[string][]byte, error) {
		return func(p *purse, csr []byte) (map[string][]byte, error) {
			pub, err := CheckCSR(csr)
			if err != nil {
				return nil, err
			}
			if from == nil {
				from = p.ca
			}
			der, err := from.Issue(s, pub, at, LeafTTL)
			return map[string][]byte{string(RoleAgent): der}, err
		}
	}
	agent, later := Subject{"zone-a", RoleAgent, "n1"}, testNow.Add(250*day)
	for name, ask := range map[string]func(*purse, []byte) (map[string][]byte, error){
		"a refusal":              func(*purse, []byte) (map[string][]byte, error) { return nil, errors.New("no") },
		"no certificate":         func(*purse, []byte) (map[string][]byte, error) { return nil, nil },
		"another id":             issueAs(Subject{"zone-a", RoleAgent, "n2"}, nil, later),
		"another role":           issueAs(Subject{"zone-a", RoleNode, "n1"}, nil, later),
		"another authority":      issueAs(agent, newTestCA(t, "zone-a"), later),
		"one that ends no later": issueAs(agent, nil, testNow),
		"one of later":           issueAs(agent, nil, later.Add(backdate+time.Second)),
		"one for another key": func(p *purse, _ []byte) (map[string][]byte, error) {
			csr, err := CSR(newTestKey(t))
			require.NoError(t, err)
			return issueAs(agent, nil, later)(p, csr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPurse(t, RoleAgent)
			before := p.Get(RoleAgent)
			require.Error(t, p.Renew(later, func(csr []byte) (map[string][]byte, error) { return ask(p, csr) }))
			assert.Same(t, before, p.Get(RoleAgent))
			saved, err := LoadDir(p.dir, RoleAgent)
			require.NoError(t, err)
			assert.Equal(t, before, saved)
		})
	}
}

// TestRenewKeepsTheOldOnADeadDisk: what is not on the disk is not used.
func TestRenewKeepsTheOldOnADeadDisk(t *testing.T) {
	p := newPurse(t, RoleAgent, RoleAPI)
	before := p.Get(RoleAgent)
	p.now = testNow.Add(250 * day)
	require.NoError(t, os.Rename(p.dir, p.dir+".gone"))
	require.NoError(t, os.WriteFile(p.dir, nil, 0o600))
	require.Error(t, p.Renew(p.now, p.issue))
	assert.Same(t, before, p.Get(RoleAgent))
}

func TestOpenWalletNeedsAllRoles(t *testing.T) {
	p := newPurse(t, RoleNode)
	_, err := OpenWallet(p.dir, RoleNode, RoleGateway)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "gateway.pem"), []byte("x"), 0o600))
	_, err = OpenWallet(p.dir, RoleNode, RoleGateway)
	require.ErrorContains(t, err, "gateway")
}

// TestRenewWhenDue plays a year: the wallet is renewed in time, again and again, and what keeps it from that is
// logged louder when there is little time left.
func TestRenewWhenDue(t *testing.T) {
	var down bool
	var asked int
	// passTime runs the loop while p's clock moves on by a number of days, and returns what it has logged.
	passTime := func(t *testing.T, p *purse, days int) string {
		t.Helper()
		var said bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			began, from := time.Now(), p.now
			now := func() time.Time { p.now = from.Add(time.Since(began) * 144); return p.now } // ten minutes are a day
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(days)*10*time.Minute)
			defer stop()
			p.RenewWhenDue(ctx, Renewal{
				Ask: func(_ context.Context, csr []byte) (map[string][]byte, error) {
					asked++
					if down {
						return nil, errors.New("the zone is down")
					}
					return p.issue(csr)
				},
				Now: now, Log: slog.New(slog.NewTextHandler(&said, nil)),
			})
		})
		return said.String()
	}
	p := newPurse(t, RoleAgent, RoleAPI)
	assert.Empty(t, passTime(t, p, 240))
	assert.Zero(t, asked)
	assert.Contains(t, passTime(t, p, 40), "level=INFO msg=\"the certificates were renewed\"")
	assert.Equal(t, 1, asked)
	assert.Greater(t, p.FirstEnd().Sub(p.now), 300*day)

	down, asked = true, 0
	first := p.FirstEnd()
	untilLeft := func(days int) int { return int(first.Sub(p.now)/day) - days }
	said := passTime(t, p, untilLeft(60))
	assert.Contains(t, said, "level=WARN")
	assert.NotContains(t, said, "level=ERROR")
	said = passTime(t, p, untilLeft(30))
	assert.Contains(t, said, "level=ERROR msg=\"a certificate ends soon and is not renewed")
	assert.Contains(t, said, "the zone is down")
	assert.Less(t, asked, 50, "it asks about once an hour")
	down = false
	assert.Contains(t, passTime(t, p, 7), "were renewed", "it still tries")
	assert.True(t, p.FirstEnd().After(first))
}

// TestACertificateOfALaterTimeIsReplaced: one that was issued while the clock was ahead is renewed as soon as the clock is
// right, by one that ends sooner.
func TestACertificateOfALaterTimeIsReplaced(t *testing.T) {
	for by, asks := range map[time.Duration]int{backdate: 0, backdate + time.Second: 1} {
		p := newPurse(t, RoleAgent, RoleAPI)
		p.now = testNow.Add(by)
		require.NoError(t, p.lastOf(t, RoleAgent).SaveDir(p.dir))
		w, err := OpenWallet(p.dir, RoleAgent, RoleAPI)
		require.NoError(t, err)
		p.Wallet, p.now = w, testNow
		asked := 0
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			p.RenewWhenDue(ctx, Renewal{
				Ask: func(_ context.Context, csr []byte) (map[string][]byte, error) {
					asked++
					return p.issue(csr)
				},
				Now: func() time.Time { return testNow }, Log: slog.New(slog.DiscardHandler),
			})
		})
		assert.Equal(t, asks, asked, "%v ahead", by)
	}
}

// TestALeafThatEndsWithItsAuthorityIsNotRenewed: a new one would end at the same time. That it ends is said.
func TestALeafThatEndsWithItsAuthorityIsNotRenewed(t *testing.T) {
	p := newPurse(t, RoleAgent, RoleAPI)
	p.now = testNow.Add(caTTL - 100*day)
	for _, r := range []Role{RoleAgent, RoleAPI} {
		require.NoError(t, p.lastOf(t, r).SaveDir(p.dir))
	}
	w, err := OpenWallet(p.dir, RoleAgent, RoleAPI)
	require.NoError(t, err)
	p.Wallet = w
	p.now = p.now.Add(95 * day)
	var said bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 90*time.Minute)
		defer stop()
		p.RenewWhenDue(ctx, Renewal{
			Ask: func(context.Context, []byte) (map[string][]byte, error) {
				assert.Fail(t, "it asks")
				return nil, errors.New("no")
			},
			Now: func() time.Time { return p.now }, Log: slog.New(slog.NewTextHandler(&said, nil)),
		})
	})
	assert.Equal(t, 2, bytes.Count(said.Bytes(), []byte("level=ERROR")), "once an hour: %s", said.String())
}

// lastOf returns credentials that were issued at p.now.
func (p *purse) lastOf(t *testing.T, r Role) *Credentials {
	t.Helper()
	key := newTestKey(t)
	csr, err := CSR(key)
	require.NoError(t, err)
	certs, err := p.issue(csr)
	require.NoError(t, err)
	c, err := NewCredentials(key, certs[string(r)], p.ca.CertDER())
	require.NoError(t, err)
	return c
}
