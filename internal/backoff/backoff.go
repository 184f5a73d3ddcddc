// Package backoff computes the pause between attempts, and waits. It has no state and no
// randomness of its own: callers count their attempts and pass in a random number, so the
// same seed gives the same pauses, even in virtual time.
package backoff

import (
	"context"
	"time"
)

// Double returns first, doubled for each earlier attempt, at most longest.
func Double(first, longest time.Duration, tries int) time.Duration {
	d := first
	for ; tries > 0 && d < longest; tries-- {
		d *= 2
	}
	return min(d, longest)
}

// Jitter returns between one half of d and the whole of it, so that many callers do not
// return at once. roll is in [0, 1).
func Jitter(d time.Duration, roll float64) time.Duration {
	return d/2 + time.Duration(roll*float64(d/2))
}

// Sleep waits for d or until ctx ends, and reports whether ctx has not ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
