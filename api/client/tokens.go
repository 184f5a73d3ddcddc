package client

import (
	"context"
	"net/http"

	"berth/api"
)

// TokenSpec says whom a bearer token names and what it allows.
type TokenSpec struct {
	User    api.UserID     `json:"user_id"`
	Project api.ProjectID  `json:"project_id"`
	Roles   []api.UserRole `json:"roles"`
	TTL     Duration       `json:"ttl,omitempty"` // 0 for one that does not expire
}

// NewToken is a bearer token, shown this once.
type NewToken struct {
	Token string      `json:"token"`
	ID    api.TokenID `json:"id"`
}

// JoinTokenSpec says what a join token admits.
type JoinTokenSpec struct {
	Kind api.JoinKind `json:"kind"` // api.JoinNode or api.JoinAgent
	Name string       `json:"name"`
	TTL  Duration     `json:"ttl,omitempty"` // at most api.JoinTokenTTLMax; 0 for the zone's default
}

// Tokens returns the bearer tokens of the zone, without their secrets. It may be
// repeated. Admins only.
func (c *Client) Tokens(ctx context.Context) ([]api.Token, error) {
	return one[[]api.Token](ctx, c, get("client.Tokens", "operator", "tokens"), "tokens")
}

// CreateToken makes a bearer token. It is not repeated: each call makes another
// one. Admins only.
func (c *Client) CreateToken(ctx context.Context, s TokenSpec) (NewToken, error) {
	return whole[NewToken](ctx, c, call{
		op: "client.CreateToken", method: http.MethodPost, path: []string{"operator", "tokens"}, in: s,
	})
}

// DeleteToken ends a bearer token. It may be repeated. Admins only.
func (c *Client) DeleteToken(ctx context.Context, id api.TokenID) error {
	return c.none(ctx, remove("client.DeleteToken", "operator", "tokens", string(id)))
}

// CreateJoinToken makes a token with which one node or agent may join. It is not
// repeated: each call makes another one. Admins only.
func (c *Client) CreateJoinToken(ctx context.Context, s JoinTokenSpec) (string, error) {
	return one[string](ctx, c, call{
		op: "client.CreateJoinToken", method: http.MethodPost, path: []string{"operator", "join-tokens"}, in: s,
	}, "token")
}

// Join presents the join token in b and returns what a new node or agent needs.
// It needs no bearer token, and is not repeated: a join token is good for one
// use.
func (c *Client) Join(ctx context.Context, b api.JoinBody) (api.JoinAnswer, error) {
	return whole[api.JoinAnswer](ctx, c, call{
		op: "client.Join", method: http.MethodPost, path: []string{"operator", "join"}, in: b, patience: linkPatience,
	})
}
