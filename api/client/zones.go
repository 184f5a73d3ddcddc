package client

import (
	"context"

	"berth/api/rest"
)

// Zones returns one page of the zones that are linked to this one: its parent and
// its children. It may be repeated.
func (c *Client) Zones(ctx context.Context, o ListOptions) (Page[rest.Zone], error) {
	return callPage[rest.Zone](ctx, c, routeCall("client.Zones", "GET /zones"), o)
}

// Zone returns one linked zone by its name or its link's id. It may be repeated.
func (c *Client) Zone(ctx context.Context, ref string) (rest.Zone, error) {
	return callValue[rest.Zone](ctx, c, routeCall("client.Zone", "GET /zones/{id}", ref))
}

// ZoneInfo returns the description of this zone. It may be repeated.
func (c *Client) ZoneInfo(ctx context.Context) (rest.ZoneInfo, error) {
	return callValue[rest.ZoneInfo](ctx, c, routeCall("client.ZoneInfo", "GET /zones/info"))
}

// CreateLinkToken returns a token with which one zone may become a child of this
// one, under the name that s gives it. It is not repeated: each call makes
// another token. Admins only.
func (c *Client) CreateLinkToken(ctx context.Context, s rest.ZoneSpec) (string, error) {
	return callValue[string](ctx, c, routeCall("client.CreateLinkToken", "POST /zones").withBody(rest.ZoneBody{Zone: s}))
}

// LinkZone makes this zone a child of the one that made the token; name is what
// the parent is called here, "" for "parent". It is not repeated: the token is
// good for one use. Admins only.
func (c *Client) LinkZone(ctx context.Context, token, name string) (rest.Zone, error) {
	q := routeCall("client.LinkZone", "POST /zones/link").withBody(rest.LinkBody{Token: token, Name: name})
	q.patience = linkPatience
	return callValue[rest.Zone](ctx, c, q)
}

// UpdateZone sets what s names. It may be repeated, except that a zone which was
// renamed is found under its new name or its id alone. Admins only.
func (c *Client) UpdateZone(ctx context.Context, ref string, s rest.ZoneSpec) (rest.Zone, error) {
	q := routeCall("client.UpdateZone", "PUT /zones/{id}", ref).withBody(rest.ZoneBody{Zone: s}).withRepeat(s.Name == nil)
	return callValue[rest.Zone](ctx, c, q)
}

// DeleteZone ends the link to a zone; a conflict while instances depend on it. It
// may be repeated. Admins only.
func (c *Client) DeleteZone(ctx context.Context, ref string) error {
	return c.callNothing(ctx, deleteCall("client.DeleteZone", "DELETE /zones/{id}", ref))
}

// RelinkZone accepts that a linked zone was brought back from a backup. A dry run shows its incarnation, changes nothing and
// may be repeated. Admins only.
func (c *Client) RelinkZone(ctx context.Context, ref string, q rest.Relink) (rest.Relinked, error) {
	call := routeCall("client.RelinkZone", "POST /zones/{id}/relink", ref).withBody(q).withRepeat(q.DryRun)
	return callValue[rest.Relinked](ctx, c, call)
}

// WriteOffZone writes off the link to a zone that is gone for good, and returns what is lost with it; a
// conflict unless the zone is paused. A dry run changes nothing and may be repeated. Admins only.
func (c *Client) WriteOffZone(ctx context.Context, ref string, w rest.WriteOff) (rest.Losses, error) {
	q := routeCall("client.WriteOffZone", "POST /zones/{id}/write-off", ref).withBody(w).withRepeat(w.DryRun)
	return callValue[rest.Losses](ctx, c, q)
}
