package table

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestLog(t *testing.T) {
	kind[*Log[int], []int]{
		empty: func() *Log[int] { return &Log[int]{} },
		same:  slices.Clone[[]int],
		change: func(t *rapid.T, l *Log[int], want []int) []int {
			if rapid.IntRange(0, 9).Draw(t, "change") < 2 {
				drop := rapid.IntRange(0, len(want)).Draw(t, "drop")
				l.DropFirst(drop)
				return want[drop:]
			}
			n := rapid.Int().Draw(t, "value")
			l.Append(n)
			return append(want, n)
		},
		check: func(t *rapid.T, l *Log[int], want []int) {
			assert.Equal(t, append([]int{}, want...), append([]int{}, l.Values()...))
			assert.Equal(t, len(want), l.Len())
		},
	}.play(t)
}
