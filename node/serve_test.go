package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestServeLeavesNoConnection: connections end with a server, also if its listener was
// closed before it was told to end.
func TestServeLeavesNoConnection(t *testing.T) {
	for name, end := range map[string]func(cancel func(), ln net.Listener){
		"told":             func(cancel func(), _ net.Listener) { cancel() },
		"without listener": func(_ func(), ln net.Listener) { _ = ln.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *world) {
				ln, err := t.net.Listen(t.Context(), "127.0.0.1:0")
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					ended <- serveHTTP(ctx, ln, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), free, slog.New(slog.DiscardHandler))
				}()
				c, err := t.net.Dial(t.Context(), ln.Addr().String())
				require.NoError(t, err)
				_, err = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				require.NoError(t, err)
				answer, err := http.ReadResponse(bufio.NewReader(c), nil)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())

				end(cancel, ln)
				require.NoError(t, <-ended)
				_, err = c.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF, "it is closed")
				require.NoError(t, c.Close())
			})
		})
	}
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.ended); return nil }

func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestLongWaitsAreNotCut: a handler may wait for as long as callers may ask it to, which is
// longer than a request may take to arrive. A request that never arrives is given up.
func TestLongWaitsAreNotCut(t *testing.T) {
	const long = api.WaitMax
	for head, answered := range map[string]bool{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n":                                                    true,
		"DELETE / HTTP/1.1\r\nHost: h\r\n\r\n":                                                 true,
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}":                            true,
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n": true,
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n{}":                            false,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ln := pipes{make(chan net.Conn), make(chan struct{})}
			done := make(chan error, 1)
			go func() {
				done <- serveHTTP(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						http.Error(w, "it did not arrive", http.StatusRequestTimeout)
						return
					}
					select {
					case <-time.After(long):
					case <-r.Context().Done():
						http.Error(w, "cut", http.StatusGatewayTimeout)
					}
				}), free, slog.New(slog.DiscardHandler))
			}()
			mine, theirs := net.Pipe()
			ln.conns <- theirs
			reader := bufio.NewReader(mine)
			began := time.Now()
			for range 2 { // also on a connection that has waited before
				_, err := io.Copy(mine, strings.NewReader(head))
				require.NoError(t, err)
				answer, err := http.ReadResponse(reader, nil)
				require.NoError(t, err, head)
				require.NoError(t, answer.Body.Close())
				if !answered {
					assert.Equal(t, http.StatusRequestTimeout, answer.StatusCode, head)
					assert.Equal(t, bodyGrace+2*time.Second/bodySpeed, time.Since(began), head)
					break
				}
				assert.Equal(t, http.StatusOK, answer.StatusCode, head)
			}
			if answered {
				assert.Equal(t, 2*long, time.Since(began), head)
			}
			require.NoError(t, mine.Close())
			cancel()
			require.NoError(t, <-done)
		})
	}
}

// TestHeadersAboveTheirLimit: a caller whose headers are too long hears it, also if he is not done with them.
func TestHeadersAboveTheirLimit(t *testing.T) {
	for size, want := range map[int]int{
		1 << 10: http.StatusOK, headerMaxBytes: http.StatusOK, headerMaxBytes + 5<<10: http.StatusRequestHeaderFieldsTooLarge, 100 << 10: http.StatusRequestHeaderFieldsTooLarge,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ln := pipes{make(chan net.Conn), make(chan struct{})}
			done := make(chan error, 1)
			go func() {
				done <- serveHTTP(ctx, ln, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), free, slog.New(slog.DiscardHandler))
			}()
			mine, theirs := net.Pipe()
			ln.conns <- theirs
			head := "GET / HTTP/1.1\r\nHost: h\r\nX: "
			go func() { // until the other end has heard enough
				_, _ = io.Copy(mine, strings.NewReader(head+strings.Repeat("y", size-len(head)-4)+"\r\n\r\n"))
			}()
			answer, err := http.ReadResponse(bufio.NewReader(mine), nil)
			require.NoError(t, err, size)
			require.NoError(t, answer.Body.Close())
			assert.Equal(t, want, answer.StatusCode, size)
			require.NoError(t, mine.Close())
			cancel()
			require.NoError(t, <-done)
		})
	}
}

// TestAWaitOverAnUnreadBody: a caller whose body nobody reads gets the answer after a long wait
// as well.
func TestAWaitOverAnUnreadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			done <- serveHTTP(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(api.WaitMax):
				case <-r.Context().Done():
					http.Error(w, "cut", http.StatusGatewayTimeout)
				}
			}), free, slog.New(slog.DiscardHandler))
		}()
		mine, theirs := net.Pipe()
		ln.conns <- theirs
		_, err := io.Copy(mine, strings.NewReader("DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"))
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(mine), nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		require.NoError(t, mine.Close())
		cancel()
		require.NoError(t, <-done)
	})
}
