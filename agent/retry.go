package agent

import (
	"time"

	"berth/internal/backoff"
)

// Bounds of the pause after a failure: it doubles from the first to the last.
const (
	retryFirst = 50 * time.Millisecond
	retryLast  = 3 * time.Second
	movesMax   = 3 // consecutive redirects that are followed at once
)

// retry counts consecutive failures and waits after each.
type retry struct {
	rand  func() float64 // in [0, 1)
	fails int
	moves int
}

// endFailures ends a row of failures.
func (r *retry) endFailures() { r.fails, r.moves = 0, 0 }

// mayRedirect reports whether one more redirect may be followed without a pause.
func (r *retry) mayRedirect() bool {
	r.moves++
	return r.moves <= movesMax
}

// nextTimeout returns how long the next call may take: a node that hangs is left soon, and
// a slow one gets more time after each failure.
func (r *retry) nextTimeout() time.Duration { return min(callFirst<<min(r.fails, 3), callTimeout) }

// nextDelay returns the next pause: between one half and the whole of a span that
// doubles with each failure, so that many agents do not return at once.
func (r *retry) nextDelay() time.Duration {
	span := backoff.Double(retryFirst, retryLast, r.fails)
	r.fails++
	return backoff.Jitter(span, r.rand())
}
