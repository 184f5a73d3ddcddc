package leases_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/await"
	"berth/quota"
	"berth/raftstore/command"
	"berth/zone/leases"
	"berth/zone/zonetest"
)

// question is what a service was asked.
type question struct {
	who    api.Caller
	now    *api.LeaseTerms // nil for a new lease
	next   api.LeaseTerms
	places [][]rest.CheckedPlace
}

// service records what it is asked, and refuses what a test wants.
type service struct {
	off    bool
	refuse func(*api.LeaseTerms) error // nil for nothing
	took   time.Duration               // that an answer takes

	mu     sync.Mutex // guards the fields below
	asked  []question
	now    int // questions that are being answered
	atOnce int // at the most
}

func (s *service) Asks() bool { return !s.off }

func (s *service) CheckCreate(ctx context.Context, who api.Caller, l *api.LeaseTerms, places [][]rest.CheckedPlace) error {
	return s.answer(ctx, question{who, nil, *l, places})
}

func (s *service) CheckUpdate(ctx context.Context, who api.Caller, now, next *api.LeaseTerms, places [][]rest.CheckedPlace) error {
	return s.answer(ctx, question{who, now, *next, places})
}

func (s *service) answer(ctx context.Context, q question) error {
	s.mu.Lock()
	s.asked = append(s.asked, q)
	s.now++
	s.atOnce = max(s.atOnce, s.now)
	s.mu.Unlock()
	if s.took > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(s.took):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	switch {
	case ctx.Err() != nil:
		return api.Errorf(api.CodeTimeout, "no answer")
	case s.refuse != nil:
		return s.refuse(&q.next)
	}
	return nil
}

// questions returns what was asked since the last call.
func (s *service) questions() []question {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	return out
}

// refused is a refusal of everything.
func refused(*api.LeaseTerms) error { return api.Errorf(api.CodeForbidden, "not today") }

var operator = api.Caller{User: "o", Project: "ops", Role: api.RoleAdmin}

// TestTheServiceIsAskedAboutALease: it learns where each reservation of a new or a changed lease would be, the hosts of this zone
// with their attributes and then the zones below; nothing is made or changed that it refuses, and it is not asked about what is
// refused anyway, moves nothing, or is the operator's own.
func TestTheServiceIsAskedAboutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 3)
		w.Zone("kid", root, 2)
		first := root.Host("root-host-1")
		own := root.IdleAgent("", 3)
		hosts := own.Hosts()
		hosts[0].Attributes = map[string]string{"rack": "r1", "disk": "ssd"}
		_, err := root.Lead().RegisterHosts(w.Ctx, own.ID(), &api.AgentRegister{Hosts: hosts})
		require.NoError(t, err)
		root.Do(command.HostSet{Stamp: root.Lead().Stamp(), ID: first, Overrides: map[string]string{"disk": "nvme", "row": "7"}})
		w.Settle()
		s := &service{}
		root.Lead().WithCheck(s)
		place := func(n int) rest.CheckedPlace {
			return rest.CheckedPlace{ID: first, Host: "root-host-1", Zone: "root", Amount: n, Extra: map[string]string{"rack": "r1", "disk": "nvme", "row": "7"}}
		}
		terms := zonetest.LeaseOf("l", time.Hour, time.Hour, 5)

		s.refuse = refused
		w.Unchanged(func() {
			_, err = create(root, zonetest.Caller, terms, "")
			assert.ErrorContains(t, err, "not today")
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err))
		})
		qs := s.questions()
		require.Len(t, qs, 1)
		assert.Equal(t, zonetest.Caller, qs[0].who)
		assert.Equal(t, terms.Window, qs[0].next.Window)
		want := [][]rest.CheckedPlace{{place(3), {Zone: "kid", Amount: 2}}}
		assert.Equal(t, want, qs[0].places)
		s.refuse = nil
		id, err := create(root, zonetest.Caller, terms, "")
		require.NoError(t, err)
		require.Len(t, s.questions(), 1)
		w.Settle()
		lease := func() api.LeaseTerms {
			l, _ := root.View().Lease(id)
			return l.Terms
		}
		was := lease()

		s.refuse = refused
		later, renamed := was.Window.End.Add(time.Hour), "renamed"
		w.Unchanged(func() {
			assert.ErrorContains(t, root.Lead().Update(w.Ctx, operator, id, api.LeaseChange{End: &later}), "not today")
		})
		qs = s.questions()
		require.Len(t, qs, 1)
		assert.Equal(t, operator, qs[0].who)
		assert.Equal(t, was, *qs[0].now)
		assert.Equal(t, later, qs[0].next.Window.End)
		assert.Equal(t, want, qs[0].places)
		w.Unchanged(func() {
			assert.ErrorContains(t, root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{Name: &renamed}), "not today")
		})
		qs = s.questions()
		require.Len(t, qs, 1)
		assert.Nil(t, qs[0].places, "nothing moves")

		none := terms
		none.Reservations = nil
		_, err = create(root, zonetest.Caller, none, "")
		assert.ErrorContains(t, err, "not today")
		qs = s.questions()
		require.Len(t, qs, 1)
		assert.Nil(t, qs[0].places)

		repair := zonetest.LeaseOf("repair", 5*time.Hour, time.Hour, 1)
		repair.Hosts, repair.Reservations = []string{"root-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		_, err = create(root, operator, repair, "")
		require.NoError(t, err, "maintenance is the operator's own")
		s.off = true
		_, err = create(root, zonetest.Caller, none, "")
		require.NoError(t, err, "the zone has no service now")
		require.NoError(t, root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{Name: &renamed}))
		s.off = false

		root.Propose(func(at command.Stamp) command.Command {
			return command.QuotaSet{Stamp: at, Project: "p", Set: quota.Limits{quota.Reserved: 5}}
		})
		six := []api.ReservationChange{{ID: was.Reservations[0].ID, Min: new(6), Max: new(6)}}
		assert.Equal(t, api.CodeOverQuota, api.CodeOf(root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{Reservations: six})))
		_, err = create(root, zonetest.Caller, zonetest.LeaseOf("six", 9*time.Hour, time.Hour, 6), "")
		assert.Equal(t, api.CodeOverQuota, api.CodeOf(err))
		assert.Empty(t, s.questions(), "of none of these")
	})
}

// TestTheServiceIsAskedOnceAboutALease: neither about the repeat of a call, nor about one that has ended.
func TestTheServiceIsAskedOnceAboutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		s := &service{}
		root.Lead().WithCheck(s)
		id, err := create(root, zonetest.Caller, zonetest.LeaseOf("l", time.Minute, time.Hour, 1), "key")
		require.NoError(t, err)
		again, err := create(root, zonetest.Caller, zonetest.LeaseOf("l", time.Minute, time.Hour, 1), "key")
		require.NoError(t, err)
		assert.Equal(t, id, again)
		require.Len(t, s.questions(), 1)
		await.Sleep(time.Hour)
		root.UntilLease(id, api.LeaseTerminated)
		s.refuse = refused
		renamed := "renamed"
		require.NoError(t, root.Lead().Update(w.Ctx, zonetest.Caller, id, api.LeaseChange{Name: &renamed}))
		assert.Empty(t, s.questions())
	})
}

// TestPlansSayThatTheServiceIsNotAsked: a dry run says whether the service could still refuse.
func TestPlansSayThatTheServiceIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		terms := zonetest.LeaseOf("l", time.Hour, time.Hour, 1)
		id, err := root.Lease(terms)
		require.NoError(t, err)
		none := terms
		none.Reservations = nil
		repair := zonetest.LeaseOf("repair", 5*time.Hour, time.Hour, 1)
		repair.Hosts, repair.Reservations = []string{"root-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		longer, renamed := terms.Window.End.Add(time.Hour), "renamed"
		was := root.View().Leases("")[0].Terms.Name
		for name, c := range map[string]struct {
			plan func() (*leases.Planned, error)
			asks bool
			held bool
			name string // of the lease that it returns
		}{
			"a lease":          {func() (*leases.Planned, error) { return root.Lead().Plan(w.Ctx, zonetest.Caller, terms) }, true, false, "l"},
			"one without room": {func() (*leases.Planned, error) { return root.Lead().Plan(w.Ctx, zonetest.Caller, none) }, true, true, "l"},
			"maintenance":      {func() (*leases.Planned, error) { return root.Lead().Plan(w.Ctx, operator, repair) }, false, false, "repair"},
			"a longer lease": {func() (*leases.Planned, error) {
				return root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{End: &longer})
			}, true, false, "l"},
			"a new name": {func() (*leases.Planned, error) {
				return root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{Name: &renamed})
			}, true, true, "renamed"},
			"nothing new, and so": {func() (*leases.Planned, error) {
				return root.Lead().PlanUpdate(w.Ctx, zonetest.Caller, id, api.LeaseChange{Name: &was})
			}, false, true, "l"},
		} {
			root.Lead().WithCheck(nil)
			p, err := c.plan()
			require.NoError(t, err, name)
			assert.False(t, p.Unasked, name)
			s := &service{}
			root.Lead().WithCheck(s)
			p, err = c.plan()
			require.NoError(t, err, name)
			assert.Equal(t, []any{c.asks, c.held, true, c.name}, []any{p.Unasked, p.Held, p.Fits, p.Terms.Name}, name)
			assert.Equal(t, !c.held, len(p.Reservations) > 0, name)
			assert.Empty(t, s.questions(), name)
		}
	})
}

// TestTheServiceIsAskedAboutASeries: about each of its leases, so many at once, and for so long in all; the first refusal counts, and says
// of which lease it is.
func TestTheServiceIsAskedAboutASeries(t *testing.T) {
	const atOnce = 8
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		s := &service{took: time.Second}
		root.Lead().WithCheck(s)
		terms := zonetest.LeaseOf("s", time.Hour, time.Hour, 2)
		for _, n := range []string{"8", "9"} {
			began := time.Now()
			id, err := series(root, zonetest.Caller, terms, daily(n), "")
			require.NoError(t, err)
			took := time.Second
			if n == "9" {
				took += time.Second
			}
			assert.Equal(t, took, time.Since(began).Truncate(time.Second))
			starts := map[api.Instant]bool{}
			for _, q := range s.questions() {
				starts[q.next.Window.Start] = true
				assert.Equal(t, []any{zonetest.Caller, true}, []any{q.who, q.places == nil})
			}
			assert.Len(t, starts, len(root.View().SeriesLeases(id)))
			require.NoError(t, root.Lead().DeleteSeries(w.Ctx, operator, id))
		}
		assert.Equal(t, atOnce, s.atOnce)

		third := terms.Window.Start.Add(2 * 24 * time.Hour)
		s.refuse = func(l *api.LeaseTerms) error {
			if l.Window.Start >= third {
				return api.Errorf(api.CodeForbidden, "not on %s", l.Window.Start.Time().UTC().Weekday())
			}
			return nil
		}
		w.Unchanged(func() {
			_, err := series(root, zonetest.Caller, terms, daily("9"), "")
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err))
			day := third.Time().UTC()
			assert.EqualError(t, err, "the lease of "+day.Format("2006-01-02 15:04")+" to "+day.Add(time.Hour).Format("2006-01-02 15:04")+" UTC: not on "+day.Weekday().String())
		})
		assert.Len(t, s.questions(), atOnce, "the others are refused with it")
		s.refuse, s.took = nil, 31*time.Second
		began := time.Now()
		_, err := series(root, zonetest.Caller, terms, daily("17"), "")
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err), "%v", err)
		assert.Equal(t, time.Minute, time.Since(began))
		s.refuse = refused
		repair := zonetest.LeaseOf("repair", 5*time.Hour, time.Hour, 1)
		repair.Hosts, repair.Reservations = []string{"root-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		_, err = series(root, operator, repair, daily("2"), "")
		require.NoError(t, err, "maintenance is the operator's own")
	})
}

// TestMaintenanceThatCannotBePlanned: a dry run says why hosts cannot be had for maintenance, and fails as the lease does if there
// are none.
func TestMaintenanceThatCannotBePlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2)
		repair := zonetest.LeaseOf("repair", time.Hour, time.Hour, 1)
		repair.Hosts, repair.Reservations = []string{"root-host-1"}, []api.Reservation{{Type: api.ReserveHosts, Min: 1, Max: 1}}
		plan := func(fits bool, says string) {
			t.Helper()
			w.Unchanged(func() {
				p, err := root.Lead().Plan(w.Ctx, operator, repair)
				require.NoError(t, err)
				assert.Equal(t, fits, p.Fits)
				assert.Contains(t, p.Reason, says)
				assert.Equal(t, repair.Hosts, p.Terms.Hosts)
			})
			_, err := create(root, operator, repair, "")
			assert.Equal(t, fits, err == nil)
			if !fits {
				assert.ErrorContains(t, err, says)
			}
		}
		id, err := root.Lease(zonetest.LeaseOf("tenant", 90*time.Minute, time.Hour, 1))
		require.NoError(t, err)
		plan(false, "cannot leave its host")
		require.NoError(t, root.Lead().Delete(w.Ctx, zonetest.Caller, id))
		require.Equal(t, api.BootActive, root.Run(zonetest.Order("b", 1, 1)).State())
		plan(false, "the hosts are in use then")
		root.Release("b")
		await.Sleep(5 * time.Second)
		plan(true, "")
		repair.Hosts = []string{"none"}
		_, err = root.Lead().Plan(w.Ctx, operator, repair)
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
		_, err = create(root, operator, repair, "")
		assert.Equal(t, api.CodeNotFound, api.CodeOf(err))
	})
}

// TestDescriptionsOfWhatIsShort: a refusal names the reservations that cannot be had, with what turned hosts away and what the others have
// no more of.
func TestDescriptionsOfWhatIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := zonetest.NewWorld(t)
		root := w.Zone("root", nil, 2, 1)
		w.Zone("kid", root, 1)
		off := false
		root.Do(command.HostSet{Stamp: root.Lead().Stamp(), ID: root.Host("root-host-2"), Enabled: &off})
		terms := zonetest.LeaseOf("l", time.Hour, time.Hour, 1)
		terms.Reservations = append(terms.Reservations, zonetest.LeaseOf("", 0, time.Hour, 5).Reservations[0], api.Reservation{Type: api.ReserveHosts, Min: 4, Max: 4})
		_, err := create(root, zonetest.Caller, terms, "")
		assert.Equal(t, api.CodeNoCapacity, api.CodeOf(err))
		says := api.MessageOf(err)
		assert.True(t, strings.HasPrefix(says, "Not enough hosts available: reservation 2 could have "), says)
		parts := strings.Split(says, "reservation ")
		require.Len(t, parts, 3, says)
		assert.Contains(t, parts[1], " of 5 slots (", says)
		assert.Contains(t, parts[1], "hosts that have no more: ", says)
		assert.Contains(t, parts[1], "hosts turned away: ", says)
		assert.Contains(t, parts[2], "3 could have ", says)
		assert.Contains(t, parts[2], " of 4 hosts (hosts turned away: ", says)
		assert.False(t, strings.Contains(parts[2], "have no more"), says)
		assert.False(t, slices.Contains(parts, ""), says)
	})
}
