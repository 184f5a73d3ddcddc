package table

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTallies(t *testing.T) {
	kind[*Tallies, map[[2]string]int]{
		empty: func() *Tallies { return &Tallies{} },
		same: func(of map[[2]string]int) map[[2]string]int {
			out := map[[2]string]int{}
			maps.Copy(out, of)
			return out
		},
		change: func(t *rapid.T, table *Tallies, want map[[2]string]int) map[[2]string]int {
			k := [2]string{pairKey.Draw(t, "first"), pairKey.Draw(t, "second")}
			n := rapid.IntRange(-2, 2).Draw(t, "n")
			table.Add(k[0], k[1], n)
			if want[k] += n; want[k] == 0 {
				delete(want, k)
			}
			return want
		},
		check: checkTallies,
	}.play(t)
}

func checkTallies(t *rapid.T, p *Tallies, want map[[2]string]int) {
	sorted := slices.SortedFunc(maps.Keys(want), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	keys, values := []string{}, []int{}
	for _, k := range sorted {
		keys, values = append(keys, k[0]+"\x00"+k[1]), append(values, want[k])
	}
	require.Equal(t, keys, p.Keys())
	require.Equal(t, values, p.Values())
	require.Equal(t, len(keys), p.Len())
	for _, first := range []string{"", "a", "ab", "b", "bb"} {
		got, of := map[[2]string]int{}, map[[2]string]int{}
		p.Ascend(first, func(second string, n int) bool {
			got[[2]string{first, second}] = n
			return true
		})
		for k, n := range want {
			if k[0] == first {
				of[k] = n
			}
		}
		require.Equal(t, of, got)
		seen := 0
		p.Ascend(first, func(string, int) bool {
			seen++
			return false
		})
		require.Equal(t, min(len(of), 1), seen)
	}
}
