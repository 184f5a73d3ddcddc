package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
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
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/webhook"
	"berth/zone"
	"berth/zone/hooks"
)

// receiver is the other side of all webhooks.
type receiver struct {
	mu     sync.Mutex // guards the fields below
	got    []rest.Event
	urls   []string
	secret []string
	times  []time.Time
	fail   func(n int) error // of the n-th delivery; nil for none
	slow   map[string]bool   // URLs that answer only when they are given up
}

func (r *receiver) Send(ctx context.Context, d *webhook.Delivery) error {
	var e rest.Event
	if err := json.Unmarshal(d.Body, &e); err != nil || e.ID != d.EventID || e.Kind != d.Kind {
		panic(fmt.Sprintf("%s is not event %s", d.Body, d.EventID))
	}
	r.mu.Lock()
	slow := r.slow[d.URL]
	r.got, r.urls, r.secret, r.times = append(r.got, e), append(r.urls, d.URL), append(r.secret, d.Secret), append(r.times, time.Now())
	n := len(r.got)
	fail := r.fail
	r.mu.Unlock()
	if slow {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail != nil {
		return fail(n)
	}
	return nil
}

// seen returns the reservations of the deliveries to a URL, in order.
func (r *receiver) seen(url string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.got {
		if r.urls[i] == url {
			ids = append(ids, string(r.got[i].Reservation))
		}
	}
	return ids
}

// world is a zone whose leader delivers.
type world struct {
	t     *testing.T
	store *memstore.Store
	recv  *receiver
	zone  *zone.Zone
	hooks *hooks.Hooks
	point func(crash.Point)
	stop  func()
	made  int // boots
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memstore.NewOfForm(api.FormNewest), recv: &receiver{slow: map[string]bool{}}, point: func(crash.Point) {}}
	w.store.Must(t, command.Init{Zone: "z", Name: "zone"})
	return w
}

func (w *world) stamp() command.Stamp { return command.Stamp{At: api.InstantOf(time.Now())} }

func (w *world) put(project, name string, kinds ...string) {
	w.t.Helper()
	w.store.Must(w.t, command.WebhookPut{Stamp: w.stamp(), Webhook: api.Webhook{
		ID: api.WebhookID("id-" + name), Name: name, Project: api.ProjectID(project), URL: "https://" + name, Kinds: kinds, Secret: []byte(name),
	}})
}

// boots records boots of a project, one event each, and returns their reservations.
func (w *world) boots(project string, n int) (ids []string) {
	w.t.Helper()
	for range n {
		w.made++
		id := fmt.Sprint("r", w.made)
		w.store.Must(w.t, command.BootCreate{Stamp: w.stamp(), BootTerms: command.BootTerms{Request: api.Request{
			Project: api.ProjectID(project), Reservation: api.ReservationID(id), Groups: []api.Group{{Count: 1}},
		}}})
		ids = append(ids, id)
	}
	return ids
}

// lead begins a term of a leader; stop ends it.
func (w *world) lead() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.zone = zone.New(zone.Config{Store: w.store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Crash: func(p crash.Point) { w.point(p) }})
	w.hooks = hooks.New(hooks.Config{Zone: w.zone, Sender: w.recv, Secret: func(h *api.Webhook) (string, error) { return "secret of " + string(h.Secret), nil }})
	var wg sync.WaitGroup
	wg.Go(func() { w.hooks.Lead(ctx) })
	w.stop = func() {
		cancel()
		wg.Wait()
	}
}

func (w *world) hook(project, name string) *api.Webhook {
	w.t.Helper()
	h, ok := w.store.View().Webhook(api.ProjectID(project), name)
	require.True(w.t, ok)
	return h
}

// TestDeliveries: each webhook gets the events of its project and kinds, in order, from its
// creation on, and what is delivered is recorded.
func TestDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.boots("p", 2)
		w.put("p", "all")
		w.put("p", "hosts", "host", "boot.released")
		w.put("other", "theirs")
		w.lead()
		defer func() { w.stop() }()
		ids := w.boots("p", 120)
		theirs := w.boots("other", 3)
		await.Sleep(time.Minute)
		assert.Equal(t, ids, w.recv.seen("https://all"))
		assert.Equal(t, theirs, w.recv.seen("https://theirs"))
		assert.Empty(t, w.recv.seen("https://hosts"), "host.up is for operators")
		for i, url := range w.recv.urls {
			assert.Equal(t, "secret of "+strings.TrimPrefix(url, "https://"), w.recv.secret[i])
		}
		assert.Equal(t, hooks.Counts{Delivered: 123}, w.hooks.Counts())
		assert.Zero(t, w.hooks.Lag())
		told := w.hook("p", "all").Told
		assert.GreaterOrEqual(t, told.Index, uint64(124))
		before := w.store.View().Index()
		await.Sleep(time.Hour)
		assert.Equal(t, before, w.store.View().Index(), "without events nothing is written")
		w.boots("other", 1)
		await.Sleep(time.Hour)
		assert.Equal(t, w.store.View().EventsEnd().History, w.hook("p", "hosts").Told.History)
		w.store.Must(t, command.WebhookDelete{Stamp: w.stamp(), Project: "p", Name: "all"})
		w.boots("p", 1)
		await.Sleep(time.Minute)
		assert.Equal(t, ids, w.recv.seen("https://all"), "it is deleted")
	})
}

// TestAnIdleWebhookMissesNothing: events that are not for it are passed over, and when they
// are dropped it is not told of a gap.
func TestAnIdleWebhookMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("p", "idle")
		w.lead()
		for range 5 {
			w.boots("other", 5_000)
			await.Sleep(10 * time.Second)
		}
		w.stop()
		w.lead()
		defer func() { w.stop() }()
		ids := w.boots("p", 1)
		await.Sleep(time.Minute)
		assert.Equal(t, ids, w.recv.seen("https://idle"))
	})
}

// TestLeadersEndAtEachStep: whichever step a leader ends at, the next one goes on: every
// event is delivered at least once, in order, and only what was not recorded comes again.
func TestLeadersEndAtEachStep(t *testing.T) {
	for _, point := range crash.WebhookPoints() {
		for _, nth := range []int{1, 2, 3} {
			t.Run(fmt.Sprint(point, nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { endAt(t, point, nth) })
			})
		}
	}
}

func endAt(t *testing.T, point crash.Point, nth int) {
	t.Helper()
	w := newWorld(t)
	w.put("p", "all")
	ended := make(chan struct{})
	reached := 0
	w.point = func(p crash.Point) { // one worker, so one goroutine
		if p != point {
			return
		}
		if reached++; reached == nth {
			close(ended)
			runtime.Goexit()
		}
	}
	w.lead()
	var ids []string
	for range 4 {
		ids = append(ids, w.boots("p", 30)...)
		await.Sleep(10 * time.Second)
	}
	select {
	case <-ended:
	default:
		t.Fatalf("%s was not reached %d times", point, nth)
	}
	w.stop()
	before := w.recv.seen("https://all")
	told := w.hook("p", "all").Told
	w.lead()
	defer func() { w.stop() }()
	await.Sleep(time.Minute)
	after := w.recv.seen("https://all")[len(before):]
	require.NotEmpty(t, after)
	assert.True(t, slices.IsSortedFunc(after, func(a, b string) int { return slices.Index(ids, a) - slices.Index(ids, b) }))
	first, err := api.ParseEventID(w.recv.got[len(before)].ID)
	require.NoError(t, err)
	assert.True(t, first.After(told), "what was recorded does not come again")
	assert.LessOrEqual(t, len(before)+len(after), len(ids)+50, "at most one batch comes again")
	all := slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(before, after)), func(a, b string) int { return slices.Index(ids, a) - slices.Index(ids, b) }))
	assert.Equal(t, ids, all, "every event arrived")
}

// TestFailures: a delivery that fails is repeated after pauses that double, its webhook holds
// up no other, and after a day it is paused until it is resumed.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("p", "bad")
		w.put("p2", "slow")
		w.put("p3", "good")
		w.recv.slow["https://slow"] = true
		away := api.Errorf(api.CodeUnavailable, "it answered with status 500")
		w.recv.fail = func(int) error { return nil }
		w.lead()
		defer func() { w.stop() }()
		w.boots("p2", 1)
		await.Sleep(time.Second)
		ids := w.boots("p3", 2)
		await.Sleep(time.Second)
		assert.Equal(t, ids, w.recv.seen("https://good"))

		w.recv.mu.Lock()
		w.recv.fail = func(int) error { return away }
		w.recv.mu.Unlock()
		first := w.boots("p", 2)[0]
		began := time.Now()
		await.Sleep(10 * time.Minute)
		tries := w.recv.seen("https://bad")
		assert.Equal(t, first, tries[len(tries)-1], "the second waits for the first")
		assert.InDelta(t, 10, len(tries), 2, "pauses double")
		h := w.hook("p", "bad")
		assert.Equal(t, []any{away.Msg, api.InstantOf(began), api.Instant(0)}, []any{h.Reason, h.Failing, h.Paused})
		assert.Positive(t, w.hooks.Lag())
		entries := w.store.View().Index()
		await.Sleep(5 * time.Hour)
		assert.Equal(t, entries, w.store.View().Index(), "the same failure is recorded once")

		await.Sleep(19 * time.Hour)
		h = w.hook("p", "bad")
		assert.NotZero(t, h.Paused)
		n := len(w.recv.seen("https://bad"))
		await.Sleep(time.Hour)
		assert.Len(t, w.recv.seen("https://bad"), n, "nothing is sent")

		w.recv.mu.Lock()
		w.recv.fail = nil
		w.recv.mu.Unlock()
		last := w.boots("p", 1)
		w.store.Must(t, command.WebhookResume{Stamp: w.stamp(), Project: "p", Name: "bad"})
		await.Sleep(time.Minute)
		h = w.hook("p", "bad")
		assert.Equal(t, []any{"", api.Instant(0), api.Instant(0)}, []any{h.Reason, h.Failing, h.Paused})
		got := w.recv.got[len(w.recv.got)-2:]
		assert.Equal(t, "gap", got[0].Kind, "what was a day old is dropped, and that is told")
		assert.Equal(t, last[0], string(got[1].Reservation))
	})
}
