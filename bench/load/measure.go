package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/backoff"
)

// LateAfter is how long after it was due an operation of an open loop counts as late. Timers
// are a millisecond late themselves.
const LateAfter = 5 * time.Millisecond

// Outcome is what one operation came to.
type Outcome struct {
	Work Work
	Size int   // instances that it booted
	Err  error // nil if it succeeded
	// Undo releases what the operation made, also if it failed; nil if it made nothing. It may
	// be repeated.
	Undo func(context.Context) error
}

// Operation does operation n. It is called from several goroutines, once for each n, and
// returns when it is done or ctx has ended.
type Operation func(ctx context.Context, n int64) Outcome

// Meter reads what a measurement needs of its process.
type Meter struct {
	Now func() time.Time
	CPU func() (time.Duration, error) // processor time that the process has used
	// Progress, if set, is called about once a second, from one goroutine.
	Progress func(Progress)
}

// Progress is how far a measurement is.
type Progress struct {
	Elapsed, Total time.Duration // with the warm-up; of the schedule
	Done, Failed   int64         // operations that were measured
}

// progressEvery is the time between two calls of Meter.Progress.
const progressEvery = time.Second

// Measure puts load p on do and returns what was measured, and everything that undoes what
// was made, also in the warm-up and also if it returns an error. The error is that of ctx, if
// it ended before the last operation.
func Measure(ctx context.Context, p *Plan, m *Meter, do Operation) (*Result, []func(context.Context) error, error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	r := &run{plan: p, now: m.Now, do: do, records: newRecorder(), begin: m.Now()}
	r.measured, r.end = r.begin.Add(p.Warmup), r.begin.Add(p.Warmup+p.Duration)
	var callers sync.WaitGroup
	r.begun.Add(p.Callers)
	for range p.Callers {
		callers.Go(func() { r.call(ctx) })
	}
	done := make(chan struct{})
	go func() { // ends with the callers
		callers.Wait()
		close(done)
	}()
	backoff.Sleep(ctx, p.Warmup)
	before, err := m.CPU()
	used := make(chan usage, 1)
	go func() { // ends with the window, or with ctx
		r.awaitEnd(ctx, done)
		cpu, err := m.CPU()
		used <- usage{cpu, m.Now().Sub(r.measured), err}
	}()
	r.showProgress(m, done)
	<-done
	at := <-used
	for _, failed := range []error{err, at.err, ctx.Err()} {
		if failed != nil {
			return nil, r.undo, failed
		}
	}
	return r.records.result(p, at.window, at.cpu-before), r.undo, nil
}

// usage is what was read at the end of the window.
type usage struct {
	cpu    time.Duration // that the process has used in all
	window time.Duration // its length
	err    error
}

// run is one measurement under way.
type run struct {
	plan                 *Plan
	now                  func() time.Time
	do                   Operation
	records              *recorder
	begin, measured, end time.Time // of the load, of what is measured, and of the schedule
	next                 atomic.Int64
	begun                sync.WaitGroup // callers that have not begun what is measured

	mu   sync.Mutex // guards undo
	undo []func(context.Context) error
}

// awaitEnd waits for the end of the window over which rates and processor time are taken. In a closed loop an
// operation begins when one ends, so what began in a time is what was done in it: the window is the schedule, and
// goes on until each caller has begun something that is measured. What is under way at its end counts for what was
// under way at its begin. What an open loop has begun says nothing of what was done, so that there the window
// lasts until the callers are done.
func (r *run) awaitEnd(ctx context.Context, done <-chan struct{}) {
	if r.plan.Rate > 0 {
		<-done
		return
	}
	backoff.Sleep(ctx, r.end.Sub(r.now()))
	r.begun.Wait()
}

// call is one caller: it makes one operation after the other until the schedule or ctx ends.
// In a closed loop it begins at least one that is measured, also if the one before took longer
// than the schedule.
func (r *run) call(ctx context.Context) {
	begun := sync.OnceFunc(r.begun.Done)
	defer begun()
	for last := (time.Time{}); ; {
		n := r.next.Add(1) - 1
		due, late, ok := r.awaitTurn(ctx, n, last.Before(r.measured))
		if !ok {
			return
		}
		last = due
		if !due.Before(r.measured) {
			begun()
		}
		limited, cancel := context.WithTimeout(ctx, r.plan.Timeout)
		o := r.do(limited, n)
		cancel()
		ended := r.now()
		if o.Undo != nil {
			r.mu.Lock()
			r.undo = append(r.undo, o.Undo)
			r.mu.Unlock()
		}
		if ctx.Err() != nil {
			return
		}
		if !due.Before(r.measured) {
			r.records.addOperation(&o, due, late, ended)
		}
	}
}

// awaitTurn waits until operation n is due and returns when that was and whether it is late
// already; ok is false when there is no such operation any more. In a closed loop there is
// always a first one.
func (r *run) awaitTurn(ctx context.Context, n int64, first bool) (due time.Time, late, ok bool) {
	now := r.now()
	if r.plan.Rate == 0 {
		return now, false, (first || now.Before(r.end)) && ctx.Err() == nil
	}
	due = r.begin.Add(r.plan.intended(n))
	if !due.Before(r.end) {
		return due, false, false
	}
	if wait := due.Sub(now); wait > 0 && !backoff.Sleep(ctx, wait) {
		return due, false, false
	}
	return due, r.now().Sub(due) > LateAfter, ctx.Err() == nil
}

// showProgress reports progress until done.
func (r *run) showProgress(m *Meter, done <-chan struct{}) {
	if m.Progress == nil {
		return
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			p := Progress{Elapsed: r.now().Sub(r.begin), Total: r.end.Sub(r.begin)}
			p.Done, p.Failed = r.records.count()
			m.Progress(p)
		}
	}
}

// CallAll makes every call, so many at once, and returns the first error.
func CallAll(ctx context.Context, callers int, calls []func(context.Context) error) error {
	var next atomic.Int64
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	for range min(callers, len(calls)) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(calls)) && ctx.Err() == nil; n = next.Add(1) - 1 {
				if err := calls[n](ctx); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	wg.Wait()
	if first == nil {
		return ctx.Err()
	}
	return first
}
