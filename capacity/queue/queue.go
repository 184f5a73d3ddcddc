// Package queue hands out rows of a view, the cheapest first, and those that cost
// the same in the order of their hosts' ids.
package queue

import (
	"slices"

	"berth/capacity"
)

// Item is a row in a queue; it is small, because sorting moves it about.
type Item struct {
	Cost   int64
	prefix uint64 // of the host id
	Row    int32
	Mark   int32 // the owner's own
}

// Queue is a binary heap of rows. Unlike container/heap it compares without a call
// through an interface, which is most of what a plan does.
type Queue struct {
	view  capacity.View
	items []Item
	last  Item // the worst row kept when some were dropped, see AddBest
	cut   bool // some were dropped
}

// New returns an empty queue with room for so many rows of v.
func New(v capacity.View, room int) Queue { return Queue{view: v, items: make([]Item, 0, room)} }

// Add puts a row in. Sort must be called before First is.
func (q *Queue) Add(row int, cost int64, mark int32) {
	q.items = append(q.items, Item{cost, q.view.IDPrefix(row), int32(row), mark})
}

// AddBest is Add for a queue that needs only the best rows of many, most of them and at least 1.
// When it has twice as many it drops the worse half, and from then on each row that is worse than
// the worst that it kept. Sort must be called before First is.
func (q *Queue) AddBest(row int, cost int64, mark int32, most int) {
	o := Item{cost, q.view.IDPrefix(row), int32(row), mark}
	if q.cut && (o.Cost > q.last.Cost || o.Cost == q.last.Cost && o.prefix > q.last.prefix || !q.before(&o, &q.last)) {
		return // what most rows of many end with, and without a call
	}
	if q.items = append(q.items, o); len(q.items) < 2*most {
		return
	}
	slices.SortFunc(q.items, func(a, b Item) int {
		if q.before(&a, &b) {
			return -1
		}
		return 1
	})
	q.items, q.last, q.cut = q.items[:most], q.items[most-1], true
}

// NotDropped returns those of some rows of word n that AddBest may keep if none of them costs less
// than cost.
func (q *Queue) NotDropped(n int, rows uint64, cost int64) uint64 {
	switch {
	case !q.cut || cost < q.last.Cost:
		return rows
	case cost > q.last.Cost:
		return 0
	}
	return q.view.UpToPrefix(n, rows, q.last.prefix)
}

// Dropped reports whether AddBest has dropped a row that was added at this cost.
func (q *Queue) Dropped(row int, cost int64) bool {
	return q.cut && q.before(&q.last, &Item{Cost: cost, prefix: q.view.IDPrefix(row), Row: int32(row)})
}

// BeforeDropped reports whether a row of the queue is better than all that were dropped, at the
// costs at which they were added.
func (q *Queue) BeforeDropped(o *Item) bool { return !q.cut || !q.before(&q.last, o) }

// Len returns the number of rows.
func (q *Queue) Len() int { return len(q.items) }

// Sort makes a heap of what was added.
func (q *Queue) Sort() {
	for i := len(q.items)/2 - 1; i >= 0; i-- {
		q.sinkItem(i)
	}
}

// First returns the best row, nil if there is none. It is valid until the next call.
func (q *Queue) First() *Item {
	if len(q.items) == 0 {
		return nil
	}
	return &q.items[0]
}

// Pop takes the first row out.
func (q *Queue) Pop() {
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items = q.items[:last]
	q.sinkItem(0)
}

// Fix moves the first row to its place after its cost has changed.
func (q *Queue) Fix() { q.sinkItem(0) }

// before is the total order of rows: cost, then host id to break ties.
func (q *Queue) before(a, b *Item) bool {
	if a.Cost != b.Cost {
		return a.Cost < b.Cost
	}
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	return q.lowerID(a, b)
}

// lowerID reports whether a's host id is below b's, for ids that begin alike. It
// stands apart so that before is inlined.
func (q *Queue) lowerID(a, b *Item) bool {
	return q.view.ID(int(a.Row)) < q.view.ID(int(b.Row))
}

// sinkItem moves the row at i to its place among those below it.
func (q *Queue) sinkItem(i int) {
	items := q.items
	if i >= len(items) {
		return
	}
	o := items[i]
	for {
		child := 2*i + 1
		if child >= len(items) {
			break
		}
		if child+1 < len(items) && q.before(&items[child+1], &items[child]) {
			child++
		}
		if !q.before(&items[child], &o) {
			break
		}
		items[i] = items[child]
		i = child
	}
	items[i] = o
}
