package agent

import (
	"context"
	"log/slog"
	"net/http"
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
		z.do(func() { z.trust = "" })
		assert.Empty(t, asked(time.Minute), "a node without a mark says nothing")

		second, err := identity.NewCA("zone-a", time.Now())
		require.NoError(t, err)
		vouch, err := ca.Vouch(second.CertDER())
		require.NoError(t, err)
		z.do(func() {
			z.trust, z.trustHas = "five", nil
			z.trusted.Authorities = append(z.trusted.Authorities, api.Authority{Cert: second.CertDER(), Vouch: vouch})
		})
		before := w.Newest()
		assert.Equal(t, []time.Duration{0, time.Second}, asked(time.Minute), "the zone is told that the agent has both")
		after := w.Newest()
		assert.NotEqual(t, before, after)
		z.do(func() {
			for n, trusts := range []api.Fingerprint{before, after} {
				assert.Equal(t, api.AgentTrust{Trusts: trusts, Issuer: w.Issuer()}, z.trustHas[n])
			}
		})
	})
}

// TestTrustThatIsRefused is a warning each time, but not at the end of the agent; who issues is known once it was told.
func TestTrustThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, r := &partial{zone: newZone()}, &record{}
		z.trust = "one"
		c := config(z.zone, fake.New(fake.Options{}), 1)
		w, ca := newWallet(t, identity.LeafTTL)
		authority := api.Authority{Cert: ca.CertDER()}
		z.trusted = api.AgentTrusted{Authorities: []api.Authority{authority}, Issuer: api.FingerprintOf(authority.Cert)}
		c.Wallet, c.Transport, c.Log = w, z, r.logger(slog.LevelInfo)
		z.refuse(api.PathAgentTrust)
		a, err := New(c)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		const message = "the authorities of the zone could not be taken over; it will be tried again"
		await.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Len(t, r.of(message), 4, "after 1, 2, 4 and 8 s")
		assert.Empty(t, a.issuedBy())
		z.refuse("")
		await.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Empty(t, r.of(message))
		assert.Equal(t, z.trusted.Issuer, a.issuedBy())
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, a.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		z, r := newZone(), &record{}
		z.trust = "one"
		c := config(z, fake.New(fake.Options{}), 1)
		c.Wallet, _ = newWallet(t, identity.LeafTTL)
		c.Log = r.logger(slog.LevelInfo)
		c.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == api.PathAgentTrust {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return z.RoundTrip(r)
		})
		end := run(t, c)
		await.Sleep(2 * time.Second)
		end()
		assert.NotContains(t, r.b.String(), "level=WARN")
	})
}
