package filters

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// falling is a row that has less and less: one less after each of its steps.
type falling []int

func (f falling) at(end int) (n int64) {
	for _, step := range f {
		if end < step {
			n++
		}
	}
	return n
}

// TestLastEnd: it is the end that trying one after the other finds, however many rows there are and wherever they fall.
func TestLastEnd(t *testing.T) {
	many := 0
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.IntRange(1, 5_000).Draw(t, "last")
		count := rapid.SampledFrom([]int{1, 7, sampleMax, sampleMax + 1, 5 * sampleMax}).Draw(t, "rows")
		steps, most := rapid.IntRange(1, 3).Draw(t, "steps"), rapid.IntRange(1, last).Draw(t, "most")
		shift, order := rapid.IntRange(0, last).Draw(t, "shift"), rapid.IntRange(1, 97).Draw(t, "order")
		rows, model := make([]int, count), make([]falling, count)
		for n := range rows {
			rows[n] = n
			for k := range steps {
				model[n] = append(model[n], shift+(n*order+k*k)%most) // some never fall
			}
		}
		sum := func(end int) (sum int64) {
			for _, f := range model {
				sum += f.at(end)
			}
			return sum
		}
		want := rapid.Int64Range(1, max(1, sum(0))).Draw(t, "want")
		if sum(0) < want || sum(last+1) >= want {
			return
		}
		rooms := func(rows []int, end int) []int64 {
			out := make([]int64, len(rows))
			for n, row := range rows {
				out[n] = model[row].at(end)
			}
			return out
		}
		s := search{rows: slices.Clone(rows), low: rooms(rows, 0), high: rooms(rows, last+1), want: want, at: ends{0, last + 1}}
		if count > sampleMax {
			many++
		}
		got := s.lastEnd(rooms)
		require.GreaterOrEqual(t, sum(got), want)
		require.Less(t, sum(got+1), want)
	})
	require.True(t, many > 0 || testing.Short(), "some are found by a sample, but in a short test by chance alone")
}
