package foreign

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
	"berth/zone/zonetest"
)

// TestALeaseOverAClockThatJumps, report 9: what was granted while the clock of the leader was ahead had a time left
// below zero once it was set right, and never ended.
func TestALeaseOverAClockThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4)
		terms := zonetest.LeaseOf("l", 70*time.Minute, time.Hour, 2)
		id, err := m.Lease(terms)
		require.NoError(t, err)
		m.SetSkew(time.Hour)
		m.Elect()
		o := zonetest.Order("b", 1, 1) // by the wrong clock, half an hour
		o.Request.Window.End = api.InstantOf(time.Now().Add(90 * time.Minute))
		require.Equal(t, api.BootActive, m.Run(o).State())
		m.SetSkew(0)
		m.Elect()
		await.Sleep(time.Until(o.Request.Window.End.Time()) - time.Minute)
		assert.Len(t, m.Instances("b"), 1)
		m.Until("what was booted has ended", func(*state.State) bool { return len(m.Instances("b")) == 0 })
		near(t, o.Request.Window.End.Time(), "the end of the boot")
		await.Sleep(time.Until(terms.Window.End.Time()) - time.Minute)
		m.UntilLease(id, api.LeaseTerminated)
		near(t, terms.Window.End.Time(), "the end of the lease")
		w.Settle()
	})
}

// TestElectionsGiveNoTime, report 10: each election gave everything its whole time to live again, so that with elections
// often enough nothing ever ended.
func TestElectionsGiveNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4)
		terms := zonetest.LeaseOf("l", 5*time.Minute, 20*time.Minute, 2)
		id, err := m.Lease(terms)
		require.NoError(t, err)
		o := zonetest.Order("b", 1, 1)
		o.Request.Window.End = api.InstantOf(time.Now().Add(10 * time.Minute))
		require.Equal(t, api.BootActive, m.Run(o).State())
		for end := terms.Window.End.Time().Add(10 * time.Second); time.Now().Before(end); await.Sleep(7 * time.Second) {
			m.Elect()
			left := len(m.Instances("b"))
			if late := time.Since(o.Request.Window.End.Time()); late > 10*time.Second {
				require.Zero(t, left)
			} else if late < 0 {
				require.Equal(t, 1, left)
			}
		}
		l, there := m.View().Lease(id)
		require.True(t, there)
		assert.Equal(t, api.LeaseTerminated, l.Status)
		w.Settle()
	})
}

// TestALateTickEndsNothing, report 11: a leader that had been deposed without knowing it ended what its owner had
// meanwhile prolonged at the next one.
func TestALateTickEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("root", nil, 4)
		terms := zonetest.LeaseOf("l", 2*time.Minute, 10*time.Minute, 2)
		id, err := m.Lease(terms)
		require.NoError(t, err)
		m.UntilLease(id, api.LeaseActive)
		in := zonetest.Order("in", 2, 2)
		l, _ := m.View().Lease(id)
		in.Request.Within = l.Terms.Reservations[0].ID
		require.Equal(t, api.BootActive, m.Run(in).State())
		await.Sleep(time.Until(terms.Window.End.Time()) - 5*time.Second)
		old, late := m.Lead(), command.Tick{Stamp: command.Stamp{At: terms.Window.End + 1}}
		m.Elect()
		end := terms.Window.End.Add(time.Hour)
		require.NoError(t, m.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{End: &end}))
		_, err = old.Propose(w.Ctx, late)
		require.Equal(t, api.CodeUnavailable, api.CodeOf(err), "it leads no more")
		m.Do(late) // and if its entry is in the log, it comes behind the change
		await.Sleep(30 * time.Minute)
		l, _ = m.View().Lease(id)
		assert.Equal(t, api.LeaseActive, l.Status)
		assert.Len(t, m.Instances("in"), 2, "what runs in it runs on")
		await.Sleep(time.Until(end.Time()) - time.Minute)
		m.UntilLease(id, api.LeaseTerminated)
		near(t, end.Time(), "the end of the lease")
		w.Settle()
	})
}

// TestANightWithoutHalfPastTwo, report 12: work of every night at half past two stood still, or began thousands of
// times, in the nights in which clocks are changed.
func TestANightWithoutHalfPastTwo(t *testing.T) {
	for name, c := range map[string]struct {
		day    string
		long   time.Duration
		nights []int    // in which there is one
		starts []string // when, by the clock there
		begun  int      // of them, in two nights
	}{
		"an hour is left out":            {"2000-03-25T00:00:00Z", 2 * time.Hour, []int{0, 1, 2}, []string{"02:30", "03:00", "02:30"}, 2},
		"an hour with all of it is left": {"2000-03-25T00:00:00Z", 20 * time.Minute, []int{0, 2, 3}, []string{"02:30", "02:30", "02:30"}, 1},
		"an hour comes twice":            {"2000-10-28T00:00:00Z", 20 * time.Minute, []int{0, 1, 2}, []string{"02:30", "02:30", "02:30"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, err := time.Parse(time.RFC3339, c.day)
				require.NoError(t, err)
				await.Sleep(time.Until(began))
				berlin, err := time.LoadLocation("Europe/Berlin")
				require.NoError(t, err)
				w := zonetest.NewWorld(t)
				m := w.Zone("root", nil, 4)
				terms := zonetest.LeaseOf("nightly", time.Hour, time.Hour, 1)
				first := time.Date(began.Year(), began.Month(), began.Day(), 2, 30, 0, 0, berlin)
				terms.Window = api.Window{Start: api.InstantOf(first), End: api.InstantOf(first.Add(c.long))}
				id, err := m.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, api.Repeat{Rule: "FREQ=DAILY;COUNT=3", TimeZone: "Europe/Berlin"}, "")
				require.NoError(t, err)
				var days []int
				var starts []string
				for _, l := range m.View().SeriesLeases(id) {
					start := l.Terms.Window.Start.Time().In(berlin)
					days, starts = append(days, start.Day()-began.Day()), append(starts, start.Format("15:04"))
				}
				require.Equal(t, c.nights, days, "one for each night that has some of this time")
				require.Equal(t, c.starts, starts)
				m.Depose() // the time of the zone is moved by hand
				begun := map[api.LeaseID]bool{}
				for at := began; at.Before(began.Add(28 * time.Hour)); at = at.Add(5 * time.Minute) {
					m.Do(command.Tick{Stamp: command.Stamp{At: api.InstantOf(at)}})
					active := 0
					for _, l := range m.View().SeriesLeases(id) {
						if l.Status == api.LeaseActive {
							begun[l.Terms.ID] = true
							active++
						}
					}
					require.LessOrEqual(t, active, 1)
				}
				assert.Len(t, begun, c.begun)
			})
		})
	}
}
