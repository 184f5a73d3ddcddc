package preempt

import (
	"math"
	"math/bits"
)

// amounts has an amount of each key, none below 0. A sum that is too large stays at the largest number.
type amounts []int64

// add adds b to a.
func (a amounts) add(b amounts) {
	for i, n := range b {
		a[i] = addUp(a[i], n)
	}
}

// cover reports whether a is at least need in every key.
func (a amounts) cover(need amounts) bool {
	for i, n := range need {
		if a[i] < n {
			return false
		}
	}
	return true
}

// coverWith reports whether a and b together are at least need in every key.
func (a amounts) coverWith(b, need amounts) bool {
	for i, n := range need {
		if addUp(a[i], b[i]) < n {
			return false
		}
	}
	return true
}

// partOf returns which part of need a frees if only left is still needed: see the package.
// left is at most need.
func (a amounts) partOf(need, left amounts) uint64 {
	part := uint64(0)
	for i, n := range need {
		if freed := min(a[i], left[i]); freed > 0 {
			high, low := bits.Mul64(uint64(freed), 1<<32)
			whole, over := bits.Div64(high, low, uint64(n))
			part += whole + min(over, 1)
		}
	}
	return part
}

// addUp returns a + b of two numbers that are not below 0, or the largest number.
func addUp(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
