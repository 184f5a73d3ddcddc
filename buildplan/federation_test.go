package buildplan_test

import (
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
)

// places returns the sets of groups that must take slots of one source.
func places(req *api.Request) [][]int {
	var out [][]int
	if req.Zones.Pack {
		out = append(out, nil)
		for g := range req.Groups {
			out[0] = append(out[0], g)
		}
		return out
	}
	for g := range req.Groups {
		if b := priceBound(req, g); len(b) > 0 && b[0] == g {
			out = append(out, b)
		}
	}
	return out
}

// plainMerge is the slow, obvious merge. It knows MinZones for one group only.
func plainMerge(req *api.Request, offers [][][]int64, already [][]int) [][]int {
	sources := len(offers[0])
	held := func(g, s int) int {
		if already == nil {
			return 0
		}
		return already[g][s]
	}
	only := make([]int, len(req.Groups)) // by group: the only source, or -1
	for g := range only {
		only[g] = -1
	}
	for _, groups := range places(req) {
		home := plainHome(req, offers, groups, held)
		for _, g := range groups {
			only[g] = home
		}
	}
	orders := make([][]int, len(req.Groups))
	for g := range orders {
		taken := make([]int, sources)
		head := func(s int) (int64, bool) {
			if only[g] >= 0 && only[g] != s || taken[s] >= len(offers[g][s]) {
				return 0, false
			}
			return offers[g][s][taken[s]], true
		}
		unused := 0 // sources that must still be used first
		if only[g] < 0 {
			unused = req.Zones.MinZones
			for s := range sources {
				if held(g, s) > 0 {
					unused--
				}
			}
		}
		even := req.Zones.MinZones > 1 && req.Zones.MaxSkew == 0
		slots := func(s int) int { return taken[s] + held(g, s) }
		before := func(s, best int, fresh bool) bool { // one that is used comes first, then the emptiest, then the cheapest
			if mine, its := slots(s), slots(best); !fresh && even && mine != its {
				return its == 0 || mine > 0 && mine < its
			}
			w, _ := head(s)
			b, _ := head(best)
			return w < b
		}
		for len(orders[g]) < req.Groups[g].Count {
			pick := func(fresh bool) int {
				best := -1
				for s := range sources {
					_, ok := head(s)
					if !ok || fresh && taken[s]+held(g, s) > 0 {
						continue
					}
					if !fresh && only[g] < 0 && tooMany(req.Zones.MaxSkew, offers[g], taken, s, func(s int) int { return held(g, s) }) {
						continue
					}
					if best >= 0 && !before(s, best, fresh) {
						continue
					}
					best = s
				}
				return best
			}
			best := -1
			if unused > 0 {
				best = pick(true)
				unused--
			}
			if best < 0 {
				best = pick(false)
			}
			if best < 0 && unused <= 0 {
				break
			}
			if best >= 0 {
				orders[g] = append(orders[g], best)
				taken[best]++
			}
		}
	}
	return orders
}

// tooMany: one slot more of s would put it more than skew ahead of a source that
// offers.
func tooMany(skew int, offers [][]int64, taken []int, s int, held func(s int) int) bool {
	for other := range offers {
		if len(offers[other]) > 0 && skew > 0 && other != s && held(s)+taken[s]+1-held(other)-taken[other] > skew {
			return true
		}
	}
	return false
}

// plainHome is the one source for some groups.
func plainHome(req *api.Request, offers [][][]int64, groups []int, held func(g, s int) int) int {
	best, most, least := -1, 0, new(big.Int)
	for s := range offers[0] {
		slots, sum := 0, new(big.Int)
		for _, g := range groups {
			if held(g, s) > 0 {
				return s
			}
			for i, w := range offers[g][s] {
				if i < req.Groups[g].Count {
					slots++
					sum.Add(sum, big.NewInt(w))
				}
			}
		}
		if best < 0 || slots > most || slots == most && sum.Cmp(least) < 0 {
			best, most, least = s, slots, sum
		}
	}
	return best
}

// soundMerge checks what every merge promises, without saying which it must be.
func soundMerge(t *rapid.T, req *api.Request, offers [][][]int64, already [][]int, merged []buildplan.Merged) {
	alone := make([]bool, len(req.Groups))
	for _, groups := range places(req) {
		used := map[uint16]bool{}
		for _, g := range groups {
			alone[g] = true
			for _, s := range merged[g].Order {
				used[s] = true
			}
		}
		require.LessOrEqual(t, len(used), 1, "groups %v", groups)
	}
	for g, m := range merged {
		taken, costs := make([]int, len(offers[g])), make([]int64, len(offers[g]))
		require.LessOrEqual(t, len(m.Order), req.Groups[g].Count)
		require.Len(t, m.Weights, len(m.Order))
		for i, s := range m.Order {
			require.Equal(t, offers[g][s][taken[s]], m.Weights[i], "group %d: slot %d is not the head", g, i)
			require.False(t, !alone[g] && tooMany(req.Zones.MaxSkew, offers[g], taken, int(s), func(s int) int {
				if already == nil {
					return 0
				}
				return already[g][s]
			}), "group %d: slot %d breaks the skew", g, i)
			taken[s]++
			costs[s] += m.Weights[i]
			require.Equal(t, taken, m.Prefix(i+1))
		}
		require.Equal(t, taken, m.Taken)
		require.Equal(t, costs, m.Costs)
	}
}

// usedBy counts the sources with a slot of the request.
func usedBy(merged []buildplan.Merged, already [][]int, sources int) int {
	n := 0
	for s := range sources {
		used := false
		for g := range merged {
			used = used || merged[g].Taken[s] > 0 || already != nil && already[g][s] > 0
		}
		if used {
			n++
		}
	}
	return n
}

// mostUsed is how many sources could be used at the most, by trying everything.
func mostUsed(req *api.Request, offers [][][]int64, already [][]int, s int, left []int) int {
	if s == len(offers[0]) {
		return 0
	}
	for g := range offers {
		if already != nil && already[g][s] > 0 {
			return 1 + mostUsed(req, offers, already, s+1, left)
		}
	}
	best := mostUsed(req, offers, already, s+1, left)
	for g := range offers {
		if left[g] > 0 && len(offers[g][s]) > 0 {
			left[g]--
			best = max(best, 1+mostUsed(req, offers, already, s+1, left))
			left[g]++
		}
	}
	return best
}

func drawZones(t *rapid.T) api.ZoneRule {
	switch rapid.IntRange(0, 4).Draw(t, "zones") {
	case 0:
		return api.ZoneRule{Pack: true}
	case 1:
		return api.ZoneRule{MaxSkew: rapid.IntRange(1, 3).Draw(t, "skew")}
	case 2:
		return api.ZoneRule{MinZones: rapid.IntRange(1, 5).Draw(t, "least")}
	case 3:
		return api.ZoneRule{MaxSkew: rapid.IntRange(1, 3).Draw(t, "skew"), MinZones: rapid.IntRange(1, 5).Draw(t, "least")}
	}
	return api.ZoneRule{}
}

func TestMergeKeepsZoneRules(t *testing.T) {
	check(t, 1, func(t *rapid.T) {
		req := &api.Request{Zones: drawZones(t)}
		sources, groups := rapid.IntRange(1, 4).Draw(t, "sources"), rapid.IntRange(1, 3).Draw(t, "groups")
		var offers [][][]int64
		var already [][]int
		for range groups {
			req.Groups = append(req.Groups, api.Group{Count: rapid.IntRange(0, 7).Draw(t, "count")})
			offers = append(offers, rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(-3, 3), 0, 4), sources, sources).Draw(t, "offers"))
			already = append(already, rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, 1, 2}), sources, sources).Draw(t, "already"))
		}
		if groups > 1 && rarely(t, 3) {
			req.Rules = []api.Rule{{Policy: api.Affinity, Groups: []int{0, groups - 1}}}
		}
		if rapid.Bool().Draw(t, "first attempt") {
			already = nil
		}
		before := slices.Clone(offers[0])
		merged := buildplan.Merge(req, offers, already, nil)
		require.Equal(t, before, offers[0], "the offers are left alone")
		soundMerge(t, req, offers, already, merged)
		if n := req.Zones.MinZones; n > 0 && len(req.Rules) == 0 {
			left := make([]int, groups)
			for g := range left {
				left[g] = req.Groups[g].Count
			}
			require.GreaterOrEqual(t, usedBy(merged, already, sources), min(n, mostUsed(req, offers, already, 0, left)))
		}
		if req.Zones.MinZones > 0 && groups > 1 {
			return // which sources go first is for the properties above
		}
		for g, order := range plainMerge(req, offers, already) {
			got := []int{}
			for _, s := range merged[g].Order {
				got = append(got, int(s))
			}
			require.Equal(t, append([]int{}, order...), got, "group %d", g)
		}
	})
}

// tree is a zone with its children, and how its parent's link adjusts weights.
type tree struct {
	zone          *zone
	offset, scale int64
	below         []*tree
}

func drawTree(t *rapid.T, depth int) *tree {
	n := &tree{
		zone: drawZone(t, 0, 1, 3, 8), offset: rapid.Int64Range(-9, 9).Draw(t, "offset"),
		scale: rapid.Int64Range(1, 3).Draw(t, "scale"),
	}
	if depth > 0 {
		for range rapid.IntRange(0, 2).Draw(t, "children") {
			n.below = append(n.below, drawTree(t, depth-1))
		}
	}
	return n
}

// offer is what a tree offers for a request, planned by Select and Merge, after
// the slow scheduler has said the same.
func (n *tree) offer(t *rapid.T, req *api.Request) [][]int64 {
	own, slow := buildplan.Select(n.zone.scene(t), req), n.zone.slow(req).plan()
	sameAsSlow(t, own, slow, n.zone, req)
	offers := make([][][]int64, len(req.Groups))
	for g := range offers {
		offers[g] = [][]int64{own.Groups[g].Weights()}
	}
	for _, c := range n.below {
		for g, weights := range c.offer(t, buildplan.Ask{}.Request(req)) {
			for i, w := range weights {
				weights[i] = w*c.scale + c.offset
			}
			offers[g] = append(offers[g], weights)
		}
	}
	merged := buildplan.Merge(req, offers, nil, nil)
	soundMerge(t, req, offers, nil, merged)
	out := make([][]int64, len(req.Groups))
	for g := range out {
		out[g] = merged[g].Weights
	}
	if req.Zones.MinZones > 0 && len(req.Groups) > 1 {
		return out
	}
	for g, order := range plainMerge(req, offers, nil) {
		got := []int{}
		for _, s := range merged[g].Order {
			got = append(got, int(s))
		}
		require.Equal(t, append([]int{}, order...), got, "group %d", g)
	}
	return out
}

func TestFederationAgreesWithSlowScheduler(t *testing.T) {
	check(t, federationShare, func(t *rapid.T) {
		req := drawRequest(t)
		req.Zones = drawZones(t)
		drawTree(t, 2).offer(t, req)
	})
}
