package zone

import (
	"context"

	"berth/api"
	"berth/internal/tracing"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// WithTracer returns a store with a span for each proposal that is part of a call; s itself without a tracer.
func WithTracer(s Store, t *tracing.Tracer) Store {
	if t == nil {
		return s
	}
	return &tracedStore{s, t}
}

type tracedStore struct {
	Store
	trace *tracing.Tracer
}

// Propose implements zone.Store.
func (s *tracedStore) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	ctx, span := s.trace.Start(ctx, "raft propose", tracing.Internal)
	res, err := s.Store.Propose(ctx, cmds...)
	code := ""
	if err != nil {
		code = string(api.CodeOf(err))
	}
	span.End(code)
	return res, err
}

// ProposeEach implements zone.Store.
func (s *tracedStore) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	ctx, span := s.trace.Start(ctx, "raft propose", tracing.Internal)
	defer span.End("")
	return s.Store.ProposeEach(ctx, lists)
}
