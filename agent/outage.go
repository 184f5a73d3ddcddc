package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"berth/internal/backoff"
)

// Limits of what is logged of an outage.
const (
	outageEvery = 5 * time.Minute // between lines while one lasts
	outageNamed = 10              // addresses that its last line names
)

// outage is a time in which calls of the zone fail: of any of the loops that call it, until each loop
// that failed has had an answer. So a zone that answers some calls only is one outage. Its methods may
// be called concurrently.
type outage struct {
	mu      sync.Mutex          // guards what follows
	failing map[*retry]struct{} // loops whose last call failed
	tries   int                 // calls that failed
	tried   []string            // addresses whose calls failed or were redirected, outageNamed at most
	since   time.Time
	logged  time.Time // when the last line was written
	back    time.Time // when the first call after the last failure was answered; zero for none
}

// noteCall notes what became of one call at addr.
func (o *outage) noteCall(addr string, err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil && len(o.tried) < outageNamed && !slices.Contains(o.tried, addr):
		o.tried = append(o.tried, addr)
	case err == nil && o.back.IsZero():
		o.back = now
	}
}

// waitAfterFailure notes and logs err, and waits before the next attempt, or until ctx ends.
func (a *Agent) waitAfterFailure(ctx context.Context, r *retry, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errMoved) && r.mayRedirect() {
		a.conf.Log.DebugContext(ctx, "zone has another leader", "call", what, "address", a.link.nextAddress())
		return
	}
	d := r.nextDelay()
	a.conf.Log.DebugContext(ctx, "call to the zone failed", "call", what, "err", err, "retry_in", d, "fails", r.fails)
	a.noteFailure(ctx, r, what, err)
	backoff.Sleep(ctx, d)
}

// noteFailure notes that a call of loop r failed, and logs it if it begins an outage, or if the last line of the
// outage is outageEvery old.
func (a *Agent) noteFailure(ctx context.Context, r *retry, what string, err error) {
	o, now := &a.outage, a.conf.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	begins := len(o.failing) == 0
	if begins {
		o.failing, o.tries, o.since = map[*retry]struct{}{}, 0, now
	}
	o.failing[r], o.back = struct{}{}, time.Time{}
	o.tries++
	switch {
	case begins:
		a.conf.Log.WarnContext(ctx, "calls to the zone fail; they are repeated", "call", what, "err", err)
	case now.Sub(o.logged) >= outageEvery:
		a.conf.Log.WarnContext(ctx, "calls to the zone still fail", "for", roundTime(now.Sub(o.since)), "tries", o.tries, "call", what, "err", err)
	default:
		return
	}
	o.logged = now
}

// endFailures ends the row of failures of loop r, and logs the end of the outage if no other loop fails. A poll
// may be answered late; the outage counts as over since the first call that was answered.
func (a *Agent) endFailures(ctx context.Context, r *retry) {
	r.endFailures()
	o := &a.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	_, failed := o.failing[r]
	delete(o.failing, r)
	if len(o.failing) > 0 {
		return
	}
	if failed {
		a.conf.Log.InfoContext(ctx, "calls to the zone are answered again", "since", o.since.UTC(), "for", roundTime(o.back.Sub(o.since)),
			"tries", o.tries, "addresses_tried", o.tried)
	}
	o.tried = nil
}

func roundTime(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
