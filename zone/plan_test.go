package zone

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// gate is a store whose proposals wait until the gate opens.
type gate struct {
	Store
	waiting *sync.WaitGroup
	open    chan struct{}
}

func (g gate) Propose(ctx context.Context, cs ...command.Command) ([]state.Result, error) {
	g.waiting.Done()
	<-g.open
	return g.Store.Propose(ctx, cs...)
}

// TestPlanUsedAtOnce has several calls take up one plan at the same instant: one
// is recorded, and the plan that it brought is still there for the leader's loop,
// and nothing else is.
func TestPlanUsedAtOnce(t *testing.T) {
	for _, key := range []string{"", "key"} {
		for range 20 {
			synctest.Test(t, func(t *testing.T) { usePlanAtOnce(t, key, 6) })
		}
	}
}

func usePlanAtOnce(t *testing.T, key string, calls int) {
	t.Helper()
	w := newWorld(t)
	root := w.zone("root", nil, 2)
	o := order("b", 2, 2)
	o.Key = key
	req := o.Request()
	a, err := root.lead().Select(t.Context(), "", &req)
	require.NoError(t, err)
	o.Blob = a.Blob
	var waiting sync.WaitGroup
	waiting.Add(calls)
	root.depose()
	g := gate{&seat{log: root.log, term: root.log.term}, &waiting, make(chan struct{})}
	z := New(Config{ // nobody leads: what is to be done stays
		Store: g, Peers: peers{root}, Digests: gossip{w}, Keys: keys{root.name}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	var done sync.WaitGroup
	errs := make([]error, calls)
	for i := range calls {
		done.Go(func() { _, errs[i] = z.Boot(t.Context(), o) })
	}
	waiting.Wait()
	close(g.open)
	done.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		} else {
			assert.Equal(t, api.CodePlanRefused, api.CodeOf(err))
		}
	}
	if key == "" {
		assert.Equal(t, 1, accepted)
	} else {
		assert.Equal(t, calls, accepted, "repeats get the first answer")
	}
	b, ok := root.view().Boot("p", "b")
	require.True(t, ok)
	assert.Len(t, z.plans.of, 1)
	_, ok = z.plans.take(planKey(&b.Request, b.Instances))
	assert.True(t, ok, "the plan of the call that was recorded is there")
}

// TestPlanUsedByMany has six clients take up one plan while the leader works, many
// times: one of them gets what the plan has.
func TestPlanUsedByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		w.zone("kid", root, 2)
		for round := range 100 {
			o := order(fmt.Sprint("b", round), 4, 4)
			req := o.Request()
			a, err := root.lead().Select(t.Context(), "", &req)
			require.NoError(t, err)
			o.Blob = a.Blob
			var done sync.WaitGroup
			var mu sync.Mutex
			accepted := 0
			for range 6 {
				done.Go(func() {
					if _, err := root.lead().Boot(t.Context(), o); err == nil {
						mu.Lock()
						accepted++
						mu.Unlock()
					}
				})
			}
			done.Wait()
			assert.Equal(t, 1, accepted)
			b := root.outcome(string(o.Wanted))
			require.Equal(t, api.BootActive, b.State(), b.Reason)
			root.release(string(o.Wanted))
			root.until("it is gone", func(v *state.State) bool {
				b, _ := v.Boot("p", o.Wanted)
				return b.State() == api.BootReleased
			})
			w.settle()
		}
	})
}
