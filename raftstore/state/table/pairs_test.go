package table

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPairs plays random changes of a table and of its copies against sets of pairs.
func TestPairs(t *testing.T) {
	key := rapid.StringMatching("[ab]{0,2}")
	rapid.Check(t, func(t *rapid.T) {
		first := &Pairs{}
		first.Init()
		tables, want := []*Pairs{first}, []map[[2]string]bool{{}}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(tables)-1).Draw(t, "which")
			k := [2]string{key.Draw(t, "first"), key.Draw(t, "second")}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c := &Pairs{}
				if rapid.Bool().Draw(t, "final") {
					c.CopyFinal(tables[i])
					tables[i] = c // the other is not changed any more
					continue
				}
				c.CopyFrom(tables[i])
				tables, want = append(tables, c), append(want, maps.Clone(want[i]))
			case 1, 2, 3:
				tables[i].Delete(k[0], k[1])
				delete(want[i], k)
			default:
				tables[i].Insert(k[0], k[1])
				want[i][k] = true
			}
		}
		for i, p := range tables {
			checkPairs(t, p, want[i])
		}
	})
}

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
