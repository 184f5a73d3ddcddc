package capacity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// kindHost describes the nth host of a kind.
func kindHost(kind, nth int, up bool) Spec {
	return Spec{
		ID: api.HostID(fmt.Sprintf("h-%02d-%03d", kind, nth)), Up: up, Enabled: true, Pool: api.PoolShared, Traits: []string{fmt.Sprint("CUSTOM_", kind)},
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
	}
}

// TestShown: of the hosts that serve, other zones are shown a power of two of each kind, and no more in all than the
// largest power of two.
func TestShown(t *testing.T) {
	for _, c := range []struct {
		name  string
		kinds []int // hosts of each kind
		down  int   // of the first kind, beside those
		want  []int // shown of each kind
	}{
		{"none", nil, 0, nil},
		{"one", []int{1}, 0, []int{1}},
		{"a power of two", []int{8}, 0, []int{8}},
		{"one less", []int{7}, 0, []int{4}},
		{"one more", []int{9}, 0, []int{8}},
		{"those that are down do not count", []int{7}, 5, []int{4}},
		{"a rare kind can be had", []int{100, 1}, 0, []int{63, 1}},
		{"two rare kinds", []int{9, 2, 2}, 0, []int{4, 2, 2}},
		{"of a rare kind a power of two", []int{30, 3}, 0, []int{14, 2}},
		{"all kinds alike", []int{3, 3}, 0, []int{2, 2}},
		{"more kinds than places", []int{1, 1, 1, 1, 1}, 0, []int{1, 1, 1, 1, 0}},
		{"no kind is preferred", []int{9, 9, 8}, 0, []int{5, 5, 5}},
		{"half of a half", []int{15, 7}, 0, []int{4, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable()
			table.HideLayout(nil)
			for kind, n := range c.kinds {
				for i := range n {
					table.Put(kindHost(kind, i, true))
				}
			}
			for i := range c.down {
				table.Put(kindHost(0, 500+i, false))
			}
			shown := table.View().Shown()
			var all int
			for kind, want := range c.want {
				has := shown.Hosts()
				has.And(shown.Trait(fmt.Sprint("CUSTOM_", kind)))
				assert.Equal(t, want, has.Len(), "of kind %d", kind)
				all += want
			}
			assert.Equal(t, all, shown.Len())
			assert.Equal(t, int64(4*all), shown.Totals()[api.VCPU].Total)
			if c.down == 0 {
				assert.Equal(t, int64(4*all), table.Stock(api.VCPU))
			}
		})
	}
}

// TestWhatIsShownTellsNoNumber looks at all zones of up to three kinds and 20 hosts of each. Of those that look alike to another zone, one
// has nearly twice the hosts of another one: of each kind that is shown, and, but for kinds that are known to be one host, in
// all. More than a quarter is shown.
func TestWhatIsShownTellsNoNumber(t *testing.T) {
	const most = 20
	type span struct{ low, high int }
	widen := func(s *span, n int) {
		if s.low == 0 || n < s.low {
			s.low = n
		}
		s.high = max(s.high, n)
	}
	looks := map[[3]int]*[4]span{} // of each kind, and of all, by what is shown
	for n := range most * most * most {
		sizes := []int{n % most, n / most % most, n / most / most}
		shown, all, sum := countsShown(sizes), 0, 0
		key := [3]int(shown)
		if looks[key] == nil {
			looks[key] = new([4]span)
		}
		for kind, n := range sizes {
			all, sum = all+n, sum+shown[kind]
			if shown[kind] > 0 {
				widen(&looks[key][kind], n)
			}
		}
		widen(&looks[key][3], all)
		require.LessOrEqual(t, all, 4*sum, "%v of %v", shown, sizes)
	}
	whole := 0
	for shown, spans := range looks {
		kinds := 0
		if shown[0] >= 8 || shown[1] >= 8 || shown[2] >= 8 {
			continue // with more hosts, more would look like that
		}
		for kind, n := range shown {
			if n > 0 {
				kinds++
				assert.GreaterOrEqual(t, spans[kind].high, 2*spans[kind].low-1, "%v tells of kind %d: %v", shown, kind, spans[kind])
			}
		}
		assert.GreaterOrEqual(t, spans[3].high, 2*spans[3].low-kinds, "%v tells of all: %v", shown, spans[3])
		whole++
	}
	assert.Greater(t, whole, 20)
}

// TestStockOfShown: a share of what is shown tells as much as what is shown, whatever serves; what is below a hidden
// host is hidden, and what all share is not.
func TestStockOfShown(t *testing.T) {
	table := NewTable()
	for n := range 12 {
		h := kindHost(0, n, n != 3)
		h.Aggregates = []string{"all"}
		table.Put(h)
		table.Put(Spec{ID: h.ID + "-numa", Parent: h.ID, Passive: true, Inventory: map[api.ResourceClass]api.Inventory{api.MemoryMB: {Total: 10}}})
	}
	table.Put(Spec{ID: "pool", Passive: true, Traits: []string{api.TraitShares}, Aggregates: []string{"all"}, Inventory: map[api.ResourceClass]api.Inventory{api.DiskGB: {Total: 1000}}})
	stock := func() [3]int64 {
		v := table.View()
		for _, c := range []api.ResourceClass{api.VCPU, api.MemoryMB, api.DiskGB} {
			require.Equal(t, table.Stock(c), v.Stock(c))
			require.Equal(t, table.Stock(c), v.Copy().Stock(c))
		}
		return [3]int64{table.Stock(api.VCPU), table.Stock(api.MemoryMB), table.Stock(api.DiskGB)}
	}
	before := table.View()
	assert.Equal(t, [3]int64{48, 120, 1000}, stock())
	table.HideLayout(nil)
	assert.Equal(t, [3]int64{32, 80, 1000}, stock())
	table.Put(kindHost(0, 100, true)) // another kind: it shares nothing
	assert.Equal(t, [3]int64{32, 70, 1000}, stock())
	table.Remove(kindHost(0, 100, true).ID)
	for n := range 5 {
		table.Remove(kindHost(0, n, true).ID + "-numa")
		table.Remove(kindHost(0, n, true).ID)
	}
	assert.Equal(t, [3]int64{16, 40, 1000}, stock())
	table.ShowLayout()
	assert.Equal(t, [3]int64{28, 70, 1000}, stock())
	assert.Equal(t, int64(48), before.Stock(api.VCPU))
}

// TestLayoutFollowsDescriptions: each change of a description that makes a host another kind, or end to serve, is seen;
// claims change nothing.
func TestLayoutFollowsDescriptions(t *testing.T) {
	table := NewTable()
	for n := range 6 {
		table.Put(kindHost(0, n, true))
	}
	table.HideLayout([]string{"rack"})
	change := func(n int, change func(*Spec)) int {
		h := kindHost(0, n, true)
		change(&h)
		table.Put(h)
		return table.View().Shown().Len()
	}
	assert.Equal(t, 4, table.View().Shown().Len())
	assert.Equal(t, 4, change(0, func(h *Spec) { h.Attributes = map[string]string{"serial": "1"} }), "nobody may ask for it")
	for name, other := range map[string]func(*Spec){ // one of another kind, and three of five
		"attribute": func(h *Spec) { h.Attributes = map[string]string{"rack": "1"} },
		"inventory": func(h *Spec) { h.Inventory = map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 5}} },
		"trait":     func(h *Spec) { h.Traits = nil },
		"aggregate": func(h *Spec) { h.Aggregates = []string{"a"} },
		"zone":      func(h *Spec) { h.AZ = "a" },
		"pool":      func(h *Spec) { h.Pool = api.PoolOnDemand },
		"command":   func(h *Spec) { h.NeedsCommand = true },
	} {
		change(0, other)
		kinds := table.View().kindsOf([]string{"rack"})
		assert.Len(t, kinds, 2, name)
		assert.Equal(t, 4, table.View().Shown().Len(), name)
		assert.Same(t, table.View().layout(), table.View().layout(), name)
		shown := table.View().Shown().Hosts()
		assert.True(t, shown.Has(kinds[0][0]) && shown.Has(kinds[1][0]), name)
		assert.Equal(t, 4, change(0, func(*Spec) {}), name)
	}
	for name, away := range map[string]func(*Spec){
		"down": func(h *Spec) { h.Up = false }, "disabled": func(h *Spec) { h.Enabled = false }, "maintenance": func(h *Spec) { h.Maintenance = true },
	} {
		for n := range 3 {
			change(n, away)
		}
		assert.Equal(t, 2, table.View().Shown().Len(), name)
		for n := range 3 {
			change(n, func(*Spec) {})
		}
	}
	first := table.View().layout()
	_, err := table.Place(kindHost(0, 0, true).ID, api.Claim{Resources: api.Resources{api.VCPU: 4}, Window: api.Window{End: api.Forever}, Class: api.Firm})
	require.NoError(t, err)
	assert.Same(t, first, table.View().layout())
}

func (v View) layout() *layout { return v.data().layout }
