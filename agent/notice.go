package agent

import (
	"context"
	"time"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/backoff"
)

// Limits of notices to preemptible instances.
const (
	noticeTimeout = 5 * time.Second // how long the driver may take to give one
	noticeTries   = 3               // then the instance goes on without it, until its deadline
	noticeStep    = time.Second     // a deadline that comes earlier by this much is worth another notice
)

// setDeadline sets the deadline of e from its list, which came at an instant. A list that has
// the notice again never postpones the deadline; only one in which e is wanted again, or is here
// for another stay, lifts it.
func (b *ledger) setDeadline(e *entry, came time.Time) {
	if e.isWanted() {
		e.due, e.noticed, e.overdue = time.Time{}, time.Time{}, false
		return
	}
	if e.work.Notice == nil {
		return
	}
	due := came.Add(min(max(e.work.Notice.Left, 0), api.PreemptGraceMax))
	if e.due.IsZero() || due.Before(e.due) {
		e.due = due
	}
	if b.soonest.IsZero() || e.due.Before(b.soonest) {
		b.soonest = e.due
	}
}

// decideNotice returns what e, which runs and has a notice, needs before its deadline: the
// notice. Then it ends by itself, or is killed at the deadline.
func (e *entry) decideNotice() action {
	if e.noticed.IsZero() || e.noticed.Sub(e.due) >= noticeStep {
		return notify
	}
	return nothing
}

// expireNotices marks the instances whose deadline has come to be killed, and returns them. next
// is the soonest deadline to come, or zero.
func (b *ledger) expireNotices(now time.Time) (struck []*entry, next time.Time) {
	if b.soonest.IsZero() || now.Before(b.soonest) {
		return nil, b.soonest
	}
	for _, h := range b.hosts {
		for _, e := range h.entries {
			switch {
			case e.due.IsZero() || e.overdue || !e.busy && e.isGone():
			case now.Before(e.due):
				if next.IsZero() || e.due.Before(next) {
					next = e.due
				}
			default:
				e.overdue = true
				struck = append(struck, e)
			}
		}
	}
	b.soonest = next
	sortEntries(struck)
	for _, e := range struck {
		b.placeEntry(e)
	}
	return struck, next
}

// notifyInstance gives one instance its notice. If that fails a few times the instance goes on
// without it: it is killed at its deadline all the same.
func (a *Agent) notifyInstance(ctx context.Context, e *entry, t task) {
	r := retry{rand: a.conf.Rand}
	for ctx.Err() == nil {
		now := a.conf.Now()
		n := driver.Notice{Deadline: now.Add(t.left(now)).UTC(), PreemptNotice: *t.work.Notice}
		n.Left = t.left(now)
		a.writeJournal(eventNotice, t.host, t.work.Instance, string(n.Action)+" until "+n.Deadline.Format(time.RFC3339Nano))
		limited, cancel := context.WithTimeout(ctx, noticeTimeout)
		err := t.driver.Notify(limited, t.work.Instance, n)
		cancel()
		if err == nil {
			break
		}
		d := r.nextDelay()
		a.conf.Log.Warn("instance cannot be given its notice", "host", t.host, "instance", t.work.Instance, "err", err, "fails", r.fails)
		if r.fails == noticeTries {
			break
		}
		backoff.Sleep(ctx, d)
	}
	a.editLedger(func(b *ledger) {
		if !e.due.IsZero() { // it has not been lifted since
			e.noticed = t.due
		}
		b.endCall(e, e.have, e.fault)
	})
}
