package client

import (
	"context"

	"berth/api/rest"
)

// Aggregates returns one page of the aggregates. It may be repeated. Admins only.
func (c *Client) Aggregates(ctx context.Context, o ListOptions) (Page[rest.Aggregate], error) {
	return list[rest.Aggregate](ctx, c, to("client.Aggregates", "GET /aggregates"), o)
}

// Aggregate returns one aggregate by name or id. It may be repeated. Admins only.
func (c *Client) Aggregate(ctx context.Context, ref string) (rest.Aggregate, error) {
	return answer[rest.Aggregate](ctx, c, to("client.Aggregate", "GET /aggregates/{id}", ref))
}

// CreateAggregate makes an aggregate. It is not repeated: a second one with that
// name is a conflict. Admins only.
func (c *Client) CreateAggregate(ctx context.Context, s rest.AggregateSpec) (rest.Aggregate, error) {
	return answer[rest.Aggregate](ctx, c, to("client.CreateAggregate", "POST /aggregates").with(rest.AggregateBody{Aggregate: s}))
}

// UpdateAggregate sets what s names. It may be repeated, except that one which was
// renamed is found under its new name or its id alone. Admins only.
func (c *Client) UpdateAggregate(ctx context.Context, ref string, s rest.AggregateSpec) (rest.Aggregate, error) {
	return answer[rest.Aggregate](ctx, c,
		to("client.UpdateAggregate", "PUT /aggregates/{id}", ref).with(rest.AggregateBody{Aggregate: s}).repeating(s.Name == nil))
}

// DeleteAggregate forgets an aggregate; its hosts stay. It may be repeated. Admins
// only.
func (c *Client) DeleteAggregate(ctx context.Context, ref string) error {
	return c.none(ctx, remove("client.DeleteAggregate", "DELETE /aggregates/{id}", ref))
}

// AvailabilityZones returns one page of what boots may ask for, by name. It may be
// repeated.
func (c *Client) AvailabilityZones(ctx context.Context, o ListOptions) (Page[rest.AvailabilityZone], error) {
	return list[rest.AvailabilityZone](ctx, c, to("client.AvailabilityZones", "GET /availability-zones"), o)
}
