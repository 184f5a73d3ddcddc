package saga

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"berth/api"
)

// joint sends items that are due for one child at the same time together. While one call
// to a child is under way, further items wait, and the next call takes them all: a child
// that is idle is told at once, and a busy one hears of many items in one call. The zero joint is ready to use.
type joint[T any] struct {
	mu sync.Mutex // guards of
	of map[api.LinkID]*jointQueue[T]
}

// jointQueue is what waits for one child while a call to it is under way.
type jointQueue[T any] struct{ waiting []*jointItem[T] }

// jointItem is one item that waits.
type jointItem[T any] struct {
	ctx  context.Context //nolint:containedctx // of who waits for it
	item T
	size int
	turn chan []*jointItem[T] // gets the items of the next call, of which this is the first
	done chan error           // gets the result, if another one sends it
	gone bool                 // nobody waits for it any more; guarded by the joint's mutex
}

// jointMax bounds one call: its items, and the sum of their sizes unless it has one item.
type jointMax struct{ items, size int }

// sendItem sends an item of a size to a child, together with those that wait, as many as most
// allows, and returns the item's own result. send returns one result for each item, or an
// error if the call failed as such: then all that wait fail as well, so that a silent
// child delays none of them by more than two calls. send must return soon after its ctx ends, which
// it does when nobody waits for any item of the call. An item whose own ctx ends while it waits, or
// is sent with others, fails at once; what becomes of it then is not known.
func (j *joint[T]) sendItem(ctx context.Context, l api.LinkID, item T, size int, most jointMax, send func(ctx context.Context, items []T) ([]error, error)) error {
	it := &jointItem[T]{ctx: ctx, item: item, size: size, turn: make(chan []*jointItem[T], 1), done: make(chan error, 1)}
	j.enter(l, it)
	for {
		select {
		case err := <-it.done:
			return err
		case batch := <-it.turn:
			if len(batch) == 1 {
				j.sendBatch(ctx, l, batch, most, send)
				return <-it.done
			}
			go j.sendForAll(l, batch, most, send) // ends with the call
		case <-ctx.Done():
			j.withdraw(l, it, most)
			return api.Wrap(api.CodeTimeout, "saga.joint", "nobody waits for it any more", ctx.Err())
		}
	}
}

// sendForAll sends items of several callers. Nobody who leaves takes the call from the others.
func (j *joint[T]) sendForAll(l api.LinkID, batch []*jointItem[T], most jointMax, send func(ctx context.Context, items []T) ([]error, error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	defer cancel()
	var left atomic.Int64
	left.Store(int64(len(batch)))
	for _, b := range batch {
		stop := context.AfterFunc(b.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
		defer stop()
	}
	j.sendBatch(ctx, l, batch, most, send)
}

// sendBatch makes one call, tells each item its result, and lets the next call begin.
func (j *joint[T]) sendBatch(ctx context.Context, l api.LinkID, batch []*jointItem[T], most jointMax, send func(ctx context.Context, items []T) ([]error, error)) {
	items := make([]T, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	results, err := send(ctx, items)
	if err != nil {
		for _, b := range append(batch, j.abandon(l)...) {
			b.done <- err
		}
		return
	}
	for i, b := range batch {
		b.done <- results[i]
	}
	j.leave(l, most)
}

// withdraw takes an item out that waits, or hands on its turn if it has just got it. Another one may be
// sending it already.
func (j *joint[T]) withdraw(l api.LinkID, it *jointItem[T], most jointMax) {
	j.mu.Lock()
	defer j.mu.Unlock()
	it.gone = true
	if q := j.of[l]; q != nil {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *jointItem[T]) bool { return w == it })
	}
	select {
	case batch := <-it.turn:
		batch = slices.DeleteFunc(batch, func(w *jointItem[T]) bool { return w.gone })
		if len(batch) > 0 {
			batch[0].turn <- batch
		} else {
			j.startNext(l, most)
		}
	default:
	}
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

// leave ends a call.
func (j *joint[T]) leave(l api.LinkID, most jointMax) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.startNext(l, most)
}

// startNext gives the first of those that wait its turn. The caller holds the lock.
func (j *joint[T]) startNext(l api.LinkID, most jointMax) {
	q := j.of[l]
	n, size := 0, 0
	for n < min(len(q.waiting), most.items) {
		if size += q.waiting[n].size; n > 0 && size > most.size {
			break
		}
		n++
	}
	if n == 0 {
		delete(j.of, l)
		return
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	batch[0].turn <- batch
}
