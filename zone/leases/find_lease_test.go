package leases_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/quota"
	"berth/raftstore/command"
	"berth/zone/leases"
	"berth/zone/zonetest"
)

// findStarts looks for the starts of a lease, from its own start and for some time.
func findStarts(m *zonetest.Member, t api.LeaseTerms, over time.Duration) *leases.Found {
	m.World.T.Helper()
	ctx, cancel := m.Within(2 * time.Minute)
	defer cancel()
	var f *leases.Found
	m.World.Unchanged(func() {
		var err error
		f, err = m.Lead().Find(ctx, zonetest.Caller, leases.Search{Terms: t, Until: t.Window.Start.Add(over)})
		require.NoError(m.World.T, err)
	})
	return f
}

// moved returns terms that start some time later.
func moved(t api.LeaseTerms, by time.Duration) api.LeaseTerms {
	t.Window = api.Window{Start: t.Window.Start.Add(by), End: t.Window.End.Add(by)}
	return t
}

func inOne(windows []api.Window, at api.Instant) bool {
	for _, w := range windows {
		if w.Contains(at) {
			return true
		}
	}
	return false
}

// TestFoundStartsAreThoseThatFit fills trees of zones with leases, and compares the starts that are
// found with a dry run of every minute; then it makes the lease at the first of them, and not
// a minute before.
func TestFoundStartsAreThoseThatFit(t *testing.T) {
	const over = 150 * time.Minute
	var found, none, gaps, earlier int
	seeds := dice.Seeds(t, 30)
	for n, seed := range seeds {
		if n >= zonetest.Few(6, 1) && (testing.Short() || gaps > 0) {
			break // it goes on until there was a gap
		}
		levels := (seeds[0] + uint64(n)) % 3 // below the root
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 2))
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2, 4)
				if levels > 0 {
					child := w.Zone("child", root, 3, 2)
					if levels > 1 {
						w.Zone("leaf", child, 4)
					}
				}
				w.Settle()
				for range 12 {
					_, _ = root.Lease(zonetest.DrawLease(rnd)) // some find no room
				}
				for range 5 {
					await.Sleep(5007 * time.Millisecond)
					synctest.Wait()
					terms := zonetest.DrawLease(rnd)
					f := findStarts(root, terms, over)
					require.True(t, f.Complete)
					require.Equal(t, levels > 0, f.Estimate)
					for by := range minutesToTry(terms.Window.Start, over, f.Windows) {
						at := moved(terms, by)
						fits := planLease(root, at).Fits
						require.Equal(t, fits, inOne(f.Windows, at.Window.Start), "%+v after %s, found %+v", terms, by, f.Windows)
						if fits && f.Earliest > 0 {
							require.LessOrEqual(t, f.Earliest, at.Window.Start)
						}
					}
					if gaps += max(len(f.Windows)-1, 0); f.Earliest == 0 {
						none++
						checkInstead(root, terms, f)
						continue
					}
					found++
					at := moved(terms, f.Earliest.Time().Sub(terms.Window.Start.Time()))
					if at.Window.Start > terms.Window.Start {
						earlier++
						_, err := root.Lease(moved(at, -time.Minute))
						require.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
					}
					_, err := root.Lease(at)
					require.NoError(t, err)
				}
			})
		})
	}
	t.Logf("%d found, %d not, %d gaps, %d later", found, none, gaps, earlier)
	if testing.Short() {
		return
	}
	assert.Greater(t, found, 8)
	assert.Greater(t, none, 2)
	assert.Positive(t, gaps)
	assert.Greater(t, earlier, 4)
}

// minutesToTry returns the times after start that are compared: every fifth minute, and the minutes on
// both sides of the ends of windows.
func minutesToTry(start api.Instant, over time.Duration, windows []api.Window) map[time.Duration]bool {
	out := map[time.Duration]bool{}
	for by := time.Duration(0); by < over; by += 5 * time.Minute {
		out[by] = true
	}
	for _, w := range windows {
		for _, at := range []api.Instant{w.Start - 60_000, w.Start, w.End - 60_000, w.End} {
			if by := at.Time().Sub(start.Time()); by >= 0 && by < over {
				out[by] = true
			}
		}
	}
	return out
}

// checkInstead checks that what would fit instead of a lease really would.
func checkInstead(m *zonetest.Member, t api.LeaseTerms, f *leases.Found) {
	m.World.T.Helper()
	for _, i := range f.Instead {
		its := t
		its.Window = i.Window
		if i.Change == leases.InsteadFewer {
			its.Reservations = nil
			for n, r := range t.Reservations {
				if r.Min, r.Max = i.Amounts[n], i.Amounts[n]; r.Max > 0 {
					its.Reservations = append(its.Reservations, r)
				}
			}
		}
		assert.True(m.World.T, planLease(m, its).Fits, "%s: %+v", i.Change, i)
	}
}

// TestFindInstead asks for more than ever fits, for longer than any gap, and for a start that comes
// too late.
func TestFindInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		w.Zone("child", root, 2)
		_, err := root.Lease(zonetest.LeaseOf("all", 2*time.Hour, 4*time.Hour, 4))
		require.NoError(t, err)
		waitForRest(w)
		at := func(d time.Duration) api.Instant { return api.InstantOf(time.Now().Truncate(time.Minute).Add(d)) }

		f := findStarts(root, zonetest.LeaseOf("fits", time.Hour, time.Hour, 4), 3*time.Hour)
		assert.Equal(t, []api.Window{{Start: at(time.Hour), End: at(time.Hour + time.Minute)}}, f.Windows[:1])
		f = findStarts(root, zonetest.LeaseOf("too many", time.Hour, time.Hour, 5), 10*time.Hour)
		assert.Empty(t, f.Windows)
		assert.Equal(t, []leases.Instead{{Change: leases.InsteadFewer, Window: api.Window{Start: at(time.Hour), End: at(2 * time.Hour)}, Amounts: []int{4}}}, f.Instead)
		f = findStarts(root, zonetest.LeaseOf("too long", time.Hour, 2*time.Hour, 3), time.Hour)
		require.Len(t, f.Instead, 2)
		assert.Equal(t, leases.InsteadShorter, f.Instead[0].Change)
		assert.InDelta(t, int64(time.Hour/time.Millisecond), int64(f.Instead[0].Window.End-f.Instead[0].Window.Start), float64(3*time.Minute/time.Millisecond))
		assert.Equal(t, leases.Instead{Change: leases.InsteadLater, Window: api.Window{Start: at(6 * time.Hour), End: at(8 * time.Hour)}}, f.Instead[1])

		_, err = root.Lead().Find(w.Ctx, zonetest.Caller, leases.Search{Terms: zonetest.LeaseOf("no time", time.Hour, time.Hour, 1), Until: at(time.Hour)})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		_, err = root.Lead().Find(w.Ctx, zonetest.Caller, leases.Search{Terms: zonetest.LeaseOf("far", time.Hour, time.Hour, 1), Until: at(api.LeaseLeadMax + time.Minute)})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
		none := zonetest.LeaseOf("nothing", time.Hour, time.Hour, 1)
		none.Reservations = nil
		_, err = root.Lead().Find(w.Ctx, zonetest.Caller, leases.Search{Terms: none, Until: at(2 * time.Hour)})
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	})
}

// waitForRest lets the children hear of decisions.
func waitForRest(w *zonetest.World) {
	await.Sleep(7 * time.Second)
	synctest.Wait()
}

// TestChildrenThatLieAboutRoom: a child that promises more than it has makes no start fit, one
// whose answer is unusable or late costs its own slots, and no answer hides that.
func TestChildrenThatLieAboutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		w.Zone("child", root, 2)
		waitForRest(w)
		four, two := zonetest.LeaseOf("four", time.Hour, time.Hour, 4), zonetest.LeaseOf("two", time.Hour, time.Hour, 2)
		assert.Equal(t, four.Window.Start, findStarts(root, four, time.Hour).Earliest)
		for name, lie := range map[string]func(*api.RoomAnswer){
			"too many":   func(a *api.RoomAnswer) { a.Steps[0].Together = []int{1 << 40} },
			"negative":   func(a *api.RoomAnswer) { a.Steps[0].Together = []int{-1} },
			"groups":     func(a *api.RoomAnswer) { a.Steps[0].Together = []int{1, 1} },
			"bound":      func(a *api.RoomAnswer) { a.Steps[0].Alone = []int{7} },
			"order":      func(a *api.RoomAnswer) { a.Steps = append(a.Steps, a.Steps[0]) },
			"past":       func(a *api.RoomAnswer) { a.Steps[0].At = 1 },
			"beyond":     func(a *api.RoomAnswer) { a.Steps[0].At = api.Forever },
			"until past": func(a *api.RoomAnswer) { a.Until = 1 },
			"until":      func(a *api.RoomAnswer) { a.Until = api.Forever },
		} {
			w.TellOfRoom("link-child", lie)
			f := findStarts(root, four, time.Hour)
			assert.Empty(t, f.Windows, name)
			assert.False(t, f.Complete, name)
			assert.Equal(t, api.OutcomeFailed, f.Zones[1].Outcome, name)
			f = findStarts(root, two, time.Hour)
			assert.Equal(t, two.Window.Start, f.Earliest, name)
		}
		six := zonetest.LeaseOf("six", time.Hour, time.Hour, 6)
		w.TellOfRoom("link-child", func(a *api.RoomAnswer) { a.Steps[0].Together = []int{6} })
		f := findStarts(root, six, time.Hour)
		assert.Zero(t, f.Earliest)
		assert.Empty(t, f.Windows)
		w.TellOfRoom("link-child", func(a *api.RoomAnswer) { a.Silent = true })
		assert.False(t, findStarts(root, four, time.Hour).Complete)
		w.TellOfRoom("link-none", nil)

		w.When(func(c zonetest.Call) zonetest.Fault {
			if c.Op == "room" {
				return zonetest.Vanished
			}
			return ""
		})
		began := time.Now()
		f = findStarts(root, two, time.Hour)
		assert.Equal(t, two.Window.Start, f.Earliest)
		assert.Equal(t, api.OutcomeLate, f.Zones[1].Outcome)
		assert.False(t, f.Complete)
		assert.LessOrEqual(t, time.Since(began), 2*api.SelectTimeout)

		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { findStarts(root, two, time.Hour) })
		}
		synctest.Wait()
		_, err := root.Lead().Find(w.Ctx, zonetest.Caller, leases.Search{Terms: two, Until: two.Window.End})
		assert.Equal(t, api.CodeOverloaded, api.CodeOf(err))
		wg.Wait()
	})
}

// TestFindAsksOnlyAllowedZones: the answer for this zone alone is exact, whatever becomes of the children
// that the lease may not lie in.
func TestFindAsksOnlyAllowedZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		w.Zone("west", root, 2)
		w.Zone("east", root, 2)
		waitForRest(w)
		in := func(hosts int, zones ...string) *leases.Found {
			t.Helper()
			terms := zonetest.LeaseOf("some", time.Hour, time.Hour, hosts)
			terms.Zones.Allowed = zones
			return findStarts(root, terms, time.Hour)
		}
		f := in(2, "root", "west")
		assert.True(t, f.Estimate)
		assert.Equal(t, []string{api.OutcomeAnswered, api.OutcomeSkipped, api.OutcomeAnswered}, []string{f.Zones[0].Outcome, f.Zones[1].Outcome, f.Zones[2].Outcome})
		assert.Equal(t, "the request excludes it", f.Zones[1].Reason)

		w.When(func(c zonetest.Call) zonetest.Fault {
			if c.Op == "room" {
				return zonetest.Vanished
			}
			return ""
		})
		assert.False(t, in(2, "root", "west").Complete)
		f = in(2, "root")
		assert.NotZero(t, f.Earliest)
		assert.False(t, f.Estimate)
		assert.True(t, f.Complete)
		f = in(3, "root")
		assert.Zero(t, f.Earliest)
		assert.False(t, f.Estimate)
		assert.True(t, f.Complete)
	})
}

// TestSearchIsBounded looks at as many starts as one question may have, and at one more.
func TestSearchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		for i := range 202 { // every other minute is free
			_, err := root.Lease(zonetest.LeaseOf("busy", time.Hour+time.Duration(2*i)*time.Minute, time.Minute, 1))
			require.NoError(t, err)
		}
		waitForRest(w)
		three := zonetest.LeaseOf("three", time.Hour, 3*time.Minute, 1)
		f := findStarts(root, three, 400*time.Minute)
		assert.True(t, f.Complete)
		assert.Empty(t, f.Windows)
		f = findStarts(root, three, 401*time.Minute)
		assert.False(t, f.Complete)
		assert.Equal(t, three.Window.Start.Add(400*time.Minute), f.Until)
		assert.Equal(t, f.Until, f.Zones[0].Until)

		one := zonetest.LeaseOf("one", time.Hour, time.Minute, 1)
		f = findStarts(root, one, 100*time.Minute)
		assert.True(t, f.Complete)
		assert.Len(t, f.Windows, 50)
		assert.Equal(t, one.Window.Start.Add(100*time.Minute), f.Until)
		f = findStarts(root, one, 103*time.Minute)
		assert.Len(t, f.Windows, 50)
		assert.True(t, f.Complete)
		assert.Less(t, f.Until, one.Window.Start.Add(103*time.Minute))
	})
}

// TestFindMindsQuotas: a dry run is refused as the lease would be, and the earliest start is one that
// quotas allow.
func TestFindMindsQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 4)
		id, err := root.Lease(zonetest.LeaseOf("two", time.Hour, time.Hour, 2))
		require.NoError(t, err)
		waitForRest(w)
		root.Propose(func(at command.Stamp) command.Command {
			return command.QuotaSet{Stamp: at, Project: "p", Set: quota.Limits{quota.Reserved: 3}}
		})
		two := zonetest.LeaseOf("two more", time.Hour, 30*time.Minute, 2)
		_, err = root.Lead().Plan(w.Ctx, zonetest.Caller, two)
		assert.Equal(t, api.CodeOverQuota, api.CodeOf(err))
		f := findStarts(root, two, 2*time.Hour)
		assert.Equal(t, two.Window.Start.Add(time.Hour), f.Earliest)
		require.NoError(t, f.Refusal)
		f = findStarts(root, two, time.Hour)
		assert.Zero(t, f.Earliest)
		assert.Equal(t, api.CodeOverQuota, api.CodeOf(f.Refusal))
		assert.NotEmpty(t, f.Windows)
		f = findStarts(root, zonetest.LeaseOf("never", time.Hour, time.Hour, 4), 9*time.Hour)
		assert.Zero(t, f.Earliest)
		assert.Equal(t, api.CodeOverQuota, api.CodeOf(f.Refusal))

		l, _ := root.View().Lease(id)
		four := 4
		w.Unchanged(func() {
			_, err = root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{Reservations: []api.ReservationChange{{ID: l.Terms.Reservations[0].ID, Min: &four, Max: &four}}})
			assert.Equal(t, api.CodeOverQuota, api.CodeOf(err))
		})
	})
}

// TestPlannedStartsAreBounded: of the starts at which only a plan can say whether a lease fits, as many
// are planned as one search may plan, and no more.
func TestPlannedStartsAreBounded(t *testing.T) {
	const most = 64
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 1)
		w.Zone("child", root, 2)
		waitForRest(w)
		// Two groups of two, each of which fits alone; at every other minute there is one slot less.
		for i := range most/2 + 2 {
			_, err := root.Lease(zonetest.LeaseOf("busy", time.Hour+time.Duration(2*i)*time.Minute, time.Minute, 1))
			require.NoError(t, err)
		}
		waitForRest(w)
		both := zonetest.LeaseOf("both", time.Hour, time.Minute, 2)
		both.Reservations = append(both.Reservations, both.Reservations[0])
		f := findStarts(root, both, most*time.Minute)
		assert.Empty(t, f.Windows)
		assert.True(t, f.Complete)
		f = findStarts(root, both, (most+1)*time.Minute)
		assert.Empty(t, f.Windows)
		assert.False(t, f.Complete)
		assert.Equal(t, both.Window.Start.Add(most*time.Minute), f.Until)
	})
}

// TestEarliestStartsThatAreTried: as many windows may turn out to be wrong when the lease is planned at
// their start as one search may try, but for one; with one more it gives up, and says so.
func TestEarliestStartsThatAreTried(t *testing.T) {
	const most = 4
	for _, wrong := range []int{most - 1, most} {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil, 2)
			w.Zone("child", root, 2)
			waitForRest(w)
			_, err := root.Lease(zonetest.LeaseOf("all", time.Hour, 2*time.Hour, 4))
			require.NoError(t, err)
			waitForRest(w)
			terms := zonetest.LeaseOf("two", time.Hour, 10*time.Minute, 2)
			free := terms.Window.Start.Add(2 * time.Hour)
			w.TellOfRoom("link-child", func(a *api.RoomAnswer) {
				a.Steps = nil
				for i := range wrong { // there is none
					at := terms.Window.Start.Add(time.Duration(20*i) * time.Minute)
					a.Steps = append(a.Steps, api.RoomStep{At: at, Together: []int{2}}, api.RoomStep{At: at.Add(10 * time.Minute), Together: []int{0}})
				}
				a.Steps = append(a.Steps, api.RoomStep{At: free, Together: []int{2}})
			})
			f := findStarts(root, terms, 3*time.Hour)
			if wrong < most {
				assert.Equal(t, free, f.Earliest)
				assert.True(t, f.Complete)
				assert.Len(t, f.Windows, 1)
				return
			}
			assert.Zero(t, f.Earliest)
			assert.False(t, f.Complete)
			assert.Empty(t, f.Windows)
		})
	}
}

// TestShorterLengthsThatAreTried: six lengths find the longest that fits to the minute among 64, and
// among more of them one that is nearly as long.
func TestShorterLengthsThatAreTried(t *testing.T) {
	for asked, best := range map[time.Duration]time.Duration{64 * time.Minute: 37 * time.Minute, 128 * time.Minute: 36 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			root := w.Zone("root", nil, 2)
			_, err := root.Lease(zonetest.LeaseOf("all", time.Hour+37*time.Minute, 20*time.Hour, 2))
			require.NoError(t, err)
			waitForRest(w)
			terms := zonetest.LeaseOf("long", time.Hour, asked, 2)
			f := findStarts(root, terms, time.Minute)
			require.NotEmpty(t, f.Instead)
			want := api.Window{Start: terms.Window.Start, End: terms.Window.Start.Add(best)}
			assert.Equal(t, leases.Instead{Change: leases.InsteadShorter, Window: want}, f.Instead[0], asked)
		})
	}
}

// TestDryRunsNeedTheFormOfLeases: while a node of the zone does not read leases, a dry run is refused
// as the lease itself, and says what to do.
func TestDryRunsNeedTheFormOfLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		terms := zonetest.LeaseOf("a", time.Hour, time.Hour, 1)
		id, err := root.Lease(terms)
		require.NoError(t, err)
		root.Log.SetForm(api.FormFourth - 1)
		later := terms.Window.End.Add(time.Hour)
		change, rule := api.LeaseChange{End: &later}, api.Repeat{Rule: "FREQ=DAILY;COUNT=2", TimeZone: "UTC"}
		for name, try := range map[string]func() error{
			"create": func() error { _, err := root.Lead().Create(w.Ctx, zonetest.Caller, terms, ""); return err },
			"plan":   func() error { _, err := root.Lead().Plan(w.Ctx, zonetest.Caller, terms); return err },
			"find": func() error {
				_, err := root.Lead().Find(w.Ctx, zonetest.Caller, leases.Search{Terms: terms, Until: later})
				return err
			},
			"series":      func() error { _, err := root.Lead().CreateSeries(w.Ctx, zonetest.Caller, terms, rule, ""); return err },
			"update":      func() error { return root.Lead().Update(w.Ctx, zonetest.Caller, id, change) },
			"plan update": func() error { _, err := root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, change); return err },
		} {
			w.Unchanged(func() {
				err := try()
				assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), name)
				assert.ErrorContains(t, err, "this needs form 4, and the zone writes form 3", name)
			})
		}
		root.Log.SetForm(0)
		require.NoError(t, root.Lead().Update(w.Ctx, zonetest.Caller, id, change))
	})
}
