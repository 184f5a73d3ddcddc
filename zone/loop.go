package zone

import (
	"cmp"
	"context"
	"sync"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/internal/requestid"
	"berth/raftstore/state"
)

// Times of the leader's loops.
const (
	sweepEvery    = 2 * time.Second        // for work that no state change announces
	sweepLeast    = 20 * time.Millisecond  // between two sweeps because of failed jobs
	failureKept   = time.Minute            // how long a failed job is remembered after it is no longer due
	retryPause    = 200 * time.Millisecond // before a failed job is tried again; it doubles
	retryPauseMax = 5 * time.Second
)

// Job is one piece of due work. Jobs with one key never run at the same time.
type Job struct {
	Key  string
	Call api.RequestID // that it is done for, "" for none; Run and the log have it
	Run  func(ctx context.Context) error
}

// Loop is the work of one loop of a leader.
type Loop struct {
	AtOnce int                      // jobs that run at a time, at the most
	All    func(*state.State) []Job // all jobs that are due
	// Of is the kind of work that changes of the state announce, and One returns the jobs that are
	// due for the record with a key. Without them the loop only sweeps.
	Of    state.Due
	One   func(v *state.State, key string) []Job
	Every time.Duration // between two sweeps; 0 for sweepEvery
}

// LoopOf returns the loop for one kind of work: all returns the records that have some, one that
// with a key if it has, and jobs what is to be done for a record.
func LoopOf[R any](
	atOnce int, of state.Due, all func(*state.State) []R, one func(*state.State, string) (R, bool), jobs func(R) []Job,
) Loop {
	return Loop{
		AtOnce: atOnce, Of: of,
		All: func(v *state.State) (out []Job) {
			for _, r := range all(v) {
				out = append(out, jobs(r)...)
			}
			return out
		},
		One: func(v *state.State, key string) []Job {
			r, ok := one(v, key)
			if !ok {
				return nil
			}
			return jobs(r)
		},
	}
}

// RunLoop runs the jobs of a loop as soon as a change announces them, and sweeps for what no
// change announces: at first, at intervals, after a restore, and when a failed job is to
// be tried again. A change costs what has changed, not what is due. It retries a failed
// job after a pause that doubles. It returns when ctx ends and every job has ended.
func (z *Zone) RunLoop(ctx context.Context, l Loop) {
	r := newRunner(z, l.AtOnce)
	defer r.wg.Wait()
	feed, remove := z.store.Feed(func(t state.Topic) bool {
		d, _, ok := t.Due()
		return ok && d == l.Of
	})
	defer remove()
	every := cmp.Or(l.Every, sweepEvery)
	for sweep := true; ctx.Err() == nil; {
		keys, all := feed.Take()
		r.startDue(ctx, &l, z.store.View(), keys, sweep || all)
		wait, cancel := context.WithTimeout(ctx, max(r.nextTry(every), sweepLeast))
		select {
		case <-feed.Woken():
			sweep = false
		case <-r.failing: // it is to be tried again before the next sweep
			sweep = false
		case <-wait.Done():
			sweep = true
		}
		cancel()
	}
}

// startDue starts the jobs of the records with some keys, or all that are due.
func (r *runner) startDue(ctx context.Context, l *Loop, v *state.State, keys []state.Topic, all bool) {
	if all {
		for _, j := range l.All(v) {
			r.startJob(ctx, j)
		}
		return
	}
	for _, t := range keys {
		_, key, _ := t.Due()
		for _, j := range l.One(v, key) {
			r.startJob(ctx, j)
		}
	}
}

// runner keeps jobs with one key apart and bounds the number that run.
type runner struct {
	z       *Zone
	room    chan struct{}
	failing chan struct{} // gets a value when a job has failed
	wg      sync.WaitGroup

	mu     sync.Mutex // guards busy and failed
	busy   map[string]bool
	failed map[string]failure
}

func newRunner(z *Zone, atOnce int) *runner {
	return &runner{
		z: z, room: make(chan struct{}, atOnce), failing: make(chan struct{}, 1), busy: map[string]bool{}, failed: map[string]failure{},
	}
}

type failure struct {
	tries int
	until time.Time
}

// nextTry returns how long until a failed job may run again, at most every.
func (r *runner) nextTry(every time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, wait := r.z.now(), every
	for key, f := range r.failed {
		switch d := f.until.Sub(now); {
		case d > 0:
			wait = min(wait, d)
		case d < -failureKept && !r.busy[key]: // it is no longer due
			delete(r.failed, key)
		}
	}
	return wait + time.Millisecond
}

func (r *runner) startJob(ctx context.Context, j Job) {
	r.mu.Lock()
	skip := r.busy[j.Key] || r.z.now().Before(r.failed[j.Key].until)
	if !skip {
		r.busy[j.Key] = true
	}
	r.mu.Unlock()
	if skip {
		return
	}
	select {
	case r.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	if j.Call != "" {
		ctx = requestid.With(ctx, j.Call)
	}
	r.wg.Go(func() {
		defer func() { <-r.room }()
		err := j.Run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, j.Key)
		if err == nil {
			delete(r.failed, j.Key)
			return
		}
		tries := r.failed[j.Key].tries
		wait := backoff.Double(retryPause, retryPauseMax, tries)
		r.failed[j.Key] = failure{tries + 1, r.z.now().Add(wait)}
		select {
		case r.failing <- struct{}{}:
		default: // a pending value means the same
		}
		if ctx.Err() == nil {
			r.z.log.InfoContext(ctx, "job failed and will be tried again", "error", err, "wait", wait)
		}
	})
}

// Every runs f at intervals until ctx ends.
func (z *Zone) Every(ctx context.Context, d time.Duration, f func(context.Context) error) {
	for {
		backoff.Sleep(ctx, d)
		if ctx.Err() != nil {
			return
		}
		if err := f(ctx); err != nil && ctx.Err() == nil {
			z.log.InfoContext(ctx, "periodic work failed and will be tried again", "error", err)
		}
	}
}
