package client

import (
	"context"
	"net/http"

	"berth/api"
)

// Aggregate is a named set of hosts as the public API tells it.
type Aggregate struct {
	ID       api.AggregateID   `json:"id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
	Hosts    []string          `json:"hosts"` // names
	Created  api.Instant       `json:"created"`
	Updated  api.Instant       `json:"updated"`
}

// AggregateSpec says what to set of an aggregate; nil leaves it as it is.
type AggregateSpec = api.AggregateSpec

type aggregateBody struct {
	Aggregate AggregateSpec `json:"aggregate"`
}

// AvailabilityZone is one that a boot may ask for.
type AvailabilityZone struct {
	Name      string   `json:"name"`
	Available bool     `json:"available"` // some host there takes work
	Zones     []string `json:"zones"`     // this zone, and the direct children that lead there
}

// Aggregates returns one page of the aggregates. It may be repeated. Admins only.
func (c *Client) Aggregates(ctx context.Context, o ListOptions) (Page[Aggregate], error) {
	return page[Aggregate](ctx, c, get("client.Aggregates", "aggregates"), "aggregates", o)
}

// Aggregate returns one aggregate by name or id. It may be repeated. Admins only.
func (c *Client) Aggregate(ctx context.Context, ref string) (Aggregate, error) {
	return one[Aggregate](ctx, c, get("client.Aggregate", "aggregates", ref), "aggregate")
}

// CreateAggregate makes an aggregate. It is not repeated: a second one with that
// name is a conflict. Admins only.
func (c *Client) CreateAggregate(ctx context.Context, s AggregateSpec) (Aggregate, error) {
	return one[Aggregate](ctx, c, call{
		op: "client.CreateAggregate", method: http.MethodPost, path: []string{"aggregates"}, in: aggregateBody{s},
	}, "aggregate")
}

// UpdateAggregate sets what s names. It may be repeated, except that one which was
// renamed is found under its new name or its id alone. Admins only.
func (c *Client) UpdateAggregate(ctx context.Context, ref string, s AggregateSpec) (Aggregate, error) {
	return one[Aggregate](ctx, c, call{
		op: "client.UpdateAggregate", method: http.MethodPut, path: []string{"aggregates", ref}, in: aggregateBody{s}, repeats: s.Name == nil,
	}, "aggregate")
}

// DeleteAggregate forgets an aggregate; its hosts stay. It may be repeated. Admins
// only.
func (c *Client) DeleteAggregate(ctx context.Context, ref string) error {
	return c.none(ctx, remove("client.DeleteAggregate", "aggregates", ref))
}

// AvailabilityZones returns one page of what boots may ask for, by name. It may be
// repeated.
func (c *Client) AvailabilityZones(ctx context.Context, o ListOptions) (Page[AvailabilityZone], error) {
	return page[AvailabilityZone](ctx, c, get("client.AvailabilityZones", "availability-zones"), "availability_zones", o)
}
