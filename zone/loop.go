package zone

import (
	"context"
	"sync"
	"time"

	"berth/internal/backoff"
	"berth/raftstore/state"
)

// Times of the leader's loops.
const (
	sweepEvery    = 2 * time.Second        // for work that no state change announces
	failureKept   = time.Minute            // how long a failed job is remembered after it is no longer due
	retryPause    = 200 * time.Millisecond // before a failed job is tried again; it doubles
	retryPauseMax = 5 * time.Second
)

// Job is one piece of due work. Jobs with one key never run at the same time.
type Job struct {
	Key string
	Run func(ctx context.Context) error
}

// RunDue runs due jobs whenever the state changes, and every sweepEvery otherwise. It
// retries a failed job after a pause that doubles. At most atOnce jobs run at a time.
// It returns when ctx ends and every job has ended.
func (z *Zone) RunDue(ctx context.Context, atOnce int, due func(*state.State) []Job) {
	r := &runner{z: z, room: make(chan struct{}, atOnce), busy: map[string]bool{}, failed: map[string]failure{}}
	defer r.wg.Wait()
	v := z.store.View()
	for ctx.Err() == nil {
		for _, j := range due(v) {
			r.startJob(ctx, j)
		}
		wait, cancel := context.WithTimeout(ctx, r.nextTry())
		if next, err := z.store.Wait(wait, v.Index()); err == nil {
			v = next
		} else {
			v = z.store.View()
		}
		cancel()
	}
}

// runner keeps jobs with one key apart and bounds the number that run.
type runner struct {
	z    *Zone
	room chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex // guards busy and failed
	busy   map[string]bool
	failed map[string]failure
}

type failure struct {
	tries int
	until time.Time
}

// nextTry returns how long until a failed job may run again, at most sweepEvery.
func (r *runner) nextTry() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, wait := r.z.now(), sweepEvery
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
		if ctx.Err() == nil {
			r.z.log.Info("job failed and will be tried again", "error", err, "wait", wait)
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
			z.log.Info("periodic work failed and will be tried again", "error", err)
		}
	}
}

// NowAndThen calls due at most once a second, for long lists that no state change
// announces.
func (z *Zone) NowAndThen(due func(*state.State) []Job) func(*state.State) []Job {
	var last time.Time
	return func(v *state.State) []Job {
		now := z.now()
		if now.Sub(last) < sweepEvery/2 {
			return nil
		}
		last = now
		return due(v)
	}
}
