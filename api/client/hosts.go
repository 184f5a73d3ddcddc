package client

import (
	"context"
	"net/http"

	"berth/api"
)

// HostSpec says what to set of a host; nil leaves it as it is.
type HostSpec struct {
	Enabled    *bool     `json:"enabled,omitempty"`
	Pool       *api.Pool `json:"pool,omitempty"`
	Generation uint64    `json:"generation,omitempty"` // the one that was seen; 0 for any
}

// Hosts returns one page of the zone's own hosts. It may be repeated. Admins only.
func (c *Client) Hosts(ctx context.Context, o ListOptions) (Page[api.Host], error) {
	return page[api.Host](ctx, c, get("client.Hosts", "hosts"), "hosts", o)
}

// Host returns one host by name or id. It may be repeated. Admins only.
func (c *Client) Host(ctx context.Context, ref string) (api.Host, error) {
	return one[api.Host](ctx, c, get("client.Host", "hosts", ref), "host")
}

// UpdateHost sets what s names; a stale_generation error if the host has changed
// since s.Generation. It may be repeated unless it carries a generation. Admins
// only.
func (c *Client) UpdateHost(ctx context.Context, ref string, s HostSpec) (api.Host, error) {
	in := struct {
		Host HostSpec `json:"host"`
	}{s}
	return one[api.Host](ctx, c, call{
		op: "client.UpdateHost", method: http.MethodPut, path: []string{"hosts", ref}, in: in, repeats: s.Generation == 0,
	}, "host")
}

// DeleteHost forgets a host; a conflict while it runs anything. It may be
// repeated. Admins only.
func (c *Client) DeleteHost(ctx context.Context, ref string) error {
	return c.none(ctx, remove("client.DeleteHost", "hosts", ref))
}
