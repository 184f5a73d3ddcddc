package saga

import (
	"context"
	"sync"

	"berth/api"
)

// joint sends items that are due for one child at the same time together. While one call
// to a child is under way, further items wait, and the next call takes them all: a child
// that is idle is told at once, and a busy one hears of many items in one call. Callers
// do the work: the first of those that wait sends for all. The zero joint is ready to use.
type joint[T any] struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]*jointQueue[T]
}

// jointQueue is what waits for one child while a call to it is under way.
type jointQueue[T any] struct{ waiting []*jointItem[T] }

// jointItem is one item that waits.
type jointItem[T any] struct {
	item T
	turn chan []*jointItem[T] // gets the items of the next call, of which this is the first
	done chan error           // gets the result, if another one sends it
}

// sendItem sends an item to a child, together with those that wait, but at most most of
// them, and returns the item's own result. send returns one result for each item, or an
// error if the call failed as such: then all that wait fail as well, so that a silent
// child delays none of them by more than two calls. send must return soon after ctx ends, and the
// contexts of all items of a joint end together.
func (j *joint[T]) sendItem(ctx context.Context, l api.LinkID, item T, most int, send func(ctx context.Context, items []T) ([]error, error)) error {
	it := &jointItem[T]{item, make(chan []*jointItem[T], 1), make(chan error, 1)}
	j.enter(l, it)
	var batch []*jointItem[T]
	select {
	case err := <-it.done:
		return err
	case batch = <-it.turn:
	}
	items := make([]T, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	results, err := send(ctx, items)
	if err != nil {
		for _, b := range append(batch[1:], j.abandon(l)...) {
			b.done <- err
		}
		return err
	}
	defer j.leave(l, most)
	for i, b := range batch[1:] {
		b.done <- results[i+1]
	}
	return results[0]
}

// abandon ends a call that failed, and returns what waits.
func (j *joint[T]) abandon(l api.LinkID) []*jointItem[T] {
	j.mu.Lock()
	defer j.mu.Unlock()
	waiting := j.of[l].waiting
	delete(j.of, l)
	return waiting
}

// enter gives an item its turn if no call is under way, and otherwise lets it wait.
func (j *joint[T]) enter(l api.LinkID, it *jointItem[T]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if q, busy := j.of[l]; busy {
		q.waiting = append(q.waiting, it)
		return
	}
	if j.of == nil {
		j.of = map[api.LinkID]*jointQueue[T]{}
	}
	j.of[l] = &jointQueue[T]{}
	it.turn <- []*jointItem[T]{it}
}

// leave ends a call, and gives the first of those that wait its turn.
func (j *joint[T]) leave(l api.LinkID, most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := j.of[l]
	n := min(len(q.waiting), most)
	if n == 0 {
		delete(j.of, l)
		return
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	batch[0].turn <- batch
}
