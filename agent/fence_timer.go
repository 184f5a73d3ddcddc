package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"berth/api"
)

// errDoomed is the cause that ends a driver call early because its instance must not run.
var errDoomed = errors.New("the instance's fence, or its notice, has expired")

// isFenced reports whether e runs, or may be started, under a fence.
func (e *entry) isFenced() bool {
	if e.work.Fence <= 0 || e.lapsed {
		return false
	}
	return e.busy || e.have == api.StatusActive || e.mustRun() && !e.stale
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
				next = min(cmp.Or(next, fence), fence)
			default:
				stale = true
				e.stale, e.lapse = true, b.lapses+1
				if e.lapsed = e.busy || e.have == api.StatusActive; e.lapsed {
					struck = append(struck, e)
				}
			}
		}
	}
	if stale {
		b.lapses++
		b.after = 0
	}
	sortEntries(struck)
	for _, e := range struck {
		b.placeEntry(e)
	}
	return struck, next
}

// sortEntries sorts entries by host and id.
func sortEntries(all []*entry) {
	slices.SortFunc(all, func(a, c *entry) int {
		return cmp.Or(cmp.Compare(a.host, c.host), cmp.Compare(a.work.Instance, c.work.Instance))
	})
}

// noteAnswer records that the zone has answered a call sent at this time. It first
// applies the silence that this ends: an agent that was itself suspended must not skip it.
func (a *Agent) noteAnswer(sent time.Time) {
	a.strikeDue()
	a.mu.Lock()
	defer a.mu.Unlock()
	if sent.After(a.contact) {
		a.contact = sent
	}
}

// strikeDue has the instances killed whose fence or notice has expired. It returns the time until
// the next one expires if the zone stays silent.
func (a *Agent) strikeDue() (next time.Duration, more bool) {
	var struck, overdue int
	a.editLedger(func(b *ledger) { struck, overdue, next, more = a.strikeIn(b) })
	if struck > 0 {
		a.conf.Log.Warn("zone does not answer: instances with a fence are killed", "instances", struck)
	}
	if overdue > 0 {
		a.conf.Log.Info("preemptible instances are killed at their deadline", "instances", overdue)
	}
	return next, more
}

// strikeIn is strikeDue for a caller that holds the lock of the ledger.
func (a *Agent) strikeIn(b *ledger) (struck, overdue int, next time.Duration, more bool) {
	now := a.conf.Now()
	silent := now.Sub(a.contact)
	lapsed, fence := b.lapseFences(silent)
	late, deadline := b.expireNotices(now)
	for _, e := range slices.Concat(lapsed, late) {
		if e.cut != nil { // of a call that has ended it does nothing
			e.cut()
		}
	}
	if fence != 0 {
		next, more = fence-silent, true
	}
	if !deadline.IsZero() {
		left := deadline.Sub(now)
		if more {
			left = min(left, next)
		}
		next, more = left, true
	}
	return len(lapsed), len(late), next, more
}

// watchDue expires each fence and each notice when its time has come, until ctx ends.
func (a *Agent) watchDue(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-a.recheck:
		}
		if next, more := a.strikeDue(); more {
			t.Reset(next)
		} else {
			t.Stop()
		}
	}
}
