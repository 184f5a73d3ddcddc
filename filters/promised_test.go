package filters_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
	"berth/filters"
)

// idleUntil returns hosts h0, h1, ... of 1024 MB, each idle until all of it is promised; 0 for never.
func idleUntil(tb testing.TB, promised ...time.Duration) capacity.View {
	tb.Helper()
	table := capacity.NewTable()
	for i, d := range promised {
		s := spec("h"+string(rune('0'+i)), 1024, 10)
		table.Put(s)
		if d > 0 {
			at := api.Instant(d.Milliseconds())
			_, err := table.Place(s.ID, api.Claim{Resources: api.Resources{api.MemoryMB: 1024}, Class: api.Firm, Window: api.Window{Start: at, End: at + 60_000}})
			require.NoError(tb, err)
		}
	}
	return table.View()
}

// asking is a look for count slots of some memory, without an end unless it has a lifetime.
func asking(v capacity.View, count int, mb int64, lifetime time.Duration) *filters.Look {
	req := &api.Request{
		Class: api.Firm, Window: api.Window{End: api.Forever}, Lifetime: lifetime,
		Groups: []api.Group{{Count: count, Resources: api.Resources{api.MemoryMB: mb}}},
	}
	return filters.NewLook(v, nil, req, 0)
}

// TestPromisedLater: who is refused for what begins later is told how many hosts have room now and from when on they
// are promised, and the longest lifetime that would do.
func TestPromisedLater(t *testing.T) {
	const day = 24 * time.Hour
	lives := func(d time.Duration) []api.Advice {
		return []api.Advice{{Change: api.AdviceLifetime, Value: int64(d / time.Second)}}
	}
	for _, x := range []struct {
		says     string
		hosts    []time.Duration
		count    int
		lifetime time.Duration
		promised int // hosts
		from     time.Duration
		want     []api.Advice
	}{
		{"all in a week", []time.Duration{7 * day, 7 * day, 7 * day}, 1, 0, 3, 7 * day, lives(6*day + 23*time.Hour)},
		{"all in a week, for longer than that", []time.Duration{7 * day, 7 * day}, 1, 200 * time.Hour, 2, 7 * day, lives(6*day + 23*time.Hour)},
		{"all in a week, for as long", []time.Duration{7 * day, 7 * day}, 1, 7 * day, 0, 0, nil},
		{"all in a week, for a millisecond longer", []time.Duration{7 * day}, 1, 7*day + time.Millisecond, 1, 7 * day, lives(6*day + 23*time.Hour)},
		{"one sooner", []time.Duration{3 * time.Hour, 7 * day}, 1, 0, 2, 3 * time.Hour, lives(6*day + 23*time.Hour)},
		{"both, of which one is sooner", []time.Duration{3 * time.Hour, 7 * day}, 2, 0, 2, 3 * time.Hour, lives(2*time.Hour + 57*time.Minute)},
		{"more than there ever are", []time.Duration{3 * time.Hour, 7 * day}, 3, 0, 2, 3 * time.Hour, nil},
		{"one is free for good", []time.Duration{3 * time.Hour, 0}, 1, 0, 1, 3 * time.Hour, nil},
		{"at once", []time.Duration{500 * time.Millisecond}, 1, 0, 1, 500 * time.Millisecond, nil},
		{"in some seconds", []time.Duration{5 * time.Second}, 1, 0, 1, 5 * time.Second, lives(4 * time.Second)},
	} {
		l := asking(idleUntil(t, x.hosts...), x.count, 1024, x.lifetime)
		_, why := filters.Run(filters.Default(), l)
		var filter []api.FilterCount
		if x.promised > 0 {
			filter = []api.FilterCount{{Filter: "promised", Hosts: x.promised, Tier: api.TierNotNow}}
		}
		assert.Equal(t, filter, why.Filters, x.says)
		filters.DatePromised(filters.Default(), l, &why)
		assert.Equal(t, api.Instant(x.from.Milliseconds()), why.Promised, x.says)
		assert.Equal(t, x.want, filters.Advise(filters.Default(), l), x.says)
	}
}

// TestFullIsNotPromised: a host that is full now is so whatever comes later, and one that is free later is not promised.
func TestFullIsNotPromised(t *testing.T) {
	table := capacity.NewTable()
	s := spec("h0", 1024, 10)
	table.Put(s)
	_, err := table.Place(s.ID, api.Claim{Resources: api.Resources{api.MemoryMB: 1}, Class: api.Firm, Window: api.Window{End: 60_000}})
	require.NoError(t, err)
	l := asking(table.View(), 1, 1024, 0)
	_, why := filters.Run(filters.Default(), l)
	filters.DatePromised(filters.Default(), l, &why)
	assert.Equal(t, []api.FilterCount{{Filter: "capacity", Hosts: 1, Tier: api.TierNotNow}}, why.Filters)
	assert.Zero(t, why.Promised)
}

// TestALifetimeIsTheLongest: whatever is promised, the group has its slots with the lifetime that is advised, and has
// them not with one that is longer by more than what is left for asking again.
func TestALifetimeIsTheLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := capacity.NewTable()
		for i := range rapid.IntRange(1, 4).Draw(t, "hosts") {
			s := spec("h"+string(rune('0'+i)), 1024, 10)
			table.Put(s)
			for range rapid.IntRange(0, 3).Draw(t, "leases") {
				at := api.Instant(rapid.Int64Range(1, 400_000).Draw(t, "from") * 1000)
				table.Restore(s.ID, api.Claim{
					Resources: api.Resources{api.MemoryMB: rapid.Int64Range(1, 512).Draw(t, "memory")}, Class: api.Firm, Window: api.Window{Start: at, End: at + 1_000_000},
				})
			}
		}
		count, mb := rapid.IntRange(1, 6).Draw(t, "count"), rapid.Int64Range(1, 1024).Draw(t, "slot")
		slots := func(lifetime time.Duration) int64 {
			l, n := asking(table.View(), count, mb, lifetime), int64(0)
			pass, _ := filters.Run(filters.Default(), l)
			for row := range pass.All() {
				n += l.View.FreeOver(row, api.MemoryMB, l.Window, api.Firm) / mb
			}
			return n
		}
		advice := filters.Advise(filters.Default(), asking(table.View(), count, mb, 0))
		if len(advice) == 0 || advice[0].Change != api.AdviceLifetime {
			if slots(0) < int64(count) {
				require.Less(t, slots(2*time.Second), int64(count), "two seconds would do, of which one is left to ask again, and nobody says it")
			}
			return
		}
		d := time.Duration(advice[0].Value) * time.Second
		require.Less(t, slots(0), int64(count))
		require.GreaterOrEqual(t, slots(d), int64(count))
		require.Less(t, slots(d+d/32+75*time.Minute), int64(count))
	})
}
