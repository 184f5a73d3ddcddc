package raftstore

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"

	"berth/api"
	"berth/internal/watch"
	"berth/raftstore/state"
)

// Wait returns a view whose index is above after, as soon as this node has one.
// Any number may wait. When ctx ends first it returns the view of that moment with
// CodeTimeout, and when the store closes with CodeUnavailable.
func (s *Store) Wait(ctx context.Context, after uint64) (*state.State, error) {
	p, ok := s.views.awaitPage(ctx, s.closing, func(p *page) bool { return p.state.Index() > after })
	switch {
	case ok:
		return p.state, nil
	case ctx.Err() != nil:
		return p.state, readFailure("raftstore.Wait", ctx.Err())
	default:
		return p.state, closedError("raftstore.Wait")
	}
}

// WaitFor returns a view for which ok holds, as soon as this node has one. It asks ok
// of the view that is up, and again only after entries that touch topic: ok must
// depend on nothing else. Any number may wait. When ctx ends first it returns the view
// of that moment with CodeTimeout, and when the store closes with CodeUnavailable.
func (s *Store) WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	st, found := s.views.awaitView(ctx, s.closing, topic, ok)
	switch {
	case found:
		return st, nil
	case ctx.Err() != nil:
		return st, readFailure("raftstore.WaitFor", ctx.Err())
	default:
		return st, closedError("raftstore.WaitFor")
	}
}

// Feed returns a feed of the topics, among those that wanted accepts, that entries touch, until
// remove is called. A reader that is woken finds the entry in View.
func (s *Store) Feed(wanted func(state.Topic) bool) (f *watch.Feed[state.Topic], remove func()) {
	return s.views.watchers.AddFeed(wanted)
}

// Linearizable returns a view that holds every change that was acknowledged, by
// any node, before the call. Only the leader can tell, after it has heard from a
// majority; on another node, and without a majority, it returns CodeUnavailable,
// and CodeTimeout when ctx or Config.Timeout ends first.
func (s *Store) Linearizable(ctx context.Context) (*state.State, error) {
	const op = "raftstore.Linearizable"
	if !s.IsLeader() {
		return nil, readFailure(op, raft.ErrNotLeader)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	a := make(ask, 1)
	if err := s.asks.put(a); err != nil {
		return nil, err
	}
	var sure mark
	select {
	case sure = <-a:
	case <-ctx.Done():
		return nil, readFailure(op, ctx.Err())
	}
	if sure.err != nil {
		return nil, readFailure(op, sure.err)
	}
	p, ok := s.views.awaitPage(ctx, s.closing, func(p *page) bool { return p.applied >= sure.index })
	switch {
	case ok:
		return p.state, nil
	case ctx.Err() != nil:
		return nil, readFailure(op, ctx.Err())
	default:
		return nil, closedError(op)
	}
}

// mark is the answer to an ask: every change that was acknowledged before the ask
// has an index up to this one.
type mark struct {
	index uint64
	err   error
}

type ask chan mark

// asks holds the linearizable reads that arrived while the leader was being
// confirmed. The next confirmation, which begins after they came, serves all.
type asks struct {
	ready chan struct{} // holds one token while something waits

	mu      sync.Mutex // guards the fields below
	waiting []ask
	closed  bool
}

func newAsks() *asks { return &asks{ready: make(chan struct{}, 1)} }

func (q *asks) put(a ask) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return closedError("raftstore.Linearizable")
	case len(q.waiting) >= queueMax:
		return api.Errorf(api.CodeOverloaded, "too many reads are waiting on this node")
	}
	q.waiting = append(q.waiting, a)
	select {
	case q.ready <- struct{}{}:
	default: // a token is there already
	}
	return nil
}

func (q *asks) take() []ask {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}

func (q *asks) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for _, a := range q.take() {
		a <- mark{err: raft.ErrRaftShutdown}
	}
}

// confirmAsks answers the asks, one confirmation after the other, until ctx ends.
func (s *Store) confirmAsks(ctx context.Context) {
	for {
		select {
		case <-s.asks.ready:
		case <-ctx.Done():
			return
		}
		waiting := s.asks.take()
		if len(waiting) == 0 {
			continue
		}
		index, err := s.confirmIndex(ctx)
		if ctx.Err() != nil {
			err = raft.ErrRaftShutdown
		}
		for _, a := range waiting {
			a <- mark{index, err}
		}
	}
}

// confirmIndex returns an index that no change acknowledged before the call is above.
// The order matters: this term has committed something, then the commit index is
// noted, then a majority confirms the leader, and the term is still the same.
func (s *Store) confirmIndex(ctx context.Context) (index uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	term := s.Term()
	if err = s.confirmTerm(ctx, term); err != nil {
		return index, err
	}
	index = s.raft.CommitIndex()
	if err = s.awaitCall(ctx, func() error { return s.raft.VerifyLeader().Error() }); err == nil && s.Term() != term {
		err = raft.ErrNotLeader
	}
	return index, err
}

// confirmTerm returns when View holds all that was in the log when the term began.
func (s *Store) confirmTerm(ctx context.Context, term uint64) error {
	if s.ready.Load() == term {
		return nil
	}
	if err := s.awaitBarrier(ctx); err != nil {
		return err
	}
	s.ready.Store(term)
	return nil
}

// awaitBarrier returns when everything that is in the log has been applied here. Raft
// does not show the state machine its own entries, the barrier among them, so the
// board is told that nothing is missing up to it.
func (s *Store) awaitBarrier(ctx context.Context) error {
	return s.awaitCall(ctx, func() error {
		future := s.raft.Barrier(s.cfg.Timeout)
		if err := future.Error(); err != nil {
			return err
		}
		if at, ok := future.(raft.IndexFuture); ok {
			s.views.postView(nil, at.Index())
		}
		return nil
	})
}
