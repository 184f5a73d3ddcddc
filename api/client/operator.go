package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// Members returns the nodes of the zone. It may be repeated. Admins only.
func (c *Client) Members(ctx context.Context) ([]rest.Member, error) {
	return callAll[rest.Member](ctx, c, routeCall("client.Members", "GET /operator/members"))
}

// RemoveMember takes a node out of the zone. It may be repeated. Admins only.
func (c *Client) RemoveMember(ctx context.Context, id api.NodeID) error {
	return c.callNothing(ctx, deleteCall("client.RemoveMember", "DELETE /operator/members/{id}", string(id)))
}

// Transfer makes another node the leader: id, or with "" the one that is best
// prepared. It is not repeated: the second call might move it on. Admins only.
func (c *Client) Transfer(ctx context.Context, id api.NodeID) error {
	return c.callNothing(ctx, routeCall("client.Transfer", "POST /operator/transfer").withBody(rest.TransferBody{To: id}))
}

// Config returns the zone's configuration. It may be repeated. Admins only.
func (c *Client) Config(ctx context.Context) (rest.ZoneConfig, error) {
	return callValue[rest.ZoneConfig](ctx, c, routeCall("client.Config", "GET /operator/config"))
}

// SetConfig replaces the zone's configuration as a whole. It may be repeated.
// Admins only.
func (c *Client) SetConfig(ctx context.Context, z rest.ZoneConfig) (rest.ZoneConfig, error) {
	q := routeCall("client.SetConfig", "PUT /operator/config").withBody(rest.ConfigBody{Config: z}).withRepeat(true)
	return callValue[rest.ZoneConfig](ctx, c, q)
}

// RotateKeyring makes a new key for plans; the old one opens what it has sealed.
// It is not repeated: each call makes another key. Admins only.
func (c *Client) RotateKeyring(ctx context.Context) error {
	return c.callNothing(ctx, routeCall("client.RotateKeyring", "POST /operator/keyring/rotate"))
}

// Holds returns what parents hold in this zone. It may be repeated. Admins only.
func (c *Client) Holds(ctx context.Context) ([]rest.Hold, error) {
	return callAll[rest.Hold](ctx, c, routeCall("client.Holds", "GET /operator/holds"))
}

// ResolveHold decides a hold by force, commit or abort, in place of a parent that
// will not return. It is not repeated: a hold that is decided is not found.
// Admins only.
func (c *Client) ResolveHold(ctx context.Context, id api.HoldID, d api.Decision) error {
	return c.callNothing(ctx, routeCall("client.ResolveHold", "POST /operator/holds/{id}", string(id)).withBody(rest.DecisionBody{Decision: d}))
}
