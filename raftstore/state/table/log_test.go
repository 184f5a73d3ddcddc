package table

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestLog plays random changes of a log and of its copies: each is a list of its own.
func TestLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logs, want := []*Log[int]{{}}, [][]int{{}}
		for n := range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(logs)-1).Draw(t, "which")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c := &Log[int]{}
				c.CopyFrom(logs[i])
				logs, want = append(logs, c), append(want, append([]int{}, want[i]...))
			case 1, 2:
				drop := rapid.IntRange(0, len(want[i])).Draw(t, "drop")
				logs[i].DropFirst(drop)
				want[i] = want[i][drop:]
			default:
				logs[i].Append(n)
				want[i] = append(want[i], n)
			}
			for k := range logs {
				assert.Equal(t, want[k], append([]int{}, logs[k].Values()...))
			}
		}
	})
}
