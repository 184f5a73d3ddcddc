package capacity_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/capacity"
)

func TestTurns(t *testing.T) {
	table := hosts(4, "h1", "h2")
	require.NoError(t, table.Claim("h1", claim(3, api.Firm, 100, 200)))
	require.NoError(t, table.Claim("h1", claim(3, api.Firm, 200, 300))) // nothing changes at 200
	require.NoError(t, table.Claim("h2", claim(1, api.Preemptible, 0, 150)))
	table.Advance(5)
	v := table.View()
	window := func(start, end api.Instant) api.Window { return api.Window{Start: start, End: end} }
	length := 10 * time.Millisecond
	// A claim of ten may start at 90, for it ends when use rises; one that starts at 91 meets it.
	assert.Equal(t, []api.Instant{5, 6, 91, 300}, v.Turns(v.Hosts(), window(0, 1000), length))
	assert.Equal(t, []api.Instant{7, 91}, v.Turns(v.Hosts(), window(7, 300), length))
	assert.Equal(t, []api.Instant{7}, v.Turns(v.Hosts(), window(7, 91), length))
	assert.Empty(t, v.Turns(v.Hosts(), window(0, 5), length))
	h2 := capacity.NewSet(v.Rows())
	row, _ := v.Row("h2")
	h2.Add(row)
	assert.Equal(t, []api.Instant{5, 6}, v.Turns(h2, window(0, 1000), length))
}

// TestNothingChangesBetweenTurns asks at every instant what fits: claims, slots that draw
// from a tree and from a sharer, and whole hosts.
func TestNothingChangesBetweenTurns(t *testing.T) {
	const horizon = 60
	rapid.Check(t, func(rt *rapid.T) {
		table := capacity.NewTable()
		for _, id := range []api.HostID{"h1", "h2"} {
			table.Put(capacity.Spec{
				ID: id, Pool: api.PoolShared, Up: true, Enabled: true, Aggregates: []string{"rack"},
				Gap:       time.Duration(rapid.IntRange(0, 5).Draw(rt, "gap")) * time.Millisecond,
				Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
			})
		}
		table.Put(capacity.Spec{ID: "numa", Passive: true, Parent: "h1", Inventory: map[api.ResourceClass]api.Inventory{"VGPU": {Total: 1}}})
		table.Put(capacity.Spec{
			ID: "disk", Passive: true, Traits: []string{api.TraitShares}, Aggregates: []string{"rack"}, Gap: 2 * time.Millisecond,
			Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 2}},
		})
		draw := func(kind api.Class) api.Claim {
			c := claim(int64(rapid.IntRange(1, 4).Draw(rt, "cpus")), kind, api.Instant(rapid.IntRange(0, horizon).Draw(rt, "start")), 0)
			c.Window.End = c.Window.Start + api.Instant(rapid.IntRange(1, 20).Draw(rt, "length"))
			if rapid.IntRange(0, 1).Draw(rt, "disk") == 0 {
				c.Resources[api.DiskGB] = 1
			}
			if rapid.IntRange(0, 1).Draw(rt, "gpu") == 0 {
				c.Resources["VGPU"] = 1
			}
			return c
		}
		for range rapid.IntRange(0, 12).Draw(rt, "claims") {
			host := rapid.SampledFrom([]api.HostID{"h1", "h2"}).Draw(rt, "host")
			if rapid.IntRange(0, 5).Draw(rt, "whole") == 0 {
				_, _, _ = table.PlaceWhole(host, draw(api.Firm)) // or not
			} else {
				_, _ = table.Place(host, draw(rapid.SampledFrom([]api.Class{api.Firm, api.Firm, api.Preemptible}).Draw(rt, "kind"))) // or not
			}
		}
		table.Advance(api.Instant(rapid.IntRange(0, 10).Draw(rt, "now")))
		v, want := table.View(), draw(api.Firm)
		length := want.Window.End - want.Window.Start
		// answer says what fits from a start on.
		answer := func(start api.Instant) string {
			w := api.Window{Start: start, End: start + length}
			idle, said := v.Hosts().Clone(), ""
			v.KeepIdle(&idle, w, api.Firm)
			for _, id := range []api.HostID{"h1", "h2"} {
				row, _ := v.Row(id)
				c := want
				c.Window = w
				err := fits(v, id, c)
				said += fmt.Sprint(err == nil, idle.Has(row), v.FreeOver(row, api.VCPU, w, api.Firm), " ")
			}
			return said
		}
		turns := v.Turns(v.Hosts(), api.Window{Start: 0, End: horizon * 2}, time.Duration(length)*time.Millisecond)
		require.Equal(rt, v.Now(), turns[0])
		for i, from := range turns {
			until := api.Instant(horizon * 2)
			if i+1 < len(turns) {
				until = turns[i+1]
			}
			for at := from; at < until; at++ {
				require.Equal(rt, answer(from), answer(at), "from %d, at %d: %v", from, at, turns)
			}
		}
	})
}

// fits reports why a slot cannot be placed in a copy of the view.
func fits(v capacity.View, id api.HostID, c api.Claim) (err error) {
	v.Without(func(t *capacity.Table) { _, err = t.Place(id, c) })
	return err
}

func BenchmarkTurns(b *testing.B) {
	table := capacity.NewTable()
	for i := range 10_000 {
		id := api.HostID(fmt.Sprintf("h%05d", i))
		table.Put(capacity.Spec{ID: id, Pool: api.PoolShared, Up: true, Enabled: true, Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 64}}})
		start := api.Instant(1_000 * (i + 1))
		if err := table.Claim(id, claim(8, api.Firm, start, start+3_600_000)); err != nil {
			b.Fatal(err)
		}
	}
	v := table.View()
	b.ReportAllocs()
	for b.Loop() {
		v.Turns(v.Hosts(), api.Window{End: api.Forever}, time.Hour)
	}
}
