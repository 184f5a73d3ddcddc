package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/state"
)

// writeOwnCert writes a certificate that has signed itself, and its key, and returns it.
func writeOwnCert(t *world, files APICert, name string, end time.Time) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: end, DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	require.NoError(t, os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// shows returns the certificate that the public API shows now.
func (r *running) shows() *x509.Certificate {
	r.t.Helper()
	raw, err := r.t.net.Dial(r.t.Context(), r.Addresses().API)
	require.NoError(r.t, err)
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	defer func() { _ = c.Close() }()
	require.NoError(r.t, c.HandshakeContext(r.t.Context()))
	return c.ConnectionState().PeerCertificates[0]
}

// TestOwnCertificateOfTheAPI: it is shown in place of the zone's, others replace it while the node runs, and a pair
// that cannot be used changes nothing and is an error in the log, once. Nodes and agents join as ever.
func TestOwnCertificateOfTheAPI(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		dir := t.TempDir()
		files := APICert{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
		h, log := newZone(t, "a"), &journal{}
		h.opts.Plain, h.opts.APICert, h.opts.Log = false, files, slog.New(slog.NewTextHandler(log, nil))
		require.ErrorContains(t, h.refusedToOpen(), "no such file")
		h.opts.APICert.Key = ""
		require.ErrorContains(t, h.refusedToOpen(), "both --api-cert and --api-key")
		h.opts.APICert = files

		soon := time.Now().Add(48 * time.Hour).Truncate(time.Second).UTC()
		first := writeOwnCert(t, files, "berth.example", soon)
		r := h.run()
		assert.True(t, first.Equal(r.shows()))
		assert.Contains(t, log.text(), "lacks the name by which others are told to call it")
		assert.Contains(t, log.text(), "lacks=127.0.0.1")
		r.until("the zone knows when it ends", func(v *state.State) bool {
			m, ok := v.Node("node-1")
			return ok && m.Expires == api.InstantOf(soon)
		})
		assert.Equal(t, soon, r.certificates()["api"].Ends)
		assert.NotEqual(t, soon, r.certificates()["node"].Ends)
		_, err := JoinAgent(t.Context(), JoinOptions{Dir: t.TempDir(), Token: r.joinToken(api.JoinAgent, "agent-1"), Now: time.Now, Net: t.net})
		require.NoError(t, err, "it knows the zone by its authority")

		second := writeOwnCert(t, files, "berth.example", soon.Add(time.Hour))
		assert.True(t, first.Equal(r.shows()), "nobody has looked")
		r.ReadAPICert()
		assert.True(t, second.Equal(r.shows()))

		good, err := os.ReadFile(files.Key)
		require.NoError(t, err)
		writeOwnCert(t, files, "berth.example", soon)
		require.NoError(t, os.WriteFile(files.Key, good, 0o600)) // that of the one before
		require.ErrorContains(t, r.SetAPICert(files), "is not the key")
		for range 3 {
			r.ReadAPICert()
			assert.True(t, second.Equal(r.shows()))
		}
		const broken = "were not taken over"
		assert.Equal(t, 1, strings.Count(log.text(), broken), "it is one line")
		third := writeOwnCert(t, files, "127.0.0.1", soon.Add(2*time.Hour))
		r.ReadAPICert()
		assert.True(t, third.Equal(r.shows()))
		require.NoError(t, os.Remove(files.Cert))
		r.ReadAPICert()
		assert.Equal(t, 2, strings.Count(log.text(), broken), "this is another one")
		assert.True(t, third.Equal(r.shows()))

		require.NoError(t, r.SetAPICert(APICert{}))
		assert.True(t, r.apiCredentials().Cert.Leaf.Equal(r.shows()))
		assert.False(t, r.ReadAPICert())
	})
}

// TestANodeStartsWithAnExpiredCertificateOfItsAPI: other nodes, zones and agents need it. It says so once, and takes over what replaces
// the certificate.
func TestANodeStartsWithAnExpiredCertificateOfItsAPI(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		dir := t.TempDir()
		files := APICert{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
		h, log := newZone(t, "a"), &journal{}
		h.opts.Plain, h.opts.APICert, h.opts.Log = false, files, slog.New(slog.NewTextHandler(log, nil))
		expired := writeOwnCert(t, files, "127.0.0.1", time.Now().Add(-time.Minute))
		r := h.run()
		assert.True(t, expired.Equal(r.shows()))
		for range 3 {
			r.ReadAPICert()
		}
		assert.Equal(t, 1, strings.Count(log.text(), "it has expired at"), "it is one line")
		require.NoError(t, r.SetAPICert(files), "other settings are changed")
		good := writeOwnCert(t, files, "127.0.0.1", time.Now().Add(time.Hour))
		r.ReadAPICert()
		assert.True(t, good.Equal(r.shows()))
		writeOwnCert(t, files, "127.0.0.1", time.Now().Add(-time.Minute))
		require.ErrorContains(t, r.SetAPICert(files), "it has expired at", "it is no reason to end one that is good")
		assert.True(t, good.Equal(r.shows()))
	})
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}
