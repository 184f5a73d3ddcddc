package lease

import (
	"slices"

	"berth/api"
)

// moves lists, by status, the statuses that a lease may have next. After DELETING it may
// also be gone.
var moves = map[api.LeaseStatus][]api.LeaseStatus{
	api.LeaseCreating:    {api.LeasePending, api.LeaseDeleting},
	api.LeasePending:     {api.LeaseStarting, api.LeaseUpdating, api.LeaseDeleting},
	api.LeaseStarting:    {api.LeaseActive, api.LeaseError, api.LeaseDeleting},
	api.LeaseActive:      {api.LeaseTerminating, api.LeaseUpdating, api.LeaseDeleting},
	api.LeaseUpdating:    {api.LeasePending, api.LeaseActive, api.LeaseTerminated, api.LeaseError, api.LeaseDeleting},
	api.LeaseTerminating: {api.LeaseTerminated, api.LeaseError, api.LeaseDeleting},
	api.LeaseTerminated:  {api.LeaseUpdating, api.LeaseDeleting},
	api.LeaseError:       {api.LeaseTerminating, api.LeaseUpdating, api.LeaseDeleting},
	api.LeaseDeleting:    {api.LeaseError},
}

// CanMove reports whether a lease may go from one status to another in one step.
func CanMove(from, to api.LeaseStatus) bool { return slices.Contains(moves[from], to) }

// fit is what a status needs of a lease's reservations and events. nil is anything.
type fit struct {
	reservations []api.ReservationStatus
	start, end   []api.LeaseEventStatus
}

var (
	settled = []api.LeaseEventStatus{api.EventUndone, api.EventDone, api.EventError} // nothing is running
	undone  = []api.LeaseEventStatus{api.EventUndone}
	running = []api.LeaseEventStatus{api.EventInProgress}
	done    = []api.LeaseEventStatus{api.EventDone}
	ended   = []api.LeaseEventStatus{api.EventDone, api.EventError}
	pending = []api.ReservationStatus{api.ReservationPending}
)

// fits differs from Blazar's table in two rows. A lease whose start has failed becomes
// TERMINATED at its end, so that it is never stuck. And a lease in ERROR may have
// reservations that did not fail: one that fails does not end the others.
var fits = map[api.LeaseStatus]fit{
	api.LeaseCreating: {reservations: pending, start: undone, end: undone},
	api.LeasePending:  {reservations: pending, start: undone, end: undone},
	api.LeaseStarting: {
		reservations: []api.ReservationStatus{api.ReservationPending, api.ReservationActive, api.ReservationError},
		start:        running, end: undone,
	},
	api.LeaseActive: {reservations: []api.ReservationStatus{api.ReservationActive}, start: done, end: undone},
	api.LeaseTerminating: {
		reservations: []api.ReservationStatus{api.ReservationActive, api.ReservationDeleted, api.ReservationError},
		start:        ended, end: running,
	},
	api.LeaseTerminated: {reservations: []api.ReservationStatus{api.ReservationDeleted}, start: ended, end: done},
	api.LeaseDeleting:   {start: settled, end: settled},
	api.LeaseUpdating:   {start: settled, end: settled},
	api.LeaseError:      {start: ended, end: []api.LeaseEventStatus{api.EventUndone, api.EventError}},
}

// Fits reports whether a lease with these events and reservations may have the status.
func Fits(s api.LeaseStatus, events []api.LeaseEvent, reservations []api.ReservationStatus) bool {
	f, known := fits[s]
	if !known {
		return false
	}
	start, _ := EventOf(events, api.EventStartLease)
	end, _ := EventOf(events, api.EventEndLease)
	for _, r := range reservations {
		if f.reservations != nil && !slices.Contains(f.reservations, r) {
			return false
		}
	}
	return slices.Contains(f.start, start.Status) && slices.Contains(f.end, end.Status)
}

// CheckMove refuses a step that is not legal, or whose target does not fit the events and
// reservations that the lease has after it.
func CheckMove(from, to api.LeaseStatus, events []api.LeaseEvent, reservations []api.ReservationStatus) error {
	switch {
	case !CanMove(from, to):
		return api.Errorf(api.CodeConflict, "Invalid lease status: it is %s, which cannot become %s now", from, to)
	case !Fits(to, events, reservations):
		return api.Errorf(api.CodeConflict, "Invalid lease status: its reservations and events do not allow %s", to)
	}
	return nil
}

// StatusOf returns the status that follows from the start and end events of a lease that is
// neither created, updated nor deleted just now. Other events decide nothing: a lease whose
// action before the end has failed can be used like any other.
func StatusOf(events ...api.LeaseEvent) api.LeaseStatus {
	start, _ := EventOf(events, api.EventStartLease)
	end, _ := EventOf(events, api.EventEndLease)
	type pair struct{ start, end api.LeaseEventStatus }
	switch (pair{start.Status, end.Status}) {
	case pair{api.EventUndone, api.EventUndone}:
		return api.LeasePending
	case pair{api.EventInProgress, api.EventUndone}:
		return api.LeaseStarting
	case pair{api.EventDone, api.EventUndone}:
		return api.LeaseActive
	case pair{api.EventDone, api.EventInProgress}, pair{api.EventError, api.EventInProgress}:
		return api.LeaseTerminating
	case pair{api.EventDone, api.EventDone}, pair{api.EventError, api.EventDone}:
		return api.LeaseTerminated
	}
	return api.LeaseError
}

// reservationMoves lists, by status, the statuses that a reservation may have next.
var reservationMoves = map[api.ReservationStatus][]api.ReservationStatus{
	api.ReservationPending: {api.ReservationActive, api.ReservationDeleted, api.ReservationError},
	api.ReservationActive:  {api.ReservationDeleted, api.ReservationError},
	api.ReservationError:   {api.ReservationDeleted},
	api.ReservationDeleted: nil,
}

// CanMoveReservation reports whether a reservation may go from one status to another in one step.
func CanMoveReservation(from, to api.ReservationStatus) bool {
	return slices.Contains(reservationMoves[from], to)
}

// eventMoves lists, by status, the statuses that an event may have next. A step that failed
// for a reason that passes is tried again: it stays IN_PROGRESS.
var eventMoves = map[api.LeaseEventStatus][]api.LeaseEventStatus{
	api.EventUndone:     {api.EventInProgress},
	api.EventInProgress: {api.EventDone, api.EventError},
	api.EventDone:       nil,
	api.EventError:      nil,
}

// CanMoveEvent reports whether an event may go from one status to another in one step. The
// events before a start and before an end are UNDONE again once an update gives them a later
// time.
func CanMoveEvent(typ api.LeaseEventType, from, to api.LeaseEventStatus) bool {
	if to == api.EventUndone {
		early := typ == api.EventBeforeStartLease || typ == api.EventBeforeEndLease
		return early && from != api.EventUndone
	}
	return slices.Contains(eventMoves[from], to)
}
