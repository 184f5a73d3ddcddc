package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/filled"
	"berth/internal/memstore"
	"berth/raftstore/command"
)

// TestWhoIsInTheWayOfMaintenance: firm work in its window, less the time to clean, that is not of the lease itself.
func TestWhoIsInTheWayOfMaintenance(t *testing.T) {
	m := memstore.New()
	m.Must(t, command.Init{Zone: "z", Name: "zone"})
	v := m.View()
	lease := &api.LeaseTerms{Window: api.Window{Start: 1000, End: 2000}, Reservations: []api.Reservation{{ID: "own"}}}
	instance := func(change func(i *api.Instance)) *api.Instance {
		i := filled.Of[api.Instance]()
		i.Class, i.Status, i.Origin, i.Reserved, i.Group, i.Window = api.Firm, api.StatusActive, "", false, "g", api.Window{Start: 1500, End: 1600}
		if change != nil {
			change(&i)
		}
		return &i
	}
	require.True(t, isInWay(v, instance(nil), lease))
	for name, c := range map[string]struct {
		change func(i *api.Instance)
		want   bool
	}{
		"its own slot":             {func(i *api.Instance) { i.Reserved, i.Group = true, "own" }, false},
		"another slot":             {func(i *api.Instance) { i.Reserved = true }, true},
		"an instance of that name": {func(i *api.Instance) { i.Group = "own" }, true},
		"a slot of the parent":     {func(i *api.Instance) { i.Reserved, i.Group, i.Origin = true, "own", "up" }, true},
		"preemptible":              {func(i *api.Instance) { i.Class = api.Preemptible }, false},
		"gone":                     {func(i *api.Instance) { i.Status = api.StatusDeleted }, false},
		"before":                   {func(i *api.Instance) { i.Window = api.Window{Start: 0, End: 1000} }, false},
		"until it begins":          {func(i *api.Instance) { i.Window = api.Window{Start: 0, End: 1001} }, true},
		"after":                    {func(i *api.Instance) { i.Window = api.Window{Start: 2000, End: 3000} }, false},
		"from its end on":          {func(i *api.Instance) { i.Window = api.Window{Start: 1999, End: 3000} }, true},
	} {
		assert.Equal(t, c.want, isInWay(v, instance(c.change), lease), name)
	}
	assert.Equal(t, "its owner ends it", describeEnd(api.Forever))
	assert.Equal(t, "1970-01-01 00:00 UTC", describeEnd(0))
}
