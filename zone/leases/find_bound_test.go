package leases_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/zone/zonetest"
)

// TestFoundStartsMindBindings: what is found at a zone that binds, and at its parent, is what a dry run of
// each start says: with strict no sum over children, with prefer nothing of tagged ones.
func TestFoundStartsMindBindings(t *testing.T) {
	const over = 150 * time.Minute
	two := func(name string, n, m int) api.LeaseTerms {
		l := zonetest.LeaseOf(name, 0, time.Hour, n)
		l.Reservations = append(l.Reservations, api.Reservation{Type: api.ReserveInstances, Min: m, Max: m, Resources: zonetest.Flavor.Resources})
		return l
	}
	for mode, want := range map[api.BindingMode]map[string]int{
		api.BindingOff:    {"two": 0, "four": 0, "nine": 0, "thirteen": -1, "two and two": 0, "three and two": 0, "large and one": 0, "large and two": 0},
		api.BindingPrefer: {"two": 0, "four": 0, "nine": 60, "thirteen": -1, "two and two": 0, "three and two": 0, "large and one": 0, "large and two": 0},
		api.BindingStrict: {"two": 0, "four": 60, "nine": -1, "thirteen": -1, "two and two": 60, "three and two": -1, "large and one": 60, "large and two": -1},
	} {
		t.Run(string(mode), func(t *testing.T) {
			tried := dice.Part(t, slices.Sorted(maps.Keys(want)), 1)
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				top := w.Zone("top", nil)
				root := w.Zone("root", top, 1)
				root.Configure(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				w.Zone("pod1", root, 2)
				w.Zone("pod2", root, 4)
				w.Zone("pod3", root, 2)
				w.Zone("pod4", root, 3)
				w.Settle()
				root.SetTerms("pod1", func(t *api.LinkTerms) { t.Tags = []string{"affinity:resource=CAD"} })
				busy := zonetest.LeaseOf("busy", 0, time.Hour, 2)
				busy.Zones.Allowed = []string{"pod2"}
				_, err := root.Lease(busy)
				require.NoError(t, err)
				w.Settle()
				all := []api.LeaseTerms{
					zonetest.LeaseOf("two", 0, time.Hour, 2), zonetest.LeaseOf("four", 0, time.Hour, 4), zonetest.LeaseOf("nine", 0, time.Hour, 9), zonetest.LeaseOf("thirteen", 0, time.Hour, 13),
					two("two and two", 2, 2), two("three and two", 3, 2), two("large and one", 1, 1), two("large and two", 1, 2),
				}
				for _, terms := range all {
					if !slices.Contains(tried, terms.Name) {
						continue
					}
					if strings.HasPrefix(terms.Name, "large") {
						terms.Reservations[0].Resources = api.Resources{api.VCPU: 3, api.MemoryMB: 1}
					}
					for _, at := range []*zonetest.Member{root, top} {
						f := findStarts(at, terms, over)
						first := -1
						if f.Earliest > 0 {
							first = int(f.Earliest.Time().Sub(terms.Window.Start.Time()) / time.Minute)
						}
						assert.Equal(t, want[terms.Name], first, "%s at %s: %+v", terms.Name, at.Name, f.Windows)
						for by := range minutesToTry(terms.Window.Start, over, f.Windows) {
							its := moved(terms, by)
							require.Equal(t, planLease(at, its).Fits, inOne(f.Windows, its.Window.Start), "%s at %s after %s, found %+v", terms.Name, at.Name, by, f.Windows)
						}
					}
				}
			})
		})
	}
}
