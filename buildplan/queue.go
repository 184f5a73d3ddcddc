package buildplan

import (
	"math"

	"berth/capacity"
	"berth/capacity/queue"
)

// none marks a host of which nothing was taken.
const none = -1

// cheapestFirst hands out hosts by price; Mark is the index of what was taken of
// one, or none.
type cheapestFirst struct {
	queue.Queue
	// Hosts of pass whose price at first, by row, is above dearest are outside.
	pass    capacity.Set
	prices  []int64
	dearest int64
	outside bool // there are some
}

// firstHost returns the best host, nil if there is none. As long as it is no dearer
// than dearest, it is better than all hosts outside. Once it is not, because hosts
// were dropped that took nothing, those outside are let in.
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
