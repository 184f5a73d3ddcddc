package requestid

import (
	"context"
	"log/slog"
)

// NewHandler returns a handler that hands each record on to next, with the id of the call that its
// context belongs to as the attribute request_id. A record without a call is handed on as it is.
func NewHandler(next slog.Handler) slog.Handler { return handler{next} }

type handler struct{ slog.Handler }

var _ slog.Handler = handler{}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := Of(ctx); id != "" {
		r = r.Clone() // others may have it as well
		r.AddAttrs(slog.String("request_id", string(id)))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(as []slog.Attr) slog.Handler { return handler{h.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler. The id is in the group, as all attributes of a record are.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
