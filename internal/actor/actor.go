// Package actor carries who makes a call, from the listener that authenticated the caller to
// the log entry that records it.
package actor

import (
	"context"

	"berth/api"
)

type key struct{}

// Call is an authenticated call.
type Call struct {
	By   api.AuditActor
	Path string // method and path
}

// With stores the call that a context belongs to.
func With(ctx context.Context, c Call) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns the call that a context belongs to; without one it is work of the zone itself.
func Of(ctx context.Context) Call {
	if c, ok := ctx.Value(key{}).(Call); ok {
		return c
	}
	return Call{By: api.AuditActor{Kind: api.ActorZone}}
}
