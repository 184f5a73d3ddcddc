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
