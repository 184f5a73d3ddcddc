package estimate

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each of n is run once, and whatever part panics, all have ended when the caller learns of it.
func TestRunParts(t *testing.T) {
	for _, n := range []int{0, 1, runtime.GOMAXPROCS(0), 98} {
		seen := make([]atomic.Int64, n)
		runParts(n, func(from, to int) {
			for i := from; i < to; i++ {
				seen[i].Add(1)
			}
		})
		for i := range seen {
			assert.Equal(t, int64(1), seen[i].Load(), "%d of %d", i, n)
		}
		var ended atomic.Int64
		fail := func() {
			runParts(n, func(from, to int) {
				ended.Add(int64(to - from))
				if to == n {
					panic("a fault")
				}
			})
		}
		if n > 0 {
			assert.PanicsWithValue(t, "a fault", fail)
			assert.Equal(t, int64(n), ended.Load())
		}
	}
}
