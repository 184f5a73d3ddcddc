package state

import (
	"time"

	"berth/api"
	"berth/raftstore/state/table"
)

// What is due happens in the order of time, whatever entry moves the zone's time past it. At
// one instant: before_end events, ends of windows, ends of leases, closings of slots, starts of
// slots, starts of leases, and then before_end events of leases that start at that instant.

const (
	stepsPerEntry = 100_000             // due steps that are taken at the most before an entry, and after it; the next takes the rest
	leasesKept    = 30 * 24 * time.Hour // how much longer than other records TERMINATED leases are kept
)

// The ranks of due steps at one instant.
const (
	rankBeforeEnd byte = iota
	rankWindowEnd
	rankLeaseEnd
	rankClosing
	rankSlotStart
	rankBeforeStart
	rankLeaseStart
	rankStarted
)

func rankOf(l *Lease, e *api.LeaseEvent) byte {
	switch e.Type {
	case api.EventBeforeEndLease:
		if e.Time <= l.Terms.Window.Start {
			return rankStarted
		}
		return rankBeforeEnd
	case api.EventEndLease:
		return rankLeaseEnd
	case api.EventBeforeStartLease:
		return rankBeforeStart
	case api.EventStartLease:
		return rankLeaseStart
	}
	return rankLeaseStart
}

// dueKey orders the events of leases by time, rank and lease.
func dueKey(l *Lease, e *api.LeaseEvent) string {
	return timeKey(e.Time) + string([]byte{rankOf(l, e)}) + joinKey(l.Terms.ID, e.Type)
}

// isDue reports whether an event is still to begin when its time comes. While an update is
// being decided, everything waits.
func (l *Lease) isDue(e *api.LeaseEvent) bool {
	if e.Status != api.EventUndone {
		return false
	}
	switch l.Status {
	case api.LeasePending:
		return true
	case api.LeaseStarting, api.LeaseActive, api.LeaseError:
		return e.Type != api.EventStartLease
	case api.LeaseCreating, api.LeaseUpdating, api.LeaseTerminating, api.LeaseTerminated, api.LeaseDeleting:
	}
	return false
}

// step is what is due next.
type step struct {
	at   api.Instant
	rank byte
	run  func()
}

// before reports whether p comes before o.
func (p step) before(o step) bool { return p.at < o.at || p.at == o.at && p.rank < o.rank }

// nextStep returns the first due step; at is api.Forever for none.
func (s *leasesBook) nextStep() step {
	next := step{at: api.Forever}
	if i := s.nextEnd(); i != nil {
		next = step{i.Window.End, rankWindowEnd, func() { s.endWindow(i) }}
	}
	if i := s.firstOf(&s.closings); i != nil {
		if p := (step{closingOf(i), rankClosing, func() { s.closeRoom(i) }}); p.before(next) {
			next = p
		}
	}
	if i := s.firstOf(&s.begins); i != nil {
		if p := (step{i.Window.Start, rankSlotStart, func() { s.beginSlot(i) }}); p.before(next) {
			next = p
		}
	}
	if k, ok := s.due.Min(); ok {
		if p, ok := s.stepOf(k); ok && p.before(next) {
			next = p
		}
	}
	return next
}

// firstOf returns the first instance of an index of times and instances; nil for none.
func (s *leasesBook) firstOf(index *table.Set) *api.Instance {
	k, _ := index.Min()
	if k == "" {
		return nil
	}
	i, _ := s.instances.Get(k[8:])
	return i
}

// stepOf returns the step of an event of a lease.
func (s *leasesBook) stepOf(key string) (step, bool) {
	rest := key[9:]
	for n := range len(rest) {
		if rest[n] != 0 {
			continue
		}
		l, ok := s.leases.Get(rest[:n])
		if !ok {
			return step{}, false
		}
		e := l.Event(api.LeaseEventType(rest[n+1:]))
		if e == nil {
			return step{}, false
		}
		return step{e.Time, key[8], func() { s.beginEvent(l, e.Type) }}, true
	}
	return step{}, false
}

// NextDue returns when something happens by itself, which may be in the past; api.Forever
// for never.
func (s *leasesBook) NextDue() api.Instant { return s.nextStep().at }
