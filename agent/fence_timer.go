package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"berth/api"
)

// errFenced is the cause that ends a driver call early because its instance must not run.
var errFenced = errors.New("the instance's fence has expired")

// isFenced reports whether e runs, or may be started, under a fence.
func (e *entry) isFenced() bool {
	if e.work.Fence <= 0 || e.lapsed {
		return false
	}
	return e.busy || e.have == api.StatusActive || e.isWanted() && e.isGone() && !e.stale
}

// lapseFences expires every fence that is not longer than the zone's silence. It returns
// the instances that may run and must be killed, by host and id. Neither these nor
// instances about to start are started until a list requested after this contains
// them. next is the shortest fence that has not expired, or 0.
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

// noteAnswer records that the zone has answered a call sent at this time. It first
// applies the silence that this ends: an agent that was itself suspended must not skip it.
func (a *Agent) noteAnswer(sent time.Time) {
	a.strikeFences()
	a.mu.Lock()
	defer a.mu.Unlock()
	if sent.After(a.contact) {
		a.contact = sent
	}
}

// strikeFences expires the fences that are due. It returns the time until the next fence
// expires if the zone stays silent.
func (a *Agent) strikeFences() (next time.Duration, more bool) {
	var struck int
	var silent time.Duration
	a.editLedger(func(b *ledger) { struck, silent, next = a.strikeIn(b) })
	if struck > 0 {
		a.conf.Log.Warn("zone does not answer: instances with a fence are killed", "instances", struck, "silent", silent)
	}
	return next - silent, next > 0
}

// strikeIn is strikeFences for a caller that holds the lock of the ledger.
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

// watchFences expires each fence when its time has come, until ctx ends.
func (a *Agent) watchFences(ctx context.Context) {
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
