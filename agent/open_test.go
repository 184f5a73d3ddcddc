package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
	"berth/identity"
	"berth/internal/await"
	"berth/internal/codec"
)

// TestAnAgentOfOneAddress has what is not set by default, and each driver once.
func TestAnAgentOfOneAddress(t *testing.T) {
	c := config(newZone(), fake.New(fake.Options{}), 3)
	c.Addresses = []string{"n1:1"}
	a, err := New(c)
	require.NoError(t, err)
	assert.Equal(t, CallsDefault, a.conf.Calls)
	assert.Equal(t, WaitDefault, a.conf.Wait)
	assert.Len(t, a.drivers, 1)
	require.NoError(t, a.Close())
	c.Calls, c.Wait = 1, 1
	a, err = New(c)
	require.NoError(t, err)
	assert.Equal(t, 1, a.conf.Calls)
	assert.Equal(t, time.Duration(1), a.conf.Wait)
	require.NoError(t, a.Close())
}

// TestAnAgentCallsByTLS where no transport is set, through the dialer that is.
func TestAnAgentCallsByTLS(t *testing.T) {
	c := config(nil, fake.New(fake.Options{}), 1)
	var dialled []string
	c.Transport, c.TLS = nil, &tls.Config{ServerName: "zone", MinVersion: tls.VersionTLS13}
	c.Dial = func(_ context.Context, network, addr string) (net.Conn, error) {
		dialled = append(dialled, network+" "+addr)
		return nil, errors.New("nobody is there")
	}
	a, err := New(c)
	require.NoError(t, err)
	require.ErrorContains(t, a.link.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)), "nobody is there")
	assert.Equal(t, []string{"tcp n1:1"}, dialled)
	of := a.link.client.Transport.(*http.Transport)
	assert.Equal(t, "zone", of.TLSClientConfig.ServerName)
	assert.Equal(t, []string{api.ALPNHTTP}, of.TLSClientConfig.NextProtos)
	assert.Empty(t, c.TLS.NextProtos, "it has its own")
	assert.Equal(t, dialTimeout, of.TLSHandshakeTimeout)
	assert.NotNil(t, of.TLSNextProto, "no HTTP/2")
	assert.True(t, of.DisableCompression)
	assert.Equal(t, connsMax, of.MaxIdleConnsPerHost)
	assert.Equal(t, connsMax, of.MaxConnsPerHost)
	assert.Equal(t, time.Minute, of.IdleConnTimeout)
	require.NoError(t, a.Close())
	assert.NotNil(t, newTransport(c.TLS, nil).DialContext, "a dialer with a limit of its own")
}

// TestTheFolderOfAnAgent is made for its owner alone, and closed with the agent.
func TestTheFolderOfAnAgent(t *testing.T) {
	c := config(newZone(), fake.New(fake.Options{}), 1)
	c.Dir = filepath.Join(t.TempDir(), "a", "b")
	a, err := New(c)
	require.NoError(t, err)
	info, err := os.Stat(c.Dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	journal := a.journal.file
	require.NoError(t, a.Close())
	require.ErrorIs(t, journal.Close(), os.ErrClosed)
	_, err = a.root.Open(journalFile)
	require.ErrorIs(t, err, os.ErrClosed)
}

// TestAFolderThatAnAgentCannotUse is why it does not start.
func TestAFolderThatAnAgentCannotUse(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  []string
	}{
		"a file": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		}, []string{"opening the agent's folder: ", "mkdir"}},
		"a damaged term": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, termFile), []byte("nine"), 0o600))
		}, []string{"reading the highest term seen: ", "nine"}},
		"a term that is a folder": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.MkdirAll(filepath.Join(dir, termFile), 0o700))
		}, []string{"reading the highest term seen: ", "directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config(newZone(), fake.New(fake.Options{}), 1)
			conf.Dir = filepath.Join(t.TempDir(), "x")
			c.spoil(t, conf.Dir)
			_, err := New(conf)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// TestNamesOfHostsThatCannotBeKept, or read, are a warning, and the agent serves its hosts all the same.
func TestNamesOfHostsThatCannotBeKept(t *testing.T) {
	served(t, fake.Options{}, func(z *zone, _ *failing, r *record, dir string) {
		settle()
		text, err := os.ReadFile(filepath.Join(dir, namesFile))
		require.NoError(t, err)
		assert.Equal(t, "host-0001\nhost-0002\n", string(text))
		info, err := os.Stat(filepath.Join(dir, namesFile))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode())
		assert.NotContains(t, r.b.String(), "level=WARN")
	})
	synctest.Test(t, func(t *testing.T) {
		z, r := newZone(), &record{}
		c := config(z, fake.New(fake.Options{}), 1)
		c.Dir, c.Log = t.TempDir(), r.logger(0)
		require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, namesFile, "x"), 0o700))
		end := run(t, c)
		z.set("host-0001", work("a"))
		settle()
		end()
		assert.Equal(t, api.StatusActive, z.of("a"))
		assert.Contains(t, r.b.String(), `level=WARN msg="names of the hosts of before cannot be read" err=`)
		assert.Contains(t, r.b.String(), `level=WARN msg="names of the hosts cannot be kept" err=`)
	})
}

// issuing is a zone that renews certificates.
type issuing struct {
	*zone
	ca     *identity.CA
	mu     sync.Mutex // guards asked
	asked  []time.Time
	closed int
}

// RoundTrip implements http.RoundTripper.
func (z *issuing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != api.PathAgentRenew || r.URL.Host != "n1:1" {
		return z.zone.RoundTrip(r)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = append(z.asked, time.Now())
	var in api.AgentRenew
	if err := codec.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	pub, err := identity.CheckCSR(in.CSR)
	if err != nil {
		return answer(http.StatusBadRequest, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeInvalid, Message: err.Error()}})
	}
	leaf, err := z.ca.Issue(identity.Subject{Zone: "zone-a", Role: identity.RoleAgent, ID: "agent-1"}, pub, time.Now(), identity.LeafTTL)
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, api.AgentRenewed{Term: 1, Certificate: leaf})
}

// CloseIdleConnections is called when there is another certificate.
func (z *issuing) CloseIdleConnections() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.closed++
}

// TestACertificateIsRenewed when it is due: connections that are not in use end, and the metrics say until when the new one lasts.
func TestACertificateIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Minute
		z := &issuing{zone: newZone()}
		c := config(z.zone, fake.New(fake.Options{}), 1)
		c.Transport = z
		c.Wallet, z.ca = newWallet(t, ttl)
		a, err := New(c)
		require.NoError(t, err)
		assert.Equal(t, c.Wallet.FirstEnd(), a.Figures().Ends)
		require.NoError(t, a.Close())
		first := c.Wallet.FirstEnd()
		defer run(t, c)()
		await.Sleep(ttl / 2)
		synctest.Wait()
		assert.Empty(t, z.asked)
		await.Sleep(ttl/2 - time.Minute)
		synctest.Wait()
		require.Len(t, z.asked, 1)
		assert.Equal(t, 1, z.closed)
		assert.Greater(t, c.Wallet.FirstEnd().Sub(first), identity.LeafTTL/2)
	})
}
