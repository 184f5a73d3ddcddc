package buildplan

import (
	"math"
	"math/bits"

	"berth/capacity"
	"berth/capacity/queue"
	"berth/costs"
)

// none marks a host without slots taken.
const none = -1

// cheapestFirst yields hosts by price; Mark is the index of the slots taken of a host, or
// none.
type cheapestFirst struct {
	queue.Queue
	// Hosts of pass whose price at first is above dearest are outside.
	pass    capacity.Set
	prices  *costs.Prices
	dearest int64
	outside bool // there are some
}

// firstHost returns the best host, nil if there is none. As long as it costs no more than
// dearest, it is better than all hosts outside. Once it costs more, because hosts that took
// nothing were dropped, those outside are admitted.
func (q *cheapestFirst) firstHost() *queue.Item {
	o := q.First()
	if q.outside && (o == nil || o.Cost > q.dearest) {
		q.outside = false
		q.admitPriced(q.dearest+1, math.MaxInt64)
		o = q.First()
	}
	return o
}

// admitPriced puts the hosts of pass with prices from low to high in.
func (q *cheapestFirst) admitPriced(low, high int64) {
	for n := range q.pass.Words() {
		if q.pass.Word(n) != 0 {
			q.admitWord(n, low, high)
		}
	}
	q.Sort()
}

// admitWord puts the hosts of a word of pass with prices from low to high in.
func (q *cheapestFirst) admitWord(n int, low, high int64) {
	var prices [capacity.WordRows]int64
	q.prices.Word(n, &prices)
	for word := q.pass.Word(n); word != 0; word &= word - 1 {
		i := bits.TrailingZeros64(word)
		if cost := prices[i]; low <= cost && cost <= high {
			q.Add(n*capacity.WordRows+i, cost, none)
		}
	}
}
