package simnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cluster-test/simnet"
)

// pair connects two hosts, "a" having dialled "b".
func pair(t *testing.T, n *simnet.Network) (near, far net.Conn) {
	t.Helper()
	ln, err := n.Host("b").Listen(t.Context(), "b:1")
	require.NoError(t, err)
	near, err = n.Host("a").Dial(t.Context(), "b:1")
	require.NoError(t, err)
	far, err = ln.Accept()
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return near, far
}

func put(t *testing.T, c net.Conn, text string) {
	t.Helper()
	k, err := c.Write([]byte(text))
	require.NoError(t, err)
	require.Len(t, text, k)
}

func gets(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, want, string(b))
}

func TestBytesArriveInOrderAndAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, far := pair(t, n)
		n.Slow("a", "b", time.Second)
		began := time.Now()
		for _, s := range []string{"one ", "two ", "three"} {
			put(t, near, s)
		}
		require.NoError(t, near.Close())
		all, err := io.ReadAll(far)
		require.NoError(t, err)
		assert.Equal(t, "one two three", string(all))
		assert.GreaterOrEqual(t, time.Since(began), time.Second/2)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second/2)
		_, err = far.Write([]byte("x"))
		require.ErrorIs(t, err, simnet.ErrReset)
		_, err = near.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, far.Close())
		assert.Equal(t, uint64(13), n.Bytes())
	})
}

func TestCutsHoldBackWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, far := pair(t, n)
		n.CutOneWay("a", "b")
		put(t, near, "late")
		put(t, far, "back") // the other direction works
		gets(t, near, "back")
		require.NoError(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
		began := time.Now()
		_, err := far.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Host("a").Dial(ctx, "b:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		require.NoError(t, far.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Hour, n.Heal)
		gets(t, far, "late")
		assert.Equal(t, time.Hour+time.Minute+time.Second, time.Since(began))
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, far := pair(t, n)
		n.Refuse("a", "b")
		_, err := near.Read(make([]byte, 1))
		require.ErrorIs(t, err, simnet.ErrReset)
		_, err = far.Write([]byte("x"))
		require.ErrorIs(t, err, simnet.ErrReset)
		began := time.Now()
		_, err = n.Host("a").Dial(t.Context(), "b:1")
		require.ErrorIs(t, err, simnet.ErrRefused)
		assert.Zero(t, time.Since(began))
		ln, err := n.Host("b").Listen(t.Context(), "b:1")
		require.NoError(t, err)
		_, err = n.Host("a").Dial(t.Context(), "b:1")
		require.ErrorIs(t, err, simnet.ErrRefused, "though somebody listens")
		n.Mend("a", "b")
		c, err := n.Host("a").Dial(t.Context(), "b:1")
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		require.NoError(t, c.Close())
	})
}

// TestFullBuffer holds that a writer waits when nobody reads, until its deadline.
func TestFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, simnet.New(1))
		require.NoError(t, near.SetWriteDeadline(time.Now().Add(time.Second)))
		k, err := near.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Less(t, k, 1<<20)
		require.NoError(t, near.SetWriteDeadline(time.Time{}))
		go func() {
			_, _ = near.Write(bytes.Repeat([]byte("x"), 1<<20)) // what is read tells
			_ = near.Close()
		}()
		all, err := io.ReadAll(far)
		require.NoError(t, err)
		assert.Len(t, all, k+1<<20)
	})
}

func TestCrashedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, far := pair(t, n)
		ln, err := n.Host("b").Listen(t.Context(), "b:0")
		require.NoError(t, err)
		n.Host("b").Crash()
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = near.Read(make([]byte, 1))
		require.ErrorIs(t, err, simnet.ErrReset)
		_, err = far.Write([]byte("x"))
		require.ErrorIs(t, err, simnet.ErrReset)
		_, err = n.Host("a").Dial(t.Context(), ln.Addr().String())
		require.ErrorIs(t, err, simnet.ErrRefused)
		_, err = n.Host("b").Listen(t.Context(), "b:2")
		require.ErrorIs(t, err, simnet.ErrDown)
		n.Host("b").Up()
		_, err = n.Host("b").Listen(t.Context(), "b:2")
		require.NoError(t, err)
		_, err = n.Host("b").Listen(t.Context(), "b:2")
		require.ErrorIs(t, err, simnet.ErrInUse)
	})
}

// TestUnheardCrash holds that a crash behind a cut link is not known before the
// link is mended, and a reset is known at once.
func TestUnheardCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, _ := pair(t, n)
		n.Cut("a", "b")
		n.Host("b").Crash()
		put(t, near, "nobody")
		require.NoError(t, near.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := near.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		n.Heal()
		require.NoError(t, near.SetReadDeadline(time.Time{}))
		_, err = near.Read(make([]byte, 1))
		require.ErrorIs(t, err, simnet.ErrReset)

		n.Host("b").Up()
		near, far := pair(t, n)
		n.Host("a").Reset("b")
		for _, c := range []net.Conn{near, far} {
			_, err = c.Read(make([]byte, 1))
			require.ErrorIs(t, err, simnet.ErrReset)
		}
	})
}

// TestFrozenAndVanishedHosts holds that nobody can tell such a host from a slow one.
// What a frozen one was sent it takes later; who has vanished starts anew.
func TestFrozenAndVanishedHosts(t *testing.T) {
	for name, leave := range map[string]func(*simnet.Host){"frozen": (*simnet.Host).Freeze, "vanished": (*simnet.Host).Vanish} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simnet.New(1)
				near, far := pair(t, n)
				ln, err := n.Host("b").Listen(t.Context(), "b:1")
				require.NoError(t, err)
				put(t, far, "before")
				leave(n.Host("b"))
				began := time.Now()
				put(t, near, "asked")
				if name == "frozen" {
					gets(t, near, "before")
				}
				for _, c := range []net.Conn{near, far} {
					require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
					_, err = c.Read(make([]byte, 1))
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
					require.NoError(t, c.SetReadDeadline(time.Time{}))
				}
				for from, to := range map[string]string{"a": "b:1", "b": "a:1"} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					_, err = n.Host(from).Dial(ctx, to)
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				assert.Equal(t, 4*time.Minute, time.Since(began))

				time.AfterFunc(time.Minute, n.Host("b").Resume)
				c, err := n.Host("a").Dial(t.Context(), "b:1")
				require.NoError(t, err)
				assert.Equal(t, 5*time.Minute, time.Since(began))
				if name == "frozen" {
					gets(t, far, "asked")
					put(t, far, "answered")
					gets(t, near, "answered")
				} else {
					for _, c := range []net.Conn{near, far} {
						_, err = c.Read(make([]byte, 1))
						require.ErrorIs(t, err, simnet.ErrReset)
					}
				}
				require.NoError(t, errors.Join(c.Close(), ln.Close()))
			})
		})
	}
}

// TestAFrozenHostSendsNothing holds that what a frozen host writes, or that it
// closes, is not known before it goes on.
func TestAFrozenHostSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		near, far := pair(t, n)
		n.Host("b").Freeze()
		began := time.Now()
		put(t, far, "goodbye")
		require.NoError(t, far.Close())
		require.Zero(t, time.Since(began), "who is frozen waits for nobody")
		put(t, near, "nobody")
		time.AfterFunc(time.Hour, n.Host("b").Resume)
		gets(t, near, "goodbye")
		_, err := near.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, time.Hour, time.Since(began))
		_, err = near.Write([]byte("x"))
		require.ErrorIs(t, err, simnet.ErrReset)
	})
}

func TestRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		names := []string{"a", "b", "c", "d"}
		for _, h := range names {
			_, err := n.Host(h).Listen(t.Context(), h+":1")
			require.NoError(t, err)
		}
		n.Ring(names...)
		for i, from := range names {
			for j, to := range names {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := n.Host(from).Dial(ctx, to+":1")
				cancel()
				if (i-j+4)%4 == 2 {
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s to %s", from, to)
				} else {
					require.NoError(t, err, "%s to %s", from, to)
				}
			}
		}
	})
}

// TestHTTP runs the standard client and server, which wait in all the ways that
// there are.
func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.Slow("127.0.0.1", "127.0.0.2", 10*time.Millisecond)
		ln, err := n.Host("127.0.0.2").Listen(t.Context(), "127.0.0.2:0")
		require.NoError(t, err)
		assert.True(t, ln.Addr().(*net.TCPAddr).IP.IsLoopback())
		s := &http.Server{
			ReadHeaderTimeout: time.Second, IdleTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }),
		}
		done := make(chan error, 1)
		go func() { done <- s.Serve(ln) }()
		tr := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return n.Host("127.0.0.1").Dial(ctx, addr)
		}}
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String(), strings.NewReader("hello"))
			require.NoError(t, err)
			res, err := tr.RoundTrip(req)
			require.NoError(t, err)
			b, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Equal(t, "hello", string(b))
			require.NoError(t, res.Body.Close())
		}
		tr.CloseIdleConnections()
		require.NoError(t, s.Shutdown(t.Context()))
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
}
