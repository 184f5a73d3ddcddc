package leak

import (
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/wire"
	"berth/internal/codec"
	"berth/node"
)

// watched is a listener whose connections go through a tap.
type watched struct {
	net.Listener
	tap node.Tap
}

func (l watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.tap(node.Crossing{ALPN: api.ALPNHTTP}, c), nil
}

// newTap returns a tap for a node that searches everything that leaves it:
// certificates, and bytes written to connections with other zones. What a body
// hides is found when the body or its connection ends.
func newTap(name string, s *Scanner) node.Tap {
	return func(at node.Crossing, c net.Conn) net.Conn {
		who := fmt.Sprintf("%s-%s", name, labelOf(at))
		if err := s.checkCertificates(who, at.Chain...); err != nil {
			s.noteHit(Hit{Canary: Canary{Kind: "certificate that cannot be read"}, Stream: who, Context: err.Error()})
		}
		return &tapped{Conn: c, out: newOutput(who, s, nil)}
	}
}

func labelOf(at node.Crossing) string {
	if at.Dialled {
		return "dial-" + at.ALPN
	}
	return "gateway-" + at.ALPN
}

// tapped is a connection whose outbound bytes are looked at.
type tapped struct {
	net.Conn

	mu    sync.Mutex // guards the fields below
	out   *output
	ended bool
}

// Write looks at p and sends it.
func (t *tapped) Write(p []byte) (int, error) {
	t.mu.Lock()
	if !t.ended {
		_, _ = t.out.Write(p) // never fails
	}
	t.mu.Unlock()
	return t.Conn.Write(p)
}

// Close closes the connection.
func (t *tapped) Close() error {
	t.mu.Lock()
	if !t.ended {
		t.out.end()
	}
	t.ended = true
	t.mu.Unlock()
	return t.Conn.Close()
}

// say serves one answer through a tap and returns what was found in it.
func say(t *testing.T, h http.HandlerFunc) *Scanner {
	t.Helper()
	s := target(t)
	srv := httptest.NewUnstartedServer(h)
	srv.Listener = watched{srv.Listener, newTap("edge", s)}
	srv.Start()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, nil)
	require.NoError(t, err)
	req.Header.Set("Accept-Encoding", "identity") // the client undoes nothing
	res, err := srv.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	srv.Close()
	require.Positive(t, s.bytes.Load())
	return s
}

// TestPlantedLeaksAreFound has a handler say what it must not, in the ways in
// which that happens.
func TestPlantedLeaksAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		want  Encoding
		leaks http.HandlerFunc
	}{
		"nothing": {"", func(w http.ResponseWriter, r *http.Request) {
			wire.Refuse(w, r, api.Errorf(api.CodeNotFound, "no such server"))
		}},
		"a host in an error": {encodingRaw, func(w http.ResponseWriter, r *http.Request) {
			wire.Refuse(w, r, api.Errorf(api.CodeConflict, "host %s is full", host))
		}},
		"in CBOR": {encodingRaw, func(w http.ResponseWriter, r *http.Request) {
			wire.CBOR(w, r, http.StatusOK, api.SelectAnswer{Blob: []byte("slots on " + host)})
		}},
		"in a header": {"escaped/raw", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/hosts/"+each(host, "%%%02X"))
			w.WriteHeader(http.StatusCreated)
		}},
		"in base64 in JSON": {encodingBase64, func(w http.ResponseWriter, _ *http.Request) {
			wire.JSON(w, http.StatusOK, map[string][]byte{"token": []byte("marker:" + host)})
		}},
		"in gzip": {"unchunked/inflated/raw", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_ = json.NewEncoder(z).Encode(map[string]string{"host": "x" + host}) // the scan tells
			_ = z.Flush()
			w.(http.Flusher).Flush()
			_ = z.Close()
		}},
		"in two chunks": {"unchunked/raw", func(w http.ResponseWriter, _ *http.Request) {
			for _, p := range []string{"from " + host[:5], host[5:] + " with love"} {
				_, _ = w.Write([]byte(p))
				w.(http.Flusher).Flush()
			}
		}},
		"in a trailer": {encodingRaw, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Host")
			_, _ = w.Write([]byte("ok"))
			w.Header().Set("X-Host", host)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := say(t, c.leaks)
			if c.want == "" {
				assert.Empty(t, s.Hits())
				return
			}
			require.Contains(t, forms(s), c.want)
			assert.Equal(t, "edge-gateway-http/1.1", s.Hits()[0].Stream)
		})
	}
}

// chain returns a certificate that its maker did not think about.
func chain(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(10, 1, 2, 34)}, DNSNames: []string{"edge-host.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	require.NoError(t, err)
	return der
}

func TestCertificates(t *testing.T) {
	s := scanner(t, Canary{Kind: "host name", Text: "EDGE-HOST"})
	require.NoError(t, s.checkCertificates("a chain", chain(t)))
	assert.NotEmpty(t, s.Hits(), "a name")
	s = target(t)
	require.NoError(t, s.checkCertificates("a chain", chain(t)))
	assert.NotEmpty(t, s.Hits(), "an address")
	require.Error(t, s.checkCertificates("no chain", []byte("nonsense")))
	before := len(s.Hits())
	newTap("edge", s)(node.Crossing{Chain: [][]byte{{1}}}, nil)
	assert.Len(t, s.Hits(), before+1, "what cannot be looked at is no pass")
}

func TestScanDir(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("0001-in-gateway-http_1.1.bin", host) // what another zone says
	put("0001-cert.der", "")
	sum, err := ScanDir(dir, target(t), nil)
	require.NoError(t, err)
	assert.Equal(t, Totals{}, sum)

	put("1234-000002-out-dial-berth-gossip_1.bin", "\x00\x01"+host)
	put("1234-000003-out-gateway-http_1.1.bin", sized("Content-Encoding: gzip\r\n", gzipped(t, host)))
	der := string(chain(t))
	put("1234-000003-cert.der", der+der)
	s := target(t)
	sum, err = ScanDir(dir, s, nil)
	require.NoError(t, err)
	assert.Equal(t, 2, sum.Streams)
	assert.Equal(t, 2, sum.Certs)
	found := map[string]bool{}
	for _, h := range s.Hits() {
		found[filepath.Base(h.Stream)] = true
	}
	assert.Len(t, found, 3, "in each of the files: %v", found)

	put("0004-out.bin", "")
	_, err = ScanDir(dir, s, nil)
	require.ErrorContains(t, err, "not the name of a capture")
	require.NoError(t, os.Remove(filepath.Join(dir, "0004-out.bin")))
	put("0005-cert.der", "nonsense")
	_, err = ScanDir(dir, s, nil)
	require.Error(t, err)
	_, err = ScanDir(filepath.Join(dir, "none"), s, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestShapes(t *testing.T) {
	for name, c := range map[string]struct {
		blob   int
		weight int64
		faults int
	}{
		"good":                     {1024, 128, 0},
		"negative weight":          {2048, -64, 0},
		"length beside the sizes":  {1025, 64, 1},
		"weight that tells a host": {1024, 63, 1},
		"both":                     {1, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			sh := NewShapes([]int{1024, 2048}, 64)
			out := newOutput("a stream", target(t), sh)
			a := api.SelectAnswer{Weights: [][]int64{{64}, {0, c.weight}}, Blob: make([]byte, c.blob)}
			text := sized("", "\xa0") + sized("Content-Type: application/cbor\r\n", marshal(t, codec.Marshal, a))
			for i := range len(text) {
				_, err := fmt.Fprint(out, text[i:i+1])
				require.NoError(t, err)
			}
			out.end()
			assert.Equal(t, 1, sh.answers)
			assert.Len(t, sh.Faults(), c.faults, "%v", sh.Faults())
		})
	}
}
