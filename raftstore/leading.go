package raftstore

import (
	"context"
	"sync"
	"time"

	"berth/api"
)

// barrierRetry is how long Leading waits after a barrier that did not pass while
// the node still leads.
const barrierRetry = 50 * time.Millisecond

// ErrDeposed is the cause of the end of a leader's context.
var ErrDeposed error = api.Errorf(api.CodeUnavailable, "this node no longer leads its zone")

// term is one span of time during which this node leads, or does not.
type term struct {
	leading bool
	term    uint64
	changed chan struct{} // closed when the term ends
}

// watchLeadership tells every caller of Leading what Raft tells one listener.
func (s *Store) watchLeadership(ctx context.Context) {
	for {
		select {
		case leading := <-s.raft.LeaderCh():
			s.beginTerm(leading)
		case <-ctx.Done():
			s.beginTerm(false)
			return
		}
	}
}

// beginTerm begins a new term, unless the one that runs is like it. Raft may keep a
// loss that was followed by a win to itself; the term gives it away.
func (s *Store) beginTerm(leading bool) {
	old := s.term.Load()
	now := &term{leading: leading, term: s.Term(), changed: make(chan struct{})}
	if old.leading == leading && (!leading || old.term == now.term) {
		return
	}
	s.term.Store(now)
	close(old.changed)
	s.cfg.Log.Info("leadership changed", "leading", leading, "term", now.term)
}

// Leading calls lead whenever this node has become the leader and View holds all
// that was acknowledged before. The context of lead ends, with the cause ErrDeposed,
// when the node is deposed; lead must return then. A lead that returns earlier is
// not called again during that term. Leading returns when ctx ends or the store
// closes, and lead has returned.
func (s *Store) Leading(ctx context.Context, lead func(ctx context.Context)) {
	for {
		r := s.term.Load()
		if r.leading {
			s.runLeader(ctx, r, lead)
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return
		case <-s.closing:
			return
		}
	}
}

// runLeader conducts one term.
func (s *Store) runLeader(ctx context.Context, r *term, lead func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case <-r.changed:
			cancel(ErrDeposed)
		case <-s.closing:
			cancel(ErrDeposed)
		case <-ctx.Done():
		}
	})
	for s.awaitBarrier(ctx) != nil {
		again := time.NewTimer(barrierRetry)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
	lead(ctx)
}
