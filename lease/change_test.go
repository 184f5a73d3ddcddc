package lease_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/lease"
)

// current returns goodTerms's lease from 10:00 to 12:00 as it is after some events.
func current(t *testing.T, status api.LeaseStatus) *lease.Current {
	t.Helper()
	terms := goodTerms(t)
	events := lease.Events(terms, 10*time.Minute, at(t, "08:00"), ids)
	done := map[api.LeaseStatus]int{api.LeaseActive: 2, api.LeaseTerminated: 4, api.LeaseError: 2}[status]
	for i := range done {
		events[i].Status = api.EventDone
	}
	if status == api.LeaseError {
		events[1].Status = api.EventError
	}
	return &lease.Current{Terms: *terms, Status: status, Events: events}
}

// change is a row of TestChange.
type change struct {
	name   string
	status api.LeaseStatus
	now    string
	change api.LeaseChange
	need   lease.Need
	code   api.Code
	says   string
}

func resize(id api.ReservationID, f func(*api.ReservationChange)) api.LeaseChange {
	c := api.ReservationChange{ID: id}
	f(&c)
	return api.LeaseChange{Reservations: []api.ReservationChange{c}}
}

func amount(id api.ReservationID, lo, hi int) api.LeaseChange {
	return resize(id, func(c *api.ReservationChange) { c.Min, c.Max = &lo, &hi })
}

func TestChangeOfDates(t *testing.T) {
	start := func(clock string) api.LeaseChange { return api.LeaseChange{Start: new(at(t, clock))} }
	end := func(clock string) api.LeaseChange { return api.LeaseChange{End: new(at(t, clock))} }
	both := func(a, b string) api.LeaseChange { return api.LeaseChange{Start: new(at(t, a)), End: new(at(t, b))} }
	const pending, active, failed, over = api.LeasePending, api.LeaseActive, api.LeaseError, api.LeaseTerminated
	for _, c := range []change{
		{"nothing", pending, "09:00", api.LeaseChange{}, lease.NeedNothing, "", ""},
		{"nothing of an ended lease", over, "13:00", api.LeaseChange{}, lease.NeedNothing, "", ""},
		{"the same dates", active, "10:30", both("10:00", "12:00"), lease.NeedNothing, "", ""},
		{"pending, later", pending, "09:00", both("11:00", "13:00"), lease.NeedRoom, "", ""},
		{"pending, sooner", pending, "09:00", start("09:30"), lease.NeedRoom, "", ""},
		{"pending, this minute", pending, "09:00:30", start("09:00"), lease.NeedRoom, "", ""},
		{"pending, in the past", pending, "09:00:30", start("08:59"), 0, api.CodeInvalid, "Start date must be later than current date"},
		{"pending, start after the end", pending, "09:00", start("12:30"), 0, api.CodeInvalid, "End date must be later than start date."},
		{"pending, start at the end", pending, "09:00", start("12:00"), 0, api.CodeInvalid, "End date must be later than start date."},
		{"pending, end at the start", pending, "09:00", end("10:00"), 0, api.CodeInvalid, "End date must be later than start date."},
		{"pending, end now", pending, "09:00", end("09:00"), 0, api.CodeInvalid, "End date must be later than start date."},
		{"pending, end in the past", pending, "09:00", end("08:59"), 0, api.CodeInvalid, "End date must be later than current"},
		{"pending, too long", pending, "09:00", end("16:01"), 0, api.CodeInvalid, "at most 6h0m0s"},
		{"pending, as long as possible", pending, "09:00", end("16:00"), lease.NeedRoom, "", ""},
		{"pending, too far ahead", pending, "09:00", both("21:01", "21:02"), 0, api.CodeInvalid, "within 12h0m0s"},
		{"pending, as far as possible", pending, "09:00", both("21:00", "21:01"), lease.NeedRoom, "", ""},
		{"pending in name, but its time has come", pending, "10:00", start("11:00"), 0, api.CodeInvalid, "Cannot modify the start date"},
		{"active, start", active, "10:30", start("11:00"), 0, api.CodeInvalid, "Cannot modify the start date of already started leases"},
		{"active, start in its first minute", active, "10:00:10", start("11:00"), 0, api.CodeInvalid, "Cannot modify the start date"},
		{"active, longer", active, "10:30", end("13:00"), lease.NeedRoom, "", ""},
		{"active, shorter", active, "10:30", end("11:30"), lease.NeedRoom, "", ""},
		{"active, now", active, "10:30", end("10:30"), lease.NeedEnd, "", ""},
		{"active, this minute", active, "10:30:40", end("10:30"), lease.NeedEnd, "", ""},
		{"active, before this minute", active, "10:30:40", end("10:29"), 0, api.CodeInvalid, "End date must be later than current"},
		{"active, at its start", active, "10:30", end("10:00"), 0, api.CodeInvalid, "End date must be later than current"},
		{"active, now in its first minute", active, "10:00:40", end("10:00"), lease.NeedEnd, "", ""},
		{"active, now at its start", active, "10:00", end("10:00"), lease.NeedEnd, "", ""},
		{"failed, longer", failed, "10:30", end("13:00"), 0, api.CodeConflict, "can only be renamed, ended now or deleted"},
		{"failed, now", failed, "10:30:10", end("10:30"), lease.NeedEnd, "", ""},
		{"ended, longer", over, "12:00", end("13:00"), 0, api.CodeInvalid, "Terminated leases can only be renamed"},
		{"ended by its dates", active, "12:00", end("13:00"), 0, api.CodeInvalid, "Terminated leases can only be renamed"},
		{"pending, grace", pending, "09:00", api.LeaseChange{Grace: new(20 * time.Minute)}, lease.NeedRoom, "", ""},
		{"pending, less grace than the zone has", pending, "09:00", api.LeaseChange{Grace: new(time.Minute)}, lease.NeedRoom, "", ""},
		{"pending, the same grace", pending, "09:00", api.LeaseChange{Grace: new(time.Duration(0))}, lease.NeedNothing, "", ""},
		{"pending, longest grace", pending, "09:00", api.LeaseChange{Grace: new(api.PreemptGraceMax)}, lease.NeedRoom, "", ""},
		{"pending, longer grace", pending, "09:00", api.LeaseChange{Grace: new(api.PreemptGraceMax + time.Millisecond)}, 0, api.CodeInvalid, "grace must be 1ms to 1h0m0s"},
		{"pending, negative grace", pending, "09:00", api.LeaseChange{Grace: new(-time.Millisecond)}, 0, api.CodeInvalid, "grace must be"},
		{"active, grace", active, "10:30", api.LeaseChange{Grace: new(time.Minute)}, 0, api.CodeInvalid, "Cannot modify the grace of already started leases"},
		{"ended, grace", over, "13:00", api.LeaseChange{Grace: new(time.Minute)}, 0, api.CodeInvalid, "Terminated leases can only be renamed"},
		{"pending, shared while idle", pending, "09:00", api.LeaseChange{ShareIdle: new(true)}, lease.NeedRoom, "", ""},
		{"active, shared while idle", active, "10:30", api.LeaseChange{ShareIdle: new(true)}, lease.NeedRoom, "", ""},
		{"active, not shared already", active, "10:30", api.LeaseChange{ShareIdle: new(false)}, lease.NeedNothing, "", ""},
		{"active, one is shared while idle", active, "10:30", resize("slots", func(c *api.ReservationChange) { c.ShareIdle = new(true) }), lease.NeedRoom, "", ""},
		{"starting", api.LeaseStarting, "10:30", end("13:00"), 0, api.CodeConflict, "it is STARTING"},
		{"rename while starting", api.LeaseStarting, "10:30", api.LeaseChange{Name: new("x")}, 0, api.CodeConflict, "it is STARTING"},
	} {
		t.Run(c.name, func(t *testing.T) { runChange(t, c) })
	}
}

// TestWhatOnlyGivesRoomBack: an earlier end and smaller numbers, beside what needs no room; not what also wants
// something, or is somewhere else.
func TestWhatOnlyGivesRoomBack(t *testing.T) {
	end := func(clock string) *api.Instant { return new(at(t, clock)) }
	terms := goodTerms(t)
	id, hosts := terms.Reservations[0].ID, terms.Reservations[0]
	for name, c := range map[string]struct {
		change  api.LeaseChange
		shrinks bool
	}{
		"an earlier end":               {api.LeaseChange{End: end("11:30")}, true},
		"an earlier end and a name":    {api.LeaseChange{End: end("11:30"), Name: new("other")}, true},
		"a later end":                  {api.LeaseChange{End: end("12:30")}, false},
		"a later start":                {api.LeaseChange{Start: end("10:30")}, false},
		"an earlier end, others share": {api.LeaseChange{End: end("11:30"), Shared: &[]api.ProjectID{"q"}}, false},
		"another grace":                {api.LeaseChange{End: end("11:30"), Grace: new(time.Minute)}, false},
		"idle room is lent":            {api.LeaseChange{End: end("11:30"), ShareIdle: new(!hosts.ShareIdle)}, false},
		"fewer":                        {amount("slots", 3, 3), true},
		"fewer hosts at the most":      {amount(id, hosts.Min, hosts.Max-1), true},
		"more":                         {amount(id, hosts.Min, hosts.Max+1), false},
		"fewer until later":            {api.LeaseChange{End: end("12:30"), Reservations: amount(id, 1, 1).Reservations}, false},
		"fewer under another condition": {resize(id, func(r *api.ReservationChange) {
			r.Max, r.ResourceProperties = &hosts.Min, new("[\"==\", \"$a\", \"b\"]")
		}), false},
		"the name alone, without a need": {api.LeaseChange{Name: new("other")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := lease.Change(current(t, api.LeasePending), &c.change, lease.Limits{Lead: api.LeaseLeadMax}, at(t, "09:00"), ids)
			require.NoError(t, err)
			assert.Equal(t, c.shrinks, next.Shrinks)
		})
	}
}

func TestChangeOfTheRest(t *testing.T) {
	const pending, active, failed, over = api.LeasePending, api.LeaseActive, api.LeaseError, api.LeaseTerminated
	bigger := api.Resources{api.VCPU: 2, api.MemoryMB: 512}
	var anywhere *bool
	text := func(s string) func(*api.ReservationChange) {
		return func(c *api.ReservationChange) { c.ResourceProperties, c.Query = &s, &s }
	}
	for _, c := range []change{
		{"name", pending, "09:00", api.LeaseChange{Name: new("other")}, lease.NeedRecord, "", ""},
		{"name of an ended lease", over, "13:00", api.LeaseChange{Name: new("other")}, lease.NeedRecord, "", ""},
		{"name of a failed lease", failed, "11:00", api.LeaseChange{Name: new("other")}, lease.NeedRecord, "", ""},
		{"the same name", active, "11:00", api.LeaseChange{Name: new("training")}, lease.NeedNothing, "", ""},
		{"name with a mark of direction", pending, "09:00", api.LeaseChange{Name: new("a\u202eb")}, 0, api.CodeInvalid, "marks of direction"},
		{"bad name", pending, "09:00", api.LeaseChange{Name: new("\x00")}, 0, api.CodeInvalid, "control characters"},
		{"name and more of an ended lease", over, "13:00", api.LeaseChange{Name: new("x"), BeforeEnd: new(at(t, "11:30"))}, 0, api.CodeInvalid, "only be renamed"},
		{"share", active, "11:00", api.LeaseChange{Shared: &[]api.ProjectID{"bio"}}, lease.NeedRoom, "", ""},
		{"share the same", active, "11:00", api.LeaseChange{Shared: &[]api.ProjectID{}}, lease.NeedNothing, "", ""},
		{"share with itself", active, "11:00", api.LeaseChange{Shared: &[]api.ProjectID{"astro"}}, 0, api.CodeInvalid, "own project"},
		{"share a failed lease", failed, "11:00", api.LeaseChange{Shared: &[]api.ProjectID{"bio"}}, 0, api.CodeConflict, "only be renamed"},
		{"event", active, "10:30", api.LeaseChange{BeforeEnd: new(at(t, "11:30"))}, lease.NeedRecord, "", ""},
		{"no event", active, "10:30", api.LeaseChange{BeforeEnd: new(api.Instant(0))}, lease.NeedRecord, "", ""},
		{"the same event", active, "10:30", api.LeaseChange{BeforeEnd: new(at(t, "11:00"))}, lease.NeedNothing, "", ""},
		{"event at the end", active, "10:30", api.LeaseChange{BeforeEnd: new(at(t, "12:00"))}, 0, api.CodeForbidden, "before_end_date"},
		{"the same event, now beyond the end", pending, "09:00", api.LeaseChange{End: new(at(t, "10:30")), BeforeEnd: new(at(t, "11:00"))}, 0, api.CodeForbidden, "before_end_date"},
		{"hosts grow", pending, "09:00", amount("hosts", 2, 3), lease.NeedRoom, "", ""},
		{"hosts shrink", pending, "09:00", amount("hosts", 1, 1), lease.NeedRoom, "", ""},
		{"active hosts grow", active, "11:00", amount("hosts", 2, 2), lease.NeedRoom, "", ""},
		{"active hosts, fewer at least", active, "11:00", amount("hosts", 0, 2), 0, api.CodeConflict, "cannot be reduced"},
		{"active hosts, fewer at most", active, "11:00", amount("hosts", 1, 1), 0, api.CodeConflict, "cannot be reduced: it has 1 to 2"},
		{"active hosts, condition", active, "11:00", resize("hosts", text(`["=","$gpu","B"]`)), lease.NeedRoom, "", ""},
		{"bad number of hosts", pending, "09:00", amount("hosts", 3, 2), 0, api.CodeInvalid, "max must be at least min"},
		{"the same hosts", active, "11:00", amount("hosts", 1, 2), lease.NeedNothing, "", ""},
		{"amount up", pending, "09:00", amount("slots", 5, 5), lease.NeedRoom, "", ""},
		{"amount down", pending, "09:00", amount("slots", 3, 3), lease.NeedRoom, "", ""},
		{"active amount up", active, "11:00", amount("slots", 5, 5), lease.NeedRoom, "", ""},
		{"active amount down", active, "11:00", amount("slots", 3, 3), 0, api.CodeConflict, "cannot be reduced"},
		{"sizes", pending, "09:00", resize("slots", func(c *api.ReservationChange) { c.Resources = &bigger }), lease.NeedRoom, "", ""},
		{"no sizes", pending, "09:00", resize("slots", func(c *api.ReservationChange) { c.Resources = &api.Resources{} }), 0, api.CodeInvalid, "need sizes"},
		{"active sizes", active, "11:00", resize("slots", func(c *api.ReservationChange) { c.Resources = &bigger }), 0, api.CodeConflict, "only accepts amount"},
		{"sizes of a flavor", pending, "09:00", resize("flavored", func(c *api.ReservationChange) { c.Resources = &bigger }), 0, api.CodeConflict, "of its flavor"},
		{"amount of a flavor", active, "11:00", amount("flavored", 2, 2), lease.NeedRoom, "", ""},
		{"affinity", pending, "09:00", resize("slots", func(c *api.ReservationChange) { c.Affinity = &anywhere }), lease.NeedRoom, "", ""},
		{"active affinity", active, "11:00", resize("slots", func(c *api.ReservationChange) { c.Affinity = &anywhere }), 0, api.CodeConflict, "only accepts amount"},
		{"the same affinity", active, "11:00", resize("slots", func(c *api.ReservationChange) { c.Affinity = new(new(true)) }), lease.NeedNothing, "", ""},
		{"other affinity", active, "11:00", resize("slots", func(c *api.ReservationChange) { c.Affinity = new(new(false)) }), 0, api.CodeConflict, "only accepts amount"},
		{"condition", pending, "09:00", resize("slots", text(`["=","$gpu","B"]`)), lease.NeedRoom, "", ""},
		{"active condition", active, "11:00", resize("slots", text(`["=","$gpu","B"]`)), 0, api.CodeConflict, "only accepts amount"},
		{"host condition", pending, "09:00", resize("hosts", func(c *api.ReservationChange) { c.HypervisorProperties = new("") }), lease.NeedRoom, "", ""},
		{"action", active, "11:00", resize("hosts", func(c *api.ReservationChange) { c.BeforeEnd = new("snapshot") }), lease.NeedRecord, "", ""},
		{"unknown action", active, "11:00", resize("hosts", func(c *api.ReservationChange) { c.BeforeEnd = new("email") }), 0, api.CodeInvalid, "before_end must be"},
		{"no id", pending, "09:00", amount("", 1, 1), 0, api.CodeInvalid, "Missing parameter id"},
		{"foreign id", pending, "09:00", amount("elsewhere", 1, 1), 0, api.CodeInvalid, `no reservation "elsewhere"`},
		{"one twice", pending, "09:00", api.LeaseChange{Reservations: []api.ReservationChange{{ID: "hosts"}, {ID: "hosts"}}}, 0, api.CodeInvalid, "twice"},
		{"nothing of one", pending, "09:00", resize("hosts", func(*api.ReservationChange) {}), lease.NeedNothing, "", ""},
		{"the same type", pending, "09:00", resize("hosts", func(c *api.ReservationChange) { c.Type = new(api.ReserveHosts) }), lease.NeedNothing, "", ""},
		{"other type", pending, "09:00", resize("hosts", func(c *api.ReservationChange) { c.Type = new(api.ReserveInstances) }), 0, api.CodeConflict, "resource_type"},
		{"too many in all", pending, "09:00", amount("hosts", 1, api.CountMax), 0, api.CodeInvalid, "at most 10000"},
		{"ended now and grown", active, "11:00", api.LeaseChange{End: new(at(t, "11:00")), Reservations: amount("slots", 5, 5).Reservations}, 0, api.CodeInvalid, "takes no other room"},
		{"ended now and renamed", active, "11:00", api.LeaseChange{End: new(at(t, "11:00")), Name: new("x")}, lease.NeedEnd, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) { runChange(t, c) })
	}
}

func runChange(t *testing.T, c change) {
	t.Helper()
	cur := current(t, c.status)
	before, err := json.Marshal(cur)
	require.NoError(t, err)
	next, err := lease.Change(cur, &c.change, lease.Limits{Duration: 6 * time.Hour, Lead: 12 * time.Hour, Grace: 10 * time.Minute}, at(t, c.now), lease.EventIDs{BeforeStart: "new start", BeforeEnd: "new"})
	after, marshalErr := json.Marshal(cur)
	require.NoError(t, marshalErr)
	assert.JSONEq(t, string(before), string(after), "the lease as it was is never written")
	checkRefusal(t, err, c.code, c.says)
	if c.code != "" {
		assert.Nil(t, next)
		return
	}
	assert.Equal(t, c.need, next.Need)
	assert.Equal(t, next.Need == lease.NeedNothing, assert.ObjectsAreEqual(cur.Terms, next.Terms), "NeedNothing iff nothing changed")
	var fixed []api.ReservationID
	if c.need == lease.NeedRoom && c.status == api.LeaseActive {
		fixed = []api.ReservationID{"hosts", "slots", "flavored"}
	}
	assert.Equal(t, fixed, next.Fixed)
	for _, e := range next.Events {
		switch e.Type {
		case api.EventStartLease:
			assert.Equal(t, next.Terms.Window.Start, e.Time)
		case api.EventEndLease:
			assert.Equal(t, next.Terms.Window.End, e.Time)
		case api.EventBeforeEndLease:
			assert.Equal(t, next.Terms.BeforeEnd, e.Time)
		case api.EventBeforeStartLease:
			assert.Equal(t, next.Terms.Window.Start.Add(-max(10*time.Minute, next.Terms.Grace)), e.Time)
		}
	}
}

func TestEndNowIsLaterThanTheStart(t *testing.T) {
	for _, now := range []string{"10:00", "10:00:40", "10:59:59"} {
		cur := current(t, api.LeaseActive)
		next, err := lease.Change(cur, &api.LeaseChange{End: new(lease.Minute(at(t, now)))}, lease.Limits{}, at(t, now), lease.EventIDs{})
		require.NoError(t, err)
		assert.True(t, next.Terms.Window.Valid())
		assert.LessOrEqual(t, next.Terms.Window.End, at(t, now)+1, "due at once")
		assert.GreaterOrEqual(t, next.Terms.Window.End, at(t, now), "not in the past")
	}
}

func TestEventsFollowAnUpdate(t *testing.T) {
	find := func(n *lease.Next, typ api.LeaseEventType) api.LeaseEvent {
		e, found := lease.EventOf(n.Events, typ)
		require.True(t, found, "%s", typ)
		return e
	}
	update := func(cur *lease.Current, c api.LeaseChange, now string) *lease.Next {
		t.Helper()
		next, err := lease.Change(cur, &c, lease.Limits{Grace: 10 * time.Minute}, at(t, now), lease.EventIDs{BeforeStart: "new start", BeforeEnd: "new"})
		require.NoError(t, err)
		return next
	}
	t.Run("the event before the end keeps its distance, and happens again", func(t *testing.T) {
		cur := current(t, api.LeaseActive)
		cur.Events[2].Status = api.EventDone
		next := update(cur, api.LeaseChange{End: new(at(t, "14:00"))}, "11:30")
		want := api.LeaseEvent{
			ID: "e-be", Type: api.EventBeforeEndLease, Time: at(t, "13:00"), Status: api.EventUndone,
			Created: at(t, "08:00"), Updated: at(t, "11:30"),
		}
		assert.Equal(t, want, find(next, api.EventBeforeEndLease))
		assert.Equal(t, api.LeaseActive, lease.StatusOf(next.Events...))
		start := find(next, api.EventStartLease)
		assert.Equal(t, cur.Events[1], start, "it has not moved")
	})
	t.Run("it does not happen again if its new time has passed", func(t *testing.T) {
		cur := current(t, api.LeaseActive)
		cur.Events[2].Status = api.EventDone
		next := update(cur, api.LeaseChange{End: new(at(t, "12:10"))}, "11:30")
		assert.Equal(t, api.EventDone, find(next, api.EventBeforeEndLease).Status)
		assert.Equal(t, at(t, "11:10"), find(next, api.EventBeforeEndLease).Time)
	})
	t.Run("one that is running or has failed happens again too", func(t *testing.T) {
		for _, s := range []api.LeaseEventStatus{api.EventInProgress, api.EventError} {
			cur := current(t, api.LeaseActive)
			cur.Events[2].Status = s
			assert.Equal(t, api.EventUndone, find(update(cur, api.LeaseChange{End: new(at(t, "14:00"))}, "11:30"), api.EventBeforeEndLease).Status)
		}
	})
	t.Run("never before the start", func(t *testing.T) {
		next := update(current(t, api.LeasePending), api.LeaseChange{End: new(at(t, "10:40"))}, "09:00")
		assert.Equal(t, at(t, "10:00"), find(next, api.EventBeforeEndLease).Time)
	})
	t.Run("as given", func(t *testing.T) {
		next := update(current(t, api.LeasePending), api.LeaseChange{End: new(at(t, "14:00")), BeforeEnd: new(at(t, "11:15"))}, "09:00")
		assert.Equal(t, at(t, "11:15"), find(next, api.EventBeforeEndLease).Time)
	})
	t.Run("removed and added", func(t *testing.T) {
		cur := current(t, api.LeasePending)
		next := update(cur, api.LeaseChange{BeforeEnd: new(api.Instant(0))}, "09:00")
		_, found := lease.EventOf(next.Events, api.EventBeforeEndLease)
		assert.False(t, found)
		cur = &lease.Current{Terms: next.Terms, Events: next.Events, Status: cur.Status}
		assert.Len(t, update(cur, api.LeaseChange{End: new(at(t, "14:00"))}, "09:00").Events, 3, "still none")
		next = update(cur, api.LeaseChange{BeforeEnd: new(at(t, "11:30"))}, "09:10")
		want := api.LeaseEvent{ID: "new", Type: api.EventBeforeEndLease, Time: at(t, "11:30"), Status: api.EventUndone, Created: at(t, "09:10")}
		assert.Equal(t, want, find(next, api.EventBeforeEndLease))
		assert.Equal(t, want, next.Events[2], "in order")
	})
	t.Run("the drain keeps its distance to the start, and happens again", func(t *testing.T) {
		cur := current(t, api.LeasePending)
		cur.Events[0].Status = api.EventDone // at 09:50
		next := update(cur, api.LeaseChange{Start: new(at(t, "11:00"))}, "09:55")
		assert.Equal(t, at(t, "10:50"), find(next, api.EventBeforeStartLease).Time)
		assert.Equal(t, api.EventUndone, find(next, api.EventBeforeStartLease).Status)
	})
	t.Run("ended now", func(t *testing.T) {
		next := update(current(t, api.LeaseActive), api.LeaseChange{End: new(at(t, "10:20"))}, "10:20:30")
		assert.Equal(t, at(t, "10:20:30"), find(next, api.EventEndLease).Time)
		assert.Equal(t, at(t, "10:00"), find(next, api.EventBeforeEndLease).Time, "due before the end, if it has not happened")
	})
}

// TestALeaseWithoutReservationsNeedsNoRoom: its dates are in its record alone.
func TestALeaseWithoutReservationsNeedsNoRoom(t *testing.T) {
	cur := current(t, api.LeasePending)
	cur.Terms.Reservations = nil
	next, err := lease.Change(cur, &api.LeaseChange{End: new(at(t, "14:00"))}, lease.Limits{}, at(t, "09:00"), lease.EventIDs{})
	require.NoError(t, err)
	assert.Equal(t, lease.NeedRecord, next.Need)
}

// TestLowerLimitsLeaveLeasesAlone: a lease that was legal when it was made can be renamed.
func TestLowerLimitsLeaveLeasesAlone(t *testing.T) {
	cur, limits := current(t, api.LeasePending), lease.Limits{Duration: time.Minute, Lead: time.Minute}
	_, err := lease.Change(cur, &api.LeaseChange{Name: new("x")}, limits, at(t, "09:00"), lease.EventIDs{})
	require.NoError(t, err)
	_, err = lease.Change(cur, &api.LeaseChange{End: new(at(t, "11:00"))}, limits, at(t, "09:00"), lease.EventIDs{})
	checkRefusal(t, err, api.CodeInvalid, "at most 1m0s")
}

// TestWhatAnUpdateLeavesIsALegalLease: whatever the sequence of updates, what is accepted
// could also have been asked for at the beginning, and a started lease never moves or shrinks.
func TestWhatAnUpdateLeavesIsALegalLease(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cur := current(t, rapid.SampledFrom([]api.LeaseStatus{api.LeasePending, api.LeaseActive}).Draw(rt, "status"))
		now := at(t, "09:00")
		if cur.Status == api.LeaseActive {
			now = at(t, "10:00")
		}
		for range rapid.IntRange(1, 6).Draw(rt, "updates") {
			c := drawChange(rt, now)
			next, err := lease.Change(cur, &c, lease.Limits{}, now, lease.EventIDs{BeforeStart: "new start", BeforeEnd: "new"})
			if err != nil {
				assert.NotEqual(rt, api.CodeInternal, api.CodeOf(err))
				continue
			}
			checkNext(rt, cur, next, now)
			if next.Need == lease.NeedEnd {
				return
			}
			cur = &lease.Current{Terms: next.Terms, Events: next.Events, Status: cur.Status}
			if step := api.Instant(rapid.IntRange(0, 300_000).Draw(rt, "wait")); now+step < cur.Terms.Window.Start || cur.Status == api.LeaseActive {
				now += step
			}
		}
	})
}

func drawChange(rt *rapid.T, now api.Instant) api.LeaseChange {
	near := rapid.Map(rapid.Int64Range(-10, 300), func(m int64) api.Instant { return now + api.Instant(m*60_000) })
	c := api.LeaseChange{
		Start: rapid.Ptr(near, true).Draw(rt, "start"), End: rapid.Ptr(near, true).Draw(rt, "end"),
		BeforeEnd: rapid.Ptr(near, true).Draw(rt, "before end"),
	}
	if rapid.Bool().Draw(rt, "resize") {
		n := rapid.IntRange(0, 6).Draw(rt, "amount")
		c.Reservations = []api.ReservationChange{{ID: rapid.SampledFrom([]api.ReservationID{"hosts", "slots"}).Draw(rt, "of"), Min: &n, Max: &n}}
	}
	return c
}

func checkNext(rt *rapid.T, cur *lease.Current, next *lease.Next, now api.Instant) {
	w, was := next.Terms.Window, cur.Terms.Window
	assert.True(rt, w.Valid())
	if cur.Status == api.LeasePending {
		require.NoError(rt, lease.CheckTerms(&next.Terms, min(now, w.Start), lease.Limits{}))
	} else {
		assert.Equal(rt, was.Start, w.Start)
		for i, r := range next.Terms.Reservations {
			assert.GreaterOrEqual(rt, r.Max, cur.Terms.Reservations[i].Max)
			assert.GreaterOrEqual(rt, r.Min, cur.Terms.Reservations[i].Min)
		}
	}
	if next.Terms.BeforeEnd != 0 {
		assert.True(rt, w.Contains(next.Terms.BeforeEnd))
	}
	assert.Equal(rt, cur.Status, lease.StatusOf(next.Events...), "an update does not change the status")
	assert.True(rt, slices.IsSortedFunc(next.Events, func(a, b api.LeaseEvent) int {
		return lease.KeyOf("", w.Start, &a).Compare(lease.KeyOf("", w.Start, &b))
	}))
}

// TestGraceOfUpdates: the event before the start appears, moves and goes with the grace of the zone and
// of the lease.
func TestGraceOfUpdates(t *testing.T) {
	cur := current(t, api.LeasePending)
	due := func(zone, asked time.Duration) string {
		next, err := lease.Change(cur, &api.LeaseChange{Grace: &asked}, lease.Limits{Grace: zone}, at(t, "08:00"), lease.EventIDs{BeforeStart: "new"})
		require.NoError(t, err)
		require.Equal(t, lease.NeedRoom, next.Need)
		cur = &lease.Current{Terms: next.Terms, Status: api.LeasePending, Events: next.Events}
		require.True(t, slices.IsSortedFunc(next.Events, func(a, b api.LeaseEvent) int { return int(a.Time - b.Time) }))
		e, ok := lease.EventOf(next.Events, api.EventBeforeStartLease)
		if !ok {
			return ""
		}
		return e.ID + " " + e.Time.Time().UTC().Format("15:04")
	}
	id := ids.BeforeStart
	assert.Equal(t, id+" 09:30", due(10*time.Minute, 30*time.Minute))
	assert.Equal(t, id+" 09:50", due(10*time.Minute, time.Minute), "the zone's own is more")
	assert.Empty(t, due(0, 0))
	assert.Equal(t, "new 09:59", due(time.Minute, time.Second))
}
