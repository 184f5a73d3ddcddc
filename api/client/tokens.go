package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// Tokens returns the bearer tokens of the zone, without their secrets. It may be
// repeated. Admins only.
func (c *Client) Tokens(ctx context.Context) ([]rest.Token, error) {
	return all[rest.Token](ctx, c, to("client.Tokens", "GET /operator/tokens"))
}

// CreateToken makes a bearer token. It is not repeated: each call makes another
// one. Admins only.
func (c *Client) CreateToken(ctx context.Context, s rest.TokenSpec) (rest.TokenCreated, error) {
	return answer[rest.TokenCreated](ctx, c, to("client.CreateToken", "POST /operator/tokens").with(s))
}

// DeleteToken ends a bearer token. It may be repeated. Admins only.
func (c *Client) DeleteToken(ctx context.Context, id api.TokenID) error {
	return c.none(ctx, remove("client.DeleteToken", "DELETE /operator/tokens/{id}", string(id)))
}

// CreateJoinToken makes a token with which one node or agent may join. It is not
// repeated: each call makes another one. Admins only.
func (c *Client) CreateJoinToken(ctx context.Context, s rest.JoinTokenSpec) (string, error) {
	return answer[string](ctx, c, to("client.CreateJoinToken", "POST /operator/join-tokens").with(s))
}

// Join presents the join token in b and returns what a new node or agent needs.
// It needs no bearer token, and is not repeated: a join token is good for one
// use.
func (c *Client) Join(ctx context.Context, b rest.JoinBody) (rest.JoinAnswer, error) {
	q := to("client.Join", "POST /operator/join").with(b)
	q.patience = linkPatience
	return answer[rest.JoinAnswer](ctx, c, q)
}
