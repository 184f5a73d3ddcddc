package zone

import (
	"context"
	"sync/atomic"

	"berth/api"
)

type confirmationKey struct{}

// confirmation notes whether the log has taken an entry for a call. Then this
// node led after the call came in, and its view holds all that was acknowledged
// before.
type confirmation struct{ logged atomic.Bool }

// Confirmed runs use, and makes sure that a refusal is not one of the past. A node
// that led once may not have noticed yet that it leads no more: what it does not
// find may be there. So a refusal that use made without an entry of the log counts
// only when a majority has confirmed the state it was made from; if the state has
// moved on, use runs once more. A call that is not refused costs nothing more.
//
// Use must change nothing when it refuses, and pass its ctx to Propose. When no
// majority can be asked, the refusal is the one of Latest.
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
	case v.Index() == before: // use has seen this very state
		return err
	}
	return use(ctx)
}

// isDecisive reports whether a refusal says something of the state, upon which its
// caller acts. Every code does that does not speak of this node or of the form of
// the call alone.
func isDecisive(code api.Code) bool {
	switch code { //nolint:exhaustive // a new code counts as one that decides
	case api.CodeUnavailable, api.CodeTimeout, api.CodeOverloaded, api.CodeInternal,
		api.CodeTooLarge, api.CodeMediaType, api.CodeMethod:
		return false
	}
	return true
}

// noteLogged notes that the log has taken an entry for the call of ctx.
func noteLogged(ctx context.Context) {
	if c, ok := ctx.Value(confirmationKey{}).(*confirmation); ok {
		c.logged.Store(true)
	}
}
