package client

import (
	"context"
	"net/http"

	"berth/api"
)

// Scheduler is how a zone chooses hosts, and what it could be told.
type Scheduler struct {
	api.Scheduler `json:"scheduler"` // what runs: as it was set, or the default
	Known         struct {
		Filters []FilterInfo `json:"filters"`
		Costs   []CostInfo   `json:"costs"`
	} `json:"known"`
}

// FilterInfo tells of a filter that there is.
type FilterInfo struct {
	Name    string         `json:"name"`
	Help    string         `json:"help"`
	Tier    api.Tier       `json:"tier"`
	Default bool           `json:"default"`
	Options []FilterOption `json:"options,omitempty"`
	Example api.FilterSpec `json:"example"`
}

// FilterOption tells of one option of a filter.
type FilterOption struct {
	Name     string `json:"name"`
	Help     string `json:"help"`
	Required bool   `json:"required,omitempty"`
}

// CostInfo tells of a cost that there is.
type CostInfo struct {
	Name    string `json:"name"`
	Help    string `json:"help"`
	Default bool   `json:"default"`
}

// Scheduler returns how the zone chooses hosts. It may be repeated. Admins only.
func (c *Client) Scheduler(ctx context.Context) (Scheduler, error) {
	return whole[Scheduler](ctx, c, get("client.Scheduler", "operator", "scheduler"))
}

// SetScheduler replaces as a whole how the zone chooses hosts; empty lists stand
// for the default. It may be repeated. Admins only.
func (c *Client) SetScheduler(ctx context.Context, s api.Scheduler) (Scheduler, error) {
	in := struct {
		Scheduler api.Scheduler `json:"scheduler"`
	}{s}
	return whole[Scheduler](ctx, c, call{
		op: "client.SetScheduler", method: http.MethodPut, path: []string{"operator", "scheduler"}, in: in, repeats: true,
	})
}
