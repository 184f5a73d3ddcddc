package buildplan

import (
	"iter"
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
	// Hosts of pass are outside if their price at first is above dearest, or if the queue has
	// dropped them.
	pass    capacity.Set
	prices  *costs.Prices
	dearest int64
	outside bool // there are some
}

// firstHost returns the best host, nil if there is none. As long as it costs no more than
// dearest and is better than those dropped, it is better than all hosts outside. Once it is
// not, because hosts left the queue that took nothing, those outside are admitted.
func (q *cheapestFirst) firstHost() *queue.Item {
	o := q.First()
	if q.outside && (o == nil || o.Cost > q.dearest || !q.BeforeDropped(o)) {
		q.admitOutside()
		o = q.First()
	}
	return o
}

// admitOutside puts the hosts outside in.
func (q *cheapestFirst) admitOutside() {
	q.outside = false
	for n := range q.pass.Words() {
		if q.pass.Word(n) == 0 {
			continue
		}
		for row, cost := range q.hostsOf(n, q.pass.Word(n)) {
			if cost > q.dearest || q.Dropped(row, cost) {
				q.Add(row, cost, none)
			}
		}
	}
	q.Sort()
}

// admitBest puts the hosts of a word of pass in that are neither dearer than dearest nor worse
// than most others; none costs less than low.
func (q *cheapestFirst) admitBest(n int, low int64, most int) {
	for row, cost := range q.hostsOf(n, q.NotDropped(n, q.pass.Word(n), low)) {
		if cost <= q.dearest {
			q.AddBest(row, cost, none, most)
		}
	}
}

// fewHosts is the number of hosts of a word up to which pricing each is cheaper than all.
const fewHosts = 8

// hostsOf yields some hosts of word n and their prices.
func (q *cheapestFirst) hostsOf(n int, hosts uint64) iter.Seq2[int, int64] {
	return func(yield func(row int, cost int64) bool) {
		var prices [capacity.WordRows]int64
		few := bits.OnesCount64(hosts) <= fewHosts
		if !few {
			q.prices.Word(n, &prices)
		}
		for word := hosts; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			row, cost := n*capacity.WordRows+i, prices[i]
			if few {
				cost = q.prices.Of(row, 0)
			}
			if !yield(row, cost) {
				return
			}
		}
	}
}
