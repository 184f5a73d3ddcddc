// Package requestid carries the id of the call that work is done for, from the
// listener that it came in at to the zones that are asked because of it.
package requestid

import (
	"context"

	"berth/api"
)

type key struct{}

// With notes the id of the call that somebody made of a zone. It goes down the tree
// with what that call asks, so that every zone knows it by one id.
//
// A zone may get one id several times at one depth: a select is hedged, by its asker or
// further up, and it is repeated. At another depth than before it has gone round a ring,
// for a zone has one parent, and so one way from where the call was.
func With(ctx context.Context, id api.RequestID) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// Of returns the id of the call that ctx belongs to; "" for work that no call asked for.
func Of(ctx context.Context) api.RequestID {
	id, _ := ctx.Value(key{}).(api.RequestID)
	return id
}
