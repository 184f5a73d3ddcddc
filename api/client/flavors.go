package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// Flavors returns one page of the flavors. It may be repeated.
func (c *Client) Flavors(ctx context.Context, o ListOptions) (Page[rest.Flavor], error) {
	return list[rest.Flavor](ctx, c, to("client.Flavors", "GET /flavors"), o)
}

// Flavor returns one flavor. It may be repeated.
func (c *Client) Flavor(ctx context.Context, id api.FlavorID) (rest.Flavor, error) {
	return answer[rest.Flavor](ctx, c, to("client.Flavor", "GET /flavors/{id}", string(id)))
}

// CreateFlavor makes a flavor. It is not repeated: a second one with that name is
// a conflict. Admins only.
func (c *Client) CreateFlavor(ctx context.Context, s rest.FlavorSpec) (rest.Flavor, error) {
	return answer[rest.Flavor](ctx, c, to("client.CreateFlavor", "POST /flavors").with(rest.FlavorBody{Flavor: s}))
}

// UpdateFlavor replaces a flavor as a whole; s.Name is its name or "". It may be
// repeated. Admins only.
func (c *Client) UpdateFlavor(ctx context.Context, id api.FlavorID, s rest.FlavorSpec) (rest.Flavor, error) {
	q := to("client.UpdateFlavor", "PUT /flavors/{id}", string(id)).with(rest.FlavorBody{Flavor: s}).repeating(true)
	return answer[rest.Flavor](ctx, c, q)
}

// DeleteFlavor removes a flavor; what runs is not touched. It may be repeated.
// Admins only.
func (c *Client) DeleteFlavor(ctx context.Context, id api.FlavorID) error {
	return c.none(ctx, remove("client.DeleteFlavor", "DELETE /flavors/{id}", string(id)))
}
