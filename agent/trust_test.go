package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/identity"
	"berth/internal/await"
)

// newWallet returns the wallet of an agent, and the authority that has issued its certificate for a time.
func newWallet(t *testing.T, ttl time.Duration) (*identity.Wallet, *identity.CA) {
	t.Helper()
	ca, err := identity.NewCA("zone-a", time.Now())
	require.NoError(t, err)
	key, err := identity.NewKey()
	require.NoError(t, err)
	leaf, err := ca.Issue(identity.Subject{Zone: "zone-a", Role: identity.RoleAgent, ID: "agent-1"}, key.Public(), time.Now(), ttl)
	require.NoError(t, err)
	c, err := identity.NewCredentials(key, leaf, ca.CertDER())
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, c.SaveDir(dir))
	w, err := identity.OpenWallet(dir, identity.RoleAgent)
	require.NoError(t, err)
	return w, ca
}

// TestTrustIsAskedOncePerMark: an agent asks which authorities there are when the zone has another mark than before, again and
// again after longer pauses until the zone knows that it has them, and then no more.
func TestTrustIsAskedOncePerMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newZone()
		c := config(z, fake.New(fake.Options{}), 1)
		w, ca := newWallet(t, identity.LeafTTL)
		authority := api.Authority{Cert: ca.CertDER()}
		c.Wallet = w
		z.trusted = api.AgentTrusted{Authorities: []api.Authority{authority}, Issuer: api.FingerprintOf(authority.Cert)}
		defer run(t, c)()
		asked := func(d time.Duration) (pauses []time.Duration) {
			t.Helper()
			z.do(func() { z.trustAsks = nil })
			await.Sleep(d)
			synctest.Wait()
			z.do(func() {
				for n, at := range z.trustAsks {
					pauses = append(pauses, at.Sub(z.trustAsks[max(n-1, 0)]))
				}
			})
			return pauses
		}
		assert.Empty(t, asked(time.Minute), "the zone has no mark")
		z.do(func() { z.trust = "one" })
		assert.Len(t, asked(time.Minute), 1)
		assert.Empty(t, asked(time.Minute), "it is settled")
		z.do(func() { z.trust, z.trusted.Issuer = "two", "another" })
		assert.Equal(t, []time.Duration{0, 1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, asked(20*time.Second))
		z.do(func() { z.trusted.Issuer = api.FingerprintOf(authority.Cert) })
		assert.Len(t, asked(time.Minute), 1)
		assert.Empty(t, asked(time.Minute))
		z.do(func() { z.trust, z.trusted.Authorities = "three", []api.Authority{{Cert: []byte("none")}} })
		assert.Greater(t, len(asked(time.Minute)), 3, "what is no authority is refused")
		z.do(func() { z.trusted.Authorities = []api.Authority{authority} })
		assert.Len(t, asked(2*trustPauses), 1)
		z.do(func() { z.trust = "four" })
		assert.Equal(t, []time.Duration{0}, asked(3*trustPause+5*time.Second), "the pause is short again")
	})
}
