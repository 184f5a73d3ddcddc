package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/httpd/rates"
	"berth/identity"
	"berth/internal/await"
)

// from is a connection from an address, and nothing else.
type from struct {
	net.Conn
	addr string
}

type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }

func (f from) RemoteAddr() net.Addr { return textAddr(f.addr) }

// inUse returns how many places are taken.
func (p *places) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func TestSharer(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "192.0.2.1:2": "192.0.2.1", "[::ffff:192.0.2.1]:1": "192.0.2.1",
		"[2001:db8::1]:1": "2001:db8::/64", "[2001:db8::ffff:0:1]:1": "2001:db8::/64", "[2001:db8:0:1::1]:1": "2001:db8:0:1::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "a.example:1": "a.example", "pipe": "pipe", "": "",
	} {
		assert.Equal(t, want, sharer(textAddr(addr)), addr)
	}
	assert.Empty(t, sharer(nil))
}

// TestPlacesAreShared: one address gets its share and no more, all together get all places,
// and nothing is remembered of those who are gone.
func TestPlacesAreShared(t *testing.T) {
	assert.Equal(t, ConnsMax/2, newPlaces(ConnsMax, 0).each)
	assert.Equal(t, adminConnsMax, newPlaces(adminConnsMax, ConnsMax).each, "a share is no more than there is")
	rapid.Check(t, func(t *rapid.T) {
		p := newPlaces(rapid.IntRange(1, 6).Draw(t, "all"), rapid.IntRange(1, 6).Draw(t, "each"))
		var inside []from
		leaves := map[int]func(){}
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(leaves) > 0 && rapid.Bool().Draw(t, "leave") {
				for at, leave := range leaves {
					leave()
					delete(leaves, at)
					inside[at].addr = ""
					break
				}
			}
			c := from{addr: rapid.SampledFrom([]string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"}).Draw(t, "from")}
			same := 0
			for at := range leaves {
				if inside[at].addr == c.addr {
					same++
				}
			}
			leave, ok := p.take(c)
			if want := len(leaves) < p.all && same < p.each; ok != want {
				t.Fatalf("step %d: %d inside, %d from there, limits %d and %d: got %v", n, len(leaves), same, p.all, p.each, ok)
			}
			inside = append(inside, c)
			if ok {
				leaves[len(inside)-1] = leave
			}
		}
		for _, leave := range leaves {
			leave()
		}
		if p.taken != 0 || len(p.by) != 0 {
			t.Fatalf("%d places are left taken, by %v", p.taken, p.by)
		}
	})
}

// TestAListenerHasSoManyPlaces: the public API and the admin listener hang up on what is too
// much, and serve on.
func TestAListenerHasSoManyPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		l := placed{Listener: ln, places: newPlaces(2, 1)}
		enters := func(addr string) net.Conn {
			mine, theirs := net.Pipe()
			ln.conns <- from{theirs, addr}
			return mine
		}
		accepted := make(chan net.Conn, 3)
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		enters("192.0.2.1:1")
		first := <-accepted
		hangsUp(t, enters("192.0.2.1:2"))
		enters("192.0.2.2:1")
		second := <-accepted
		hangsUp(t, enters("192.0.2.3:1"))
		require.NoError(t, first.Close())
		require.NoError(t, first.Close(), "a place is freed once")
		enters("192.0.2.1:3")
		third := <-accepted
		hangsUp(t, enters("192.0.2.3:1"))
		require.NoError(t, second.Close())
		require.NoError(t, third.Close())
		require.NoError(t, ln.Close())
		require.ErrorIs(t, <-ended, net.ErrClosed)
		assert.Zero(t, l.places.inUse())
	})
}

// TestStrangersMayNotIdle: a connection on which nobody has shown a token is hung up on when it
// waits, and one on which somebody has is kept.
func TestStrangersMayNotIdle(t *testing.T) {
	for path, kept := range map[string]time.Duration{"/stranger": strangerIdle, "/known": idleTimeout, "/admin": idleTimeout} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ln := pipes{make(chan net.Conn), make(chan struct{})}
			l := placed{Listener: ln, places: newPlaces(1, 1), knows: path == "/admin"}
			done := make(chan error, 1)
			go func() {
				done <- serveHTTP(ctx, l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/known" {
						noteKnown(r)
					}
					await.Sleep(2 * strangerIdle) // a call may take as long as it wants
				}), free, quiet)
			}()
			mine, theirs := net.Pipe()
			ln.conns <- theirs
			reader := bufio.NewReader(mine)
			for range 2 {
				_, err := io.Copy(mine, strings.NewReader("GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"))
				require.NoError(t, err)
				answer, err := http.ReadResponse(reader, nil)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				await.Sleep(strangerIdle - time.Second)
			}
			waits := time.Now().Add(time.Second - strangerIdle)
			_, err := reader.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			assert.Equal(t, kept, time.Since(waits), path)
			synctest.Wait()
			assert.Zero(t, l.places.inUse())
			cancel()
			require.NoError(t, <-done)
		})
	}
}

// TestEnrolmentIsApart: zones that nobody knows take no places of those that are linked, and
// have few of their own, for a short while.
func TestEnrolmentIsApart(t *testing.T) {
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		creds, err := openWallet(h.opts.Dir)
		require.NoError(t, err)
		get := func() *identity.Credentials { return creds.Get(identity.RoleGateway) }
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		g := newGate(ln, identity.ServerTLS(get, []string{api.ALPNHTTP, api.ALPNEnrol},
			identity.AdmitLinked(func(api.ZoneID) []identity.Pin { return creds.Pins() }), time.Now), 0, quiet)
		require.Equal(t, enrolConnsMax, g.apart.all)
		g.apart = newPlaces(2, 2)
		g.places = newPlaces(1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); g.acceptConns(ctx) }()

		enters := func(alpn string) net.Conn {
			synctest.Wait() // whoever was refused has left
			ours, theirs := net.Pipe()
			ln.conns <- theirs
			c := tls.Client(ours, identity.ClientTLS(get, alpn, creds.Pins,
				identity.Subject{Zone: creds.Get(identity.RoleGateway).Subject.Zone, Role: identity.RoleGateway}, time.Now))
			require.NoError(t, c.HandshakeContext(t.Context()))
			return c
		}
		accepts := func(alpn string) net.Conn {
			c, err := g.roomFor(alpn).Accept()
			require.NoError(t, err)
			return c
		}
		enters(api.ALPNEnrol)
		first := accepts(api.ALPNEnrol)
		enters(api.ALPNEnrol)
		second, began := accepts(api.ALPNEnrol), time.Now()
		_, err = io.Copy(io.Discard, enters(api.ALPNEnrol))
		require.NoError(t, err, "it is hung up on")
		enters(api.ALPNHTTP)
		linked := accepts(api.ALPNHTTP)
		_, _ = first.Close(), linked.Close() // nobody reads the farewell
		_, err = second.Read(make([]byte, 1))
		require.Error(t, err)
		assert.Equal(t, enrolLife, time.Since(began))
		_ = second.Close() // nobody reads the farewell
		assert.Equal(t, []int{0, 0}, []int{g.places.inUse(), g.apart.inUse()})
		cancel() // closes the listener
		<-gone
	})
}

// TestRatesOfANode: a node limits calls by the address that they come from, and knows none for
// those that another node has passed on.
func TestRatesOfANode(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h := newZone(t, "a")
		h.opts.Rates = rates.Rates{rates.Joins: 1}
		r := h.run()
		codes := map[int]int{}
		for range 200 { // 8 at once, and 4 in a second
			rec, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/operator/join", strings.NewReader("{"))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(headerDoor, doorAPI) // a lie
			stripNodeHeaders(r.api).ServeHTTP(rec, req)
			codes[rec.Code]++
		}
		assert.GreaterOrEqual(t, codes[http.StatusBadRequest], 8, "%v", codes)
		assert.GreaterOrEqual(t, codes[http.StatusTooManyRequests], 1, "%v", codes)

		passed := httptest.NewRequest(http.MethodGet, "/", nil)
		assert.Equal(t, "192.0.2.1", addressOf(passed))
		passed.Header.Set(headerDoor, doorAPI)
		assert.Empty(t, addressOf(passed))
	})
}
