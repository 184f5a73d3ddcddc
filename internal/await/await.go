// Package await waits in tests for what must come, and judges what a machine that stands still
// would spoil. Its one job is that no test depends on how fast a machine is: a wait ends with what it
// waited for, and a bound in time counts only while the machine ran. It must never make a
// test pass that has not seen what it is about.
//
// In a bubble of testing/synctest all of it is in virtual time.
package await

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// Limits of a wait.
const (
	// Limit is how long a wait may last. It is no promise of the product: no load reaches it,
	// and time in which the test did not run hardly counts.
	Limit = 3 * time.Minute

	lookFirst = time.Millisecond       // between the first two looks; each pause is longer than the one before
	lookEvery = 50 * time.Millisecond  // between two looks in the end
	lookMax   = 30 * time.Second       // of one look
	turnMax   = 250 * time.Millisecond // of one pause and look that counts against Limit: the rest is the machine's
)

// Until calls look until it returns nil. It fails the test with its last error when that takes longer
// than Limit; what says what was waited for. look gets a context of 30 s and must not end the test.
func Until(t testing.TB, what string, look func(ctx context.Context) error) {
	t.Helper()
	if err := Wait(t.Context(), look); err != nil {
		t.Fatalf("await: %s: %v", what, err)
	}
}

// True is Until for a condition.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	Until(t, what, func(context.Context) error {
		if !is() {
			return fmt.Errorf("not so within %s", Limit)
		}
		return nil
	})
}

// Received is Until for a value that a channel gives, or for its end; it returns what came.
func Received[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	var got T
	True(t, what, func() bool {
		select {
		case got = <-from:
			return true
		default:
			return false
		}
	})
	return got
}

// Wait calls look until it returns nil, and returns its last error when that takes longer than Limit or
// ctx ends.
func Wait(ctx context.Context, look func(ctx context.Context) error) error {
	pause, left := lookFirst, Limit
	for {
		began := time.Now()
		one, stop := context.WithTimeout(ctx, lookMax)
		err := look(one)
		stop()
		if err == nil {
			return nil
		}
		if left <= 0 || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(pause*3/2, lookEvery)
		left -= min(time.Since(began), turnMax)
	}
}

// realSince is a time that every real clock has passed. The clock of a bubble begins in 2000.
var realSince = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Sleep is time.Sleep in a bubble of testing/synctest, where it is exact and takes no time. It panics
// outside of one: there a test waits for an event.
func Sleep(d time.Duration) {
	if time.Now().After(realSince) {
		panic("await: Sleep in real time; wait for an event with Until")
	}
	time.Sleep(d)
}

// Limits of Steadily.
const (
	triesMax  = 8                     // of one step
	meterTick = 10 * time.Millisecond // between two looks at the clock
)

// repeats counts the steps that Steadily repeated in this process.
var repeats atomic.Int64

// StallsEnv names a file that gets a line for each step that Steadily repeats. Whoever runs many
// packages counts the lines.
const StallsEnv = "BERTH_STALLS"

// Steadily runs a step that expects the product to do something in time: to keep a leader, to renew
// before an end, to answer within a bound. If the step fails although timers of this process were at
// most allowed late, the test fails. If the machine stood still for longer, the step is repeated, which
// is printed and counted: up to 8 times, and never without having passed once.
func Steadily(t testing.TB, allowed time.Duration, step func(ctx context.Context) error) {
	t.Helper()
	for try := 1; ; try++ {
		late, err := metered(t.Context(), step)
		if err == nil {
			return
		}
		if late <= allowed || try == triesMax {
			t.Fatalf("await: try %d, timers were up to %s late of %s allowed: %v", try, late, allowed, err)
		}
		noteRepeat(t, late, allowed, err)
	}
}

// metered runs a step, and returns how late timers were meanwhile at most.
func metered(ctx context.Context, step func(context.Context) error) (late time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	worst := make(chan time.Duration)
	go func() {
		var late time.Duration
		for ctx.Err() == nil {
			began := time.Now()
			select {
			case <-time.After(meterTick):
			case <-ctx.Done():
			}
			late = max(late, time.Since(began)-meterTick)
		}
		worst <- late
	}()
	err = step(ctx)
	cancel()
	return <-worst, err
}

func noteRepeat(t testing.TB, late, allowed time.Duration, err error) {
	t.Helper()
	line := fmt.Sprintf("await: %s repeats a step, the machine stood still for %s of %s allowed (repeat %d of this process): %v",
		t.Name(), late.Round(time.Millisecond), allowed, repeats.Add(1), err)
	t.Log(line)
	path := os.Getenv(StallsEnv)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Logf("await: %v", err)
		return
	}
	_, err = fmt.Fprintln(f, line)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Logf("await: %v", err)
	}
}
