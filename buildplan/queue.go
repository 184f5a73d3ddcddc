package buildplan

import (
	"math"

	"berth/capacity"
	"berth/capacity/queue"
)

// none marks a host without slots taken.
const none = -1

// cheapestFirst yields hosts by price; Mark is the index of the slots taken of a host, or
// none.
type cheapestFirst struct {
	queue.Queue
	// Hosts of pass whose price at first, by row, is above dearest are outside.
	pass    capacity.Set
	prices  []int64
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
	for row := range q.pass.All() {
		if cost := q.prices[row]; low <= cost && cost <= high {
			q.Add(row, cost, none)
		}
	}
	q.Sort()
}
