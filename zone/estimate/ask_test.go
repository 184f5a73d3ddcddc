package estimate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/memstore"
	"berth/zone"
)

// slow is a child that answers never, and notices some time after ctx has ended that
// nobody waits any more.
type slow struct {
	Peers
	calls, running atomic.Int64
}

func (s *slow) Select(ctx context.Context, _ *api.Link, _ *api.Request) (*api.SelectAnswer, error) {
	s.calls.Add(1)
	s.running.Add(1)
	defer s.running.Add(-1)
	<-ctx.Done()
	await.Sleep(time.Millisecond)
	return nil, ctx.Err()
}

// noDigests is gossip that has brought nothing.
type noDigests struct{}

func (noDigests) Digest(api.ZoneID) (api.Digest, time.Duration, bool) { return api.Digest{}, 0, false }

// TestAskWaitsForItsCalls: no call goes on after ask has returned, so that nothing is
// logged, counted or held against a child by a select that is over.
func TestAskWaitsForItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		z := zone.New(zone.Config{Store: memstore.New(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		e := New(Config{Zone: z, Peers: s, Digests: noDigests{}})
		answers := []childAnswer{{link: &api.Link{ID: "a"}}, {link: &api.Link{ID: "b"}}, {link: &api.Link{ID: "c"}}}
		answers[2].outcome = api.OutcomeSkipped
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e.askChildren(ctx, answers, &api.Request{}, func(a *childAnswer) bool { return a.outcome == "" })
		assert.Equal(t, int64(2), s.calls.Load())
		assert.Zero(t, s.running.Load())
		require.NoError(t, ctx.Err(), "the reserve of this hop is left")
		for i, want := range []string{api.OutcomeLate, api.OutcomeLate, api.OutcomeSkipped} {
			assert.Equal(t, want, answers[i].outcome)
		}
	})
}
