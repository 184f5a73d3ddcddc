package client

import (
	"context"
	"net/http"

	"berth/api"
)

// ZoneSpec says what to set of a link to a child or the parent; nil leaves it as
// it is.
type ZoneSpec = api.ZoneSpec

type zoneBody struct {
	Zone ZoneSpec `json:"zone"`
}

// Zones returns one page of the zones that are linked to this one: its parent and
// its children. It may be repeated.
func (c *Client) Zones(ctx context.Context, o ListOptions) (Page[api.Link], error) {
	return page[api.Link](ctx, c, get("client.Zones", "zones"), "zones", o)
}

// Zone returns one linked zone by its name or its link's id. It may be repeated.
func (c *Client) Zone(ctx context.Context, ref string) (api.Link, error) {
	return one[api.Link](ctx, c, get("client.Zone", "zones", ref), "zone")
}

// ZoneInfo returns what this zone says of itself. It may be repeated.
func (c *Client) ZoneInfo(ctx context.Context) (api.ZoneInfo, error) {
	return one[api.ZoneInfo](ctx, c, get("client.ZoneInfo", "zones", "info"), "zone")
}

// CreateLinkToken returns a token with which one zone may become a child of this
// one, under the name that s gives it. It is not repeated: each call makes
// another token. Admins only.
func (c *Client) CreateLinkToken(ctx context.Context, s ZoneSpec) (string, error) {
	return one[string](ctx, c, call{
		op: "client.CreateLinkToken", method: http.MethodPost, path: []string{"zones"}, in: zoneBody{s},
	}, "token")
}

// LinkZone makes this zone a child of the one that made the token; name is what
// the parent is called here, "" for "parent". It is not repeated: the token is
// good for one use. Admins only.
func (c *Client) LinkZone(ctx context.Context, token, name string) (api.Link, error) {
	in := struct {
		Token string `json:"token"`
		Name  string `json:"name,omitempty"`
	}{token, name}
	return one[api.Link](ctx, c, call{
		op: "client.LinkZone", method: http.MethodPost, path: []string{"zones", "link"}, in: in, patience: linkPatience,
	}, "zone")
}

// UpdateZone sets what s names. It may be repeated, except that a zone which was
// renamed is found under its new name or its id alone. Admins only.
func (c *Client) UpdateZone(ctx context.Context, ref string, s ZoneSpec) (api.Link, error) {
	return one[api.Link](ctx, c, call{
		op: "client.UpdateZone", method: http.MethodPut, path: []string{"zones", ref}, in: zoneBody{s}, repeats: s.Name == nil,
	}, "zone")
}

// DeleteZone ends the link to a zone; a conflict while instances depend on it. It
// may be repeated. Admins only.
func (c *Client) DeleteZone(ctx context.Context, ref string) error {
	return c.none(ctx, remove("client.DeleteZone", "zones", ref))
}
