package capacity

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/api"
)

// requireBounds checks what every chunk of a table says of its words, value by value.
func requireBounds(t require.TestingT, table *Table) {
	for _, c := range table.chunks {
		for col := range c.allColumns {
			for n := range col.low {
				word := wordOf(col.free, n)[:]
				require.Equal(t, slices.Min(word), col.low[n])
				require.Equal(t, slices.Max(word), col.high[n])
			}
			for i := range chunkHosts {
				use := col.capacity.at[i] - col.now.at[i] - col.firm.at[i]
				if (use != 0) != col.soft.has(i) || use == 0 && col.free.at[i] > col.now.at[i] {
					require.Fail(t, "what is said of preemptibles is not so", "row %d: use %d", i, use)
				}
			}
		}
	}
}

// requireFree compares every way to read what is free with the plainest one.
func requireFree(t *rapid.T, v View) {
	w, kind := drawWindow(t), rapid.SampledFrom([]api.Class{api.Firm, api.Preemptible, api.Preempting}).Draw(t, "kind")
	w.End = max(w.End, w.Start+1)
	for _, class := range append(slices.Clone(testClasses), "CUSTOM_NONE") {
		f, total := v.Free(class, w, kind), v.Total(class)
		for n := range v.Rows() / WordRows {
			var room, totals [WordRows]int64
			low, high := f.Bounds(n)
			all := total.Word(n, &totals)
			allLow, allHigh := total.Bounds(n)
			for i, free := range f.Word(n, &room) {
				row := n*WordRows + i
				if want := v.FreeOver(row, class, w, kind); want != free || free != f.At(row) || free < low || free > high {
					require.Fail(t, "free", "%s of row %d: %d, %d, %d, in %d to %d", class, row, want, free, f.At(row), low, high)
				}
				if want := v.Capacity(row, class); want != total.At(row) || want != all[i] || want < allLow || want > allHigh {
					require.Fail(t, "total", "%s of row %d: %d, %d, %d, in %d to %d", class, row, want, total.At(row), all[i], allLow, allHigh)
				}
			}
		}
	}
}

// Bounds of words hold after any writes, and views keep theirs.
func TestFree(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		table, m := NewTable(), newModel()
		var old View
		var before []column
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			step(t, table, m)
			requireBounds(t, table)
			requireFree(t, table.View())
			if old.d != nil && len(old.d.chunks) > 0 {
				require.Equal(t, before, old.d.chunks[0].columns)
				seen["old view"]++
			}
			if rapid.IntRange(0, 3).Draw(t, "view") == 0 {
				old = table.View()
				before = nil
				if len(old.d.chunks) > 0 {
					before = slices.Clone(old.d.chunks[0].columns)
				}
			}
		}
	})
	assert.NotZero(t, seen["old view"])
}

// A word is decided by its bounds, by its free column or by both columns: all say the same.
func TestFittingBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := new([wordBits]int64), new([wordBits]int64)
		for i := range a {
			a[i], b[i] = rapid.Int64Range(-3, 3).Draw(t, "a"), rapid.Int64Range(0, 2).Draw(t, "b")
		}
		want := rapid.Int64Range(0, 3).Draw(t, "want")
		plain, open := fittingBits(a, want), fittingOpen(a, b, want)
		for i := range a {
			require.Equal(t, a[i] >= want, plain>>i&1 == 1)
			require.Equal(t, a[i]-b[i] >= want, open>>i&1 == 1)
		}
	})
}
