package load

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/backoff"
)

// meter reads virtual time, and processor time that a test sets.
func meter(cpu *atomic.Int64) *Meter {
	return &Meter{Now: time.Now, CPU: func() (time.Duration, error) { return time.Duration(cpu.Add(int64(time.Second))), nil }}
}

// measure measures in virtual time.
func measure(t *testing.T, p Plan, do Operation) *Result {
	t.Helper()
	var cpu atomic.Int64
	r, _, err := Measure(t.Context(), &p, meter(&cpu), do)
	require.NoError(t, err)
	return r
}

// taking returns an operation of one instance that takes d.
func taking(d time.Duration) Operation {
	return func(ctx context.Context, _ int64) Outcome {
		if !backoff.Sleep(ctx, d) {
			return Outcome{Work: Boots, Err: api.Wrap(api.CodeTimeout, "test", "late", ctx.Err())}
		}
		return Outcome{Work: Boots, Size: 1}
	}
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Callers, p.Warmup, p.Duration = 4, time.Second, 10*time.Second
		r := measure(t, p, taking(100*time.Millisecond))
		assert.EqualValues(t, 400, r.Operations, "each caller makes ten a second, and the warm-up does not count")
		assert.EqualValues(t, 400, r.Instances)
		assert.InDelta(t, 40, r.Rate, 0.1)
		assert.InDelta(t, 100, r.Latency.P50Ms, 0.1)
		assert.InDelta(t, 100, r.Latency.MaxMs, 0.1)
		assert.InDelta(t, 2.5, r.CPUMsOperation, 0.001, "one second for all")
		assert.Zero(t, r.Late)
		assert.Zero(t, r.Failed)
	})
}

// TestClosedLoopMeasuresSomething has a warm-up that lasts beyond the schedule.
func TestClosedLoopMeasuresSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Callers, p.Warmup, p.Duration, p.Timeout = 3, time.Second, time.Second, time.Minute
		r := measure(t, p, taking(5*time.Second))
		assert.EqualValues(t, 3, r.Operations, "one of each caller")
		assert.InDelta(t, 4, r.Seconds, 0.01, "from the begin of measuring until the last caller has begun")
	})
}

// TestSlowOperationsAreDoneAtTheirRate has a server that does ten operations a second, one after the other, for whoever
// waits: with many callers each waits long, and what was under way when measuring began took much of the window.
func TestSlowOperationsAreDoneAtTheirRate(t *testing.T) {
	for _, callers := range []int{1, 10, 100} {
		synctest.Test(t, func(t *testing.T) {
			server := make(chan struct{}, 1) // of one operation at a time
			var cpu atomic.Int64
			p := sound()
			p.Callers, p.Warmup, p.Duration, p.Timeout = callers, 20*time.Second, 30*time.Second, time.Minute
			read := func() (time.Duration, error) { return time.Duration(cpu.Load()), nil }
			r, _, err := Measure(t.Context(), &p, &Meter{Now: time.Now, CPU: read}, func(ctx context.Context, n int64) Outcome {
				server <- struct{}{}
				defer func() { <-server }()
				cpu.Add(int64(50 * time.Millisecond))
				return taking(100*time.Millisecond)(ctx, n)
			})
			require.NoError(t, err)
			assert.InDelta(t, 10, r.Rate, 0.1, callers)
			assert.InDelta(t, 50, r.CPUMsOperation, 0.5, callers)
			assert.InDelta(t, 100*callers, r.Latency.P50Ms, 10, callers)
			assert.InDelta(t, 30, r.Seconds, 0.01)
		})
	}
}

// TestOpenLoopCountsFromTheIntendedTime stalls one operation of a single caller: all that were due meanwhile are
// slow, though each took no time.
func TestOpenLoopCountsFromTheIntendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Rate, p.Duration, p.Timeout = 100, 10*time.Second, time.Minute
		r := measure(t, p, func(ctx context.Context, n int64) Outcome {
			if n == 200 {
				return taking(5*time.Second)(ctx, n)
			}
			return Outcome{Work: Boots, Size: 1}
		})
		assert.EqualValues(t, 1000, r.Operations, "none is left out")
		assert.InDelta(t, 500, float64(r.Late), 1, "all that were due while the caller was busy")
		assert.InDelta(t, 0, r.Latency.P50Ms, 20)
		assert.InDelta(t, 4000, r.Latency.P90Ms, 20, "the stall is spread over what was due: a tenth waited more than 4 s")
		assert.InDelta(t, 5000, r.Latency.MaxMs, 5)
		assert.InDelta(t, 100, r.Rate, 0.2)
	})
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Rate, p.Callers, p.Duration = 50, 100, 4*time.Second
		r := measure(t, p, taking(time.Second/2))
		assert.EqualValues(t, 200, r.Operations)
		assert.Zero(t, r.Late, "there are callers enough")
		assert.InDelta(t, 500, r.Latency.P999Ms, 1)
	})
}

func TestFailuresAreCountedByCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Rate, p.Duration = 10, 2*time.Second
		r := measure(t, p, func(_ context.Context, n int64) Outcome {
			switch n % 4 {
			case 0:
				return Outcome{Work: Claims, Err: api.Errorf(api.CodeOverloaded, "busy")}
			case 1:
				return Outcome{Work: Boots, Err: api.Errorf(api.CodeNoCapacity, "full")}
			}
			return Outcome{Work: Boots, Err: api.Errorf(api.CodeNoCapacity, "full up")}
		})
		assert.Zero(t, r.Operations)
		assert.Zero(t, r.Rate)
		assert.EqualValues(t, 20, r.Failed)
		require.Len(t, r.Errors, 2)
		assert.Equal(t, api.CodeNoCapacity, r.Errors[0].Code, "the most frequent first")
		assert.EqualValues(t, 15, r.Errors[0].Count)
		assert.Contains(t, r.Errors[0].Example, "full")
		require.Len(t, r.Works, 2)
		assert.EqualValues(t, 15, r.Works[0].Failed)
	})
}

func TestTimeoutEndsAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Timeout, p.Duration = time.Second, 3*time.Second
		r := measure(t, p, taking(time.Hour))
		assert.EqualValues(t, 3, r.Failed)
		assert.Equal(t, api.CodeTimeout, r.Errors[0].Code)
	})
}

// TestUndo covers everything that was made, also in the warm-up, and by what failed or was interrupted.
func TestUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer stop()
		p := sound()
		p.Warmup, p.Duration, p.Timeout = time.Second, time.Minute, time.Minute
		var cpu atomic.Int64
		var made, undone atomic.Int64
		r, undo, err := Measure(ctx, &p, meter(&cpu), func(ctx context.Context, n int64) Outcome {
			o := taking(time.Second)(ctx, n)
			made.Add(1)
			o.Undo = func(context.Context) error { undone.Add(1); return nil }
			return o
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Nil(t, r)
		require.NoError(t, CallAll(t.Context(), 2, undo))
		assert.EqualValues(t, 3, made.Load())
		assert.Equal(t, made.Load(), undone.Load())
	})
}

func TestCallAllReturnsTheFirstError(t *testing.T) {
	calls := 0
	fail := func(context.Context) error { calls++; return api.Errorf(api.CodeConflict, "no") }
	err := CallAll(t.Context(), 1, []func(context.Context) error{fail, fail})
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	assert.Equal(t, 2, calls, "the others are made nevertheless")
	assert.NoError(t, CallAll(t.Context(), 1, nil))
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sound()
		p.Duration = 3 * time.Second
		var cpu atomic.Int64
		m := meter(&cpu)
		var seen []Progress
		m.Progress = func(at Progress) { seen = append(seen, at) }
		_, _, err := Measure(t.Context(), &p, m, taking(300*time.Millisecond))
		require.NoError(t, err)
		require.NotEmpty(t, seen)
		assert.Equal(t, 3*time.Second, seen[0].Total)
		assert.Equal(t, time.Second, seen[0].Elapsed)
		assert.EqualValues(t, 3, seen[0].Done)
	})
}

func TestMeasureRefusesABadPlan(t *testing.T) {
	var cpu atomic.Int64
	_, _, err := Measure(t.Context(), &Plan{}, meter(&cpu), nil)
	assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
}
