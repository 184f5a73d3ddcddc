package quota

import (
	"math"

	"berth/api"
)

// node is one change of use, and the root of a treap of such changes: ordered by time, and a
// heap by a hash of the time, so that its shape follows from its content. Nodes are never
// written after they were made; nil is the empty tree.
type node struct {
	at          api.Instant
	delta       int64 // never 0
	left, right *node

	// sum is that of all deltas of the tree, and high and low are the extremes of the sums of
	// its first deltas, from one to all of them.
	sum, high, low int64
}

// newNode returns a node with these children.
func newNode(at api.Instant, delta int64, left, right *node) *node {
	n := &node{at: at, delta: delta, left: left, right: right}
	here := left.total() + delta
	n.sum, n.high, n.low = here+right.total(), here, here
	if left != nil {
		n.high, n.low = max(n.high, left.high), min(n.low, left.low)
	}
	if right != nil {
		n.high, n.low = max(n.high, here+right.high), min(n.low, here+right.low)
	}
	return n
}

func (n *node) total() int64 {
	if n == nil {
		return 0
	}
	return n.sum
}

// weigh scatters times, so that a tree is balanced whatever its times are.
func weigh(at api.Instant) uint64 {
	x := uint64(at) + 0x9e3779b97f4a7c15 //nolint:gosec // bits, not a number
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// above reports whether a is nearer to the root than b.
func above(a, b api.Instant) bool {
	if x, y := weigh(a), weigh(b); x != y {
		return x > y
	}
	return a < b
}

// add returns the tree with a change of use added.
func (n *node) add(at api.Instant, delta int64) *node {
	switch {
	case delta == 0:
		return n
	case n == nil:
		return newNode(at, delta, nil, nil)
	case at == n.at && n.delta+delta == 0:
		return join(n.left, n.right)
	case at == n.at:
		return newNode(at, n.delta+delta, n.left, n.right)
	case above(at, n.at):
		// It is not below n either: a node is above all that are below it.
		left, right := n.split(at)
		return newNode(at, delta, left, right)
	case at < n.at:
		return newNode(n.at, n.delta, n.left.add(at, delta), n.right)
	}
	return newNode(n.at, n.delta, n.left, n.right.add(at, delta))
}

// split returns the changes before at and those after it. There is none at it.
func (n *node) split(at api.Instant) (before, after *node) {
	switch {
	case n == nil:
		return nil, nil
	case n.at < at:
		before, after = n.right.split(at)
		return newNode(n.at, n.delta, n.left, before), after
	}
	before, after = n.left.split(at)
	return before, newNode(n.at, n.delta, after, n.right)
}

// join returns the tree of two, all of a before all of b.
func join(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case above(a.at, b.at):
		return newNode(a.at, a.delta, a.left, join(a.right, b))
	}
	return newNode(b.at, b.delta, join(a, b.left), b.right)
}

// useAt returns the use at an instant: the sum of the changes until then.
func (n *node) useAt(at api.Instant) int64 {
	var use int64
	for n != nil {
		if n.at > at {
			n = n.left
			continue
		}
		use += n.left.total() + n.delta
		n = n.right
	}
	return use
}

// first returns the first change after an instant and before end whose use is above most, or
// not above it if above is false.
func (n *node) first(after, end api.Instant, most int64, above bool) (at api.Instant, found bool) {
	return n.firstFrom(0, after, end, most, above)
}

// firstFrom is first for a tree before which the use is base.
func (n *node) firstFrom(base int64, after, end api.Instant, most int64, above bool) (api.Instant, bool) {
	if n == nil || above && base+n.high <= most || !above && base+n.low > most {
		return 0, false
	}
	here := base + n.left.total() + n.delta
	if n.at > after {
		if at, found := n.left.firstFrom(base, after, end, most, above); found {
			return at, true
		}
		if n.at >= end {
			return 0, false
		}
		if here > most == above {
			return n.at, true
		}
	}
	if n.at >= end {
		return 0, false
	}
	return n.right.firstFrom(here, after, end, most, above)
}

// peak returns the highest use over a window, and the first instant of it.
func (n *node) peak(w api.Window) (use int64, at api.Instant) {
	use, at = n.useAt(w.Start), w.Start
	high := n.highest(0, w)
	if high <= use {
		return use, at
	}
	at, _ = n.first(w.Start, w.End, high-1, true)
	return high, at
}

// highest returns the highest use at the changes after the start of w and before its end,
// the least number if there are none, for a tree before which the use is base.
func (n *node) highest(base int64, w api.Window) int64 {
	switch {
	case n == nil:
		return math.MinInt64
	case n.at <= w.Start:
		return n.right.highest(base+n.left.total()+n.delta, w)
	case n.at >= w.End:
		return n.left.highest(base, w)
	}
	here := base + n.left.total() + n.delta
	return max(n.left.highestAfter(base, w.Start), here, n.right.highestBefore(here, w.End))
}

// highestAfter is highest without an end.
func (n *node) highestAfter(base int64, start api.Instant) int64 {
	high := int64(math.MinInt64)
	for n != nil {
		here := base + n.left.total() + n.delta
		if n.at <= start {
			base, n = here, n.right
			continue
		}
		high = max(high, here)
		if n.right != nil {
			high = max(high, here+n.right.high)
		}
		n = n.left
	}
	return high
}

// highestBefore is highest without a start.
func (n *node) highestBefore(base int64, end api.Instant) int64 {
	high := int64(math.MinInt64)
	for n != nil {
		if n.at >= end {
			n = n.left
			continue
		}
		if n.left != nil {
			high = max(high, base+n.left.high)
		}
		base += n.left.total() + n.delta
		high = max(high, base)
		n = n.right
	}
	return high
}
