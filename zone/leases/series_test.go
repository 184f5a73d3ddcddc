package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/leases"
	"berth/zone/zonetest"
)

var thrice = api.Repeat{Rule: "FREQ=DAILY;COUNT=3", TimeZone: "UTC"}

// TestASeriesHasWhatItWasMadeOf: the record of a series, and its leases.
func TestASeriesHasWhatItWasMadeOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		terms := zonetest.LeaseOf("s", time.Hour, time.Hour, 1)
		terms.BeforeEnd = terms.Window.End.Add(-10 * time.Minute)
		id, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, thrice, "key")
		require.NoError(t, err)
		again, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, thrice, "key")
		require.NoError(t, err)
		assert.Equal(t, id, again, "a repeat")
		s, ok := root.View().OneSeries(id)
		require.True(t, ok)
		got := *s
		assert.Len(t, got.Digest, 32)
		assert.NotZero(t, got.Created)
		got.Digest, got.Created, got.ModIndex = nil, 0, 0
		assert.Equal(t, state.Series{
			ID: id, Name: "s", Project: zonetest.Caller.Project, User: zonetest.Caller.User, Repeat: thrice, Status: api.SeriesReady, Key: "key",
		}, got)
		for n, l := range root.View().SeriesLeases(id) {
			by := time.Duration(n) * 24 * time.Hour
			assert.Equal(t, api.Window{Start: terms.Window.Start.Add(by), End: terms.Window.End.Add(by)}, l.Terms.Window)
			assert.Equal(t, terms.BeforeEnd.Add(by), l.Terms.BeforeEnd)
			assert.Equal(t, id, l.Terms.Series)
			assert.Equal(t, "s", l.Terms.Name)
		}
		assert.Len(t, root.View().SeriesLeases(id), 3)
	})
}

// TestARefusedSeriesSaysWhichLease does not fit, whose window that is, and why.
func TestARefusedSeriesSaysWhichLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		terms := zonetest.LeaseOf("s", time.Hour, time.Hour, 1)
		second := terms
		second.Window.Start, second.Window.End = terms.Window.Start.Add(24*time.Hour), terms.Window.End.Add(24*time.Hour)
		second.Reservations = []api.Reservation{terms.Reservations[0]}
		second.Reservations[0].Min, second.Reservations[0].Max = 4, 4
		_, err := root.Lease(second)
		require.NoError(t, err)
		_, err = root.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, thrice, "key")
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "%v", err)
		const form = "2006-01-02 15:04"
		window := second.Window.Start.Time().UTC().Format(form) + " to " + second.Window.End.Time().UTC().Format(form) + " UTC"
		require.ErrorContains(t, err, "the lease of "+window+", 2 of 3: Not enough hosts available: reservation 1 could have 0 of 1 slots")
		w.Settle()
		assert.Len(t, root.View().Leases(""), 1)
	})
}

// TestASeriesThatIsGone: one that another call made is not explained, and neither is one that was deleted.
func TestASeriesThatIsGone(t *testing.T) {
	require.ErrorContains(t, leases.RefusalOfSeries(state.New(), nil), "another key")
	c := &command.SeriesCreate{Leases: []command.LeaseCreate{{}, {Order: &command.BootTerms{}}}}
	require.ErrorContains(t, leases.RefusalOfSeries(state.New(), c), "deleted meanwhile")
}
