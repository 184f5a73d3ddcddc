package driver

import (
	"context"
	"sync"

	"berth/api"
)

// Turns lets one call at a time go on for each instance. Its zero value is
// ready, and it must not be copied.
type Turns struct {
	mu   sync.Mutex // guards busy
	busy map[api.InstanceID]chan struct{}
}

// Take waits until no other call for id is under way and returns what ends this
// one, which must be called once. When ctx ends first it returns ctx's cause.
func (t *Turns) Take(ctx context.Context, id api.InstanceID) (leave func(), err error) {
	for ctx.Err() == nil {
		over, mine := t.tryTake(id)
		if mine {
			return func() { t.leaveTurn(id, over) }, nil
		}
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
	return nil, context.Cause(ctx)
}

// tryTake takes the turn if it is free, and returns what is closed at its end.
func (t *Turns) tryTake(id api.InstanceID) (over chan struct{}, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	over, taken := t.busy[id]
	if taken {
		return over, false
	}
	if t.busy == nil {
		t.busy = map[api.InstanceID]chan struct{}{}
	}
	over = make(chan struct{})
	t.busy[id] = over
	return over, true
}

func (t *Turns) leaveTurn(id api.InstanceID, over chan struct{}) {
	t.mu.Lock()
	delete(t.busy, id)
	t.mu.Unlock()
	close(over)
}
