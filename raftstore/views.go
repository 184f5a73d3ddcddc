package raftstore

import (
	"context"
	"sync"
	"sync/atomic"

	"berth/internal/watch"
	"berth/raftstore/state"
)

// page is one published view. It never changes; changed is closed when a newer
// page is up.
type page struct {
	state   *state.State
	applied uint64 // every entry up to this one is in state
	changed chan struct{}
}

// viewBoard shows the latest page. Readers take no lock; any number may wait, and a
// new page wakes all of them with one close, or those alone whose topic it touches.
type viewBoard struct {
	mu       sync.Mutex // guards the replacement of cur, between writers
	cur      atomic.Pointer[page]
	watchers watch.List[state.Topic]
}

func newBoard(st *state.State) *viewBoard {
	b := &viewBoard{}
	b.cur.Store(&page{state: st, changed: make(chan struct{})})
	return b
}

// postView puts up a view that holds every entry up to applied; touched are the topics
// that those since the view before have touched. A nil st keeps the view that is up:
// the entries since then did not concern the state.
func (b *viewBoard) postView(st *state.State, applied uint64, touched ...state.Topic) {
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
	b.watchers.Wake(touched...)
}

// awaitPage waits for a page on which ok holds. When ctx ends or stop closes first
// it returns the page that is up, and false.
func (b *viewBoard) awaitPage(ctx context.Context, stop <-chan struct{}, ok func(*page) bool) (*page, bool) {
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

// awaitView waits for a view for which ok holds. After the first look it looks again only
// when an entry has touched the topic. When ctx ends or stop closes first it returns
// the view that is up, and false.
func (b *viewBoard) awaitView(ctx context.Context, stop <-chan struct{}, topic state.Topic, ok func(*state.State) bool) (*state.State, bool) {
	woken, remove := b.watchers.Add(topic)
	defer remove()
	for {
		st := b.cur.Load().state
		if ok(st) {
			return st, true
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return b.cur.Load().state, false
		case <-stop:
			return b.cur.Load().state, false
		}
	}
}
