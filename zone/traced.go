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
	ctx, end := beginSpan(ctx, s.trace, "raft propose")
	res, err := s.Store.Propose(ctx, cmds...)
	end(err)
	return res, err
}

// BeginSpan begins a span of work that is part of a call, and returns what ends it with the error of that work, nil
// for none. The name is a constant. Without a tracer nothing happens.
func (z *Zone) BeginSpan(ctx context.Context, name string) (within context.Context, end func(error)) {
	return beginSpan(ctx, z.trace, name)
}

func beginSpan(ctx context.Context, t *tracing.Tracer, name string) (within context.Context, end func(error)) {
	ctx, span := t.Start(ctx, name, tracing.Internal)
	return ctx, func(err error) {
		code := ""
		if err != nil {
			code = string(api.CodeOf(err))
		}
		span.End(code)
	}
}

// ProposeEach implements zone.Store.
func (s *tracedStore) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	ctx, span := s.trace.Start(ctx, "raft propose", tracing.Internal)
	defer span.End("")
	return s.Store.ProposeEach(ctx, lists)
}
