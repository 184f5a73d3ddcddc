package leases_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/memstore"
	"berth/quota"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/leases"
)

// service is an external service that notes what it is asked, and refuses what it is told to.
type service struct {
	silent  bool
	refuses func(t *api.LeaseTerms) error // nil for nothing
	created []*api.LeaseTerms
	updated [][2]*api.LeaseTerms
	places  [][]rest.CheckedPlace
}

func (s *service) Asks() bool { return !s.silent }

func (s *service) CheckCreate(_ context.Context, _ api.Caller, t *api.LeaseTerms, places [][]rest.CheckedPlace) error {
	s.created, s.places = append(s.created, t), places
	return s.answer(t)
}

func (s *service) CheckUpdate(_ context.Context, _ api.Caller, now, next *api.LeaseTerms, places [][]rest.CheckedPlace) error {
	s.updated, s.places = append(s.updated, [2]*api.LeaseTerms{now, next}), places
	return s.answer(next)
}

func (s *service) answer(t *api.LeaseTerms) error {
	if s.refuses == nil {
		return nil
	}
	return s.refuses(t)
}

// TestAServiceIsAskedOfLeases that the zone would make, and of no others; what it refuses is not made. It learns where they would be.
func TestAServiceIsAskedOfLeases(t *testing.T) {
	clock := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	m, s := memstore.NewOfForm(api.FormNewest), &service{}
	z := zone.New(zone.Config{Store: m, Now: func() time.Time { return clock }, Log: slog.New(slog.DiscardHandler)})
	m.Must(t, command.Init{Stamp: z.Stamp(), Zone: "z", Name: "here"}, command.HostsPut{Stamp: z.Stamp(), Agent: "a", Hosts: []command.HostEntry{{ID: "h1", Host: api.AgentHost{
		Name: "host-1", Driver: "fake", Pool: api.PoolShared, Attributes: map[string]string{"rack": "r1"}, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 4096}},
	}}}})
	l := leases.New(z, estimate.New(estimate.Config{Zone: z}), nil).WithCheck(s)
	who := api.Caller{User: "u", Project: "p", Role: api.RoleMember}
	now := api.InstantOf(clock)
	window := api.Window{Start: now.Add(time.Hour), End: now.Add(2 * time.Hour)}
	terms := func(name string, vcpus int64) api.LeaseTerms {
		return api.LeaseTerms{Name: name, Window: window, Reservations: []api.Reservation{
			{Type: api.ReserveInstances, Min: 2, Max: 2, Resources: api.Resources{api.VCPU: vcpus, api.MemoryMB: 64}},
		}}
	}
	no := func(*api.LeaseTerms) error { return api.Errorf(api.CodeForbidden, "not you") }

	s.refuses = no
	_, err := l.Create(t.Context(), who, terms("a", 2), "")
	require.ErrorContains(t, err, "not you")
	require.Equal(t, api.CodeForbidden, api.CodeOf(err))
	require.Len(t, s.created, 1)
	assert.Equal(t, "a", s.created[0].Name)
	assert.Equal(t, [][]rest.CheckedPlace{{{ID: "h1", Host: "host-1", Zone: "here", Amount: 2, Extra: map[string]string{"rack": "r1"}}}}, s.places)
	assert.Empty(t, m.View().Leases(""))
	planned, err := l.Plan(t.Context(), who, terms("a", 2))
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true}, []bool{planned.Fits, planned.Unasked})
	planned, err = l.Plan(t.Context(), who, api.LeaseTerms{Name: "b", Window: window})
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true, true}, []bool{planned.Fits, planned.Held, planned.Unasked})
	assert.Equal(t, "b", planned.Terms.Name)

	m.Must(t, command.QuotaSet{Stamp: z.Stamp(), Project: "p", Set: quota.Limits{quota.Reserved: 1}})
	_, err = l.Create(t.Context(), who, terms("a", 2), "")
	require.Equal(t, api.CodeOverQuota, api.CodeOf(err))
	assert.Len(t, s.created, 1, "the zone refuses it anyway")
	m.Must(t, command.QuotaDelete{Stamp: z.Stamp(), Project: "p"})

	s.refuses = func(t *api.LeaseTerms) error {
		if t.Window.Start == window.Start.Add(24*time.Hour) {
			return api.Errorf(api.CodeForbidden, "not then")
		}
		return nil
	}
	s.created = nil
	_, err = l.CreateSeries(t.Context(), who, terms("s", 1), thrice, "")
	require.Equal(t, api.CodeForbidden, api.CodeOf(err))
	require.ErrorContains(t, err, "the lease of 2030-01-02 01:00 to 2030-01-02 02:00 UTC: not then")
	assert.Empty(t, m.View().AllSeries(""))

	s.refuses = nil
	id, err := l.Create(t.Context(), who, api.LeaseTerms{Name: "empty", Window: window}, "")
	require.NoError(t, err)
	assert.Nil(t, s.places)
	s.refuses = no
	longer, name := window.End.Add(time.Hour), "renamed"
	err = l.Update(t.Context(), who, id, api.LeaseChange{End: &longer})
	require.Equal(t, api.CodeForbidden, api.CodeOf(err))
	require.Len(t, s.updated, 1)
	assert.Equal(t, []api.Instant{window.End, longer}, []api.Instant{s.updated[0][0].Window.End, s.updated[0][1].Window.End})
	got, _ := m.View().Lease(id)
	assert.Equal(t, window.End, got.Terms.Window.End)
	planned, err = l.PlanUpdate(t.Context(), who, id, api.LeaseChange{End: &longer})
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true, true}, []bool{planned.Fits, planned.Held, planned.Unasked})
	assert.Equal(t, longer, planned.Terms.Window.End)
	planned, err = l.PlanUpdate(t.Context(), who, id, api.LeaseChange{})
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true, false}, []bool{planned.Fits, planned.Held, planned.Unasked})
	assert.Equal(t, window.End, planned.Terms.Window.End)
	s.silent = true
	require.NoError(t, l.Update(t.Context(), who, id, api.LeaseChange{End: &longer}), "there is no service now")
	s.silent = false
	clock = longer.Time()
	m.Must(t, command.Tick{Stamp: z.Stamp()})
	require.NoError(t, l.Update(t.Context(), who, id, api.LeaseChange{Name: &name}), "it is over")
	assert.Len(t, s.updated, 1)
}
