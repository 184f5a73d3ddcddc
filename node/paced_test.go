package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/identity"
	"berth/internal/await"
	"berth/internal/budget"
)

// answered serves one request in memory, and returns what its handler returned, the body of the
// answer and the caller's end of the connection.
func answered(t *testing.T, h func(w http.ResponseWriter) error) (told <-chan error, body io.ReadCloser, mine net.Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ln := pipes{make(chan net.Conn), make(chan struct{})}
	done, result := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- serveHTTP(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { result <- h(w) }), free, quiet)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	mine, theirs := net.Pipe()
	t.Cleanup(func() { _ = mine.Close() }) // it may have been closed
	ln.conns <- theirs
	_, err := io.WriteString(mine, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReaderSize(mine, 16), nil)
	require.NoError(t, err)
	return result, answer.Body, mine
}

// free is the account of calls that may hold what they like.
func free(*http.Request) *budget.Account { return nil }

// writes is a handler's writing of an answer in one piece.
func writes(b []byte) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		_, err := w.Write(b)
		return err
	}
}

// TestAReaderThatStopsIsCutOff: whoever asks for much and reads nothing pins it for as long as
// stallMax.
func TestAReaderThatStopsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, _, mine := answered(t, writes(make([]byte, 4*writePiece)))
		began := time.Now()
		require.ErrorIs(t, <-told, os.ErrDeadlineExceeded)
		assert.Equal(t, stallMax, time.Since(began))
		n, err := io.Copy(io.Discard, mine)
		require.NoError(t, err)
		assert.Less(t, n, int64(writePiece), "the connection is closed")
	})
}

// TestASmallAnswerIsCutOffToo: it is in a buffer when its handler returns.
func TestASmallAnswerIsCutOffToo(t *testing.T) {
	for name, h := range map[string]func(w http.ResponseWriter) error{
		"written": writes([]byte("hello")),
		"empty":   func(http.ResponseWriter) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				ln := pipes{make(chan net.Conn), make(chan struct{})}
				l := placed{Listener: ln, places: newPlaces(1, 1)}
				done := make(chan error, 1)
				go func() {
					done <- serveHTTP(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = h(w) }), free, quiet)
				}()
				mine, theirs := net.Pipe()
				ln.conns <- theirs
				_, err := io.WriteString(mine, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				require.NoError(t, err)
				await.Sleep(stallMax - time.Second)
				synctest.Wait()
				assert.Equal(t, 1, l.places.inUse())
				await.Sleep(2 * time.Second)
				synctest.Wait()
				assert.Zero(t, l.places.inUse(), "the connection is closed")
				require.NoError(t, mine.Close())
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}

// TestASlowReaderIsServed as long as it takes a piece in time.
func TestASlowReaderIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces = 10
		told, body, _ := answered(t, writes(make([]byte, pieces*writePiece)))
		for range pieces {
			await.Sleep(stallMax - time.Second)
			_, err := io.CopyN(io.Discard, body, writePiece)
			require.NoError(t, err)
		}
		_, err := body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, <-told)
	})
}

// TestAnAnswerMayPause: the time between two writes is the handler's own.
func TestAnAnswerMayPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, body, _ := answered(t, func(w http.ResponseWriter) error {
			for range 3 {
				if _, err := w.Write([]byte("a")); err != nil {
					return err
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
				await.Sleep(3 * stallMax)
			}
			return nil
		})
		b, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, "aaa", string(b))
		require.NoError(t, <-told)
	})
}

// TestAHandlerMayHaveItsOwnPace, as event streams have.
func TestAHandlerMayHaveItsOwnPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, _, _ := answered(t, func(w http.ResponseWriter) error {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stallMax / 10)); err != nil {
				return err
			}
			return writes(make([]byte, writePiece))(w)
		})
		began := time.Now()
		require.ErrorIs(t, <-told, os.ErrDeadlineExceeded)
		assert.Equal(t, stallMax/10, time.Since(began))
	})
}

// overHTTP2 serves HTTP/2 in memory, and returns a client of it. end ends both.
func overHTTP2(t *world, h http.HandlerFunc) (client *http.Transport, end func()) {
	t.Helper()
	creds, err := openWallet(newZone(t, "a").opts.Dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ln := pipes{make(chan net.Conn), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		done <- serveHTTP(ctx, tls.NewListener(ln, identity.APITLS(func() *identity.Credentials { return creds.Get(identity.RoleAPI) }, func() *identity.Pair { return nil }, time.Now)),
			h, free, quiet)
	}()
	roots := x509.NewCertPool()
	roots.AddCert(creds.Get(identity.RoleAPI).CA)
	client = &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		mine, theirs := net.Pipe()
		ln.conns <- theirs
		c := tls.Client(mine, &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}, Time: time.Now})
		return c, c.HandshakeContext(ctx)
	}}
	return client, func() {
		client.CloseIdleConnections()
		cancel()
		require.NoError(t, <-done)
	}
}

// TestPaceOfHTTP2: there, a deadline resets an answer also while nothing is written. Readers that
// stop are cut off, and pauses are not.
func TestPaceOfHTTP2(t *testing.T) {
	virtually(t, func(t *world) {
		told := make(chan error, 1)
		client, end := overHTTP2(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 2 {
				_, err := w.Write([]byte("a"))
				assert.NoError(t, err)
				assert.NoError(t, http.NewResponseController(w).Flush())
				await.Sleep(3 * stallMax)
			}
			told <- writes(make([]byte, 1<<24))(w) // more than a client takes that does not read
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/", nil)
		require.NoError(t, err)
		answer, err := client.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 2, answer.ProtoMajor)
		_, err = io.ReadFull(answer.Body, make([]byte, 2))
		require.NoError(t, err)
		began := time.Now()
		require.Error(t, <-told)
		assert.Equal(t, 4*stallMax, time.Since(began))
		require.NoError(t, answer.Body.Close())
		end()
	})
}
