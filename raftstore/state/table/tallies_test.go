package table

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTallies plays random changes of a table and of its copies against maps of counts.
func TestTallies(t *testing.T) {
	key := rapid.StringMatching("[ab]{0,2}")
	rapid.Check(t, func(t *rapid.T) {
		first := &Tallies{}
		first.Init()
		tables, want := []*Tallies{first}, []map[[2]string]int{{}}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(tables)-1).Draw(t, "which")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c := &Tallies{}
				if rapid.Bool().Draw(t, "final") {
					c.CopyFinal(tables[i])
					tables[i] = c // the other is not changed any more
					continue
				}
				c.CopyFrom(tables[i])
				tables, want = append(tables, c), append(want, maps.Clone(want[i]))
			default:
				k := [2]string{key.Draw(t, "first"), key.Draw(t, "second")}
				n := rapid.IntRange(-2, 2).Draw(t, "n")
				tables[i].Add(k[0], k[1], n)
				if want[i][k] += n; want[i][k] == 0 {
					delete(want[i], k)
				}
			}
		}
		for i, p := range tables {
			checkTallies(t, p, want[i])
		}
	})
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
