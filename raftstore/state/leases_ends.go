package state

import (
	"berth/api"
	"berth/raftstore/command"
)

// leaseEndKey orders the ends of leases by time and lease.
func leaseEndKey(n api.LeaseEndName) string { return timeKey(n.At) + string(n.Lease) }

// oweEnd notes that the external service of the zone is to be told of the end of a lease. It
// is never told of maintenance, which it was not asked about.
func (s *leasesBook) oweEnd(l *Lease, outcome api.LeaseOutcome) {
	if s.Config.Leases.Check.URL == "" || len(l.Terms.Hosts) > 0 {
		return
	}
	e := &api.LeaseEnd{Terms: l.Terms, Outcome: outcome, At: s.now}
	s.leaseEnds.Set(leaseEndKey(e.Name()), e)
	if s.leaseEnds.Len() > s.limits.leaseEnds {
		s.leaseEnds.PopMin()
	}
	s.touchTopic(LeaseEndsTopic())
}

// outcomeOf returns what becomes of a lease that its owner deletes now; "" if its end has
// begun before, so that it is known.
func (l *Lease) outcomeOf() api.LeaseOutcome {
	if l.Status == api.LeaseCreating {
		return api.LeaseOutcomeFailed
	}
	if e := l.Event(api.EventEndLease); e != nil && e.Status != api.EventUndone {
		return ""
	}
	return api.LeaseOutcomeDeleted
}

func (s *leasesBook) leaseEndsTold(c command.LeaseEndsTold) Result {
	if len(c.Ends) > s.limits.leaseEndsTold {
		return refuseWith(api.CodeTooLarge, "%d ends of leases in one command; at most %d are allowed", len(c.Ends), s.limits.leaseEndsTold)
	}
	for _, n := range c.Ends {
		if _, ok := s.leaseEnds.Delete(leaseEndKey(n)); ok {
			s.touchTopic(LeaseEndsTopic())
		}
	}
	return Result{}
}

// LeaseEnds returns at most limit of the ends of leases after one of them that the external
// service of the zone is still to be told, in the order of time.
func (s *leasesBook) LeaseEnds(after api.LeaseEndName, limit int) []*api.LeaseEnd {
	var out []*api.LeaseEnd
	first := leaseEndKey(after)
	s.leaseEnds.Ascend(first, func(k string, e *api.LeaseEnd) bool {
		if k != first && len(out) < limit {
			out = append(out, e)
		}
		return len(out) < limit
	})
	return out
}

// CountLeaseEnds counts the ends of leases that the external service is still to be told, and
// returns the time of the first.
func (s *leasesBook) CountLeaseEnds() (n int, first api.Instant) {
	if _, e, ok := s.leaseEnds.Min(); ok {
		first = e.At
	}
	return s.leaseEnds.Len(), first
}
