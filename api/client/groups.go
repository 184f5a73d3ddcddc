package client

import (
	"context"
	"net/http"

	"berth/api"
)

// ServerGroupSpec is what a server group is made of.
type ServerGroupSpec = api.ServerGroupSpec

// ServerGroups returns one page of the server groups of the caller's project, or of
// that of InProject. It may be repeated.
func (c *Client) ServerGroups(ctx context.Context, o ListOptions) (Page[api.ServerGroup], error) {
	q := get("client.ServerGroups", "server-groups")
	q.query = c.whose()
	return page[api.ServerGroup](ctx, c, q, "server_groups", o)
}

// ServerGroup returns one server group by name or id. It may be repeated.
func (c *Client) ServerGroup(ctx context.Context, ref string) (api.ServerGroup, error) {
	q := get("client.ServerGroup", "server-groups", ref)
	q.query = c.whose()
	return one[api.ServerGroup](ctx, c, q, "server_group")
}

// CreateServerGroup makes a server group of the caller's project. It is not
// repeated: a second one with that name is a conflict.
func (c *Client) CreateServerGroup(ctx context.Context, s ServerGroupSpec) (api.ServerGroup, error) {
	in := struct {
		Group ServerGroupSpec `json:"server_group"`
	}{s}
	return one[api.ServerGroup](ctx, c, call{
		op: "client.CreateServerGroup", method: http.MethodPost, path: []string{"server-groups"}, in: in,
	}, "server_group")
}

// DeleteServerGroup forgets a server group; its members stay where they are. It
// may be repeated.
func (c *Client) DeleteServerGroup(ctx context.Context, ref string) error {
	q := remove("client.DeleteServerGroup", "server-groups", ref)
	q.query = c.whose()
	return c.none(ctx, q)
}

// Explain tells why the request with an id, or the reservation, got what it got.
// Names of hosts are in it for admins alone. It may be repeated.
func (c *Client) Explain(ctx context.Context, id string) (api.Explanation, error) {
	q := get("client.Explain", "explain", id)
	q.query = c.whose()
	return one[api.Explanation](ctx, c, q, "explanation")
}
