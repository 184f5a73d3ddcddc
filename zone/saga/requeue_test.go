package saga_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// softOrder asks for preemptible instances that are booted again if they have to leave.
func softOrder(res string, least, most int) *intake.BootOrder {
	o := zonetest.Order(res, least, most)
	o.Request.Class, o.Request.OnPreempt = api.Preemptible, api.PreemptRequeue
	return o
}

// untilAgain waits until preempted instances of a boot were booted again, and ok.
func untilAgain(m *zonetest.Member, res string, ok func(*state.Boot) bool) *state.Boot {
	m.World.T.Helper()
	var out *state.Boot
	m.Until("boot "+res+" is booted again", func(v *state.State) bool {
		out, _ = v.Boot("p", api.ReservationID(res))
		return out.Refills > 0 && ok(out)
	})
	return out
}

// TestPreemptedInstancesBootAgain: a lease needs the room of preemptible instances, here and below.
// They leave, wait while there is no room, and are booted again when the lease has ended: once,
// whatever becomes of entries and leaders meanwhile.
func TestPreemptedInstancesBootAgain(t *testing.T) {
	for name, c := range map[string]struct {
		mishaps []zonetest.Mishap
		leaders bool
	}{
		"nothing goes wrong":   {nil, false},
		"entries go wrong":     {[]zonetest.Mishap{zonetest.Unconfirmed, zonetest.Doubled, zonetest.Unapplied, zonetest.Delayed, zonetest.NotLeader}, false},
		"the leader is killed": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				kid := w.Zone("kid", root, 2)
				require.Equal(t, api.BootActive, root.Run(softOrder("soft", 4, 4)).State())
				first := root.Instances("soft")
				require.Len(t, first, 4)
				root.Log.When(func(k command.Kind, n int) zonetest.Mishap {
					if k == command.KindRequeue && n <= len(c.mishaps) {
						return c.mishaps[n-1]
					}
					return ""
				})
				id, err := root.Lease(zonetest.LeaseOf("all", 3*time.Minute, 6*time.Minute, 4))
				require.NoError(t, err)
				root.UntilLease(id, api.LeaseActive)
				require.Empty(t, root.Instances("soft"), "nothing preemptible runs in a lease")
				root.Until("all wait to be booted again", func(v *state.State) bool { return v.CountRequeued() == 4 })
				if c.leaders {
					root.Elect()
				}
				root.UntilLease(id, api.LeaseTerminated)
				if c.leaders {
					root.Until("they are booted again", func(v *state.State) bool {
						r, ok := v.Requeued("p", "soft")
						return !ok || r.Refill > 0
					})
					root.Elect()
				}
				b := untilAgain(root, "soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
				assert.Equal(t, 4, b.Counts.Active)
				assert.Len(t, root.Instances("soft"), 4)
				assert.Len(t, kid.Instances("soft"), 2)
				assert.Zero(t, root.View().CountRequeued())
				running := root.View().InstancesPage(state.InstanceQuery{Page: state.Page{Limit: api.CountMax}})
				assert.Len(t, running, 4, "nothing was booted twice")
				for _, i := range first {
					old, ok := root.View().Instance(i.ID)
					require.True(t, ok)
					assert.Equal(t, api.StatusDeleted, old.Status, "an id never runs twice")
					assert.NotNil(t, old.Eviction)
				}
				w.Settle()
			})
		})
	}
}

// on asks for instances on one host.
func on(host, res string, n int) *intake.BootOrder {
	o := zonetest.Order(res, n, n)
	o.Request.Groups[0].Hints.ForceHosts = []string{host}
	return o
}

// hostsOf returns where the instances of a boot are.
func hostsOf(m *zonetest.Member, res string) (out []string) {
	for _, i := range m.Instances(res) {
		h, _ := m.View().Host(i.Host)
		out = append(out, h.Name)
	}
	slices.Sort(out)
	return out
}

// release ends a boot, and waits until nothing of it is left.
func release(m *zonetest.Member, res string) {
	m.World.T.Helper()
	m.Propose(func(at command.Stamp) command.Command {
		return command.BootRelease{Stamp: at, Project: "p", Reservation: api.ReservationID(res)}
	})
	m.Until(res+" is gone", func(v *state.State) bool {
		b, _ := v.Boot("p", api.ReservationID(res))
		return b.State() == api.BootReleased
	})
}

// TestPreemptedInstancesStayInTheirBoot: what is booted again is bound by the rules of its boot together with what was
// not preempted, is listed with it, and ends with it. Another place would be cheaper.
func TestPreemptedInstancesStayInTheirBoot(t *testing.T) {
	for _, c := range []struct {
		rule          api.Rule
		others, needs int // what else is on a host of the boot, and what preempts there
	}{
		{api.Rule{Policy: api.AntiAffinity, Max: 1}, 0, 4},
		{api.Rule{Policy: api.Affinity}, 2, 1},
	} {
		t.Run(string(c.rule.Policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 4, 4, 4)
				soft := softOrder("soft", 2, 2)
				c.rule.Groups = []int{0}
				soft.Request.Rules = []api.Rule{c.rule}
				require.Equal(t, api.BootActive, root.Run(soft).State())
				first, free := hostsOf(root, "soft"), []string{"root-host-1", "root-host-2", "root-host-3"}
				free = slices.DeleteFunc(free, func(h string) bool { return slices.Contains(first, h) })
				again, cheap := first, free[0] // the fullest host is the cheapest
				if c.rule.Max == 1 {
					again, cheap = []string{first[1], free[0]}, first[1]
					slices.Sort(again)
				}
				root.Run(on(cheap, "cheap", 3-c.rule.Max))
				if c.others > 0 {
					root.Run(on(first[0], "others", c.others))
				}
				firm := on(first[0], "firm", c.needs)
				firm.Request.Preempt = true
				root.Run(firm)
				if c.others > 0 {
					root.Until("it waits", func(v *state.State) bool { return v.CountRequeued() == 1 })
					b, _ := root.View().Boot("p", "soft")
					require.Equal(t, api.BootBuilding, b.State())
					await.Sleep(2 * api.RequeuePauseMax)
					require.Equal(t, 1, root.View().CountRequeued(), "there is room elsewhere, where it must not be")
					told, ok := root.Lead().Explanation("p", "soft")
					require.True(t, ok)
					assert.Equal(t, []int{1, 0}, []int{told.Groups[0].Wanted, told.Groups[0].Offered}, "for what it waits")
					release(root, "others")
				}
				b := untilAgain(root, "soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
				assert.Equal(t, state.Counts{Active: 2, Deleted: 1}, b.Counts)
				assert.Equal(t, again, hostsOf(root, "soft"))
				release(root, "soft")
				assert.Empty(t, root.Instances("soft"))
				w.Settle()
			})
		})
	}
}

// TestPreemptedInstancesKeepTheirZones: a boot in two zones is in two zones when a part of it is booted again, though
// another zone has room at once.
func TestPreemptedInstancesKeepTheirZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		west, east := w.Zone("west", root, 4), w.Zone("east", root, 2)
		soft := softOrder("soft", 2, 2)
		soft.Request.Zones.MinZones = 2
		require.Equal(t, api.BootActive, root.Run(soft).State())
		require.Len(t, west.Instances("soft"), 1)
		firm := zonetest.Order("firm", 2, 2)
		firm.Request.Preempt = true
		east.Run(firm)
		root.Until("it waits", func(v *state.State) bool { return v.CountRequeued() == 1 })
		await.Sleep(2 * api.RequeuePauseMax)
		require.Equal(t, 1, root.View().CountRequeued(), "west has room, and is no second zone")
		release(east, "firm")
		untilAgain(root, "soft", func(b *state.Boot) bool { return b.State() == api.BootActive })
		assert.Len(t, east.Instances("soft"), 1)
		w.Settle()
	})
}
