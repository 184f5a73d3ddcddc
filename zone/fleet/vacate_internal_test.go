package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestWhatIsInTheWayOfMaintenance: what is firm and live, and uses the host within the window, or so near that it could not be cleaned
// between; not the lease's own slots, but those of a parent that have the same name.
func TestWhatIsInTheWayOfMaintenance(t *testing.T) {
	const cleaning = 10 * time.Minute
	c := newClocked(t, api.FormNewest)
	c.Must(t, command.ConfigSet{Stamp: c.zone.Stamp(), Config: api.ZoneConfig{Leases: api.LeaseRule{Cleaning: cleaning}}})
	c.register("a", "h1")
	start := c.zone.Instant().Add(time.Hour)
	end := start.Add(time.Hour)
	terms := &api.LeaseTerms{Window: api.Window{Start: start, End: end}, Reservations: []api.Reservation{{ID: "own"}}}
	is := func(edit func(*api.Instance, *api.InstanceTerms)) *api.Instance {
		what := &api.InstanceTerms{Class: api.Firm, Window: terms.Window}
		i := api.NewInstance(what, api.InstanceSpec{ID: "i"}, api.StatusActive)
		i.Host = c.host("h1").ID
		edit(i, what)
		return i
	}
	over := func(from, to api.Instant) *api.Instance {
		return is(func(_ *api.Instance, s *api.InstanceTerms) { s.Window = api.Window{Start: from, End: to} })
	}
	for name, x := range map[string]struct {
		i    *api.Instance
		want bool
	}{
		"a firm instance":                     {is(func(*api.Instance, *api.InstanceTerms) {}), true},
		"a preemptible":                       {is(func(_ *api.Instance, s *api.InstanceTerms) { s.Class = api.Preemptible }), false},
		"one that ended":                      {is(func(i *api.Instance, _ *api.InstanceTerms) { i.Status = api.StatusDeleted }), false},
		"an own slot":                         {is(func(i *api.Instance, s *api.InstanceTerms) { s.Reserved, s.Group = true, "own" }), false},
		"another slot":                        {is(func(i *api.Instance, s *api.InstanceTerms) { s.Reserved, s.Group = true, "other" }), true},
		"a parent's slot":                     {is(func(i *api.Instance, s *api.InstanceTerms) { s.Reserved, s.Group, s.Origin = true, "own", "up" }), true},
		"an instance of a group of that name": {is(func(i *api.Instance, s *api.InstanceTerms) { s.Group = "own" }), true},
		"just before":                         {over(0, start.Add(-cleaning)), false},
		"too near before":                     {over(0, start.Add(-cleaning)+1), true},
		"just after":                          {over(end.Add(cleaning), api.Forever), false},
		"too near after":                      {over(end.Add(cleaning)-1, api.Forever), true},
		"of no known host": {is(func(i *api.Instance, s *api.InstanceTerms) {
			i.Host, s.Window = "none", api.Window{Start: end, End: api.Forever}
		}), false},
		"of no known host, within": {is(func(i *api.Instance, s *api.InstanceTerms) {
			i.Host, s.Window = "none", api.Window{Start: end - 1, End: api.Forever}
		}), true},
	} {
		assert.Equal(t, x.want, isInWay(c.View(), x.i, terms), name)
	}
}

// TestARefusalNamesWhatIsInTheWay: the first ones by name, with their end, and how many more there are.
func TestARefusalNamesWhatIsInTheWay(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	start := c.zone.Instant().Add(time.Hour)
	terms := &api.LeaseTerms{Hosts: []string{"h1", "h2"}, Window: api.Window{Start: start, End: start.Add(time.Hour)}, Reservations: []api.Reservation{{ID: "own"}}}
	refusal := func() error {
		index := c.View().Index()
		err := c.VacateHosts(t.Context(), terms)
		assert.Equal(t, index, c.View().Index())
		before := c.View()
		_, planned := c.PlanVacate(before, terms)
		assert.Equal(t, err, planned, "a dry run says the same")
		return err
	}
	require.NoError(t, refusal())
	for n := range inWayShown {
		c.put(fmt.Sprint("i", n), []string{"h2", "h1"}[n%2])
	}
	err := refusal()
	assert.Equal(t, api.CodeConflict, api.CodeOf(err))
	assert.Equal(t, "the hosts are in use then, by instance i0 until its owner ends it, instance i1 until its owner ends it, instance i2 until its owner ends it, "+
		"instance i3 until its owner ends it, instance i4 until its owner ends it: drain them first, or choose another window", api.MessageOf(err))
	c.put("i9", "h1")
	says := api.MessageOf(refusal())
	assert.Contains(t, says, "i4 until its owner ends it and 1 more: drain")
	assert.Equal(t, inWayShown, strings.Count(says, "instance "))
	assert.Equal(t, "2000-01-02 03:04 UTC", describeEnd(api.InstantOf(time.Date(2000, 1, 2, 3, 4, 5, 0, time.UTC))))
	terms.Hosts = []string{"h1", "none"}
	assert.Equal(t, api.CodeNotFound, api.CodeOf(refusal()))
}

// TestSlotsThatHaveGoneAreNotMoved: of slots that were in the way, one that has ended, or moved, meanwhile is left alone; what cannot be
// looked at again, or cannot be moved, stops the rest.
func TestSlotsThatHaveGoneAreNotMoved(t *testing.T) {
	c := newClocked(t, api.FormNewest)
	c.register("a", "h1", "h2")
	start := c.zone.Instant().Add(time.Hour)
	req := api.Request{
		Reservation: "r", Project: "p", User: "u", Class: api.Firm, Window: api.Window{Start: start, End: start.Add(time.Hour)}, Reserves: true,
		Groups: []api.Group{{Name: "g", Count: 2, Resources: api.Resources{api.VCPU: 1}}},
	}
	specs := []api.InstanceSpec{{ID: "s1", Name: "s1"}, {ID: "s2", Name: "s2"}}
	from := c.host("h1").ID
	c.Must(t, command.BootCreate{Stamp: c.zone.Stamp(), BootTerms: command.BootTerms{Digest: []byte("d"), Name: "r", Request: req, Min: 2, Instances: specs}},
		command.Hold{Stamp: c.zone.Stamp(), ID: "h", Attempt: 1, Request: req, Commit: true, Slots: []command.Slot{{Instance: specs[0], Host: from}, {Instance: specs[1], Host: from}}})
	v := c.View()
	require.Len(t, v.SlotsOn(from), 2)
	terms := &api.LeaseTerms{Hosts: []string{"h1"}, Window: req.Window, Reservations: []api.Reservation{{ID: "own"}}}
	vacate := func(latest func() (*state.State, error), move func([]*api.Instance, api.HostID) error) (moved []api.InstanceID, err error) {
		err = c.vacate(v, []api.HostID{from}, terms, latest, func(group []*api.Instance, to api.HostID) error {
			moved = append(moved, group[0].ID)
			assert.Equal(t, c.host("h2").ID, to)
			return move(group, to)
		})
		return moved, err
	}
	good := func([]*api.Instance, api.HostID) error { return nil }
	moved, err := vacate(func() (*state.State, error) { return v, nil }, good)
	require.NoError(t, err)
	assert.Equal(t, []api.InstanceID{"s1", "s2"}, moved)
	_, err = vacate(func() (*state.State, error) { return nil, api.Errorf(api.CodeUnavailable, "no leader") }, good)
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	moved, err = vacate(func() (*state.State, error) { return v, nil }, func([]*api.Instance, api.HostID) error { return api.Errorf(api.CodeStale, "no") })
	assert.Equal(t, api.CodeStale, api.CodeOf(err))
	assert.ErrorContains(t, err, "the slot s1 of reservation g cannot leave its host: no")
	assert.Len(t, moved, 1)

	c.Must(t, command.InstanceMove{Stamp: c.zone.Stamp(), ID: "s1", From: from, To: c.host("h2").ID})
	moved, err = vacate(func() (*state.State, error) { return c.View(), nil }, good)
	require.NoError(t, err)
	assert.Equal(t, []api.InstanceID{"s2"}, moved)
	moved, err = vacate(func() (*state.State, error) { return state.New(), nil }, good)
	require.NoError(t, err)
	assert.Empty(t, moved)
}
