package leases_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/leases"
	"berth/zone/zonetest"
)

// daily is a rule with so many times.
func daily(n string) api.Repeat { return api.Repeat{Rule: "freq=daily;count=" + n, TimeZone: "UTC"} }

// series makes a series of leases.
func series(m *zonetest.Member, who api.Caller, t api.LeaseTerms, r api.Repeat, key string) (api.SeriesID, error) {
	ctx, cancel := m.Within(2 * time.Minute)
	defer cancel()
	return m.Lead().CreateSeries(ctx, who, t, r, key)
}

// TestASeriesOfLeases: all its leases are made, each as far before its end as the first is told of its own; a repeat of
// the call is the same series, and its project or an operator ends all of them.
func TestASeriesOfLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		terms := zonetest.LeaseOf("s", time.Hour, 2*time.Hour, 2)
		terms.BeforeEnd = terms.Window.End.Add(-30 * time.Minute)
		id, err := series(root, zonetest.Caller, terms, daily("3"), "key")
		require.NoError(t, err)
		s, _ := root.View().OneSeries(id)
		assert.Equal(t, state.Series{
			ID: id, Name: "s", Project: "p", User: "u", Repeat: api.Repeat{Rule: "FREQ=DAILY;COUNT=3", TimeZone: "UTC"}, Status: api.SeriesReady,
			Key: "key", Digest: s.Digest, Created: s.Created, ModIndex: s.ModIndex,
		}, *s)
		assert.Len(t, s.Digest, 32)
		all := root.View().SeriesLeases(id)
		require.Len(t, all, 3)
		for _, l := range all {
			day := l.Terms.Window.Start - terms.Window.Start
			assert.Equal(t, api.Window{Start: terms.Window.Start + day, End: terms.Window.End + day}, l.Terms.Window)
			assert.Equal(t, terms.BeforeEnd+day, l.Terms.BeforeEnd)
			assert.Equal(t, []any{"s", api.ProjectID("p"), api.UserID("u"), id}, []any{l.Terms.Name, l.Terms.Project, l.Terms.User, l.Terms.Series})
			assert.Len(t, root.View().LeaseSlots(l), 2)
		}

		again, err := series(root, zonetest.Caller, terms, daily("3"), "key")
		require.NoError(t, err)
		assert.Equal(t, id, again)
		for name, differ := range map[string]func(*api.LeaseTerms, *api.Repeat){
			"terms": func(o *api.LeaseTerms, _ *api.Repeat) { o.Name = "other" },
			"rule":  func(_ *api.LeaseTerms, r *api.Repeat) { *r = daily("2") },
		} {
			other, rule := terms, daily("3")
			differ(&other, &rule)
			other.Reservations = nil // there is room
			_, err = series(root, zonetest.Caller, other, rule, "key")
			assert.Equal(t, api.CodeConflict, api.CodeOf(err), name)
			assert.ErrorContains(t, err, "the idempotency key was used", name)
		}
		_, err = series(root, zonetest.Caller, terms, daily("3"), "")
		assert.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "without a key it is another one: %v", err)

		foreign := api.Caller{User: "u", Project: "q", Role: api.RoleMember}
		w.Unchanged(func() {
			assert.Equal(t, api.CodeNotFound, api.CodeOf(root.Lead().DeleteSeries(w.Ctx, foreign, id)))
			assert.Equal(t, api.CodeNotFound, api.CodeOf(root.Lead().DeleteSeries(w.Ctx, zonetest.Caller, "none")))
		})
		operator := api.Caller{User: "o", Project: "ops", Role: api.RoleAdmin}
		require.NoError(t, root.Lead().DeleteSeries(w.Ctx, operator, id))
		_, there := root.View().OneSeries(id)
		assert.False(t, there, "the call waits for its end")
		assert.Empty(t, root.View().Leases(""))
		second, err := series(root, zonetest.Caller, terms, daily("2"), "")
		require.NoError(t, err, "the room is free")
		require.NoError(t, root.Lead().DeleteSeries(w.Ctx, zonetest.Caller, second))
	})
}

// TestTheEventBeforeTheEndStaysInItsLease: where a lease of a series is shorter, because clocks are changed, the time before its
// end is not before its start.
func TestTheEventBeforeTheEndStaysInItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t) // it begins with the year 2000
		root := w.Zone("root", nil, 2)
		first := api.InstantOf(time.Date(2000, 3, 25, 1, 30, 0, 0, time.UTC)) // 02:30 in Berlin
		root.Configure(func(c *api.ZoneConfig) { c.Leases.Lead = 100 * 24 * time.Hour })
		terms := zonetest.LeaseOf("s", 0, time.Hour, 1)
		terms.Window, terms.BeforeEnd = api.Window{Start: first, End: first.Add(2 * time.Hour)}, first.Add(10*time.Minute)
		id, err := series(root, zonetest.Caller, terms, api.Repeat{Rule: "FREQ=DAILY;COUNT=2", TimeZone: "Europe/Berlin"}, "")
		require.NoError(t, err)
		all := root.View().SeriesLeases(id)
		require.Len(t, all, 2)
		short := all[1].Terms
		require.Less(t, short.Window.End-short.Window.Start, terms.Window.End-terms.Window.Start)
		assert.Equal(t, short.Window.Start, short.BeforeEnd)
	})
}

// TestARefusedSeriesLeavesNothing: whatever is wrong with one lease of a series, none is made, and the refusal names it.
func TestARefusedSeriesLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		_, err := root.Lease(zonetest.LeaseOf("in the way", 25*time.Hour, time.Hour, 2))
		require.NoError(t, err)
		good := func() api.LeaseTerms { return zonetest.LeaseOf("s", time.Hour, time.Hour, 1) }
		at := func(days int) string {
			start := good().Window.Start.Add(time.Duration(days) * 24 * time.Hour).Time().UTC()
			return start.Format("2006-01-02 15:04") + " to " + start.Add(time.Hour).Format("2006-01-02 15:04") + " UTC"
		}
		for name, c := range map[string]struct {
			terms func(*api.LeaseTerms)
			rule  api.Repeat
			key   string
			code  api.Code
			says  string
		}{
			"the second has no room": {nil, daily("3"), "", api.CodeNoCapacity, "the lease of " + at(1) + ", 2 of 3: Not enough hosts available: reservation 1 could have 0 of 1 slots"},
			"a key":                  {nil, daily("2"), "-", api.CodeInvalid, api.HeaderIdempotencyKey},
			"a rule":                 {nil, api.Repeat{Rule: "often", TimeZone: "UTC"}, "", api.CodeInvalid, "recurrence rule"},
			"no time zone":           {nil, api.Repeat{Rule: "FREQ=DAILY;COUNT=2"}, "", api.CodeInvalid, "needs the name of a time zone"},
			"the node's time zone":   {nil, api.Repeat{Rule: "FREQ=DAILY;COUNT=2", TimeZone: time.Local.String()}, "", api.CodeInvalid, "time zone"},
			"another time zone":      {nil, api.Repeat{Rule: "FREQ=DAILY;COUNT=2", TimeZone: "Europe/Atlantis"}, "", api.CodeInvalid, `no time zone "Europe/Atlantis"`},
			"times that overlap":     {func(l *api.LeaseTerms) { l.Window.End = l.Window.Start.Add(25 * time.Hour) }, daily("2"), "", api.CodeInvalid, "before the one before it ends"},
			"maintenance of a member": {
				func(l *api.LeaseTerms) {
					l.Hosts, l.Reservations = []string{"root-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
				}, daily("2"), "", api.CodeForbidden, "the lease of " + at(0) + ": only an operator",
			},
			"too many slots": {
				func(l *api.LeaseTerms) {
					l.Reservations[0].Min, l.Reservations[0].Max = api.SeriesSlotsMax/2+1, api.SeriesSlotsMax/2+1
				}, daily("2"), "", api.CodeInvalid, "at most",
			},
			"too many slots of two": {
				func(l *api.LeaseTerms) {
					l.Reservations = append(l.Reservations, l.Reservations[0])
					l.Reservations[0].Max = api.SeriesSlotsMax / 2
				}, daily("2"), "", api.CodeInvalid, "got 2 times 5001",
			},
			"as many slots as there may be": {
				func(l *api.LeaseTerms) {
					l.Reservations[0].Min, l.Reservations[0].Max = api.SeriesSlotsMax/2, api.SeriesSlotsMax/2
				}, daily("2"), "", api.CodeNoCapacity, " of 2: Not enough hosts available: reservation 1 could have ",
			},
		} {
			terms := good()
			if c.terms != nil {
				c.terms(&terms)
			}
			_, err := series(root, zonetest.Caller, terms, c.rule, c.key)
			assert.Equal(t, c.code, api.CodeOf(err), "%s: %v", name, err)
			assert.ErrorContains(t, err, c.says, name)
			await.Sleep(time.Second)
			assert.Len(t, root.View().Leases(""), 1, name)
		}
		root.Configure(func(c *api.ZoneConfig) { c.Leases.Lead = 20 * time.Hour })
		_, err = series(root, zonetest.Caller, good(), daily("2"), "")
		assert.ErrorContains(t, err, "COUNT=2: only 1 are before")
		root.Configure(func(c *api.ZoneConfig) { c.Leases.Lead = 0 })
		_, err = series(root, zonetest.Caller, good(), api.Repeat{Rule: "FREQ=YEARLY;COUNT=9", TimeZone: "UTC"}, "")
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%v", err)
	})
}

// TestMaintenanceRepeats: each lease of a series of maintenance finds its hosts vacated, and none is made if one of them cannot
// be had.
func TestMaintenanceRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		host := root.Host("root-host-1")
		tenant, err := root.Lease(zonetest.LeaseOf("tenant", 25*time.Hour, time.Hour, 1))
		require.NoError(t, err)
		on := func(id api.LeaseID) api.HostID {
			l, _ := root.View().Lease(id)
			return root.View().LeaseSlots(l)[0].Host
		}
		require.Equal(t, host, on(tenant))
		repair := zonetest.LeaseOf("repair", time.Hour, time.Hour, 1)
		repair.Hosts, repair.Reservations = []string{"root-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		operator := api.Caller{User: "o", Project: "ops", Role: api.RoleAdmin}
		w.Unchanged(func() {
			_, err = series(root, operator, repair, daily("2"), "")
			require.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "cannot leave its host")
		})
		root.Agent("spare", 2)
		_, err = series(root, operator, repair, daily("2"), "")
		require.NoError(t, err)
		assert.NotEqual(t, host, on(tenant))
		assert.Len(t, root.View().SlotsOn(host), 2)
	})
}

// TestASeriesIsDecidedElsewhere: a call whose series is still undecided after a minute says so; one whose series is deleted
// meanwhile, or that is the repeat of one that fails, does not say that it has it.
func TestASeriesIsDecidedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		w.Zone("kid", root, 2)
		terms := zonetest.LeaseOf("s", time.Hour, time.Hour, 4)
		hang := func(c zonetest.Call) zonetest.Fault {
			if c.Op == "hold" || c.Op == "holds" {
				return zonetest.Vanished
			}
			return ""
		}
		w.When(hang)
		root.Log.When(func(k command.Kind, _ int) zonetest.Mishap {
			if k == command.KindBootDecide {
				return zonetest.NotLeader
			}
			return ""
		})
		began := time.Now()
		_, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, daily("2"), "first")
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err), "%v", err)
		assert.ErrorContains(t, err, "not decided yet")
		assert.Equal(t, time.Minute, time.Since(began))
		id := root.View().Leases("")[0].Terms.Series

		codes := make(chan error, 2)
		for range 2 { // repeats
			w.Go(func() {
				_, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, daily("2"), "first")
				codes <- err
			})
		}
		synctest.Wait()
		ctx, cancel := root.Within(time.Second)
		defer cancel()
		require.NoError(t, root.Lead().DeleteSeries(ctx, zonetest.Caller, id))
		for range 2 {
			err := <-codes
			assert.Equal(t, api.CodeConflict, api.CodeOf(err))
			assert.ErrorContains(t, err, "ask again with another key")
		}
		w.Go(func() {
			_, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, zonetest.LeaseOf("t", 3*time.Hour, time.Hour, 4), daily("2"), "")
			codes <- err
		})
		synctest.Wait()
		for _, l := range root.View().Leases("") {
			if l.Terms.Name == "t" {
				id = l.Terms.Series
			}
		}
		require.NoError(t, root.Lead().DeleteSeries(ctx, zonetest.Caller, id))
		err = <-codes
		assert.Equal(t, api.CodeConflict, api.CodeOf(err))
		assert.ErrorContains(t, err, "was deleted meanwhile")
		w.Calm()
		root.Until("nothing is left of them", func(v *state.State) bool { return len(v.Leases("")) == 0 })
	})
}

// TestASeriesWithoutRoomIsDeleted: of one whose leases need no room nothing was refused.
func TestASeriesWithoutRoomIsDeleted(t *testing.T) {
	err := leases.RefusalOfSeries(state.New(), &command.SeriesCreate{Leases: make([]command.LeaseCreate, 2)})
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	assert.ErrorContains(t, err, "was deleted meanwhile")
}
