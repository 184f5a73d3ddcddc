package state

import (
	"slices"

	"berth/api"
	"berth/raftstore/command"
)

// unsettleOrder has the lease settled that an order is for, if any.
func (s *leasesBook) unsettleOrder(boot string) {
	if id, ok := s.leaseOf.Get(boot); ok {
		s.unsettle(id)
	}
}

// unsettle has a lease settled when the facts are done.
func (s *leasesBook) unsettle(id api.LeaseID) {
	if !slices.Contains(s.unsettled, id) {
		s.unsettled = append(s.unsettled, id)
	}
}

// settleLeases settles the leases that are noted for it, in that order.
func (s *leasesBook) settleLeases() {
	due := s.unsettled
	s.unsettled = nil
	for _, id := range due {
		if l, ok := s.leases.Get(string(id)); ok {
			s.settleLease(l)
		}
	}
}

// settleLease moves a lease on as far as its orders allow.
func (s *leasesBook) settleLease(l *Lease) {
	l = s.dropReplaced(l)
	switch l.Status {
	case api.LeaseCreating:
		s.settleCreating(l)
	case api.LeaseUpdating:
		s.settleUpdating(l)
	case api.LeaseStarting:
		if s.hasBegun(l) {
			s.finishEvent(l, api.EventStartLease, api.LeaseActive)
		}
	case api.LeaseTerminating:
		if s.areGone(l, l.Orders()) {
			s.finishEvent(l, api.EventEndLease, api.LeaseTerminated)
		}
	case api.LeaseDeleting:
		if s.areGone(l, l.Orders()) {
			s.deleteLease(l)
			s.noteLease(EventLeaseDeleted, l, "")
		}
	case api.LeasePending, api.LeaseActive, api.LeaseTerminated, api.LeaseError:
	}
}

// settleCreating makes a lease PENDING when its order is committed, and those of all other
// leases of its series. A lease whose order failed is not there.
func (s *leasesBook) settleCreating(l *Lease) {
	b, ok := s.boots.Get(l.boot(l.Order))
	switch {
	case !ok || b.Decision == api.DecisionAbort:
		s.deleteLease(l)
		s.noteLease(EventLeaseFailed, l, "")
		s.oweEnd(l, api.LeaseOutcomeFailed)
		s.failSeries(l.Terms.Series)
	case b.Decision == api.DecisionCommit && l.Terms.Series != "":
		s.holdSeries(l)
	case b.Decision == api.DecisionCommit:
		s.confirmLease(l)
	}
}

// confirmLease makes a lease PENDING: all its room is held.
func (s *leasesBook) confirmLease(l *Lease) {
	now := *l
	now.Status, now.Held = api.LeasePending, false
	s.storeLease(l, &now)
	s.noteLease(EventLeaseStatus, &now, l.Status)
}

// settleUpdating gives a lease its new terms when their order is committed, and leaves it as
// it was if that failed.
func (s *leasesBook) settleUpdating(l *Lease) {
	b, ok := s.boots.Get(l.boot(l.Next.Order))
	if ok && b.Decision == api.DecisionPending {
		return
	}
	now := *l
	now.Status, now.Next = l.Next.Status, nil
	if !ok || b.Decision == api.DecisionAbort {
		s.storeLease(l, &now)
		s.noteLease(EventLeaseUpdateFailed, &now, "")
		return
	}
	now.Terms, now.Events = l.Next.Terms, l.Next.Events
	now.Order = l.Next.Order
	if l.Order != "" {
		now.Replaced = append(slices.Clone(l.Replaced), l.Order)
	}
	s.storeLease(l, &now)
	s.noteLease(EventLeaseUpdated, &now, "")
	s.settleLease(&now)
}

// dropReplaced releases the orders that the present one has replaced, once every zone has
// taken over what is kept of them, and forgets those that are gone.
func (s *leasesBook) dropReplaced(l *Lease) *Lease {
	if len(l.Replaced) == 0 {
		return l
	}
	if b, ok := s.boots.Get(l.boot(l.Order)); ok && b.Unacked > 0 {
		return l
	}
	released := false
	for _, order := range l.Replaced {
		if b, ok := s.boots.Get(l.boot(order)); ok && !b.Ended {
			s.releaseBoot(b)
			released = true
		}
	}
	if released { // what their children owe is known when the facts are done
		s.unsettle(l.Terms.ID)
		return l
	}
	left := slices.DeleteFunc(slices.Clone(l.Replaced), func(order api.ReservationID) bool { return s.areGone(l, []api.ReservationID{order}) })
	if len(left) == len(l.Replaced) {
		return l
	}
	now := *l
	if now.Replaced = left; len(left) == 0 {
		now.Replaced = nil
	}
	s.storeLease(l, &now)
	return &now
}

// releaseOrder releases what an order holds, everywhere.
func (s *leasesBook) releaseOrder(boot string) {
	if b, ok := s.boots.Get(boot); ok {
		s.releaseBoot(b)
	}
}

// areGone reports whether nothing is left of some orders of a lease.
func (s *leasesBook) areGone(l *Lease, orders []api.ReservationID) bool {
	for _, order := range orders {
		if b, ok := s.boots.Get(l.boot(order)); ok && !b.Final() {
			return false
		}
	}
	return true
}

// hasBegun reports whether every slot of a lease has begun. A slot that was lost does not
// keep the lease from starting; one that has ended does, also when its record is forgotten.
func (s *leasesBook) hasBegun(l *Lease) bool {
	b, ok := s.boots.Get(l.boot(l.Order))
	if !ok {
		return l.Order == "" || s.form < api.FormFifth
	}
	return b.Unacked == 0 && b.Counts.Build+b.Counts.Deleting+b.Counts.Deleted == 0
}

// beginEvent begins an event that is due.
func (s *leasesBook) beginEvent(l *Lease, t api.LeaseEventType) {
	switch t {
	case api.EventBeforeEndLease, api.EventBeforeStartLease:
		s.finishEvent(l, t, l.Status)
	case api.EventStartLease:
		s.setEvent(l, t, api.EventInProgress, api.LeaseStarting)
	case api.EventEndLease:
		if e := l.Event(api.EventStartLease); e != nil && e.Status != api.EventDone {
			l = s.setEvent(l, api.EventStartLease, api.EventError, api.LeaseError)
			l.Reason = "its room was not free before its end"
		}
		now := s.setEvent(l, t, api.EventInProgress, api.LeaseTerminating)
		s.oweEnd(now, api.LeaseOutcomeEnded)
		for _, order := range now.Orders() {
			s.releaseOrder(now.boot(order))
		}
	}
	s.unsettle(l.Terms.ID)
}

// finishEvent records that an event is done, and moves the lease to a status.
func (s *leasesBook) finishEvent(l *Lease, t api.LeaseEventType, st api.LeaseStatus) {
	now := s.setEvent(l, t, api.EventDone, st)
	s.noteLeaseEvent(now, t)
}

// setEvent sets the status of an event, and that of the lease.
func (s *leasesBook) setEvent(old *Lease, t api.LeaseEventType, is api.LeaseEventStatus, st api.LeaseStatus) *Lease {
	l := *old
	l.Events = slices.Clone(old.Events)
	if e := l.Event(t); e != nil {
		e.Status, e.Updated = is, s.now
	}
	l.Status = st
	s.storeLease(old, &l)
	if st != old.Status {
		s.noteLease(EventLeaseStatus, &l, old.Status)
	}
	return &l
}

// noteLease adds a fact about a lease. was is its status before, if that changed.
func (s *leasesBook) noteLease(kind EventKind, l *Lease, was api.LeaseStatus) {
	s.addFact(leaseChanged{kind: kind, lease: l, was: was})
}

// noteLeaseEvent adds the fact that an event of a lease has happened.
func (s *leasesBook) noteLeaseEvent(l *Lease, t api.LeaseEventType) {
	kinds := map[api.LeaseEventType]EventKind{
		api.EventStartLease: EventLeaseStarted, api.EventBeforeEndLease: EventLeaseEndsSoon,
		api.EventEndLease: EventLeaseEnded, api.EventBeforeStartLease: EventLeaseStartsSoon,
	}
	s.addFact(leaseChanged{kind: kinds[t], lease: l})
}

// pruneLeases deletes TERMINATED leases that ended leasesKept before the cutoff of c.
func (s *leasesBook) pruneLeases(c command.Prune) {
	for _, id := range prunableKeys(&s.endedLeases, c.Limit, cutoff{endOwn, c.Before.Add(-leasesKept)}) {
		if l, ok := s.leases.Get(id); ok {
			s.deleteLease(l)
		}
	}
}
