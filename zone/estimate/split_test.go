package estimate_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/dice"
	"berth/zone/intake"
	"berth/zone/zonetest"
)

// kind is a group of instances with so many processors.
type kind struct {
	cpus        int64
	least, most int
}

// kindsOf asks for instances of several kinds.
func kindsOf(res string, kinds ...kind) *intake.BootOrder {
	o := zonetest.Order(res, 1, 1)
	o.Request.Groups = nil
	for i, k := range kinds {
		name := fmt.Sprint("k", i)
		o.Request.Groups = append(o.Request.Groups, api.Group{
			Name: name, Min: k.least, Count: k.most, Flavor: api.FlavorID(name), Resources: api.Resources{api.VCPU: k.cpus, api.MemoryMB: k.cpus},
		})
	}
	return o
}

// TestGroupsHaveTheirMinima boots groups that would not fit if each took what it
// wants in the order given: over one zone, two, and three levels.
func TestGroupsHaveTheirMinima(t *testing.T) {
	for _, c := range []struct {
		name  string
		root  []int64
		below [][]int64 // children of the root
		leaf  []int64   // below the first child
		kinds []kind
		pack  bool
		want  []int // live instances of each kind; nil for a refusal
	}{
		{"4 empty hosts, web first", []int64{8, 8}, [][]int64{{8, 8}}, nil, []kind{{1, 1, 4}, {8, 1, 1}}, false, []int{4, 1}},
		{"4 empty hosts, db first", []int64{8, 8}, [][]int64{{8, 8}}, nil, []kind{{8, 1, 1}, {1, 1, 4}}, false, []int{1, 4}},
		{"64 processors", []int64{16, 16}, [][]int64{{16, 16}}, nil, []kind{{1, 1, 60}, {1, 10, 10}}, false, []int{54, 10}},
		{"all of two zones", []int64{8}, [][]int64{{8}}, nil, []kind{{3, 2, 2}, {5, 2, 2}}, false, []int{2, 2}},
		{"all of three levels", []int64{8}, [][]int64{{8}}, []int64{8}, []kind{{1, 8, 8}, {8, 2, 2}}, false, []int{8, 2}},
		{"inner shares", []int64{2, 2, 3}, [][]int64{{2, 2, 3}}, nil, []kind{{2, 4, 4}, {3, 2, 2}}, false, []int{4, 2}},
		{"packed into the child", []int64{8, 1, 1, 1}, [][]int64{{4, 4}}, nil, []kind{{1, 4, 9}, {4, 1, 1}}, true, []int{4, 1}},
		{"more than there is", []int64{8}, [][]int64{{8}}, nil, []kind{{1, 9, 9}, {8, 1, 1}}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, c.root...)
				for i, hosts := range c.below {
					kid := w.Zone(fmt.Sprint("kid", i), root, hosts...)
					if i == 0 && c.leaf != nil {
						w.Zone("leaf", kid, c.leaf...)
					}
				}
				for _, m := range w.Zones {
					spreadEvenly(m)
				}
				o := kindsOf("b", c.kinds...)
				o.Request.Zones.Pack = c.pack
				b := root.Run(o)
				if c.want == nil {
					assert.Equal(t, api.BootFailed, b.State())
					return
				}
				require.NotEqual(t, api.BootFailed, b.State(), b.Reason)
				w.Settle()
				got := make([]int, len(c.kinds))
				for _, i := range root.Instances("b") {
					got[slices.IndexFunc(o.Request.Groups, func(g api.Group) bool { return g.Flavor == i.Flavor })]++
				}
				assert.Equal(t, c.want, got)
			})
		})
	}
}

// TestASplitAsksNoMoreThanItMust: what cannot be had even if it comes first is given up after one round of questions, and a
// round has at most so many for one zone.
func TestASplitAsksNoMoreThanItMust(t *testing.T) {
	const asksMax = 16 // of one zone in one round
	for name, c := range map[string]struct {
		root  []int64
		below [][]int64
		kinds []kind
		calls int // to the first child, also those of the plan before and after the search; 0 for any number
	}{
		"enough at once":          {[]int64{8}, [][]int64{{8}}, []kind{{1, 8, 8}, {8, 1, 1}}, 2},
		"hopeless, the first":     {[]int64{8}, [][]int64{{8}}, []kind{{1, 17, 17}, {8, 1, 1}}, 5},
		"hopeless, not the first": {[]int64{8}, [][]int64{{8}}, []kind{{8, 1, 1}, {1, 17, 17}}, 4},
		"many rests":              {[]int64{7, 9, 11}, [][]int64{{7, 9, 11}, {7, 9, 11}}, []kind{{2, 9, 9}, {3, 9, 9}, {5, 7, 7}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := zonetest.NewWorld(t)
				root := w.Zone("root", nil, c.root...)
				for i, hosts := range c.below {
					w.Zone(fmt.Sprint("kid", i), root, hosts...)
				}
				for _, m := range w.Zones {
					spreadEvenly(m)
				}
				asked := map[string]map[time.Time]int{} // by child and time, which differs from round to round
				w.Delay(func(zonetest.Call) time.Duration { return 100 * time.Millisecond })
				w.When(func(c zonetest.Call) zonetest.Fault {
					if c.Op == "select" {
						if asked[c.To] == nil {
							asked[c.To] = map[time.Time]int{}
						}
						asked[c.To][time.Now()]++
					}
					return ""
				})
				req := kindsOf("b", c.kinds...).Request
				ctx, cancel := root.Within(api.SelectTimeout)
				defer cancel()
				_, err := root.Lead().Select(ctx, "", &req)
				require.NoError(t, err)
				if c.calls > 0 {
					assert.Equal(t, c.calls, w.Made("select", "root", "kid0"))
				}
				for to, rounds := range asked {
					for _, n := range rounds {
						assert.LessOrEqual(t, n, asksMax, "%s", to)
					}
				}
			})
		})
	}
}

// spreadEvenly has a zone spread what it takes over its hosts, as zones do by default.
func spreadEvenly(m *zonetest.Member) {
	m.Configure(func(c *api.ZoneConfig) { c.Costs = []api.CostWeight{{Name: "spread", Weight: 1}} })
}

// fitsOn reports whether so many instances of each kind fit on hosts with so many
// processors, by trying everything.
func fitsOn(hosts []int64, kinds []kind, k, placed, from int) bool {
	switch {
	case k == len(kinds):
		return true
	case placed == kinds[k].least:
		return fitsOn(hosts, kinds, k+1, 0, 0)
	}
	for i := from; i < len(hosts); i++ {
		if hosts[i] < kinds[k].cpus || slices.Contains(hosts[from:i], hosts[i]) && placed == 0 {
			continue
		}
		hosts[i] -= kinds[k].cpus
		ok := fitsOn(hosts, kinds, k, placed+1, i)
		hosts[i] += kinds[k].cpus
		if ok {
			return true
		}
	}
	return false
}

var federations = flag.Int("federations", 100, "how many random federations are compared with an exhaustive search")

// TestWhatFitsOverZonesIsHad draws small federations of 2 and 3 zones, and compares
// with an exhaustive search over all their hosts: no minima are refused that fit.
func TestWhatFitsOverZonesIsHad(t *testing.T) {
	rnd := dice.Rand(t)
	worlds := zonetest.Few(*federations, *federations/8)
	had, refused := 0, 0
	for n := range worlds {
		synctest.Test(t, func(t *testing.T) {
			w := zonetest.NewWorld(t)
			var all []int64
			draw := func() []int64 {
				out := make([]int64, 1+rnd.IntN(3))
				for i := range out {
					out[i] = 1 + rnd.Int64N(8)
				}
				all = append(all, out...)
				return out
			}
			root := w.Zone("root", nil, draw()...)
			kid := w.Zone("kid", root, draw()...)
			switch rnd.IntN(3) {
			case 0:
				w.Zone("other", root, draw()...)
			case 1:
				w.Zone("leaf", kid, draw()...)
			}
			for _, m := range w.Zones {
				if rnd.IntN(2) == 0 {
					spreadEvenly(m)
				}
			}
			room := int64(0)
			for _, cpus := range all {
				room += cpus
			}
			var kinds []kind
			for k := range 2 + rnd.IntN(2) { // so many that they nearly fill everything
				cpus := 1 + rnd.Int64N(5)
				least := min(1+rnd.IntN(3), int(room/cpus))
				if k == 0 {
					least = min(1+rnd.IntN(6), int(room/cpus))
				}
				room -= int64(least) * cpus
				most := least + rnd.IntN(3)
				if k == 0 {
					most = max(most, 1) // a request for nothing is refused
				}
				kinds = append(kinds, kind{cpus, least, most})
			}
			req := kindsOf(fmt.Sprint("b", n), kinds...).Request
			ctx, cancel := root.Within(api.SelectTimeout)
			defer cancel()
			a, err := root.Lead().Select(ctx, "", &req)
			require.NoError(t, err)
			got := true
			for k := range kinds {
				got = got && len(a.Weights[k]) >= kinds[k].least
			}
			fits := fitsOn(slices.Clone(all), kinds, 0, 0, 0)
			shape := ""
			for _, m := range w.Zones {
				shape += fmt.Sprint(m.Name, len(m.View().AllHosts()), " ")
			}
			assert.Equal(t, fits, got, "case %d: %s hosts of all zones %v, kinds %v; %v %v", n, shape, all, kinds, a.Weights, a.Zones)
			if fits {
				had++
			} else {
				refused++
			}
		})
	}
	t.Logf("%d had, %d refused", had, refused)
	assert.Positive(t, had)
	assert.True(t, testing.Short() || had > worlds/3, "they fit too seldom")
}
