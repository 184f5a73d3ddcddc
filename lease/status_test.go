package lease_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/lease"
)

var (
	leaseStatuses = []api.LeaseStatus{
		api.LeaseCreating, api.LeasePending, api.LeaseStarting, api.LeaseActive, api.LeaseTerminating, api.LeaseTerminated,
		api.LeaseUpdating, api.LeaseDeleting, api.LeaseError,
	}
	reservationStatuses = []api.ReservationStatus{api.ReservationPending, api.ReservationActive, api.ReservationDeleted, api.ReservationError}
	eventStatuses       = []api.LeaseEventStatus{api.EventUndone, api.EventInProgress, api.EventDone, api.EventError}
	eventTypes          = []api.LeaseEventType{api.EventBeforeStartLease, api.EventStartLease, api.EventBeforeEndLease, api.EventEndLease}
)

func TestLeasesMoveInLegalSteps(t *testing.T) {
	legal := map[api.LeaseStatus]string{
		"CREATING": "PENDING DELETING", "PENDING": "STARTING UPDATING DELETING", "STARTING": "ACTIVE ERROR DELETING",
		"ACTIVE": "TERMINATING UPDATING DELETING", "UPDATING": "PENDING ACTIVE TERMINATED ERROR DELETING",
		"TERMINATING": "TERMINATED ERROR DELETING", "TERMINATED": "UPDATING DELETING", "ERROR": "TERMINATING UPDATING DELETING",
		"DELETING": "ERROR",
	}
	for _, from := range leaseStatuses {
		for _, to := range leaseStatuses {
			want := slices.Contains(strings.Fields(legal[from]), string(to))
			assert.Equal(t, want, lease.CanMove(from, to), "%s to %s", from, to)
		}
	}
	assert.False(t, lease.CanMove("", api.LeasePending))
	assert.False(t, lease.CanMove(api.LeasePending, ""))
}

// TestNoLeaseIsStuck: from every status there is a way to the end, and to be deleted.
func TestNoLeaseIsStuck(t *testing.T) {
	for _, from := range leaseStatuses {
		assert.True(t, from == api.LeaseDeleting || lease.CanMove(from, api.LeaseDeleting), "%s cannot be deleted", from)
		reached := map[api.LeaseStatus]bool{from: true}
		for range leaseStatuses {
			for s := range reached {
				for _, to := range leaseStatuses {
					reached[to] = reached[to] || lease.CanMove(s, to)
				}
			}
		}
		assert.True(t, reached[api.LeaseTerminated] || from == api.LeaseDeleting, "%s does not end", from)
	}
}

// events returns the start and the end event of a lease.
func events(start, end api.LeaseEventStatus) []api.LeaseEvent {
	return []api.LeaseEvent{{Type: api.EventStartLease, Status: start}, {Type: api.EventEndLease, Status: end}}
}

func TestStatusFollowsFromEvents(t *testing.T) {
	want := map[string]api.LeaseStatus{
		"UNDONE UNDONE": "PENDING", "IN_PROGRESS UNDONE": "STARTING", "DONE UNDONE": "ACTIVE", "DONE IN_PROGRESS": "TERMINATING",
		"DONE DONE": "TERMINATED", "ERROR IN_PROGRESS": "TERMINATING", "ERROR DONE": "TERMINATED",
	}
	for _, start := range eventStatuses {
		for _, end := range eventStatuses {
			expected, listed := want[string(start)+" "+string(end)]
			if !listed {
				expected = api.LeaseError
			}
			for _, other := range eventStatuses { // decides nothing
				all := append(events(start, end), api.LeaseEvent{Type: api.EventBeforeEndLease, Status: other})
				assert.Equal(t, expected, lease.StatusOf(all...), "start %s, end %s", start, end)
			}
		}
	}
	assert.Equal(t, api.LeaseError, lease.StatusOf(), "a lease without events")
}

func TestStatusesNeedFittingParts(t *testing.T) {
	// Reservations, start event, end event; * is any.
	table := map[api.LeaseStatus][3]string{
		"CREATING":    {"pending", "UNDONE", "UNDONE"},
		"PENDING":     {"pending", "UNDONE", "UNDONE"},
		"STARTING":    {"pending active error", "IN_PROGRESS", "UNDONE"},
		"ACTIVE":      {"active", "DONE", "UNDONE"},
		"TERMINATING": {"active deleted error", "DONE ERROR", "IN_PROGRESS"},
		"TERMINATED":  {"deleted", "DONE ERROR", "DONE"},
		"DELETING":    {"*", "UNDONE DONE ERROR", "UNDONE DONE ERROR"},
		"UPDATING":    {"*", "UNDONE DONE ERROR", "UNDONE DONE ERROR"},
		"ERROR":       {"*", "DONE ERROR", "UNDONE ERROR"},
	}
	has := func(list, word string) bool { return list == "*" || slices.Contains(strings.Fields(list), word) }
	for _, s := range leaseStatuses {
		for _, r := range reservationStatuses {
			for _, start := range eventStatuses {
				for _, end := range eventStatuses {
					row := table[s]
					want := has(row[0], string(r)) && has(row[1], string(start)) && has(row[2], string(end))
					for _, all := range [][]api.ReservationStatus{{r}, {r, r}} {
						assert.Equal(t, want, lease.Fits(s, events(start, end), all), "%s with %s, %s, %s", s, r, start, end)
					}
				}
			}
		}
	}
	assert.True(t, lease.Fits(api.LeasePending, events(api.EventUndone, api.EventUndone), nil), "no reservations")
	assert.False(t, lease.Fits(api.LeaseActive, events(api.EventDone, api.EventUndone),
		[]api.ReservationStatus{api.ReservationActive, api.ReservationPending}), "one of two does not fit")
	assert.False(t, lease.Fits("", events(api.EventUndone, api.EventUndone), nil), "no such status")
}

func TestCheckMove(t *testing.T) {
	started := events(api.EventDone, api.EventUndone)
	active := []api.ReservationStatus{api.ReservationActive}
	require.NoError(t, lease.CheckMove(api.LeaseStarting, api.LeaseActive, started, active))
	assert.Equal(t, api.CodeConflict, api.CodeOf(lease.CheckMove(api.LeaseTerminated, api.LeaseActive, started, active)))
	assert.Equal(t, api.CodeConflict, api.CodeOf(lease.CheckMove(api.LeaseStarting, api.LeaseActive, started,
		[]api.ReservationStatus{api.ReservationPending})))
}

func TestReservationsMoveInLegalSteps(t *testing.T) {
	legal := map[api.ReservationStatus]string{"pending": "active deleted error", "active": "deleted error", "error": "deleted"}
	for _, from := range reservationStatuses {
		for _, to := range reservationStatuses {
			assert.Equal(t, slices.Contains(strings.Fields(legal[from]), string(to)), lease.CanMoveReservation(from, to), "%s to %s", from, to)
		}
	}
}

func TestEventsMoveInLegalSteps(t *testing.T) {
	legal := map[api.LeaseEventStatus]string{"UNDONE": "IN_PROGRESS", "IN_PROGRESS": "DONE ERROR"}
	for _, typ := range eventTypes {
		for _, from := range eventStatuses {
			for _, to := range eventStatuses {
				want := slices.Contains(strings.Fields(legal[from]), string(to))
				if to == api.EventUndone {
					want = from != api.EventUndone && (typ == api.EventBeforeStartLease || typ == api.EventBeforeEndLease)
				}
				assert.Equal(t, want, lease.CanMoveEvent(typ, from, to), "%s: %s to %s", typ, from, to)
			}
		}
	}
}
