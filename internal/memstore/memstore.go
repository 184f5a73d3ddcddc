// Package memstore keeps the replicated state without Raft: a zone.Store that
// applies commands in memory, on one node that is always the leader. There is no log, no
// disk and no other node, so proposals are agreed at once. Only tests may import it.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/watch"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Term is the leadership term of every Store.
const Term = 7

// Store is a zone.Store in memory. New makes one; the zero Store has no state and must not
// be used. All methods may be called concurrently.
type Store struct {
	mu    sync.Mutex // guards the fields below
	next  *state.State
	view  *state.State  // the state after the last command
	moved chan struct{} // closed when view is replaced
	err   error         // error of Propose, nil for none
	form  api.Form      // of entries that commands are read from; 0 applies them as they are

	watchers watch.List[state.Topic]
}

// New returns a store of the state before the first command.
func New() *Store {
	s := state.New()
	return &Store{next: s, view: s.Clone(), moved: make(chan struct{})}
}

// NewOfForm returns a store that applies commands as they are read from entries of a form: what
// came with it takes effect.
func NewOfForm(form api.Form) *Store {
	s := New()
	s.form = form
	return s
}

// View returns the latest state.
func (s *Store) View() *state.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// Wait returns the first state after an index, or ctx's error.
func (s *Store) Wait(ctx context.Context, after uint64) (*state.State, error) {
	for {
		s.mu.Lock()
		v, moved := s.view, s.moved
		s.mu.Unlock()
		if v.Index() > after {
			return v, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// WaitFor returns the first state for which ok holds, or the latest and ctx's error.
// It asks ok again only after commands that touch topic.
func (s *Store) WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	woken, remove := s.watchers.Add(topic)
	defer remove()
	for {
		v := s.View()
		if ok(v) {
			return v, nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return s.View(), ctx.Err()
		}
	}
}

// Feed returns a feed of the topics that commands touch, until remove is called.
func (s *Store) Feed(wanted func(state.Topic) bool) (f *watch.Feed[state.Topic], remove func()) {
	return s.watchers.AddFeed(wanted)
}

// Propose applies the commands as one entry and returns their results. It fails only
// after Fail.
func (s *Store) Propose(_ context.Context, cmds ...command.Command) ([]state.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	index := s.next.Index() + 1
	out := make([]state.Result, len(cmds))
	var touched []state.Topic
	var before command.Command
	for i, c := range cmds {
		out[i] = s.next.Apply(index, s.reread(before, c))
		before = c
		touched = append(touched, s.next.Touched()...)
	}
	s.view = s.next.Clone()
	close(s.moved)
	s.moved = make(chan struct{})
	s.watchers.Wake(touched...)
	return out, nil
}

// ProposeEach applies each list as one entry.
func (s *Store) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return Each(ctx, s.Propose, lists)
}

// Each proposes lists one after the other. It is the ProposeEach of a store with a Propose of its
// own.
func Each(ctx context.Context, propose func(context.Context, ...command.Command) ([]state.Result, error), lists [][]command.Command) []state.Answer {
	out := make([]state.Answer, len(lists))
	for i, cmds := range lists {
		out[i].Results, out[i].Err = propose(ctx, cmds...)
	}
	return out
}

// reread returns a command as it is read from an entry, behind the one before it.
func (s *Store) reread(before, c command.Command) command.Command {
	if s.form == 0 {
		return c
	}
	b, err := command.EncodeAfter(before, c, s.form)
	if err == nil {
		c, err = command.DecodeAfter(before, b, s.form)
	}
	if err != nil {
		panic(fmt.Sprintf("memstore: %T cannot be an entry: %v", c, err))
	}
	return c
}

// Form returns the newest form.
func (*Store) Form() api.Form { return api.FormNewest }

// Linearizable returns the latest state and no error.
func (s *Store) Linearizable(context.Context) (*state.State, error) { return s.View(), nil }

// Term returns Term.
func (s *Store) Term() uint64 { return Term }

// Fail makes every later Propose apply nothing and return err; nil ends that.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Must proposes each command as an entry of its own, and stops the test unless
// the state accepts it.
func (s *Store) Must(tb testing.TB, cmds ...command.Command) {
	tb.Helper()
	for _, c := range cmds {
		rs, err := s.Propose(tb.Context(), c)
		require.NoError(tb, err)
		require.NoError(tb, rs[0].Err)
	}
}
