// Package watch wakes the waiters for one key among many, and no others, and tells readers
// which keys were woken.
package watch

import (
	"slices"
	"sync"
)

// List holds waiters by key. The zero key stands for everything: waking it wakes all
// waiters. The zero List is empty and ready; it must not be copied. All methods may be
// called concurrently.
type List[K comparable] struct {
	mu      sync.Mutex // guards waiting and feeds
	waiting map[K]map[chan struct{}]struct{}
	feeds   map[*Feed[K]]struct{}
}

// Add returns a channel that gets a value after k is woken, one value for any number of
// times, until remove is called. A waiter that adds itself before it reads the state
// misses no change.
func (l *List[K]) Add(k K) (woken <-chan struct{}, remove func()) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[K]map[chan struct{}]struct{}{}
	}
	if l.waiting[k] == nil {
		l.waiting[k] = map[chan struct{}]struct{}{}
	}
	l.waiting[k][c] = struct{}{}
	return c, func() { l.removeWaiter(k, c) }
}

func (l *List[K]) removeWaiter(k K, c chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting[k], c)
	if len(l.waiting[k]) == 0 {
		delete(l.waiting, k)
	}
}

// Wake wakes the waiters for any of the keys. It never blocks.
func (l *List[K]) Wake(keys ...K) {
	var everything K
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.feeds {
		f.put(keys)
	}
	if slices.Contains(keys, everything) {
		for _, all := range l.waiting {
			signalAll(all)
		}
		return
	}
	for _, k := range keys {
		signalAll(l.waiting[k])
	}
}

func signalAll(all map[chan struct{}]struct{}) {
	for c := range all {
		select {
		case c <- struct{}{}:
		default: // a pending value means the same
		}
	}
}
