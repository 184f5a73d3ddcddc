package buildplan

import (
	"math"
	"math/bits"

	"berth/capacity"
	"berth/capacity/queue"
	"berth/costs"
)

// cheapestHosts returns the cheapest hosts of pass, most or more, as a heap. If every
// host gives its place to the next only by taking a slot, no other is reached: most
// slots and alternates need most hosts at the most. A host that draws may give it
// without; see cheapestFirst.first.
func (p *planner) cheapestHosts(pass capacity.Set, of *costs.Prices, most int) cheapestFirst {
	prices := of.Column(p.view.Rows())
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for row := range pass.All() {
		low, high = min(low, prices[row]), max(high, prices[row])
	}
	dearest := high
	if most < pass.Len() {
		dearest = priceBound(pass, prices, low, high, most)
	}
	q := cheapestFirst{Queue: queue.New(p.view, min(most, pass.Len())), pass: pass, prices: prices}
	q.admitPriced(low, dearest)
	q.dearest, q.outside = dearest, dearest < high
	return q
}

// priceBound returns a price that at least most rows of pass do not exceed, and few
// more if prices are spread evenly: the end of one of about buckets equal parts
// of [low, high], found by counting.
func priceBound(pass capacity.Set, prices []int64, low, high int64, most int) int64 {
	const buckets = 1 << 10
	var counts [buckets]int
	shift := max(0, bits.Len64(uint64(high)-uint64(low))-bits.Len(buckets-1))
	for row := range pass.All() {
		counts[(uint64(prices[row])-uint64(low))>>shift]++
	}
	for i, n := range counts {
		if most -= n; most <= 0 {
			width := uint64(i+1)<<shift - 1 // of all parts up to i
			return int64(uint64(low) + min(width, uint64(high)-uint64(low)))
		}
	}
	return high
}
