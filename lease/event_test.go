package lease_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/lease"
)

// at returns an instant of one day, from "15:04" or "15:04:05".
func at(t *testing.T, clock string) api.Instant {
	t.Helper()
	layout := "2006-01-02 15:04"
	if len(clock) > len("15:04") {
		layout += ":05"
	}
	when, err := time.Parse(layout, "2027-03-01 "+clock)
	require.NoError(t, err)
	return api.InstantOf(when)
}

// over returns a window of that day.
func over(t *testing.T, start, end string) api.Window {
	t.Helper()
	return api.Window{Start: at(t, start), End: at(t, end)}
}

func TestMinuteRoundsDown(t *testing.T) {
	for _, c := range []struct{ in, want api.Instant }{
		{0, 0}, {1, 0}, {59_999, 0}, {60_000, 60_000}, {60_001, 60_000}, {-1, -60_000}, {-60_000, -60_000}, {-60_001, -120_000},
	} {
		assert.Equal(t, c.want, lease.Minute(c.in), "%d", c.in)
	}
}

func TestBeforeEndAt(t *testing.T) {
	for _, c := range []struct {
		name, start, end, asked string
		distance                time.Duration
		want                    string // "" for no event
		code                    api.Code
	}{
		{"an hour before the end", "10:00", "12:00", "", time.Hour, "11:00", ""},
		{"never before the start", "10:00", "10:30", "", time.Hour, "10:00", ""},
		{"exactly at the start", "10:00", "11:00", "", time.Hour, "10:00", ""},
		{"as asked", "10:00", "12:00", "11:15", time.Hour, "11:15", ""},
		{"as asked, though there is none by default", "10:00", "12:00", "11:15", 0, "11:15", ""},
		{"just after the start", "10:00", "12:00", "10:01", 0, "10:01", ""},
		{"just before the end", "10:00", "12:00", "11:59", 0, "11:59", ""},
		{"at the end", "10:00", "12:00", "12:00", time.Hour, "", api.CodeForbidden},
		{"after the end", "10:00", "12:00", "12:01", time.Hour, "", api.CodeForbidden},
		{"at the start", "10:00", "12:00", "10:00", time.Hour, "", api.CodeForbidden},
		{"before the start", "10:00", "12:00", "09:59", time.Hour, "", api.CodeForbidden},
		{"none by default", "10:00", "12:00", "", 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked *api.Instant
			if c.asked != "" {
				asked = new(at(t, c.asked))
			}
			got, err := lease.BeforeEndAt(over(t, c.start, c.end), asked, c.distance)
			assert.Equal(t, c.code, api.CodeOf(err))
			want := api.Instant(0)
			if c.want != "" {
				want = at(t, c.want)
			}
			assert.Equal(t, want, got)
		})
	}
	got, err := lease.BeforeEndAt(over(t, "10:00", "12:00"), new(api.Instant(0)), time.Hour)
	require.NoError(t, err)
	assert.Zero(t, got, "0 asks for no event")
}

var ids = lease.EventIDs{BeforeStart: "e-bs", Start: "e-s", BeforeEnd: "e-be", End: "e-e"}

func TestEventsOfANewLease(t *testing.T) {
	terms := api.LeaseTerms{Window: over(t, "10:00", "12:00"), BeforeEnd: at(t, "11:00")}
	now := at(t, "09:00")
	event := func(id string, typ api.LeaseEventType, clock string) api.LeaseEvent {
		return api.LeaseEvent{ID: id, Type: typ, Time: at(t, clock), Status: api.EventUndone, Created: now}
	}
	start, end := event("e-s", api.EventStartLease, "10:00"), event("e-e", api.EventEndLease, "12:00")
	beforeEnd := event("e-be", api.EventBeforeEndLease, "11:00")
	assert.Equal(t, []api.LeaseEvent{start, beforeEnd, end}, lease.Events(&terms, 0, now, ids))
	assert.Equal(t, []api.LeaseEvent{event("e-bs", api.EventBeforeStartLease, "09:50"), start, beforeEnd, end},
		lease.Events(&terms, 10*time.Minute, now, ids))
	all := lease.Events(&terms, 2*time.Hour, now, ids)
	assert.Equal(t, at(t, "08:00"), all[0].Time, "due at once")
	assert.LessOrEqual(t, len(all), api.LeaseEventsMax)
	terms.BeforeEnd = 0
	assert.Equal(t, []api.LeaseEvent{start, end}, lease.Events(&terms, 0, now, ids))
}

func TestEventsOfOneInstantAreOrdered(t *testing.T) {
	noon, eleven := at(t, "12:00"), at(t, "11:00")
	key := func(id string, typ api.LeaseEventType, when, start api.Instant) lease.Key {
		return lease.KeyOf(api.LeaseID("lease-"+id), start, &api.LeaseEvent{ID: id, Type: typ, Time: when})
	}
	want := []lease.Key{
		key("9", api.EventStartLease, eleven, eleven), // earlier goes first, whatever it is
		key("a", api.EventBeforeEndLease, noon, eleven),
		key("b", api.EventBeforeEndLease, noon, eleven),
		key("1", api.EventEndLease, noon, eleven),
		key("0", api.EventBeforeStartLease, noon, noon+1),
		key("8", api.EventStartLease, noon, noon),
		key("0", api.EventBeforeEndLease, noon, noon), // of a lease that starts now: after its start
	}
	rapid.Check(t, func(rt *rapid.T) {
		got := rapid.Permutation(want).Draw(rt, "order")
		slices.SortFunc(got, lease.Key.Compare)
		assert.Equal(rt, want, got)
	})
}

// TestEventsOfOneLeaseKeepTheirOrder: for all windows, start comes before before_end and
// that before end.
func TestEventsOfOneLeaseKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := api.Window{Start: api.Instant(rapid.Int64Range(1, 1_000).Draw(rt, "start"))}
		w.End = w.Start + api.Instant(rapid.Int64Range(1, 1_000).Draw(rt, "length"))
		before, err := lease.BeforeEndAt(w, nil, time.Duration(rapid.Int64Range(1, 2_000).Draw(rt, "distance"))*time.Millisecond)
		require.NoError(rt, err)
		events := lease.Events(&api.LeaseTerms{Window: w, BeforeEnd: before}, time.Millisecond, 1, ids)
		assert.True(rt, slices.IsSortedFunc(events, func(a, b api.LeaseEvent) int {
			return lease.KeyOf("", w.Start, &a).Compare(lease.KeyOf("", w.Start, &b))
		}))
		types := []api.LeaseEventType{}
		for _, e := range events {
			types = append(types, e.Type)
		}
		assert.Equal(rt, []api.LeaseEventType{
			api.EventBeforeStartLease, api.EventStartLease, api.EventBeforeEndLease, api.EventEndLease,
		}, types)
	})
}
