package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// Flavors returns one page of the flavors. It may be repeated.
func (c *Client) Flavors(ctx context.Context, o ListOptions) (Page[rest.Flavor], error) {
	return callPage[rest.Flavor](ctx, c, routeCall("client.Flavors", "GET /flavors"), o)
}

// Flavor returns one flavor. It may be repeated.
func (c *Client) Flavor(ctx context.Context, id api.FlavorID) (rest.Flavor, error) {
	return callValue[rest.Flavor](ctx, c, routeCall("client.Flavor", "GET /flavors/{id}", string(id)))
}

// CreateFlavor creates a flavor. It is not repeated: a second one with that name is
// a conflict. Admins only.
func (c *Client) CreateFlavor(ctx context.Context, s rest.FlavorSpec) (rest.Flavor, error) {
	return callValue[rest.Flavor](ctx, c, routeCall("client.CreateFlavor", "POST /flavors").withBody(rest.FlavorBody{Flavor: s}))
}

// UpdateFlavor replaces a flavor as a whole; s.Name is its name or "". It may be
// repeated. Admins only.
func (c *Client) UpdateFlavor(ctx context.Context, id api.FlavorID, s rest.FlavorSpec) (rest.Flavor, error) {
	q := routeCall("client.UpdateFlavor", "PUT /flavors/{id}", string(id)).withBody(rest.FlavorBody{Flavor: s}).withRepeat(true)
	return callValue[rest.Flavor](ctx, c, q)
}

// DeleteFlavor deletes a flavor; running instances are not affected. It may be repeated.
// Admins only.
func (c *Client) DeleteFlavor(ctx context.Context, id api.FlavorID) error {
	return c.callNothing(ctx, deleteCall("client.DeleteFlavor", "DELETE /flavors/{id}", string(id)))
}
