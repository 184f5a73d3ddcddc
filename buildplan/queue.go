package buildplan

import (
	"math"

	"berth/capacity"
)

// offer is a host in a queue; it is small, because sorting moves it about.
type offer struct {
	cost   int64
	prefix uint64 // of the host id
	row    int32
	taking int32 // index of what was taken of it, or none
}

const none = -1

// queue is a binary heap of offers, the best first. Unlike container/heap it
// compares without a call through an interface, which is most of what Select does.
type queue struct {
	view   capacity.View
	offers []offer
	// Hosts of pass whose price at first, by row, is above dearest are outside.
	pass    capacity.Set
	prices  []int64
	dearest int64
	outside bool // there are some
}

// first returns the best offer, nil if there is none. As long as it is no dearer
// than dearest, it is better than all hosts outside. Once it is not, because hosts
// were dropped that took nothing, those outside are let in.
func (q *queue) first() *offer {
	if q.outside && (len(q.offers) == 0 || q.offers[0].cost > q.dearest) {
		q.outside = false
		q.admit(q.dearest+1, math.MaxInt64)
	}
	if len(q.offers) == 0 {
		return nil
	}
	return &q.offers[0]
}

// admit puts the hosts of pass with prices from low to high in.
func (q *queue) admit(low, high int64) {
	for row := range q.pass.All() {
		if cost := q.prices[row]; low <= cost && cost <= high {
			q.offers = append(q.offers, offer{cost, q.view.IDPrefix(row), int32(row), none})
		}
	}
	q.order()
}

// before is the total order of offers: cost, then host id to break ties.
func (q *queue) before(a, b *offer) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	return q.lower(a, b)
}

// lower reports whether a's host id is below b's, for ids that begin alike. It
// stands apart so that before is inlined.
func (q *queue) lower(a, b *offer) bool {
	return q.view.ID(int(a.row)) < q.view.ID(int(b.row))
}

// order makes a heap of offers in any order.
func (q *queue) order() {
	for i := len(q.offers)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// pop takes the first offer out.
func (q *queue) pop() {
	last := len(q.offers) - 1
	q.offers[0] = q.offers[last]
	q.offers = q.offers[:last]
	q.down(0)
}

// down moves the offer at i to its place among those below it.
func (q *queue) down(i int) {
	offers := q.offers
	if i >= len(offers) {
		return
	}
	o := offers[i]
	for {
		child := 2*i + 1
		if child >= len(offers) {
			break
		}
		if child+1 < len(offers) && q.before(&offers[child+1], &offers[child]) {
			child++
		}
		if !q.before(&offers[child], &o) {
			break
		}
		offers[i] = offers[child]
		i = child
	}
	offers[i] = o
}
