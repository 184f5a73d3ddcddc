// Package backoff has how long to wait between tries, and the wait itself. It holds
// no state and has no dice of its own: callers count their tries and hand in what
// decides, so the same seed gives the same pauses, also in virtual time.
package backoff

import (
	"context"
	"time"
)

// Double returns first, doubled for each try before this one, and at most longest.
func Double(first, longest time.Duration, tries int) time.Duration {
	d := first
	for ; tries > 0 && d < longest; tries-- {
		d *= 2
	}
	return min(d, longest)
}

// Jitter returns between one half of d and the whole of it, so that many callers do
// not come back as one. Roll is in [0, 1).
func Jitter(d time.Duration, roll float64) time.Duration {
	return d/2 + time.Duration(roll*float64(d/2))
}

// Sleep waits for d or until ctx ends, and reports whether ctx still goes on.
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
