package raftstore

import (
	"context"
	"sync"
	"sync/atomic"

	"berth/raftstore/state"
)

// page is one published view. It never changes; changed is closed when a newer
// page is up.
type page struct {
	state   *state.State
	applied uint64 // every entry up to this one is in state
	changed chan struct{}
}

// board shows the latest page. Readers take no lock; any number may wait, and a
// new page wakes all of them with one close.
type board struct {
	mu  sync.Mutex // guards the replacement of cur, between writers
	cur atomic.Pointer[page]
}

func newBoard(st *state.State) *board {
	b := &board{}
	b.cur.Store(&page{state: st, changed: make(chan struct{})})
	return b
}

// post puts up a view that holds every entry up to applied. A nil st keeps the
// view that is up: the entries since then did not concern the state.
func (b *board) post(st *state.State, applied uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.cur.Load()
	if st == nil {
		if applied <= old.applied {
			return
		}
		st = old.state
	}
	b.cur.Store(&page{state: st, applied: max(applied, old.applied), changed: make(chan struct{})})
	close(old.changed)
}

// until waits for a page on which ok holds. When ctx ends or stop closes first
// it returns the page that is up, and false.
func (b *board) until(ctx context.Context, stop <-chan struct{}, ok func(*page) bool) (*page, bool) {
	for {
		p := b.cur.Load()
		if ok(p) {
			return p, true
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return p, false
		case <-stop:
			return p, false
		}
	}
}
