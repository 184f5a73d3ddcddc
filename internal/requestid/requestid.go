// Package requestid carries the id of a call from the listener that received it to all
// calls of other zones made on its behalf, and to the log.
package requestid

import (
	"context"

	"berth/api"
)

type key struct{}

// With stores the id of a call in a context. It is passed down the tree with the calls
// made on its behalf, so that every zone logs them under one id.
//
// A zone may get one id several times at one depth: a select is hedged, by its caller or
// further up, and it is repeated. At a different depth it has gone round a ring, because
// a zone has one parent, and so one path from the origin of the call.
func With(ctx context.Context, id api.RequestID) context.Context {
	return context.WithValue(ctx, key{}, id)
}

// Of returns the id of the call that ctx belongs to; "" for work without a call.
func Of(ctx context.Context) api.RequestID {
	id, _ := ctx.Value(key{}).(api.RequestID)
	return id
}
