package buildplan

import (
	"math"
	"math/bits"
	"slices"

	"berth/capacity"
	"berth/capacity/queue"
	"berth/costs"
)

// cheapestHosts returns the cheapest hosts of pass, most or more, as a heap. If every
// host gives its place to the next only by taking a slot, no other is reached: most
// slots and alternates need most hosts at the most. A host that draws may give it
// without; see cheapestFirst.firstHost.
func (p *planner) cheapestHosts(pass capacity.Set, of *costs.Prices, most int) cheapestFirst {
	most = max(most, 1) // a group may want none
	s := newPriceScan(pass, of)
	s.probe(most)
	s.sortWords()
	s.readWords(most)
	q := cheapestFirst{
		Queue: queue.New(p.view, min(s.found, 2*most)), pass: pass, prices: of, dearest: s.dearest,
	}
	for _, n := range s.words[:s.near] {
		if low := s.lows[n]; low <= s.dearest {
			q.admitBest(int(n), low, most)
		}
	}
	q.Sort()
	q.outside = q.Len() < s.hosts
	return q
}

// buckets is the number of equal parts of the range of prices in which a priceScan counts hosts.
const buckets = 1 << 10

// probeMax is the largest number of hosts for which a priceScan narrows the range of prices
// first: so many are often found in one word.
const probeMax = capacity.WordRows / 2

// priceScan finds the cheapest hosts of pass by counting prices. It reads the words of pass in
// the order of the lowest price that their rows may have, and only as far as one of the cheapest
// may be.
type priceScan struct {
	pass      capacity.Set
	of        *costs.Prices
	hosts     int     // of pass
	lows      []int64 // by word: a lower bound, and once it was read the lowest price; of a word without hosts anything
	low, high int64   // where the prices of the cheapest hosts are
	shift     int     // of a price less low, to its bucket

	words  []int32        // that may have one of the cheapest, by the bucket of their lowest price
	upto   [buckets]int32 // number of words up to each bucket
	counts [buckets]int32 // hosts of the words that were read
	read   int            // number of these words
	found  int            // hosts of theirs that cost no more than dearest

	dearest int64 // at least as many hosts as wanted cost no more, or there are not so many
	near    int   // number of words that may have one of them
}

// newPriceScan returns a scan that has the bounds of all words and has read none.
func newPriceScan(pass capacity.Set, of *costs.Prices) *priceScan {
	s := &priceScan{pass: pass, of: of, lows: make([]int64, pass.Words()), low: math.MaxInt64, high: math.MinInt64}
	for n := range s.lows {
		word := pass.Word(n)
		if word == 0 {
			continue
		}
		low, high := of.Bounds(n)
		s.lows[n], s.low, s.high = low, min(s.low, low), max(s.high, high)
		s.hosts += bits.OnesCount64(word)
	}
	return s
}

// probe lowers high to what most hosts of one promising word cost at the most.
func (s *priceScan) probe(most int) {
	if most < 1 || most > probeMax {
		return
	}
	best := none
	for n, low := range s.lows {
		if s.pass.Word(n) != 0 && (best == none || low < s.lows[best]) {
			best = n
		}
	}
	if best == none {
		return
	}
	var prices, room [capacity.WordRows]int64
	s.of.Word(best, &prices)
	list := room[:0]
	for word := s.pass.Word(best); word != 0; word &= word - 1 {
		list = append(list, prices[bits.TrailingZeros64(word)])
	}
	if len(list) >= most {
		slices.Sort(list)
		s.high = list[most-1]
	}
}

// sortWords puts the words that may have one of the cheapest hosts in the order of the buckets of
// their lowest prices.
func (s *priceScan) sortWords() {
	s.shift = max(0, bits.Len64(uint64(s.high)-uint64(s.low))-bits.Len(buckets-1))
	matters := func(n int) bool { return s.pass.Word(n) != 0 && s.lows[n] <= s.high }
	for n, low := range s.lows {
		if matters(n) {
			s.upto[s.bucketOf(low)]++
		}
	}
	sum := int32(0)
	for b, n := range s.upto {
		s.upto[b] = sum // where the words of the bucket begin, and once they are there, where they end
		sum += n
	}
	s.words = make([]int32, sum)
	for n, low := range s.lows {
		if matters(n) {
			b := s.bucketOf(low)
			s.words[s.upto[b]] = int32(n) //nolint:gosec // there are fewer words than rows
			s.upto[b]++
		}
	}
}

// bucketOf returns the bucket of a price from low to high.
func (s *priceScan) bucketOf(price int64) int {
	return int((uint64(price) - uint64(s.low)) >> (s.shift & (capacity.WordRows - 1)))
}

// readWords reads words until it knows what most hosts cost at the most, or all there are.
func (s *priceScan) readWords(most int) {
	for b := range buckets {
		for ; s.read < int(s.upto[b]) && s.found+int(s.counts[b]) < most; s.read++ {
			s.readWord(int(s.words[s.read]))
		}
		s.found += int(s.counts[b])
		s.near = int(s.upto[b]) // no word after these has a host in a bucket up to b
		if s.found >= most {
			width := uint64(b+1)<<s.shift - 1 // of all buckets up to b
			s.dearest = int64(uint64(s.low) + min(width, uint64(s.high)-uint64(s.low)))
			return
		}
	}
	s.dearest = s.high
}

// readWord counts the prices of the hosts of a word.
func (s *priceScan) readWord(n int) {
	var prices [capacity.WordRows]int64
	s.of.Word(n, &prices)
	low := int64(math.MaxInt64)
	for word := s.pass.Word(n); word != 0; word &= word - 1 {
		price := prices[bits.TrailingZeros64(word)]
		low = min(low, price)
		if price <= s.high {
			s.counts[s.bucketOf(price)]++
		}
	}
	s.lows[n] = low
}
