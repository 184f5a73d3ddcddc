// Package hooks delivers the events of a zone to the webhooks of its projects. It runs on the
// leader, with one worker for each webhook: deliveries of one are in order, and one that is
// slow holds up no other.
//
// How far deliveries are is in the log, after each batch. A leader that ends between a
// delivery and that entry makes the next one deliver again: at least once, under the same id.
// The package opens no connection itself, and decides nothing by an event.
package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/api/rest"
	"berth/internal/backoff"
	"berth/internal/crash"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/webhook"
	"berth/zone"
	"berth/zone/events"
)

// Limits of deliveries.
const (
	batchMax     = 50               // deliveries between two entries of the log
	sendsAtOnce  = 64               // deliveries under way, of all webhooks
	lookEvery    = 2 * time.Second  // at what was not for a webhook, so that it is not held to be missed
	recordBehind = 2_000            // such events before that is recorded
	recordEvery  = 10 * time.Minute // and the age of the first of them
	retryFirst   = time.Second      // pause after a delivery that failed; doubles
	retryMax     = 5 * time.Minute
)

// Sender makes one delivery; see webhook.Sender.
type Sender interface {
	Send(ctx context.Context, d *webhook.Delivery) error
}

// Config holds what deliveries need.
type Config struct {
	Zone   *zone.Zone
	Sender Sender
	// Secret returns the secret of a webhook as text.
	Secret func(w *api.Webhook) (string, error)
}

// Hooks delivers events. Its methods may be called concurrently.
type Hooks struct {
	conf Config
	room chan struct{} // a place for each delivery under way

	mu    sync.Mutex // guards the fields below
	sent  Counts
	since map[api.WebhookID]api.Instant // of the oldest event that is not delivered
}

// Counts are the deliveries that this process has made.
type Counts struct{ Delivered, Failed uint64 }

// New returns the deliveries of a zone on one node. Nothing runs until Lead is called.
func New(c Config) *Hooks {
	return &Hooks{conf: c, room: make(chan struct{}, sendsAtOnce), since: map[api.WebhookID]api.Instant{}}
}

// Counts returns the deliveries that this process has made.
func (h *Hooks) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}

// Lag returns the age of the oldest event that waits for its delivery, 0 for none. It is
// known on the leader alone.
func (h *Hooks) Lag() time.Duration {
	now := h.conf.Zone.Instant()
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := now
	for _, at := range h.since {
		oldest = min(oldest, at)
	}
	return time.Duration(now-oldest) * time.Millisecond
}

// Lead delivers until ctx ends and every delivery has ended.
func (h *Hooks) Lead(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	stops := map[api.WebhookID]context.CancelFunc{}
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for ctx.Err() == nil {
		active := activeOf(h.conf.Zone.View())
		for id, stop := range stops {
			if active[id] == nil {
				stop()
				delete(stops, id)
			}
		}
		for id, hook := range active {
			if stops[id] == nil {
				one, stop := context.WithCancel(ctx)
				stops[id] = stop
				wg.Go(func() { h.deliverAll(one, hook) })
			}
		}
		_, _ = h.conf.Zone.Store().WaitFor(ctx, state.WebhooksTopic(), func(v *state.State) bool {
			return !slices.Equal(slices.Sorted(maps.Keys(activeOf(v))), slices.Sorted(maps.Keys(stops)))
		}) // the loop looks at ctx
	}
}

// activeOf returns the webhooks that are not paused.
func activeOf(v *state.State) map[api.WebhookID]*api.Webhook {
	out := map[api.WebhookID]*api.Webhook{}
	for _, w := range v.Webhooks() {
		if w.Paused == 0 {
			out[w.ID] = w
		}
	}
	return out
}

// worker delivers to one webhook.
type worker struct {
	*Hooks
	hook  *api.Webhook // as it was at the begin
	watch events.Watch
	at    api.EventID // delivered, or not for this webhook
	tries int         // deliveries of the next event that have failed
}

// deliverAll delivers to one webhook until ctx ends.
func (h *Hooks) deliverAll(ctx context.Context, hook *api.Webhook) {
	w := &worker{Hooks: h, hook: hook, at: hook.Told, watch: events.Watch{Project: hook.Project, Kinds: hook.Kinds}}
	defer w.noteWaiting(0)
	for ctx.Err() == nil {
		v := h.conf.Zone.View()
		if now, ok := v.Webhook(hook.Project, hook.Name); !ok || now.ID != hook.ID || now.Paused != 0 { // Lead is about to end ctx
			backoff.Sleep(ctx, lookEvery)
			continue
		}
		list, to := w.watch.Read(v, w.at, batchMax)
		if len(list) == 0 {
			w.idle(ctx, v, to)
			continue
		}
		before := w.at
		err := w.deliver(ctx, list)
		if w.at != before {
			w.tries = 0
		}
		if err == nil && len(list) < batchMax {
			w.at = to
		}
		if ctx.Err() != nil {
			return
		}
		w.record(ctx, err)
		if err == nil {
			continue
		}
		backoff.Sleep(ctx, backoff.Double(retryFirst, retryMax, w.tries))
		w.tries++
	}
}

// idle waits for an event for the webhook. Events that are not for it are passed over, and
// that is recorded now and then: else the zone would not know that none was missed.
func (w *worker) idle(ctx context.Context, v *state.State, to api.EventID) {
	w.noteWaiting(0)
	w.at = to
	if hook, ok := v.Webhook(w.hook.Project, w.hook.Name); ok && isBehind(v, hook.Told) {
		w.record(ctx, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	_, _ = w.conf.Zone.Store().WaitFor(ctx, w.watch.Topic(), func(v *state.State) bool { return w.watch.Any(v, w.at) }) // it looks again anyway
}

// isBehind reports whether the position of an idle webhook should be recorded.
func isBehind(v *state.State, told api.EventID) bool {
	passed, whole := v.Events(told, recordBehind)
	if len(passed) == 0 {
		return false
	}
	return !whole || len(passed) >= recordBehind || v.Now() >= passed[0].At.Add(recordEvery)
}

// deliver sends events in order, and notes how far it came.
func (w *worker) deliver(ctx context.Context, list []rest.Event) error {
	for i := range list {
		w.noteWaiting(list[i].At)
		if err := w.sendOne(ctx, &list[i]); err != nil {
			return err
		}
		id, err := api.ParseEventID(list[i].ID)
		if err != nil {
			return fmt.Errorf("hooks: %w", err)
		}
		w.at = id
	}
	return nil
}

// sendOne makes one delivery.
func (w *worker) sendOne(ctx context.Context, e *rest.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("writing event %s: %w", e.ID, err)
	}
	secret, err := w.conf.Secret(w.hook)
	if err != nil {
		return err
	}
	select {
	case w.room <- struct{}{}:
		defer func() { <-w.room }()
	case <-ctx.Done():
		return ctx.Err()
	}
	w.conf.Zone.Reach(crash.WebhookSending)
	err = w.conf.Sender.Send(ctx, &webhook.Delivery{
		URL: w.hook.URL, Secret: secret, Webhook: w.hook.ID, EventID: e.ID, Kind: e.Kind, Body: body,
	})
	if ctx.Err() != nil {
		return ctx.Err() // nobody was told of a failure
	}
	w.conf.Zone.Reach(crash.WebhookSent)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.sent.Failed++
		return err
	}
	w.sent.Delivered++
	return nil
}

// record logs how far deliveries are, and whether they fail. If that fails as well, the next
// record has it.
func (w *worker) record(ctx context.Context, failed error) {
	v := w.conf.Zone.View()
	now, ok := v.Webhook(w.hook.Project, w.hook.Name)
	if !ok || now.ID != w.hook.ID {
		return
	}
	told := api.WebhookTold{Project: w.hook.Project, Name: w.hook.Name, ID: w.hook.ID, Told: w.at}
	if failed != nil {
		told.Failed, told.Reason = true, reasonOf(failed)
	}
	due := w.conf.Zone.Instant() >= now.Failing.Add(api.WebhookFailingMax)
	if told.Failed && told.Told == now.Told && now.Failing != 0 && now.Reason == told.Reason && !due {
		return // all of it is recorded
	}
	if _, err := w.conf.Zone.Propose(ctx, command.WebhooksTold{Stamp: w.conf.Zone.Stamp(), Webhooks: []api.WebhookTold{told}}); err != nil && ctx.Err() == nil {
		w.conf.Zone.Log().InfoContext(ctx, "deliveries to a webhook could not be recorded", "error", err)
		backoff.Sleep(ctx, retryFirst)
	}
}

// reasonOf returns why a delivery failed, for the owner of the webhook.
func reasonOf(err error) string {
	reason := api.MessageOf(err)
	return reason[:min(len(reason), api.WebhookReasonMaxBytes)]
}

// noteWaiting notes since when the oldest event waits, 0 for none.
func (w *worker) noteWaiting(since api.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if since == 0 {
		delete(w.since, w.hook.ID)
		return
	}
	w.since[w.hook.ID] = since
}
