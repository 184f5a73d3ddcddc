package buildplan

import (
	"math"
	"math/bits"
	"slices"
)

// Own is the source of a zone's own slots in an order; source i+1 is child i.
const Own = 0

// Merged is the merge of several offers for one group.
type Merged struct {
	Order   []uint16 // source of each slot, best first
	Weights []int64  // weight of each slot, as the parent is told
	Sources int      // how many sources were merged: 1 + the children
}

// Merge takes up to count slots from own and from children, whose weights are
// adjusted already. It only ever takes heads: the cheapest of the first weights
// that are left, and of equal ones the lower source. The i-th weight of a source
// supposes that its slots 0 to i-1 are taken, so a later one that is lower must
// wait for them; and so what is taken of each source is a prefix of it, and a
// prefix of what is taken is a prefix of each too.
//
// Source numbers are 16 bits: children beyond math.MaxUint16 are not looked at
// (a zone has at most api.LinksMax).
func Merge(count int, own []int64, children [][]int64) Merged {
	children = children[:min(len(children), math.MaxUint16)]
	heads := make([][]int64, 0, 1+len(children))
	heads = append(append(heads, own), children...)
	size := 0
	for _, h := range heads {
		size = min(size+len(h), max(count, 0))
	}
	m := Merged{Order: make([]uint16, 0, size), Weights: make([]int64, 0, size), Sources: len(heads)}
	for range size {
		best := -1
		for i, h := range heads {
			if len(h) > 0 && (best < 0 || h[0] < heads[best][0]) {
				best = i
			}
		}
		m.Order = append(m.Order, uint16(best))
		m.Weights = append(m.Weights, heads[best][0])
		heads[best] = heads[best][1:]
	}
	return m
}

// Prefix returns how many slots of each source are among the first n of m.
func (m Merged) Prefix(n int) []int { return prefix(m.Order, n, m.Sources) }

func prefix(order []uint16, n, sources int) []int {
	out := make([]int, sources)
	for _, s := range order[:min(max(n, 0), len(order))] {
		if int(s) < sources {
			out[s]++
		}
	}
	return out
}

// Adjust returns offset + scale*w for each weight w of a child: what the link
// makes of it. Results outside int64 stop at its ends, so order is kept as far
// as there is room.
func Adjust(weights []int64, offset, scale int64) []int64 {
	out := slices.Clone(weights)
	for i, w := range out {
		out[i] = adjust(w, offset, scale)
	}
	return out
}

// adjust computes in 128 bits, so that only the result can stop at an end.
func adjust(w, offset, scale int64) int64 {
	hi, lo := bits.Mul64(uint64(w), uint64(scale))
	if w < 0 {
		hi -= uint64(scale)
	}
	if scale < 0 {
		hi -= uint64(w)
	}
	lo, carry := bits.Add64(lo, uint64(offset), 0)
	hi, _ = bits.Add64(hi, uint64(offset>>63), carry)
	switch top := int64(hi); {
	case top == 0 && lo <= math.MaxInt64, top == -1 && lo > math.MaxInt64:
		return int64(lo)
	case top < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}
