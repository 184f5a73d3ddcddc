package zone

import (
	"context"
	"sync/atomic"

	"berth/api"
)

type confirmationKey struct{}

// confirmation records whether the log has accepted an entry for a call. If so, this
// node led after the call arrived, and its view holds everything acknowledged before.
type confirmation struct{ logged atomic.Bool }

// Confirmed runs use, and makes sure that a refusal is not based on an old state. A
// deposed leader may not know that it is deposed, and may miss objects that exist. So a
// refusal without a log entry counts only once a majority has confirmed the state it
// was made from; if the state has moved on, use runs once more. A call that succeeds
// costs nothing extra.
//
// use must change nothing when it refuses, and pass its ctx to Propose. Without a
// majority, Confirmed returns the error of Latest.
func (z *Zone) Confirmed(ctx context.Context, use func(ctx context.Context) error) error {
	if _, within := ctx.Value(confirmationKey{}).(*confirmation); within {
		return use(ctx)
	}
	c := &confirmation{}
	ctx = context.WithValue(ctx, confirmationKey{}, c)
	before := z.store.View().Index()
	err := use(ctx)
	if !isDecisive(api.CodeOf(err)) || err == nil || c.logged.Load() {
		return err
	}
	v, unsure := z.Latest(ctx)
	switch {
	case unsure != nil:
		return unsure
	case v.Index() == before: // use has seen exactly this state
		return err
	}
	return use(ctx)
}

// isDecisive reports whether a refusal tells its caller something about the state.
// Every code does, except those about this node or about the form of the call.
func isDecisive(code api.Code) bool {
	switch code { //nolint:exhaustive // a new code counts as decisive
	case api.CodeUnavailable, api.CodeTimeout, api.CodeOverloaded, api.CodeInternal,
		api.CodeTooLarge, api.CodeMediaType, api.CodeMethod, api.CodeSlow:
		return false
	}
	return true
}

// NoteLogged records that the log has accepted an entry for the call of ctx, see Confirmed.
func (*Zone) NoteLogged(ctx context.Context) {
	if c, ok := ctx.Value(confirmationKey{}).(*confirmation); ok {
		c.logged.Store(true)
	}
}
