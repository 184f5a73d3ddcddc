package client

import (
	"context"
	"net/http"

	"berth/api"
)

// FlavorSpec is what a flavor is made of. VCPUs, RAM and Disk are short for the
// resources VCPU, MEMORY_MB and DISK_GB; of each, only one spelling may be given.
type FlavorSpec struct {
	Name       string            `json:"name"`
	VCPUs      int64             `json:"vcpus,omitempty"`
	RAM        int64             `json:"ram,omitempty"`  // MiB
	Disk       int64             `json:"disk,omitempty"` // GiB
	Resources  api.Resources     `json:"resources,omitempty"`
	ExtraSpecs map[string]string `json:"extra_specs,omitempty"`
	Command    []string          `json:"command,omitempty"` // what the process driver runs
}

type flavorBody struct {
	Flavor FlavorSpec `json:"flavor"`
}

// Flavors returns one page of the flavors. It may be repeated.
func (c *Client) Flavors(ctx context.Context, o ListOptions) (Page[api.Flavor], error) {
	return page[api.Flavor](ctx, c, get("client.Flavors", "flavors"), "flavors", o)
}

// Flavor returns one flavor. It may be repeated.
func (c *Client) Flavor(ctx context.Context, id api.FlavorID) (api.Flavor, error) {
	return one[api.Flavor](ctx, c, get("client.Flavor", "flavors", string(id)), "flavor")
}

// CreateFlavor makes a flavor. It is not repeated: a second one with that name is
// a conflict. Admins only.
func (c *Client) CreateFlavor(ctx context.Context, s FlavorSpec) (api.Flavor, error) {
	return one[api.Flavor](ctx, c, call{
		op: "client.CreateFlavor", method: http.MethodPost, path: []string{"flavors"}, in: flavorBody{s},
	}, "flavor")
}

// UpdateFlavor replaces a flavor as a whole; s.Name is its name or "". It may be
// repeated. Admins only.
func (c *Client) UpdateFlavor(ctx context.Context, id api.FlavorID, s FlavorSpec) (api.Flavor, error) {
	return one[api.Flavor](ctx, c, call{
		op: "client.UpdateFlavor", method: http.MethodPut, path: []string{"flavors", string(id)}, in: flavorBody{s}, repeats: true,
	}, "flavor")
}

// DeleteFlavor removes a flavor; what runs is not touched. It may be repeated.
// Admins only.
func (c *Client) DeleteFlavor(ctx context.Context, id api.FlavorID) error {
	return c.none(ctx, remove("client.DeleteFlavor", "flavors", string(id)))
}
