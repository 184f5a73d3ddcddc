package memstore

import (
	"context"
	"sync"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// Past is a deposed leader's view of a Store: an old state, until it asks the other nodes.
// Then it gets the latest state, if it is the leader again, or learns that it is not.
// All methods may be called concurrently.
type Past struct {
	*Store
	Deposed bool // another node is the leader

	mu  sync.Mutex   // guards old
	old *state.State // nil once the node has asked
}

// NewPast returns a view of s that stays at old.
func NewPast(s *Store, old *state.State, deposed bool) *Past {
	return &Past{Store: s, Deposed: deposed, old: old}
}

// View returns the old state, or the latest once the node has asked.
func (p *Past) View() *state.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.old != nil {
		return p.old
	}
	return p.Store.View()
}

// Asked reports whether the node has asked the others, or written to the log.
func (p *Past) Asked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.old == nil
}

// Linearizable asks the others.
func (p *Past) Linearizable(context.Context) (*state.State, error) {
	if err := p.askPast(); err != nil {
		return nil, err
	}
	return p.Store.View(), nil
}

// Wait waits for a state after an index, which a node that is not the leader never gets.
func (p *Past) Wait(ctx context.Context, after uint64) (*state.State, error) {
	if v := p.View(); v.Index() > after {
		return v, nil
	}
	if p.Deposed {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return p.Store.Wait(ctx, after)
}

// WaitFor waits for a state for which ok holds, which a node that is not the leader never
// gets.
func (p *Past) WaitFor(ctx context.Context, topic state.Topic, ok func(*state.State) bool) (*state.State, error) {
	if v := p.View(); ok(v) {
		return v, nil
	}
	if p.Deposed {
		<-ctx.Done()
		return p.View(), ctx.Err()
	}
	return p.Store.WaitFor(ctx, topic, ok)
}

// Propose writes to the log if the node is the leader.
func (p *Past) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	if err := p.askPast(); err != nil {
		return nil, err
	}
	return p.Store.Propose(ctx, cmds...)
}

// ProposeEach is Propose for each list.
func (p *Past) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return Each(ctx, p.Propose, lists)
}

func (p *Past) askPast() error {
	if p.Deposed {
		return api.Errorf(api.CodeUnavailable, "another node leads")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.old = nil
	return nil
}
