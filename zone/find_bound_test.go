package zone_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestFoundStartsMindBindings: what is found at a zone that binds, and at its parent, is what a dry run of
// each start says: with strict no sum over children, with prefer nothing of tagged ones.
func TestFoundStartsMindBindings(t *testing.T) {
	const over = 150 * time.Minute
	two := func(name string, n, m int) api.LeaseTerms {
		l := leaseOf(name, 0, time.Hour, n)
		l.Reservations = append(l.Reservations, api.Reservation{Type: api.ReserveInstances, Min: m, Max: m, Resources: flavor.Resources})
		return l
	}
	for mode, want := range map[api.BindingMode]map[string]int{
		api.BindingOff:    {"two": 0, "four": 0, "nine": 0, "thirteen": -1, "two and two": 0, "three and two": 0, "large and one": 0, "large and two": 0},
		api.BindingPrefer: {"two": 0, "four": 0, "nine": 60, "thirteen": -1, "two and two": 0, "three and two": 0, "large and one": 0, "large and two": 0},
		api.BindingStrict: {"two": 0, "four": 60, "nine": -1, "thirteen": -1, "two and two": 60, "three and two": -1, "large and one": 60, "large and two": -1},
	} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				top := w.zone("top", nil)
				root := w.zone("root", top, 1)
				root.config(func(c *api.ZoneConfig) { c.Bindings.Mode = mode })
				w.zone("pod1", root, 2)
				w.zone("pod2", root, 4)
				w.zone("pod3", root, 2)
				w.zone("pod4", root, 3)
				w.settle()
				root.terms("pod1", func(t *api.LinkTerms) { t.Tags = []string{"affinity:resource=CAD"} })
				busy := leaseOf("busy", 0, time.Hour, 2)
				busy.Zones.Allowed = []string{"pod2"}
				_, err := root.lease(busy)
				require.NoError(t, err)
				w.settle()
				all := []api.LeaseTerms{
					leaseOf("two", 0, time.Hour, 2), leaseOf("four", 0, time.Hour, 4), leaseOf("nine", 0, time.Hour, 9), leaseOf("thirteen", 0, time.Hour, 13),
					two("two and two", 2, 2), two("three and two", 3, 2), two("large and one", 1, 1), two("large and two", 1, 2),
				}
				for _, terms := range all {
					if strings.HasPrefix(terms.Name, "large") {
						terms.Reservations[0].Resources = api.Resources{api.VCPU: 3, api.MemoryMB: 1}
					}
					for _, at := range []*member{root, top} {
						f := at.find(terms, over)
						first := -1
						if f.Earliest > 0 {
							first = int(f.Earliest.Time().Sub(terms.Window.Start.Time()) / time.Minute)
						}
						assert.Equal(t, want[terms.Name], first, "%s at %s: %+v", terms.Name, at.name, f.Windows)
						for by := range minutesToTry(terms.Window.Start, over, f.Windows) {
							its := moved(terms, by)
							require.Equal(t, at.planLease(its).Fits, inOne(f.Windows, its.Window.Start), "%s at %s after %s, found %+v", terms.Name, at.name, by, f.Windows)
						}
					}
				}
			})
		})
	}
}
