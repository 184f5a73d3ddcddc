package table

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPairs(t *testing.T) {
	kind[*Pairs, map[[2]string]bool]{
		empty: func() *Pairs { return &Pairs{} },
		same: func(of map[[2]string]bool) map[[2]string]bool {
			out := map[[2]string]bool{}
			maps.Copy(out, of)
			return out
		},
		change: func(t *rapid.T, p *Pairs, want map[[2]string]bool) map[[2]string]bool {
			k := [2]string{pairKey.Draw(t, "first"), pairKey.Draw(t, "second")}
			if rapid.IntRange(0, 9).Draw(t, "change") < 3 {
				p.Delete(k[0], k[1])
				delete(want, k)
			} else {
				p.Insert(k[0], k[1])
				want[k] = true
			}
			return want
		},
		check: checkPairs,
	}.play(t)
}

var pairKey = rapid.StringMatching("[ab]{0,2}")

func checkPairs(t *rapid.T, p *Pairs, want map[[2]string]bool) {
	sorted := slices.SortedFunc(maps.Keys(want), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	keys := []string{}
	for _, k := range sorted {
		keys = append(keys, k[0]+"\x00"+k[1])
	}
	require.Equal(t, keys, p.Keys())
	require.Equal(t, len(keys), p.Len())
	for n, k := range sorted {
		var all, one []string
		p.Ascend(k[0], k[1], func(second string) bool {
			all = append(all, second)
			return true
		})
		p.Ascend(k[0], k[1], func(second string) bool {
			one = append(one, second)
			return false
		})
		var rest []string
		for _, o := range sorted[n:] {
			if o[0] == k[0] {
				rest = append(rest, o[1])
			}
		}
		require.Equal(t, rest, all)
		require.Equal(t, rest[:1], one)
	}
}
