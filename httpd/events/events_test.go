package events_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	httpevents "berth/httpd/events"
	"berth/httpd/wire"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/events"
)

// world is a node whose streams are served over connections in memory.
type world struct {
	t       *testing.T
	store   *memstore.Store
	streams *httpevents.Streams
	conns   chan net.Conn
	closing chan struct{}
	http    http.Client
	made    int

	mu     sync.Mutex // guards the fields below
	led    bool
	admits bool
}

// Accept, Close and Addr make a net.Listener.
func (w *world) Accept() (net.Conn, error) {
	c, ok := <-w.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (w *world) Close() error   { return nil }
func (w *world) Addr() net.Addr { return &net.TCPAddr{} }

func (w *world) has(b *bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *b
}

func (w *world) set(b *bool, v bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*b = v
}

// run runs test with a world, in virtual time.
func run(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memstore.NewOfForm(api.FormNewest), conns: make(chan net.Conn), closing: make(chan struct{}), led: true, admits: true}
		w.store.Must(t, command.Init{Zone: "z", Name: "zone"})
		z := zone.New(zone.Config{Store: w.store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		w.streams = httpevents.New(httpevents.Config{Zone: z, Led: func() bool { return w.has(&w.led) }, Closing: w.closing})
		server := http.Server{ReadTimeout: 30 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			ask := httpevents.Ask{
				Caller: api.Caller{Project: "p", User: api.UserID(q.Get("user"))}, Watch: events.Watch{Project: "p"}, Once: q.Get("once") != "", New: q.Get("new") != "",
				Admits: func() bool { return w.has(&w.admits) },
			}
			if after := r.Header.Get(api.HeaderLastEventID); after != "" {
				id, err := api.ParseEventID(after)
				assert.NoError(t, err)
				ask.After = &id
			}
			if err := w.streams.Serve(rw, r, ask); err != nil {
				wire.Refuse(rw, r, err)
			}
		})}
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(w) })
		w.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			mine, theirs := net.Pipe()
			w.conns <- theirs
			return mine, nil
		}}
		test(t, w)
		close(w.conns)
		_ = server.Close()
		w.http.CloseIdleConnections()
		wg.Wait()
	})
}

// boots records boots, of which each is one event.
func (w *world) boots(project string, n int) {
	w.t.Helper()
	for range n {
		w.made++
		w.store.Must(w.t, command.BootCreate{Stamp: command.Stamp{At: api.InstantOf(time.Now())}, BootTerms: command.BootTerms{Request: api.Request{
			Project: api.ProjectID(project), Reservation: api.ReservationID(fmt.Sprint("r", w.made)), Groups: []api.Group{{Count: 1}},
		}}})
	}
}

// reader reads one stream.
type reader struct {
	t    *testing.T
	res  *http.Response
	text *bufio.Reader
	id   string // of the last block
}

func (w *world) open(query, after string) *reader {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://node/?"+query, http.NoBody)
	require.NoError(w.t, err)
	if after != "" {
		req.Header.Set(api.HeaderLastEventID, after)
	}
	res, err := w.http.Do(req) //nolint:bodyclose // the reader closes it at the end of the stream
	require.NoError(w.t, err)
	return &reader{t: w.t, res: res, text: bufio.NewReader(res.Body)}
}

// next returns the next event, nil for a block without one, and false at the end.
func (r *reader) next() (*rest.Event, bool) {
	var e *rest.Event
	id := ""
	for {
		line, err := r.text.ReadString('\n')
		if err != nil {
			_ = r.res.Body.Close()
			return nil, false
		}
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(text)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			e = &rest.Event{}
			require.NoError(r.t, json.Unmarshal([]byte(data), e))
		}
		if line == "\n" {
			r.id = id // a block that was cut off does not count
			return e, true
		}
	}
}

// events returns the reservations of the next n events.
func (r *reader) events(n int) (out []string) {
	r.t.Helper()
	for len(out) < n {
		e, ok := r.next()
		require.True(r.t, ok, "the stream ended after %v", out)
		if e != nil {
			assert.Equal(r.t, e.ID, r.id)
			out = append(out, string(e.Reservation))
		}
	}
	return out
}

// end reads the stream to its end.
func (r *reader) end() (out []string) {
	for {
		e, ok := r.next()
		if !ok {
			return out
		}
		if e != nil {
			out = append(out, string(e.Reservation))
		}
	}
}

// TestAStream: what there is, then what comes, and behind its last id all that came since. A
// silent stream has heartbeats that carry the position, for longer than the server reads.
func TestAStream(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		t.Helper()
		w.boots("p", 3)
		w.boots("other", 2)
		r := w.open("user=a", "")
		assert.Equal(t, rest.MediaEvents, r.res.Header.Get("Content-Type"))
		assert.Equal(t, []string{"r1", "r2", "r3"}, r.events(3))
		w.boots("p", 1)
		w.boots("other", 1)
		assert.Equal(t, []string{"r6"}, r.events(1))
		seen := r.id
		began := time.Now()
		for range 10 {
			e, ok := r.next()
			require.True(t, ok)
			require.Nil(t, e)
		}
		assert.InDelta(t, 10*httpevents.HeartbeatEvery, time.Since(began), float64(15*time.Second))
		assert.Equal(t, w.store.View().EventsEnd().String(), r.id, "others' events have moved the position on")
		_ = r.res.Body.Close()
		await.Sleep(2 * time.Second)
		assert.Zero(t, w.streams.Open())

		w.boots("p", 1)
		again := w.open("user=a&once=1", seen)
		assert.Equal(t, []string{"r8"}, again.end())
		assert.Equal(t, w.store.View().EventsEnd().String(), again.id)
		fresh := w.open("user=a&new=1", "")
		w.boots("p", 1)
		assert.Equal(t, []string{"r9"}, fresh.events(1), "only what is new")
		_ = fresh.res.Body.Close()
		await.Sleep(2 * time.Second)
	})
}

// TestAGapIsTold before the events that follow it.
func TestAGapIsTold(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		t.Helper()
		w.boots("p", 2)
		seen := w.open("user=a&once=1", "")
		seen.end()
		await.Sleep(25 * time.Hour)
		w.boots("p", 1)
		w.store.Must(t, command.Prune{Stamp: command.Stamp{At: api.InstantOf(time.Now())}, Limit: 1})
		assert.Equal(t, []string{"r3"}, w.open("user=a&once=1", seen.id).end(), "nothing behind it was dropped")
		r := w.open("user=a&once=1", "1-0")
		_, ok := r.next() // the position
		require.True(t, ok)
		e, ok := r.next()
		require.True(t, ok)
		require.NotNil(t, e.Gap)
		assert.Equal(t, rest.EventGap{After: "1-0", Reason: "dropped"}, *e.Gap)
		assert.Equal(t, []string{"r3"}, r.end())
		assert.Equal(t, []string{"r3"}, w.open("user=a&once=1", e.ID).end(), "the gap is told once")
	})
}

// TestStreamsAreBounded: of one caller, and of a node, at the limit and one past it.
func TestStreamsAreBounded(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		t.Helper()
		var open []*reader
		for i := range httpevents.StreamsMax {
			if i > 0 && i%httpevents.StreamsCallerMax == 0 {
				r := w.open(fmt.Sprint("user=u", i/httpevents.StreamsCallerMax-1), "")
				assert.Equal(t, http.StatusTooManyRequests, r.res.StatusCode)
				_ = r.res.Body.Close()
			}
			r := w.open(fmt.Sprint("user=u", i/httpevents.StreamsCallerMax), "")
			require.Equal(t, http.StatusOK, r.res.StatusCode)
			open = append(open, r)
		}
		r := w.open("user=one-more", "")
		assert.Equal(t, http.StatusServiceUnavailable, r.res.StatusCode)
		_ = r.res.Body.Close()
		_ = open[0].res.Body.Close()
		await.Sleep(2 * time.Second)
		r = w.open("user=one-more", "")
		assert.Equal(t, http.StatusOK, r.res.StatusCode)
		for _, one := range append(open, r) {
			_ = one.res.Body.Close()
		}
		await.Sleep(2 * time.Second)
		assert.Zero(t, w.streams.Open())
	})
}

// TestASlowReaderIsDropped: nothing is kept for one who does not read, and he goes on where
// he was.
func TestASlowReaderIsDropped(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		t.Helper()
		w.boots("p", 500)
		r := w.open("user=a", "")
		first := r.events(1)
		await.Sleep(time.Minute)
		assert.Zero(t, w.streams.Open(), "it was dropped")
		got := slices.Concat(first, r.end())
		assert.Less(t, len(got), 500)
		id := r.id
		got = append(got, w.open("user=a&once=1", id).end()...)
		assert.Len(t, got, 500)
		for i, one := range got {
			require.Equal(t, fmt.Sprint("r", i+1), one)
		}
	})
}

// TestStreamsEnd: when the caller is admitted no more, when the node has lost its zone, and
// when it ends.
func TestStreamsEnd(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		t.Helper()
		w.boots("p", 1)
		r := w.open("user=a", "")
		r.events(1)
		w.set(&w.admits, false)
		await.Sleep(2 * time.Second)
		w.boots("p", 1)
		assert.Empty(t, r.end(), "what comes later is not shown")
		w.set(&w.admits, true)

		r = w.open("user=a", "")
		r.events(2)
		w.set(&w.led, false)
		await.Sleep(5 * time.Second)
		w.boots("p", 1)
		assert.Equal(t, []string{"r3"}, r.events(1), "a moment without a leader is nothing")
		began := time.Now()
		assert.Empty(t, r.end())
		assert.InDelta(t, 5*time.Second, time.Since(began), float64(2*time.Second))
		refused := w.open("user=a", "")
		assert.Equal(t, http.StatusServiceUnavailable, refused.res.StatusCode)
		_ = refused.res.Body.Close()
		w.set(&w.led, true)

		r = w.open("user=a", "")
		r.events(3)
		began = time.Now()
		close(w.closing)
		assert.Empty(t, r.end())
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
	})
}

// TestANodeThatIsBehind waits for the event that the caller has seen elsewhere.
func TestANodeThatIsBehind(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		t.Helper()
		w.boots("p", 1) // at index 2
		done := make(chan []string)
		go func() { done <- w.open("user=a&once=1", "3-1").end() }()
		await.Sleep(3 * time.Second)
		w.boots("p", 1)
		assert.Empty(t, <-done, "he has seen it")
		r := w.open("user=a&once=1", "99-1")
		assert.Equal(t, http.StatusServiceUnavailable, r.res.StatusCode, "no event has this id")
		_ = r.res.Body.Close()
		r = w.open("user=a&once=1", "99-1-another")
		assert.Equal(t, http.StatusOK, r.res.StatusCode)
		assert.Equal(t, []string{"", "r1", "r2"}, r.end(), "a gap, and what there is")
	})
}
