package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"berth/api"
)

// errFenced is why a driver call is cut short: what it was about must not run.
var errFenced = errors.New("the instance's fence has struck")

// isFenced reports whether e may run, or come to run, under a fence.
func (e *entry) isFenced() bool {
	if e.work.Fence <= 0 || e.lapsed {
		return false
	}
	return e.busy || e.have == api.StatusActive || e.isWanted() && e.isGone() && !e.stale
}

// lapseFences lets strike every fence that is not longer than the zone has been
// silent. What may run must be killed, and is returned by host and id; it is not
// started again, and nor is what was about to start, before a list says so that
// was asked for after this. next is the shortest fence that has not struck, or 0.
func (b *ledger) lapseFences(silent time.Duration) (struck []*entry, next time.Duration) {
	if silent < b.shortest || b.shortest == 0 {
		return nil, b.shortest
	}
	stale := false
	for _, h := range b.hosts {
		for _, e := range h.entries {
			switch fence := e.work.Fence; {
			case !e.isFenced():
			case fence > silent:
				if next == 0 || fence < next {
					next = fence
				}
			default:
				stale = true
				e.stale, e.lapse = true, b.lapses+1
				if e.lapsed = e.busy || !e.isGone(); e.lapsed {
					struck = append(struck, e)
				}
			}
		}
	}
	if stale {
		b.lapses++
		b.after = 0
	}
	slices.SortFunc(struck, func(a, c *entry) int {
		return cmp.Or(cmp.Compare(a.host, c.host), cmp.Compare(a.work.Instance, c.work.Instance))
	})
	for _, e := range struck {
		b.placeEntry(e)
	}
	return struck, next
}

// noteAnswer notes that the zone has answered a call that was sent at this time. The
// silence that this ends counts first: an agent that was itself held up must not
// forget it.
func (a *Agent) noteAnswer(sent time.Time) {
	a.strikeFences()
	a.mu.Lock()
	defer a.mu.Unlock()
	if sent.After(a.contact) {
		a.contact = sent
	}
}

// strikeFences lets lapse what the zone has been silent for too long about. It returns
// in how long the next fence strikes if the zone stays silent.
func (a *Agent) strikeFences() (next time.Duration, more bool) {
	var struck int
	var silent time.Duration
	a.editLedger(func(b *ledger) { struck, silent, next = a.strikeIn(b) })
	if struck > 0 {
		a.conf.Log.Warn("zone does not answer: instances with a fence are killed", "instances", struck, "silent", silent)
	}
	return next - silent, next > 0
}

// strikeIn is strikeFences for a caller that has the ledger.
func (a *Agent) strikeIn(b *ledger) (struck int, silent, next time.Duration) {
	silent = a.conf.Now().Sub(a.contact)
	all, next := b.lapseFences(silent)
	for _, e := range all {
		if e.busy {
			e.cut()
		}
	}
	return len(all), silent, next
}

// holdLeash lets each fence strike when its time has come, until ctx ends.
func (a *Agent) holdLeash(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-a.recheck:
		}
		if next, more := a.strikeFences(); more {
			t.Reset(next)
		} else {
			t.Stop()
		}
	}
}
