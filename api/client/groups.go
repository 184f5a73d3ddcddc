package client

import (
	"context"

	"berth/api/rest"
)

// ServerGroups returns one page of the server groups of the caller's project, or of
// that of InProject. It may be repeated.
func (c *Client) ServerGroups(ctx context.Context, o ListOptions) (Page[rest.ServerGroup], error) {
	q := routeCall("client.ServerGroups", "GET /server-groups")
	q.query = c.whoseQuery()
	return callPage[rest.ServerGroup](ctx, c, q, o)
}

// AllServerGroups returns one page of the server groups of all projects. It may be repeated. Admins only.
func (c *Client) AllServerGroups(ctx context.Context, o ListOptions) (Page[rest.ServerGroup], error) {
	q := routeCall("client.AllServerGroups", "GET /server-groups")
	q.query = queryOf(map[string]string{"all_projects": "true"})
	return callPage[rest.ServerGroup](ctx, c, q, o)
}

// ServerGroup returns one server group by name or id. It may be repeated.
func (c *Client) ServerGroup(ctx context.Context, ref string) (rest.ServerGroup, error) {
	q := routeCall("client.ServerGroup", "GET /server-groups/{id}", ref)
	q.query = c.whoseQuery()
	return callValue[rest.ServerGroup](ctx, c, q)
}

// CreateServerGroup creates a server group of the caller's project. It is not
// repeated: a second one with that name is a conflict.
func (c *Client) CreateServerGroup(ctx context.Context, s rest.ServerGroupSpec) (rest.ServerGroup, error) {
	return callValue[rest.ServerGroup](ctx, c, routeCall("client.CreateServerGroup", "POST /server-groups").withBody(rest.ServerGroupBody{Group: s}))
}

// DeleteServerGroup deletes a server group; its members stay where they are, and it binds them no more. It may be
// repeated.
func (c *Client) DeleteServerGroup(ctx context.Context, ref string) error {
	q := deleteCall("client.DeleteServerGroup", "DELETE /server-groups/{id}", ref)
	q.query = c.whoseQuery()
	return c.callNothing(ctx, q)
}

// Explain explains the outcome of a request or a reservation, by its id. Names of hosts are
// only for admins. It may be repeated.
func (c *Client) Explain(ctx context.Context, id string) (rest.Explanation, error) {
	q := routeCall("client.Explain", "GET /explain/{id}", id)
	q.query = c.whoseQuery()
	return callValue[rest.Explanation](ctx, c, q)
}
