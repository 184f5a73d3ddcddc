package leases_test

import (
	"fmt"
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

// countSlots returns the live slots that a zone knows of.
func countSlots(m *zonetest.Member) (n int) {
	for _, h := range m.View().Holds() {
		for _, id := range h.Held() {
			if i, ok := m.View().Instance(id); ok && i.Reserved && i.Live() {
				n++
			}
		}
	}
	return n
}

// TestLeaseOverThreeLevels holds all the room of three zones for later, boots within it
// and gives it back.
func TestLeaseOverThreeLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		id, err := root.Lease(zonetest.LeaseOf("all", 3*time.Minute, 6*time.Minute, 6))
		require.NoError(t, err)
		l := root.UntilLease(id, api.LeasePending)
		w.Settle()
		for m, n := range map[*zonetest.Member]int{root: 6, mid: 4, leaf: 2} {
			assert.Equal(t, n, countSlots(m), m.Name)
		}
		_, err = root.Lease(zonetest.LeaseOf("one more", 5*time.Minute, 10*time.Minute, 1))
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
		require.ErrorContains(t, err, "Not enough hosts available")
		assert.Len(t, root.View().Leases(""), 1)

		root.UntilLease(id, api.LeaseActive)
		assert.LessOrEqual(t, time.Now(), l.Terms.Window.Start.Time().Add(5*time.Second))
		boot := zonetest.Order("b", 6, 6)
		boot.Request.Within = l.Terms.Reservations[0].ID
		assert.Equal(t, api.BootActive, root.Run(boot).State())
		assert.Len(t, leaf.Instances("b"), 2)
		boot = zonetest.Order("seventh", 1, 1)
		boot.Request.Within = l.Terms.Reservations[0].ID
		seventh := root.Run(boot)
		assert.Equal(t, api.BootFailed, seventh.State())
		full := seventh.Attempts[0].Refusals[0]
		assert.Equal(t, 2, full.Considered, "slots of the root that instances have are full, and not absent")
		assert.Equal(t, []api.FilterCount{{Filter: "capacity", Hosts: 2, Tier: full.Filters[0].Tier, Names: full.Filters[0].Names}}, full.Filters)
		for _, name := range []string{string(id), string(l.Terms.Reservations[0].ID), string(l.Order)} {
			e, ok := root.Lead().Explanation("p", name)
			require.True(t, ok, name)
			assert.Equal(t, l.Order, e.Reservation, "a lease and its reservations stand for the order of its room")
			_, ok = root.Lead().Explanation("q", name)
			assert.False(t, ok, "not for another project")
		}

		root.UntilLease(id, api.LeaseTerminated)
		w.Settle()
		for _, m := range []*zonetest.Member{root, mid, leaf} {
			assert.Zero(t, countSlots(m), m.Name)
			assert.Empty(t, m.Instances("b"), m.Name)
		}
	})
}

// TestLeaseIsUpdatedEverywhere prolongs a lease over three zones while instances run in it:
// all of it, or nothing.
func TestLeaseIsUpdatedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root, mid, leaf := zonetest.Three(w)
		id, err := root.Lease(zonetest.LeaseOf("all", 0, 20*time.Minute, 6))
		require.NoError(t, err)
		l := root.UntilLease(id, api.LeaseActive)
		boot := zonetest.Order("b", 6, 6)
		boot.Request.Within = l.Terms.Reservations[0].ID
		require.Equal(t, api.BootActive, root.Run(boot).State())

		later := l.Terms.Window.End.Add(time.Hour)
		require.NoError(t, root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{End: &later}))
		w.Settle()
		assert.Equal(t, later, root.UntilLease(id, api.LeaseActive).Terms.Window.End)
		for m, n := range map[*zonetest.Member]int{root: 6, mid: 4, leaf: 2} {
			assert.Equal(t, n, countSlots(m), m.Name)
			assert.Len(t, m.Instances("b"), n, m.Name)
		}
		require.NoError(t, root.Lead().Delete(w.Ctx, zonetest.Caller, id))
		w.Settle()
		assert.Empty(t, root.View().Leases(""))
		assert.Zero(t, countSlots(leaf))
		assert.Empty(t, root.Instances("b"))
	})
}

// TestLeaseIsHealed moves slots off a host that is lost, soonest first, and leaves those of
// later and those in which something runs.
func TestLeaseIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		lost := root.View().AllHosts()[0].ID
		soon, err := root.Lease(zonetest.LeaseOf("soon", 30*time.Minute, time.Hour, 1))
		require.NoError(t, err)
		later, err := root.Lease(zonetest.LeaseOf("later", 12*time.Hour, time.Hour, 1))
		require.NoError(t, err)
		root.Agent("spare", 2)
		h, _ := root.View().Host(lost)
		root.Propose(func(at command.Stamp) command.Command {
			return command.HostsPut{Stamp: at, Agent: h.Agent, Whole: true} // it serves no host any more
		})
		host := func(id api.LeaseID) api.HostID {
			l, _ := root.View().Lease(id)
			return root.View().LeaseSlots(l)[0].Host
		}
		root.Until("the slot has moved", func(*state.State) bool { return host(soon) != lost })
		assert.Equal(t, lost, host(later))
		l, _ := root.View().Lease(soon)
		assert.False(t, root.View().LeaseSlots(l)[0].Replaced, "its window has not begun")
	})
}

// TestLeaseStartsElsewhere gives a lease other room if what used its room before it does not leave.
func TestLeaseStartsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil)
		deaf := root.Agent("deaf", 2)
		deaf.IgnoreStops()
		o := zonetest.Order("guests", 2, 2)
		o.Request.Lifetime = 20 * time.Minute
		require.Equal(t, api.BootActive, root.Run(o).State())
		id, err := root.Lease(zonetest.LeaseOf("owner", 30*time.Minute, 2*time.Hour, 2))
		require.NoError(t, err)
		begin := root.UntilLease(id, api.LeasePending).Terms.Window.Start.Time()

		await.Sleep(time.Until(begin.Add(time.Minute)))
		root.UntilLease(id, api.LeaseStarting)
		root.Agent("spare", 2)
		await.Sleep(time.Until(begin.Add(api.StartWithin - time.Minute)))
		root.UntilLease(id, api.LeaseStarting)
		root.UntilLease(id, api.LeaseActive)
		assert.WithinDuration(t, begin.Add(api.StartWithin), time.Now(), time.Minute)
		l, _ := root.View().Lease(id)
		for _, slot := range root.View().LeaseSlots(l) {
			h, _ := root.View().Host(slot.Host)
			assert.Equal(t, "root-host-spare1", h.Name)
		}
	})
}

// TestMaintenanceStaysOnItsHosts: what cannot leave the hosts keeps them from maintenance;
// slots in which nothing runs leave; and maintenance stays although its host is lost.
func TestMaintenanceStaysOnItsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		host, _ := root.View().Host(root.View().AllHosts()[0].ID)
		tenant, err := root.Lease(zonetest.LeaseOf("tenant", 30*time.Minute, time.Hour, 1))
		require.NoError(t, err)
		terms := zonetest.LeaseOf("repair", 40*time.Minute, time.Hour, 1)
		terms.Hosts, terms.Reservations = []string{host.Name}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		ctx, cancel := root.Within(10 * time.Minute)
		defer cancel()
		operator := api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}
		on := func(id api.LeaseID) api.HostID {
			l, _ := root.View().Lease(id)
			return root.View().LeaseSlots(l)[0].Host
		}
		require.Equal(t, host.ID, on(tenant))
		_, err = root.Lead().Create(ctx, operator, terms, "")
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "the slot has nowhere to go: %v", err)
		require.Equal(t, host.ID, on(tenant))

		root.Agent("spare", 2)
		repair, err := root.Lead().Create(ctx, operator, terms, "")
		require.NoError(t, err)
		assert.NotEqual(t, host.ID, on(tenant))
		assert.Equal(t, host.ID, on(repair))
		again := terms
		again.Window.End = again.Window.End.Add(time.Hour)
		_, err = root.Lead().Create(ctx, operator, again, "")
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "it is in the way of another one: %v", err)
		end := again.Window.End
		require.NoError(t, root.Lead().Update(ctx, operator, repair, api.LeaseChange{End: &end}), "it is not in its own way")

		root.Agent("idle", 2) // a lease that may move would go there
		root.Propose(func(at command.Stamp) command.Command {
			return command.HostsPut{Stamp: at, Agent: host.Agent, Whole: true} // it serves no host any more
		})
		await.Sleep(41 * time.Minute)
		root.UntilLease(repair, api.LeaseActive)
		assert.Equal(t, host.ID, on(repair))
	})
}

// TestMaintenanceOfManyHosts: one lease takes more hosts than a hint of a boot may name.
func TestMaintenanceOfManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		for n := range api.HintHostsMax {
			root.Agent(fmt.Sprintf("more-%d", n), 2)
		}
		terms := zonetest.LeaseOf("repair", 40*time.Minute, time.Hour, 1)
		for _, h := range root.View().AllHosts() {
			terms.Hosts = append(terms.Hosts, h.Name)
		}
		n := len(terms.Hosts)
		require.Equal(t, api.HintHostsMax+1, n)
		terms.Reservations = []api.Reservation{{Type: api.ReserveHosts, Min: n, Max: n}}
		ctx, cancel := root.Within(10 * time.Minute)
		defer cancel()
		id, err := root.Lead().Create(ctx, api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}, terms, "")
		require.NoError(t, err)
		l, _ := root.View().Lease(id)
		assert.Len(t, root.View().LeaseSlots(l), n)
	})
}

// TestMaintenanceLeavesTimeToClean: a slot that ends just before maintenance, or begins just after
// it, is in its way if the host could not be cleaned between them; it moves if it can.
func TestMaintenanceLeavesTimeToClean(t *testing.T) {
	for name, from := range map[string]time.Duration{"before": 30 * time.Minute, "after": 110 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, 2)
				root.Do(command.ConfigSet{Config: api.ZoneConfig{Leases: api.LeaseRule{Cleaning: 20 * time.Minute}}})
				host, _ := root.View().Host(root.View().AllHosts()[0].ID)
				require.Equal(t, 20*time.Minute, host.Cleaning)
				tenant, err := root.Lease(zonetest.LeaseOf("tenant", from, 20*time.Minute, 1)) // maintenance is from 60 to 100 minutes from now
				require.NoError(t, err)
				terms := zonetest.LeaseOf("repair", time.Hour, 40*time.Minute, 1)
				terms.Hosts, terms.Reservations = []string{host.Name}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
				ctx, cancel := root.Within(10 * time.Minute)
				defer cancel()
				operator := api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}
				_, err = root.Lead().Create(ctx, operator, terms, "")
				require.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "the slot has nowhere to go: %v", err)
				require.ErrorContains(t, err, "cannot leave its host")

				root.Agent("spare", 2)
				repair, err := root.Lead().Create(ctx, operator, terms, "")
				require.NoError(t, err)
				l, _ := root.View().Lease(tenant)
				assert.NotEqual(t, host.ID, root.View().LeaseSlots(l)[0].Host)
				l, _ = root.View().Lease(repair)
				assert.Equal(t, host.ID, root.View().LeaseSlots(l)[0].Host)
			})
		})
	}
}
