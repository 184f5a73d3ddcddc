package zone

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestFailuresAreForgotten lets a job fail that nobody wants any more: a leader
// that reigns for long does not remember it for ever.
func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(New(Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.DiscardHandler)}), 1)
		r.startJob(t.Context(), Job{Key: "j", Run: func(context.Context) error { return errors.New("in vain") }})
		r.wg.Wait()
		assert.Equal(t, retryPause+time.Millisecond, r.nextTry(sweepEvery))
		await.Sleep(retryPause + failureKept)
		r.nextTry(sweepEvery)
		assert.Len(t, r.failed, 1)
		await.Sleep(time.Millisecond)
		assert.Equal(t, sweepEvery+time.Millisecond, r.nextTry(sweepEvery))
		assert.Empty(t, r.failed)
	})
}

// TestAJobIsDoneForItsCall: a job and the line about its failure have the id of the call that it is done for.
func TestAJobIsDoneForItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(requestid.NewHandler(slog.NewTextHandler(&b, nil)))
		r := newRunner(New(Config{Store: memstore.New(), Now: time.Now, Log: log}), 1)
		for key, call := range map[string]api.RequestID{"of a call": "req-7", "of none": ""} {
			b.Reset()
			r.startJob(t.Context(), Job{Key: key, Call: call, Run: func(ctx context.Context) error {
				assert.Equal(t, call, requestid.Of(ctx), key)
				return errors.New("in vain")
			}})
			r.wg.Wait()
			assert.Contains(t, b.String(), "in vain", key)
			assert.Equal(t, call != "", strings.Contains(b.String(), "request_id=req-7"), "%s: %s", key, &b)
		}
	})
}

// deed is one thing that a loop of the tests does.
type deed struct {
	key string
	at  time.Duration
}

// TestRunLoop: a loop looks at everything at first, at intervals, and after a restore; in
// between it looks at the records alone that changes name. A failed job is tried again
// after its pause.
func TestRunLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		z := New(Config{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		began := time.Now()
		var done []deed
		fails := 1
		var swept []time.Duration
		jobs := func(id string) []Job {
			return []Job{{Key: id, Run: func(context.Context) error {
				done = append(done, deed{id, time.Since(began)})
				if id == "west" && fails > 0 {
					fails--
					return errors.New("not now")
				}
				return nil
			}}}
		}
		links := func(v *state.State) (out []string) {
			swept = append(swept, time.Since(began))
			for _, l := range v.Children() {
				out = append(out, string(l.ID))
			}
			return out
		}
		link := func(v *state.State, key string) (string, bool) {
			_, ok := v.Child(key)
			return key, ok
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*sweepEvery+time.Millisecond)
		defer cancel()
		put := func(at time.Duration, c command.Command) {
			time.AfterFunc(at, func() { store.Must(t, c) })
		}
		put(1*time.Millisecond, command.Init{Zone: "z", Name: "z"})
		put(2*time.Millisecond, command.LinkPut{Link: api.Link{ID: "east", Name: "east", Zone: "e", Role: api.LinkChild}})
		put(100*time.Millisecond, command.LinkPut{Link: api.Link{ID: "up", Name: "up", Zone: "u", Role: api.LinkParent}})
		put(200*time.Millisecond, command.LinkPut{Link: api.Link{ID: "west", Name: "west", Zone: "w", Role: api.LinkChild}})
		z.RunLoop(ctx, LoopOf(1, state.DueFollows, links, link, jobs))

		again := 200*time.Millisecond + retryPause + time.Millisecond // a sweep finds it
		assert.Equal(t, []time.Duration{0, again, again + sweepEvery + time.Millisecond}, swept)
		assert.Equal(t, []deed{
			{"east", 2 * time.Millisecond},
			{"west", 200 * time.Millisecond},
			{"east", again},
			{"west", again},
			{"east", swept[2]},
			{"west", swept[2]},
		}, done)
	})
}
