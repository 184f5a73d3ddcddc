package buildplan_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
	"berth/buildplan"
)

// slowMerge takes the lowest (weight, source) among the heads, by recursion.
func slowMerge(count int, heads [][]int64) (order []uint16, weights []int64) {
	best := -1
	for i := len(heads) - 1; i >= 0; i-- {
		if len(heads[i]) > 0 && (best < 0 || heads[i][0] <= heads[best][0]) {
			best = i
		}
	}
	if best < 0 || count <= 0 {
		return nil, nil
	}
	rest := append([][]int64{}, heads...)
	rest[best] = rest[best][1:]
	order, weights = slowMerge(count-1, rest)
	return append([]uint16{uint16(best)}, order...), append([]int64{heads[best][0]}, weights...)
}

// mergeOne merges what sources offer for one group that no rule binds.
func mergeOne(count int, offers ...[]int64) buildplan.Merged {
	req := &api.Request{Groups: []api.Group{{Count: count}}}
	return buildplan.Merge(req, [][][]int64{offers}, nil, nil)[0]
}

func TestMergeAgreesWithSlowMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(-3, 3), 0, 8), 1, 5).Draw(t, "offers")
		count := rapid.IntRange(-1, 30).Draw(t, "count")
		m := mergeOne(count, offers...)
		order, weights := slowMerge(count, offers)
		require.Equal(t, append([]uint16{}, order...), m.Order)
		require.Equal(t, append([]int64{}, weights...), m.Weights)

		// A prefix of the merge is a prefix of each part.
		for n := -1; n <= len(m.Order)+1; n++ {
			sum, have := 0, m.Prefix(n)
			require.Len(t, have, len(offers))
			next := make([]int, len(offers))
			for i, s := range m.Order[:min(max(n, 0), len(m.Order))] {
				require.Equal(t, offers[s][next[s]], m.Weights[i])
				next[s]++
			}
			require.Equal(t, next, have)
			for _, k := range have {
				sum += k
			}
			require.Equal(t, min(max(n, 0), len(m.Order)), sum)
		}
	})
}

// Merging a merge: what the root takes of a middle zone is a prefix of the
// middle's order, and so a prefix of the grandchild's too.
func TestPrefixesNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(0, 9), 0, 8)
		leaf, middle, root := list.Draw(t, "leaf"), list.Draw(t, "middle"), list.Draw(t, "root")
		inner := mergeOne(100, middle, leaf)
		outer := mergeOne(100, root, buildplan.Adjust(inner.Weights, 1, 2))
		n := rapid.IntRange(0, len(outer.Order)).Draw(t, "prefix")
		ofMiddle := outer.Prefix(n)[1]
		ofLeaf := inner.Prefix(ofMiddle)[1]
		taken := 0
		for _, s := range inner.Order[:ofMiddle] {
			if s == 1 {
				taken++
			}
		}
		require.Equal(t, taken, ofLeaf)
		require.Equal(t, ofMiddle, inner.Prefix(ofMiddle)[0]+ofLeaf)
	})
}

func TestAdjustSaturates(t *testing.T) {
	for _, c := range []struct{ w, offset, scale, want int64 }{
		{7, 1000, 3, 1021},
		{-7, 0, 3, -21},
		{math.MaxInt64, 0, 1, math.MaxInt64},
		{math.MaxInt64, 1, 1, math.MaxInt64},
		{math.MaxInt64, -1, 1, math.MaxInt64 - 1},
		{math.MinInt64, 0, 1, math.MinInt64},
		{math.MinInt64, -1, 1, math.MinInt64},
		{math.MinInt64, 1, 1, math.MinInt64 + 1},
		{math.MaxInt64, math.MinInt64, 2, math.MaxInt64 - 1},
		{math.MaxInt64, 0, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, 0, math.MaxInt64, math.MinInt64},
	} {
		assert.Equal(t, []int64{c.want}, buildplan.Adjust([]int64{c.w}, c.offset, c.scale), "%+v", c)
	}
	in := []int64{1, 2}
	buildplan.Adjust(in, 5, 5)
	assert.Equal(t, []int64{1, 2}, in, "the weights of the child are left alone")
}

func TestAdjustAgreesWithBigNumbers(t *testing.T) {
	lowest, highest := big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		w, offset, scale := rapid.Int64().Draw(t, "w"), rapid.Int64().Draw(t, "offset"), rapid.Int64().Draw(t, "scale")
		sum := new(big.Int).Mul(big.NewInt(w), big.NewInt(scale))
		sum.Add(sum, big.NewInt(offset))
		if sum.Cmp(lowest) < 0 {
			sum = lowest
		}
		if sum.Cmp(highest) > 0 {
			sum = highest
		}
		require.Equal(t, []int64{sum.Int64()}, buildplan.Adjust([]int64{w}, offset, scale))
	})
}

// TestMinZonesBalance: a request that wants several zones has as much in each of them as the others, as far as these have
// room, and in no more of them than it must.
func TestMinZonesBalance(t *testing.T) {
	rising := func(from int64, n int) (out []int64) {
		for i := range n {
			out = append(out, from+int64(i))
		}
		return out
	}
	for name, c := range map[string]struct {
		zones   api.ZoneRule
		counts  []int
		offers  [][][]int64
		already [][]int
		want    [][]int
	}{
		"one is dear": {
			api.ZoneRule{MinZones: 3}, []int{300}, [][][]int64{{rising(0, 300), rising(0, 300), rising(1000, 300)}}, nil, [][]int{{100, 100, 100}},
		},
		"a remainder": {
			api.ZoneRule{MinZones: 3}, []int{26}, [][][]int64{{rising(5, 30), rising(0, 30), rising(9, 30)}}, nil, [][]int{{9, 9, 8}},
		},
		"as far as there is room": {
			api.ZoneRule{MinZones: 3}, []int{26}, [][][]int64{{rising(0, 30), rising(0, 5), rising(0, 1)}}, nil, [][]int{{20, 5, 1}},
		},
		"no more zones than it wants": {
			api.ZoneRule{MinZones: 2}, []int{9}, [][][]int64{{rising(7, 9), rising(0, 9), rising(3, 9)}}, nil, [][]int{{0, 5, 4}},
		},
		"more zones than it wants": {
			api.ZoneRule{MinZones: 2}, []int{9}, [][][]int64{{rising(7, 9), rising(0, 3), rising(3, 2)}}, nil, [][]int{{4, 3, 2}},
		},
		"with what it has": {
			api.ZoneRule{MinZones: 2}, []int{4}, [][][]int64{{rising(7, 9), rising(0, 9), rising(3, 9)}}, [][]int{{3, 0, 1}}, [][]int{{1, 0, 3}},
		},
		"of each kind": {
			api.ZoneRule{MinZones: 2}, []int{4, 6}, [][][]int64{{rising(0, 9), rising(50, 9)}, {rising(50, 9), rising(0, 9)}}, nil, [][]int{{2, 2}, {3, 3}},
		},
		"one zone will do": {api.ZoneRule{MinZones: 1}, []int{6}, [][][]int64{{rising(0, 9), rising(50, 9)}}, nil, [][]int{{6, 0}}},
		"a skew says it": {
			api.ZoneRule{MinZones: 2, MaxSkew: 3}, []int{6}, [][][]int64{{rising(0, 9), rising(50, 9)}}, nil, [][]int{{4, 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := &api.Request{Zones: c.zones}
			for _, n := range c.counts {
				req.Groups = append(req.Groups, api.Group{Count: n})
			}
			for g, m := range buildplan.Merge(req, c.offers, c.already, nil) {
				assert.Equal(t, c.want[g], m.Taken, "group %d", g)
			}
		})
	}
}
