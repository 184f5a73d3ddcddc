package node

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/wire"
	"berth/internal/await"
	"berth/internal/budget"
)

// serving serves connections in memory, and returns the caller's end of a new one.
func serving(t *testing.T, h http.HandlerFunc, begin accounts) (dial func() net.Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ln := pipes{make(chan net.Conn), make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- serveHTTP(ctx, ln, h, begin, quiet) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return func() net.Conn {
		mine, theirs := net.Pipe()
		t.Cleanup(func() { _ = mine.Close() }) // it may have been closed
		ln.conns <- theirs
		return mine
	}
}

// post begins a request with a body of n bytes.
func post(t *testing.T, c net.Conn, n int) {
	t.Helper()
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(n)+"\r\n\r\n")
	require.NoError(t, err)
}

// answerOf reads an answer and its body.
func answerOf(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

// TestABodyThatComesTooSlowly may keep its reader waiting for bodyGrace and what its bytes are worth, and no longer.
func TestABodyThatComesTooSlowly(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int // that come at once
		waits time.Duration
	}{
		"nothing comes":    {0, bodyGrace},
		"little comes":     {1, bodyGrace + time.Second/bodySpeed},
		"some of it comes": {3 * bodySpeed, bodyGrace + 3*time.Second},
		"much of it comes": {60 * bodySpeed, readTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan error, 1)
				c0 := serving(t, func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					told <- err
				}, free)()
				began := time.Now()
				post(t, c0, 100*bodySpeed)
				_, err := io.Copy(c0, strings.NewReader(strings.Repeat("x", c.bytes)))
				require.NoError(t, err)
				require.ErrorIs(t, <-told, os.ErrDeadlineExceeded)
				assert.Equal(t, c.waits, time.Since(began))
			})
		})
	}
}

// TestABodyAtItsLeastSpeed is read, and the time that its reader takes between two reads is his own.
func TestABodyAtItsLeastSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces = 15
		c := serving(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			assert.NoError(t, err)
			_, err = r.Body.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF, "as often as somebody looks")
			await.Sleep(2 * readTimeout)
			assert.NoError(t, r.Context().Err(), "a call may take long when its body is there")
		}, free)()
		post(t, c, pieces*bodySpeed)
		for range pieces {
			await.Sleep(time.Second)
			_, err := io.WriteString(c, strings.Repeat("x", bodySpeed))
			require.NoError(t, err)
		}
		status, _ := answerOf(t, c)
		assert.Equal(t, http.StatusOK, status)
	})
}

// TestAHandlerMayLetABodyTakeLong, as that of a backup does; its least speed stays.
func TestAHandlerMayLetABodyTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan error, 1)
		c := serving(t, func(w http.ResponseWriter, r *http.Request) {
			assert.NoError(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(3*readTimeout)))
			_, err := io.Copy(io.Discard, r.Body)
			told <- err
		}, free)()
		began := time.Now()
		post(t, c, 1000*bodySpeed)
		for range 2 * readTimeout / time.Second {
			await.Sleep(time.Second)
			_, err := io.WriteString(c, strings.Repeat("x", bodySpeed))
			require.NoError(t, err)
		}
		require.ErrorIs(t, <-told, os.ErrDeadlineExceeded)
		assert.Equal(t, 2*readTimeout+bodyGrace, time.Since(began))
	})
}

// TestUnfinishedBodiesAreRefused: what all callers of one address send and do not end is bounded, and so is what a node has of
// all of them; the others find room, and what is refused gives all back.
func TestUnfinishedBodiesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		limits := budget.Defaults(1, 4)
		b := budget.New(limits)
		begin := func(r *http.Request) *budget.Account {
			return b.Begin(budget.Party{Scope: budget.Node}, budget.Party{Scope: budget.Listener, ID: "x"}, budget.Party{Scope: budget.Address, ID: r.RemoteAddr})
		}
		dial := serving(t, func(w http.ResponseWriter, r *http.Request) {
			var v struct{}
			if err := wire.ReadJSON(r, size, &v); err != nil {
				wire.Refuse(w, r, err)
			}
		}, begin)
		most := int(limits[budget.LargeBodies][budget.Address]) / (size - budget.SmallBody)
		var open []net.Conn
		for range most + 1 {
			c := dial()
			post(t, c, size)
			go func() { _, _ = io.Copy(c, strings.NewReader(strings.Repeat(" ", size-1))) }() // the last one is not read
			open = append(open, c)
			synctest.Wait()
		}
		status, text := answerOf(t, open[most])
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Contains(t, text, "your address may have")
		small := dial()
		post(t, small, 2)
		_, err := io.WriteString(small, "{}")
		require.NoError(t, err)
		status, _ = answerOf(t, small)
		assert.Equal(t, http.StatusOK, status, "a small body of the same address")
		for _, c := range open {
			require.NoError(t, c.Close())
		}
		synctest.Wait()
		for k, part := range b.Held() {
			assert.Zero(t, part, k)
		}
	})
}

// TestCallsAtOnceAreCounted, whatever they do.
func TestCallsAtOnceAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(budget.Limits{budget.Calls: {budget.Listener: 2}})
		end := make(chan struct{})
		dial := serving(t, func(http.ResponseWriter, *http.Request) { <-end },
			func(*http.Request) *budget.Account { return b.Begin(budget.Party{Scope: budget.Listener, ID: "x"}) })
		ask := func() net.Conn {
			c := dial()
			post(t, c, 0)
			synctest.Wait()
			return c
		}
		first, second := ask(), ask()
		status, text := answerOf(t, ask())
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, text, string(api.CodeUnavailable))
		close(end)
		for _, c := range []net.Conn{first, second} {
			status, _ = answerOf(t, c)
			assert.Equal(t, http.StatusOK, status)
		}
		status, _ = answerOf(t, ask())
		assert.Equal(t, http.StatusOK, status)
	})
}

// TestAnswersThatNobodyReads are held up to a limit: beyond it a refusal comes in place of the answer, or what has begun is
// cut so that its reader notices.
func TestAnswersThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		b := budget.New(budget.Limits{budget.Answers: {budget.User: size}})
		told := make(chan error, 3)
		dial := serving(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			w.WriteHeader(http.StatusAccepted)
			if r.Header.Get("Begun") != "" {
				_, err := w.Write([]byte("x"))
				assert.NoError(t, err)
				assert.NoError(t, http.NewResponseController(w).Flush())
				await.Sleep(time.Second)
			}
			_, err := w.Write(make([]byte, size))
			told <- err
		}, func(*http.Request) *budget.Account { return b.Begin(budget.Party{Scope: budget.User, ID: "ann"}) })
		first, begun := dial(), dial()
		_, err := io.WriteString(begun, "GET / HTTP/1.1\r\nHost: h\r\nBegun: yes\r\n\r\n")
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, begun, 10)
		require.NoError(t, err)
		post(t, first, 0)
		synctest.Wait()

		second := dial()
		post(t, second, 0)
		status, text := answerOf(t, second)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Contains(t, text, "a user may have 1048576 bytes of answers under way at once")
		require.ErrorIs(t, <-told, errLateAnswer)

		rest, err := io.ReadAll(begun)
		require.NoError(t, err)
		assert.Less(t, len(rest), size/2, "it is cut")
		require.ErrorIs(t, <-told, errLateAnswer)

		status, text = answerOf(t, first)
		assert.Equal(t, http.StatusAccepted, status)
		assert.Len(t, text, size)
		require.NoError(t, <-told)
	})
}

// TestListenersAreApart: each is counted by itself, and by address but for those of the zone's own nodes; an operator may look at
// a node that is full.
func TestListenersAreApart(t *testing.T) {
	n := &Node{budget: budget.New(budget.Limits{budget.Calls: {budget.Node: 5, budget.Listener: 2, budget.Address: 1}})}
	ask := func(listener, from string) api.Code {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		require.NoError(t, err)
		r.RemoteAddr = from
		return api.CodeOf(n.accountsOf(listener)(r).Take(budget.Calls, 1))
	}
	none := api.CodeOf(error(nil))
	assert.Equal(t, none, ask(listenerAPI, "10.0.0.1:1"))
	assert.Equal(t, api.CodeOverloaded, ask(listenerAPI, "10.0.0.1:2"), "an address")
	assert.Equal(t, none, ask(listenerGateway, "10.0.0.1:2"), "the same at another listener")
	assert.Equal(t, none, ask(listenerAPI, "10.0.0.2:1"))
	assert.Equal(t, api.CodeUnavailable, ask(listenerAPI, "10.0.0.3:1"), "a listener")
	assert.Equal(t, none, ask(listenerNode, "10.0.0.1:1"))
	assert.Equal(t, none, ask(listenerNode, "10.0.0.1:1"), "a node passes on calls of many")
	assert.Equal(t, api.CodeUnavailable, ask(listenerAgent, "10.0.0.1:1"), "a node")
	assert.Equal(t, none, ask(listenerAdmin, "127.0.0.1:1"))
}

// TestTheShareOfAnAddress follows the connections that it may have.
func TestTheShareOfAnAddress(t *testing.T) {
	for each, most := range map[int]int{0: 2048, 1: 1, ConnsMax: 4096} {
		b := newBudget(each)
		a := b.Begin(budget.Party{Scope: budget.Address, ID: "x"})
		require.NoError(t, a.Take(budget.Calls, int64(most)))
		require.Error(t, a.Take(budget.Calls, 1))
	}
}

// TestABodyIsNotReadWhenItsCallIsOver, as a caller of another node would by chance.
func TestABodyIsNotReadWhenItsCallIsOver(t *testing.T) {
	b := &pacedBody{ReadCloser: io.NopCloser(strings.NewReader("x")), over: true}
	_, err := b.Read(make([]byte, 1))
	assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
}

// TestBodiesOfHTTP2: one that comes too slowly is given up, a long call after one that has come is not, and of one that nobody
// reads a connection takes no more than bodyBuffer.
func TestBodiesOfHTTP2(t *testing.T) {
	virtually(t, func(t *world) {
		told := make(chan error, 3)
		client, end := overHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Unread") == "" {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					told <- err
					return
				}
			}
			await.Sleep(2 * readTimeout)
			told <- r.Context().Err()
		})
		post := func(body io.Reader, unread string) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost/", body)
			require.NoError(t, err)
			req.Header.Set("Unread", unread)
			answer, err := client.RoundTrip(req)
			if err == nil {
				require.NoError(t, answer.Body.Close())
			}
			return err
		}
		slow, sends := io.Pipe()
		go func() {
			_, err := io.WriteString(sends, "x")
			assert.NoError(t, err)
		}()
		began := time.Now()
		go func() { _ = post(slow, "") }() // it is given up
		require.ErrorIs(t, <-told, os.ErrDeadlineExceeded)
		assert.Equal(t, bodyGrace+time.Second/bodySpeed, time.Since(began))
		require.NoError(t, sends.Close())

		require.NoError(t, post(strings.NewReader(strings.Repeat("x", 1<<20)), ""))
		require.NoError(t, <-told)

		unread := &sizedReader{Reader: strings.NewReader(strings.Repeat("x", 1<<22))}
		_ = post(unread, "yes") // what is left of it is refused
		require.NoError(t, <-told)
		assert.Less(t, unread.n.Load(), int64(1<<20), "with the 512 KiB that the client has ready")
		end()
	})
}

// sizedReader knows how much was read.
type sizedReader struct {
	io.Reader
	n atomic.Int64
}

func (r *sizedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// TestABodyThatIsTooLarge is refused in words, and its rest is not waited for, however much of it comes.
func TestABodyThatIsTooLarge(t *testing.T) {
	const limit, size = 1000, 4 * bodySpeed
	for name, c := range map[string]struct {
		comes int
		waits time.Duration
	}{
		"all of it comes": {size, 0}, "half of it comes": {size / 2, bodyRest}, "nothing comes": {0, bodyRest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c0 := serving(t, func(w http.ResponseWriter, r *http.Request) {
					var v struct{}
					wire.Refuse(w, r, wire.ReadJSON(r, limit, &v))
				}, free)()
				began := time.Now()
				post(t, c0, size)
				_, err := io.WriteString(c0, strings.Repeat(" ", c.comes))
				require.NoError(t, err)
				status, text := answerOf(t, c0)
				assert.Equal(t, http.StatusRequestEntityTooLarge, status)
				assert.Contains(t, text, "at most 1000 bytes")
				assert.Equal(t, c.waits, time.Since(began))
			})
		})
	}
}

// TestARefusalComesSoon: a body that nobody wants is not waited for, however small it is; the next call on the connection has its time.
func TestARefusalComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serving(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 0 {
				wire.Refuse(w, r, api.Errorf(api.CodeForbidden, "no"))
				return
			}
			await.Sleep(2 * readTimeout)
			assert.NoError(t, r.Context().Err())
		}, free)()
		began := time.Now()
		post(t, c, 2)
		_, err := io.WriteString(c, "{}")
		require.NoError(t, err)
		status, _ := answerOf(t, c)
		assert.Equal(t, http.StatusForbidden, status)
		assert.Zero(t, time.Since(began))
		post(t, c, 0)
		status, _ = answerOf(t, c)
		assert.Equal(t, http.StatusOK, status)
		began = time.Now()
		post(t, c, 2) // which do not come
		status, _ = answerOf(t, c)
		assert.Equal(t, http.StatusForbidden, status)
		assert.Equal(t, bodyRest, time.Since(began))
	})
}
