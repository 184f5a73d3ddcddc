package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/internal/dice"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/fleet"
	"berth/zone/zonetest"
)

// whatIf asks what a drain of hosts would do.
func whatIf(m *zonetest.Member, at api.Instant, hosts ...string) *fleet.WhatIf {
	m.World.T.Helper()
	ctx, cancel := m.Within(time.Minute)
	defer cancel()
	var out *fleet.WhatIf
	m.World.Unchanged(func() {
		var err error
		out, err = m.Lead().WhatIf(ctx, hosts, at)
		require.NoError(m.World.T, err)
	})
	return out
}

// spell returns the outcome of each lease and boot, and of its parts.
func spell(v *state.State, a *fleet.WhatIf) []string {
	var out []string
	for _, o := range a.Owners {
		line := string(o.Outcome) + ":"
		if o.Lease != nil {
			line = o.Lease.Terms.Name + " " + line
		}
		if o.Boot != nil {
			line = o.Boot.Name + " " + line
		}
		for _, p := range o.Parts {
			from, _ := v.Host(p.Instance.Host)
			line += " " + from.Name
			switch p.Outcome {
			case fleet.OutcomeMoves:
				to, _ := v.Host(p.To)
				line += "-" + to.Name
			case fleet.OutcomeBreaks, fleet.OutcomeStays:
				line += " " + string(p.Outcome) + " (" + p.Reason + ")"
			}
		}
		out = append(out, line)
	}
	return out
}

// TestWhatIf asks what drains would do to leases and boots: those that begin first get the room that
// is there, hosts that are drained too take nothing, and what runs in a lease stays.
func TestWhatIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		m := w.Zone("m", root, 4, 2, 9)
		off := false
		m.Do(command.HostSet{ID: m.Host("m-host-3"), Enabled: &off}) // the last host takes nothing yet
		_, err := m.Lease(zonetest.LeaseOf("soon", time.Hour, 2*time.Hour, 2))
		require.NoError(t, err)
		_, err = m.Lease(zonetest.LeaseOf("later", 90*time.Minute, 2*time.Hour, 2))
		require.NoError(t, err)
		w.Settle()
		_, err = root.Lease(zonetest.LeaseOf("above", 2*time.Hour, time.Hour, 1))
		require.NoError(t, err)
		w.Settle()
		on := map[api.HostID]int{}
		for _, h := range m.View().AllHosts() {
			on[h.ID] = len(m.View().SlotsOn(h.ID))
		}
		require.Equal(t, map[api.HostID]int{m.Host("m-host-1"): 3, m.Host("m-host-2"): 2, m.Host("m-host-3"): 0}, on)

		assert.Equal(t, []string{"soon"}, namesOf(whatIf(m, 0, "m-host-2"), fleet.OutcomeBreaks))
		both := whatIf(m, 0, "m-host-1", string(m.Host("m-host-2")), "m-host-1")
		assert.Len(t, both.Hosts, 2)
		assert.Equal(t, []string{"soon", "later", ""}, namesOf(both, fleet.OutcomeBreaks), "neither may go to the other host")
		assert.Contains(t, both.Owners[0].Parts[0].Reason, "no other host of the zone takes it (hosts turned away: ")
		end := both.Owners[2].Parts[0].Instance.Window.End
		assert.Empty(t, whatIf(m, end.Add(time.Hour), "m-host-1", "m-host-2").Owners, "all of it has ended by then")
	})
}

// namesOf returns the names of the leases and boots with an outcome.
func namesOf(a *fleet.WhatIf, o fleet.Outcome) []string {
	out := []string{}
	for _, one := range a.Owners {
		switch {
		case one.Outcome != o:
		case one.Lease != nil:
			out = append(out, one.Lease.Terms.Name)
		case one.Boot != nil:
			out = append(out, one.Boot.Name)
		default:
			out = append(out, "")
		}
	}
	return out
}

// drainAll drains hosts by moving, in one entry.
func drainAll(m *zonetest.Member, hosts []api.HostID) {
	m.World.T.Helper()
	why, policy := "new disks", api.DrainMove
	z := m.Lead()
	var all []command.Command
	for _, id := range hosts {
		all = append(all, command.HostSet{Stamp: z.Stamp(), ID: id, Maintenance: &why, Drain: &policy})
	}
	_, err := z.Store().Propose(m.World.Ctx, all...)
	require.NoError(m.World.T, err)
}

// TestWhatIfAgreesWithDrains fills zones with leases, asks what a drain would do, and then drains:
// every slot is where it was said that it would be.
func TestWhatIfAgreesWithDrains(t *testing.T) {
	moves, breaks, tight := 0, 0, 0
	for n, seed := range dice.Seeds(t, 200) {
		if n >= zonetest.Few(40, 6) && (testing.Short() || tight > 0) {
			break // it goes on until room was tight
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				w := zonetest.NewWorld(t)
				m := w.Zone("m", nil, 3, 6, 4, 4)
				w.Settle()
				for range 5 {
					_, _ = m.Lease(zonetest.DrawLease(rnd)) // some find no room
				}
				hosts := m.View().AllHosts()
				rnd.Shuffle(len(hosts), func(a, b int) { hosts[a], hosts[b] = hosts[b], hosts[a] })
				var names []string
				for _, h := range hosts[:1+rnd.IntN(2)] {
					names = append(names, h.Name)
				}
				a := whatIf(m, 0, names...)
				drainAll(m, a.Hosts)
				await.Sleep(20 * time.Second)
				synctest.Wait()
				parts := 0
				for _, o := range a.Owners {
					if len(o.Parts) > 1 && o.Parts[0].Outcome != o.Parts[len(o.Parts)-1].Outcome {
						tight++
					}
					for _, p := range o.Parts {
						want := p.To
						if p.Outcome == fleet.OutcomeMoves {
							moves++
						} else {
							breaks++
							want = p.Instance.Host
							assert.NotEmpty(t, p.Reason)
						}
						now, ok := m.View().Instance(p.Instance.ID)
						require.True(t, ok)
						require.Equal(t, want, now.Host, "slot %s of %v", p.Instance.ID, spell(m.View(), a))
						parts++
					}
				}
				for _, id := range a.Hosts {
					for _, i := range m.View().SlotsOn(id) {
						assert.Contains(t, fmt.Sprint(spell(m.View(), a)), string(fleet.OutcomeBreaks), "slot %s is left", i.ID)
					}
				}
			})
		})
	}
	t.Log(moves, breaks, tight)
	if testing.Short() {
		return
	}
	assert.Greater(t, moves, 15)
	assert.Greater(t, breaks, 10)
	assert.Positive(t, tight)
}

// TestWhatIfOfLater: windows that have ended by then have given their room back.
func TestWhatIfOfLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("m", nil, 2, 2)
		_, err := m.Lease(zonetest.LeaseOf("long", 0, 5*time.Hour, 2))
		require.NoError(t, err)
		_, err = m.Lease(zonetest.LeaseOf("short", 0, 2*time.Hour, 2))
		require.NoError(t, err)
		_, err = m.Lease(zonetest.LeaseOf("next", 3*time.Hour, time.Hour, 2))
		require.NoError(t, err)
		synctest.Wait()
		long := m.View().Leases("")[0]
		for _, l := range m.View().Leases("") {
			if l.Terms.Name == "long" {
				long = l
			}
		}
		h, _ := m.View().Host(m.View().LeaseSlots(long)[0].Host)
		start := long.Terms.Window.Start
		assert.Equal(t, []string{"long"}, namesOf(whatIf(m, 0, h.Name), fleet.OutcomeBreaks), "the other host is full")
		at := whatIf(m, start.Add(2*time.Hour), h.Name)
		assert.Equal(t, []string{"long"}, namesOf(at, fleet.OutcomeBreaks), "the next lease begins there before it ends")
		at = whatIf(m, start.Add(4*time.Hour), h.Name)
		assert.Equal(t, []string{"long"}, namesOf(at, fleet.OutcomeMoves))
		assert.Empty(t, whatIf(m, start.Add(5*time.Hour), h.Name).Owners)
	})
}

// TestWhatIfOfWhatRuns: instances move, but not those in a lease, whose slot breaks; and what does not
// run has nothing to lose.
func TestWhatIfOfWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("m", nil, 4)
		id, err := m.Lease(zonetest.LeaseOf("used", 0, time.Hour, 2))
		require.NoError(t, err)
		l := m.UntilLease(id, api.LeaseActive)
		boot := zonetest.Order("within", 1, 1)
		boot.Request.Within = l.Terms.Reservations[0].ID
		require.Equal(t, api.BootActive, m.Run(boot).State())
		require.Equal(t, api.BootActive, m.Run(zonetest.Order("web", 1, 1)).State())
		a := whatIf(m, 0, "m-host-1")
		assert.ElementsMatch(t, []string{"used", "web"}, namesOf(a, fleet.OutcomeBreaks), "there is no other host")
		m.Agent("spare", 8)
		m.Until("the spare is there", func(v *state.State) bool { _, ok := v.HostByName("m-host-spare1"); return ok })
		a = whatIf(m, 0, "m-host-1")
		assert.Equal(t, []string{"web"}, namesOf(a, fleet.OutcomeMoves))
		require.Equal(t, []string{"used"}, namesOf(a, fleet.OutcomeBreaks))
		reasons := map[string]int{}
		for _, p := range a.Owners[0].Parts {
			reasons[string(p.Outcome)+" "+p.Reason]++
		}
		assert.Equal(t, map[string]int{"moves ": 1, "breaks 1 of its instances run in it, and what runs in a lease is not moved": 1}, reasons)

		repair := zonetest.LeaseOf("repair", 10*time.Hour, time.Hour, 1)
		repair.Hosts, repair.Reservations = []string{"m-host-spare1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		ctx, cancel := m.Within(time.Minute)
		defer cancel()
		operator := api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}
		p, err := m.Lead().Plan(ctx, operator, repair)
		require.NoError(t, err)
		assert.True(t, p.Fits, p.Reason)
		_, err = m.Lead().Create(ctx, operator, repair, "")
		require.NoError(t, err)
		assert.Equal(t, []string{"repair"}, namesOf(whatIf(m, 0, "m-host-spare1"), fleet.OutcomeStays))
	})
}

// TestPlannedMaintenance: a dry run of maintenance supposes that what can leave has left, as the
// lease itself would have it.
func TestPlannedMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("m", nil, 2)
		_, err := m.Lease(zonetest.LeaseOf("tenant", 30*time.Minute, time.Hour, 1))
		require.NoError(t, err)
		terms := zonetest.LeaseOf("repair", 40*time.Minute, time.Hour, 1)
		terms.Hosts, terms.Reservations = []string{"m-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		operator := api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}
		ctx, cancel := m.Within(10 * time.Minute)
		defer cancel()
		plan := func() (fits bool, reason string) {
			w.Unchanged(func() {
				p, err := m.Lead().Plan(ctx, operator, terms)
				require.NoError(t, err)
				fits, reason = p.Fits, p.Reason
			})
			return fits, reason
		}
		fits, reason := plan()
		assert.False(t, fits)
		assert.Contains(t, reason, "cannot leave its host: no other host of the zone takes it")
		m.Agent("spare", 2)
		m.Until("the spare is there", func(v *state.State) bool { _, ok := v.HostByName("m-host-spare1"); return ok })
		fits, reason = plan()
		assert.True(t, fits, reason)
		_, err = m.Lead().Create(ctx, operator, terms, "")
		require.NoError(t, err)
		fits, reason = plan()
		assert.False(t, fits)
		assert.Contains(t, reason, "the hosts are in use then")
		terms.Hosts = []string{"none"}
		_, err = m.Lead().Plan(ctx, operator, terms)
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	})
}

// TestWhatIfIsBounded: each limit and one more.
func TestWhatIfIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		m := w.Zone("m", nil, fleet.WhatIfPartsMax+1)
		w.Settle()
		ctx, cancel := m.Within(10 * time.Minute)
		defer cancel()
		ask := func(hosts []string, at api.Instant) (int, api.Code) {
			a, err := m.Lead().WhatIf(ctx, hosts, at)
			if err != nil {
				return 0, api.CodeOf(err)
			}
			parts := 0
			for _, o := range a.Owners {
				parts += len(o.Parts)
			}
			return parts, ""
		}
		names := make([]string, fleet.WhatIfHostsMax+1)
		for n := range names {
			names[n] = "m-host-1"
		}
		now := m.Lead().Instant()
		for _, one := range []struct {
			hosts []string
			at    api.Instant
			code  api.Code
		}{
			{nil, 0, api.CodeInvalid},
			{names, 0, api.CodeInvalid},
			{names[1:], 0, ""},
			{[]string{"none"}, 0, api.CodeNotFound},
			{names[:1], now.Add(-time.Minute), ""},
			{names[:1], now.Add(-time.Minute) - 1, api.CodeInvalid},
			{names[:1], now.Add(api.LeaseLeadMax), ""},
			{names[:1], now.Add(api.LeaseLeadMax) + 1, api.CodeInvalid},
		} {
			_, code := ask(one.hosts, one.at)
			assert.Equal(t, one.code, code, "%d hosts at %s", len(one.hosts), one.at)
		}
		for range 2 {
			_, err := m.Lease(zonetest.LeaseOf("big", time.Hour, time.Hour, fleet.WhatIfPartsMax/2))
			require.NoError(t, err)
		}
		parts, code := ask(names[:1], 0)
		assert.Equal(t, fleet.WhatIfPartsMax, parts, code)
		_, err := m.Lease(zonetest.LeaseOf("one", time.Hour, time.Hour, 1))
		require.NoError(t, err)
		_, code = ask(names[:1], 0)
		assert.Equal(t, api.CodeTooLarge, code)
	})
}
