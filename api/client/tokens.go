package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// Tokens returns one page of the bearer tokens of the zone, without their secrets.
// It may be repeated. Admins only.
func (c *Client) Tokens(ctx context.Context, o ListOptions) (Page[rest.Token], error) {
	return callPage[rest.Token](ctx, c, routeCall("client.Tokens", "GET /operator/tokens"), o)
}

// CreateToken creates a bearer token. It is not repeated: each call creates another one.
// Admins only.
func (c *Client) CreateToken(ctx context.Context, s rest.TokenSpec) (rest.TokenCreated, error) {
	return callValue[rest.TokenCreated](ctx, c, routeCall("client.CreateToken", "POST /operator/tokens").withBody(s))
}

// DeleteToken deletes a bearer token. It may be repeated. Admins only.
func (c *Client) DeleteToken(ctx context.Context, id api.TokenID) error {
	return c.callNothing(ctx, deleteCall("client.DeleteToken", "DELETE /operator/tokens/{id}", string(id)))
}

// OwnTokens returns one page of the tokens of the caller, without their secrets. It may be repeated.
func (c *Client) OwnTokens(ctx context.Context, o ListOptions) (Page[rest.Token], error) {
	return callPage[rest.Token](ctx, c, routeCall("client.OwnTokens", "GET /tokens"), o)
}

// RevokeToken revokes a token of the caller. It may be repeated.
func (c *Client) RevokeToken(ctx context.Context, id api.TokenID) error {
	return c.callNothing(ctx, deleteCall("client.RevokeToken", "DELETE /tokens/{id}", string(id)))
}

// Agents returns one page of the agents of the zone. It may be repeated. Admins only.
func (c *Client) Agents(ctx context.Context, o ListOptions) (Page[rest.Agent], error) {
	return callPage[rest.Agent](ctx, c, routeCall("client.Agents", "GET /operator/agents"), o)
}

// RevokeAgent ends an agent until it joins with a new token. It may be repeated. Admins only.
func (c *Client) RevokeAgent(ctx context.Context, id api.AgentID) error {
	return c.callNothing(ctx, deleteCall("client.RevokeAgent", "DELETE /operator/agents/{id}", string(id)))
}

// CreateJoinToken creates a token with which one node or agent may join. It is not
// repeated: each call creates another one. Admins only.
func (c *Client) CreateJoinToken(ctx context.Context, s rest.JoinTokenSpec) (string, error) {
	return callValue[string](ctx, c, routeCall("client.CreateJoinToken", "POST /operator/join-tokens").withBody(s))
}

// Join presents the join token in b and returns the certificates and addresses for a new
// node or agent. It needs no bearer token, and is not repeated: a join token is valid for
// one use.
func (c *Client) Join(ctx context.Context, b rest.JoinBody) (rest.JoinAnswer, error) {
	q := routeCall("client.Join", "POST /operator/join").withBody(b)
	q.patience = linkPatience
	return callValue[rest.JoinAnswer](ctx, c, q)
}

// Roles returns one page of the roles that operators have made. It may be repeated.
func (c *Client) Roles(ctx context.Context, o ListOptions) (Page[rest.Role], error) {
	return callPage[rest.Role](ctx, c, routeCall("client.Roles", "GET /operator/roles"), o)
}

// SetRole makes or replaces a role. It may be repeated.
func (c *Client) SetRole(ctx context.Context, name api.UserRole, s rest.RoleSpec) (rest.Role, error) {
	return callValue[rest.Role](ctx, c, routeCall("client.SetRole", "PUT /operator/roles/{id}", string(name)).withBody(rest.RoleBody{Role: s}).withRepeat(true))
}

// DeleteRole deletes a role. It may be repeated.
func (c *Client) DeleteRole(ctx context.Context, name api.UserRole) error {
	return c.callNothing(ctx, deleteCall("client.DeleteRole", "DELETE /operator/roles/{id}", string(name)))
}
