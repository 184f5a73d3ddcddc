package zone_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// who makes the leases of these tests.
var who = api.Caller{User: "u", Project: "p", Role: api.RoleMember}

// leaseOf asks for n slots of the flavor of these tests, from some time from now on.
func leaseOf(name string, from, long time.Duration, n int) api.LeaseTerms {
	start := api.InstantOf(time.Now().Truncate(time.Minute).Add(from))
	return api.LeaseTerms{
		Name: name, Window: api.Window{Start: start, End: start.Add(long)},
		Reservations: []api.Reservation{{Type: api.ReserveInstances, Min: n, Max: n, Resources: flavor.Resources}},
	}
}

// lease makes a lease.
func (m *member) lease(t api.LeaseTerms) (api.LeaseID, error) {
	ctx, cancel := m.within(2 * time.Minute)
	defer cancel()
	return m.lead().Create(ctx, who, t, "")
}

// untilLease waits until a lease has a status.
func (m *member) untilLease(id api.LeaseID, st api.LeaseStatus) *state.Lease {
	m.w.t.Helper()
	var out *state.Lease
	defer func() {
		if m.w.t.Failed() && out != nil {
			b, _ := m.view().Boot(out.Terms.Project, out.Order)
			m.w.t.Logf("%+v %+v %+v", out, b.Counts, b.Unacked)
		}
	}()
	m.until("the lease is "+string(st), func(v *state.State) bool {
		l, ok := v.Lease(id)
		out = l
		return ok && l.Status == st
	})
	return out
}

// slots returns the live slots that a zone knows of.
func (m *member) slots() (n int) {
	for _, h := range m.view().Holds() {
		for _, id := range h.Held() {
			if i, ok := m.view().Instance(id); ok && i.Reserved && i.Live() {
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
		w := newWorld(t)
		root, mid, leaf := three(w)
		id, err := root.lease(leaseOf("all", 3*time.Minute, 6*time.Minute, 6))
		require.NoError(t, err)
		l := root.untilLease(id, api.LeasePending)
		w.settle()
		for m, n := range map[*member]int{root: 6, mid: 4, leaf: 2} {
			assert.Equal(t, n, m.slots(), m.name)
		}
		_, err = root.lease(leaseOf("one more", 5*time.Minute, 10*time.Minute, 1))
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
		require.ErrorContains(t, err, "Not enough hosts available")
		assert.Len(t, root.view().Leases(""), 1)

		root.untilLease(id, api.LeaseActive)
		assert.LessOrEqual(t, time.Now(), l.Terms.Window.Start.Time().Add(5*time.Second))
		boot := order("b", 6, 6)
		boot.Request.Within = l.Terms.Reservations[0].ID
		assert.Equal(t, api.BootActive, root.run(boot).State())
		assert.Len(t, leaf.instances("b"), 2)
		boot = order("seventh", 1, 1)
		boot.Request.Within = l.Terms.Reservations[0].ID
		seventh := root.run(boot)
		assert.Equal(t, api.BootFailed, seventh.State())
		full := seventh.Attempts[0].Refusals[0]
		assert.Equal(t, 2, full.Considered, "slots of the root that instances have are full, and not absent")
		assert.Equal(t, []api.FilterCount{{Filter: "capacity", Hosts: 2, Tier: full.Filters[0].Tier, Names: full.Filters[0].Names}}, full.Filters)
		for _, name := range []string{string(id), string(l.Terms.Reservations[0].ID), string(l.Order)} {
			e, ok := root.lead().Explanation("p", name)
			require.True(t, ok, name)
			assert.Equal(t, l.Order, e.Reservation, "a lease and its reservations stand for the order of its room")
			_, ok = root.lead().Explanation("q", name)
			assert.False(t, ok, "not for another project")
		}

		root.untilLease(id, api.LeaseTerminated)
		w.settle()
		for _, m := range []*member{root, mid, leaf} {
			assert.Zero(t, m.slots(), m.name)
			assert.Empty(t, m.instances("b"), m.name)
		}
	})
}

// TestLeaseIsUpdatedEverywhere prolongs a lease over three zones while instances run in it:
// all of it, or nothing.
func TestLeaseIsUpdatedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root, mid, leaf := three(w)
		id, err := root.lease(leaseOf("all", 0, 20*time.Minute, 6))
		require.NoError(t, err)
		l := root.untilLease(id, api.LeaseActive)
		boot := order("b", 6, 6)
		boot.Request.Within = l.Terms.Reservations[0].ID
		require.Equal(t, api.BootActive, root.run(boot).State())

		later := l.Terms.Window.End.Add(time.Hour)
		require.NoError(t, root.lead().Update(w.ctx, who, id, api.LeaseChange{End: &later}))
		w.settle()
		assert.Equal(t, later, root.untilLease(id, api.LeaseActive).Terms.Window.End)
		for m, n := range map[*member]int{root: 6, mid: 4, leaf: 2} {
			assert.Equal(t, n, m.slots(), m.name)
			assert.Len(t, m.instances("b"), n, m.name)
		}
		require.NoError(t, root.lead().Delete(w.ctx, who, id))
		w.settle()
		assert.Empty(t, root.view().Leases(""))
		assert.Zero(t, leaf.slots())
		assert.Empty(t, root.instances("b"))
	})
}

// TestLeaseIsHealed moves slots off a host that is lost, soonest first, and leaves those of
// later and those in which something runs.
func TestLeaseIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		lost := root.view().AllHosts()[0].ID
		soon, err := root.lease(leaseOf("soon", 30*time.Minute, time.Hour, 1))
		require.NoError(t, err)
		later, err := root.lease(leaseOf("later", 12*time.Hour, time.Hour, 1))
		require.NoError(t, err)
		root.agent("spare", 2)
		h, _ := root.view().Host(lost)
		root.propose(func(at command.Stamp) command.Command {
			return command.HostsPut{Stamp: at, Agent: h.Agent, Whole: true} // it serves no host any more
		})
		host := func(id api.LeaseID) api.HostID {
			l, _ := root.view().Lease(id)
			return root.view().LeaseSlots(l)[0].Host
		}
		root.until("the slot has moved", func(*state.State) bool { return host(soon) != lost })
		assert.Equal(t, lost, host(later))
		l, _ := root.view().Lease(soon)
		assert.False(t, root.view().LeaseSlots(l)[0].Replaced, "its window has not begun")
	})
}

// TestLeaseStartsElsewhere gives a lease other room if what used its room before it does not leave.
func TestLeaseStartsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil)
		deaf := root.agent("deaf", 2)
		deaf.ignoreStops()
		o := order("guests", 2, 2)
		o.Request.Lifetime = 20 * time.Minute
		require.Equal(t, api.BootActive, root.run(o).State())
		id, err := root.lease(leaseOf("owner", 30*time.Minute, 2*time.Hour, 2))
		require.NoError(t, err)
		begin := root.untilLease(id, api.LeasePending).Terms.Window.Start.Time()

		time.Sleep(time.Until(begin.Add(time.Minute)))
		root.untilLease(id, api.LeaseStarting)
		root.agent("spare", 2)
		time.Sleep(time.Until(begin.Add(api.StartWithin - time.Minute)))
		root.untilLease(id, api.LeaseStarting)
		root.untilLease(id, api.LeaseActive)
		assert.WithinDuration(t, begin.Add(api.StartWithin), time.Now(), time.Minute)
		l, _ := root.view().Lease(id)
		for _, slot := range root.view().LeaseSlots(l) {
			h, _ := root.view().Host(slot.Host)
			assert.Equal(t, "root-host-spare1", h.Name)
		}
	})
}

// TestMaintenanceStaysOnItsHosts: what cannot leave the hosts keeps them from maintenance;
// slots in which nothing runs leave; and maintenance stays although its host is lost.
func TestMaintenanceStaysOnItsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		root := w.zone("root", nil, 2)
		host, _ := root.view().Host(root.view().AllHosts()[0].ID)
		tenant, err := root.lease(leaseOf("tenant", 30*time.Minute, time.Hour, 1))
		require.NoError(t, err)
		terms := leaseOf("repair", 40*time.Minute, time.Hour, 1)
		terms.Hosts, terms.Reservations = []string{host.Name}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		ctx, cancel := root.within(10 * time.Minute)
		defer cancel()
		operator := api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}
		on := func(id api.LeaseID) api.HostID {
			l, _ := root.view().Lease(id)
			return root.view().LeaseSlots(l)[0].Host
		}
		require.Equal(t, host.ID, on(tenant))
		_, err = root.lead().Create(ctx, operator, terms, "")
		require.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "the slot has nowhere to go: %v", err)
		require.Equal(t, host.ID, on(tenant))

		root.agent("spare", 2)
		repair, err := root.lead().Create(ctx, operator, terms, "")
		require.NoError(t, err)
		assert.NotEqual(t, host.ID, on(tenant))
		assert.Equal(t, host.ID, on(repair))
		again := terms
		again.Window.End = again.Window.End.Add(time.Hour)
		_, err = root.lead().Create(ctx, operator, again, "")
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), "it is in the way of another one: %v", err)
		end := again.Window.End
		require.NoError(t, root.lead().Update(ctx, operator, repair, api.LeaseChange{End: &end}), "it is not in its own way")

		root.agent("idle", 2) // a lease that may move would go there
		root.propose(func(at command.Stamp) command.Command {
			return command.HostsPut{Stamp: at, Agent: host.Agent, Whole: true} // it serves no host any more
		})
		time.Sleep(41 * time.Minute)
		root.untilLease(repair, api.LeaseActive)
		assert.Equal(t, host.ID, on(repair))
	})
}

// TestMaintenanceLeavesTimeToClean: a slot that ends just before maintenance, or begins just after
// it, is in its way if the host could not be cleaned between them; it moves if it can.
func TestMaintenanceLeavesTimeToClean(t *testing.T) {
	for name, from := range map[string]time.Duration{"before": 30 * time.Minute, "after": 110 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				root := w.zone("root", nil, 2)
				root.do(command.ConfigSet{Config: api.ZoneConfig{Leases: api.LeaseRule{Cleaning: 20 * time.Minute}}})
				host, _ := root.view().Host(root.view().AllHosts()[0].ID)
				require.Equal(t, 20*time.Minute, host.Cleaning)
				tenant, err := root.lease(leaseOf("tenant", from, 20*time.Minute, 1)) // maintenance is from 60 to 100 minutes from now
				require.NoError(t, err)
				terms := leaseOf("repair", time.Hour, 40*time.Minute, 1)
				terms.Hosts, terms.Reservations = []string{host.Name}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
				ctx, cancel := root.within(10 * time.Minute)
				defer cancel()
				operator := api.Caller{User: "u", Project: "ops", Role: api.RoleAdmin}
				_, err = root.lead().Create(ctx, operator, terms, "")
				require.Equal(t, api.CodeNoCapacity, api.CodeOf(err), "the slot has nowhere to go: %v", err)
				require.ErrorContains(t, err, "cannot leave its host")

				root.agent("spare", 2)
				repair, err := root.lead().Create(ctx, operator, terms, "")
				require.NoError(t, err)
				l, _ := root.view().Lease(tenant)
				assert.NotEqual(t, host.ID, root.view().LeaseSlots(l)[0].Host)
				l, _ = root.view().Lease(repair)
				assert.Equal(t, host.ID, root.view().LeaseSlots(l)[0].Host)
			})
		})
	}
}
