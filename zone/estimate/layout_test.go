package estimate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/capacity"
)

// TestShownHosts: of the hosts that serve, parents are shown the largest power of two; of each kind as many as of any
// other while there are that many.
func TestShownHosts(t *testing.T) {
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
		{"all kinds alike", []int{3, 3}, 0, []int{2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := capacity.NewTable()
			put := func(id string, kind int, up bool) {
				table.Put(capacity.Spec{
					ID: api.HostID(id), Up: up, Enabled: true, Pool: api.PoolShared, Traits: []string{fmt.Sprint("CUSTOM_", kind)},
					Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
				})
			}
			for kind, n := range c.kinds {
				for i := range n {
					put(fmt.Sprintf("h-%d-%03d", kind, i), kind, true)
				}
			}
			for i := range c.down {
				put(fmt.Sprintf("down-%d", i), 0, false)
			}
			v := table.View()
			shown := v.Among(chooseShown(v, nil))
			var all int
			for kind, want := range c.want {
				has := shown.Hosts()
				has.And(shown.Trait(fmt.Sprint("CUSTOM_", kind)))
				assert.Equal(t, want, has.Len(), "of kind %d", kind)
				all += want
			}
			assert.Equal(t, all, shown.Len())
			assert.Equal(t, int64(4*all), shown.Totals()[api.VCPU].Total)
		})
	}
}
