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

// RemoveMember removes a node from the zone. It may be repeated. Admins only.
func (c *Client) RemoveMember(ctx context.Context, id api.NodeID) error {
	return c.callNothing(ctx, deleteCall("client.RemoveMember", "DELETE /operator/members/{id}", string(id)))
}

// Transfer makes another node the leader: id, or with "" the most up-to-date one. It is not
// repeated: a second call might transfer it again. Admins only.
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

// RotateKeyring creates a new key for sealing plans; the old one still opens the plans it
// has sealed. It is not repeated: each call creates another key. Admins only.
func (c *Client) RotateKeyring(ctx context.Context) error {
	return c.callNothing(ctx, routeCall("client.RotateKeyring", "POST /operator/keyring/rotate"))
}

// RotateKEK changes the key-encryption key of the zone. It is not repeated: each call creates
// another key. Admins only.
func (c *Client) RotateKEK(ctx context.Context) error {
	return c.callNothing(ctx, routeCall("client.RotateKEK", "POST /operator/kek/rotate"))
}

// CA returns the certificate authority of the zone, and how far its change is. It may be repeated.
// Admins only.
func (c *Client) CA(ctx context.Context) (rest.CA, error) {
	return callValue[rest.CA](ctx, c, routeCall("client.CA", "GET /operator/ca"))
}

// RotateCA begins the change of the certificate authority. It is not repeated: a second one is a
// conflict. Admins only.
func (c *Client) RotateCA(ctx context.Context, brought rest.CABrought) error {
	return c.callNothing(ctx, routeCall("client.RotateCA", "POST /operator/ca/rotate").withBody(brought))
}

// UseCA lets the next authority issue, also with force if somebody is refused by it. It is not
// repeated: a second one is a conflict. Admins only.
func (c *Client) UseCA(ctx context.Context, force bool) error {
	return c.callNothing(ctx, routeCall("client.UseCA", "POST /operator/ca/use").withBody(rest.CAForce{Force: force}))
}

// FinishCA ends the trust in the old authority, also with force if somebody is refused then. It is
// not repeated: a second one is a conflict. Admins only.
func (c *Client) FinishCA(ctx context.Context, force bool) error {
	return c.callNothing(ctx, routeCall("client.FinishCA", "POST /operator/ca/finish").withBody(rest.CAForce{Force: force}))
}

// Upgrade returns how far an upgrade of the zone's nodes is. It may be repeated. Admins only.
func (c *Client) Upgrade(ctx context.Context) (rest.Upgrade, error) {
	return callValue[rest.Upgrade](ctx, c, routeCall("client.Upgrade", "GET /operator/upgrade"))
}

// FinishUpgrade has the zone write the newest form that all its nodes read, after which none can go back. It is not repeated: a
// second one is a conflict. Admins only.
func (c *Client) FinishUpgrade(ctx context.Context) error {
	return c.callNothing(ctx, routeCall("client.FinishUpgrade", "POST /operator/upgrade/finish"))
}

// Holds returns the undecided holds of parents in this zone. It may be repeated. Admins
// only.
func (c *Client) Holds(ctx context.Context) ([]rest.Hold, error) {
	return callAll[rest.Hold](ctx, c, routeCall("client.Holds", "GET /operator/holds"))
}

// ResolveHold decides a hold by force, commit or abort, in place of a parent that
// will not return. It is not repeated: a decided hold is not found.
// Admins only.
func (c *Client) ResolveHold(ctx context.Context, id api.HoldID, d api.Decision) error {
	return c.callNothing(ctx, routeCall("client.ResolveHold", "POST /operator/holds/{id}", string(id)).withBody(rest.DecisionBody{Decision: d}))
}
