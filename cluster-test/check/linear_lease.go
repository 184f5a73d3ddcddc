package check

import (
	"slices"
	"time"

	"berth/api"
)

// leaseState is the knowledge of a lease with one reservation, which only the clients of the history create,
// change and delete. The clock of the zone moves it on unseen, so step is a lower bound; everything else
// changes by calls alone.
type leaseState struct {
	there   bool
	amount  int64
	end     api.Instant
	asked   bool // end is what a client asked for, and nobody has seen what came of it
	step    int  // of leaseSteps, the last that was seen
	deleted bool // somebody has asked for its end
	gone    bool // a reader has found nothing
}

// leaseSteps orders the statuses that the clock gives a lease. Nothing goes back: a start is not undone by any
// update, and what has ended takes no other room. In UPDATING a lease has the step that it had.
var leaseSteps = map[api.LeaseStatus]int{
	api.LeasePending: 1, api.LeaseStarting: 2, api.LeaseActive: 3, api.LeaseError: 4, api.LeaseTerminating: 5, api.LeaseTerminated: 6,
}

func leaseModel() linear {
	return linear{
		name: leases,
		key: func(op Op) (string, bool) {
			id := op.In.Lease
			if op.Kind == LeaseCreate {
				id = op.Out.Lease
			}
			return string(id), id != "" && slices.Contains([]Kind{LeaseCreate, LeaseUpdate, LeaseDelete, LeaseRead}, op.Kind)
		},
		model: steps(leaseState.stepTo),
	}
}

func (s leaseState) stepTo(op Op) (bool, leaseState) {
	switch {
	case op.Outcome == Refused && op.Out.Code == api.CodeNotFound:
		return s.missAt()
	case op.Outcome == Refused: // it may have been refused for what others have, or do just now
		return true, s
	}
	switch op.Kind { //nolint:exhaustive // the rest are of other models, and LeaseRead
	case LeaseCreate:
		return s.createAt(op)
	case LeaseUpdate:
		return s.updateAt(op)
	case LeaseDelete:
		next := s
		next.deleted = s.there
		return s.there || op.Outcome == Unknown, next // it may have been repeated, and the lease be gone
	default:
		return s.readAt(op)
	}
}

// missAt is a call that found no lease. What is deleted goes when nothing is left of it, and never comes back.
func (s leaseState) missAt() (bool, leaseState) {
	next := s
	next.gone = s.there
	return !s.there || s.deleted, next
}

// createAt is the moment in which a lease has its room. The same request with the same key returns the same
// lease, as long as it is there.
func (s leaseState) createAt(op Op) (bool, leaseState) {
	if s.there {
		return !s.gone || op.Outcome == Unknown, s
	}
	return true, leaseState{there: true, amount: op.In.Amount, end: op.In.End, asked: true, step: leaseSteps[api.LeasePending]}
}

// updateAt is the moment in which a lease has its new terms.
func (s leaseState) updateAt(op Op) (bool, leaseState) {
	next := s
	if op.In.Amount != 0 {
		next.amount = op.In.Amount
	}
	if op.In.End != 0 && op.In.End != s.end {
		next.end, next.asked = op.In.End, true
	}
	able := s.there && !s.deleted && (next == s || s.step < leaseSteps[api.LeaseTerminating])
	if !able {
		return op.Outcome == Unknown, s // it was refused, if it arrived at all
	}
	return true, next
}

// readAt is a read that found a lease.
func (s leaseState) readAt(op Op) (bool, leaseState) {
	st := op.Out.Status
	switch {
	case !s.there: // its room is being held, and its creator has no answer
		return st == api.LeaseCreating, s
	case s.gone, s.deleted != (st == api.LeaseDeleting), op.Out.Amount != s.amount, !s.mayEndAt(op.Out.End):
		return false, s
	}
	next := s
	next.end, next.asked = op.Out.End, false
	if st == api.LeaseUpdating || st == api.LeaseDeleting {
		return true, next
	}
	next.step = leaseSteps[st]
	return next.step >= s.step && next.step > 0, next
}

// mayEndAt reports whether a reader may see an end. One that is asked for in the minute in which it is ends the
// lease at once: the end is then the instant of the update.
func (s leaseState) mayEndAt(end api.Instant) bool {
	return end == s.end || s.asked && end > s.end && end < s.end.Add(time.Minute)
}
