package client

import (
	"context"

	"berth/api/rest"
)

// Aggregates returns one page of the aggregates. It may be repeated. Admins only.
func (c *Client) Aggregates(ctx context.Context, o ListOptions) (Page[rest.Aggregate], error) {
	return callPage[rest.Aggregate](ctx, c, routeCall("client.Aggregates", "GET /aggregates"), o)
}

// Aggregate returns one aggregate by name or id. It may be repeated. Admins only.
func (c *Client) Aggregate(ctx context.Context, ref string) (rest.Aggregate, error) {
	return callValue[rest.Aggregate](ctx, c, routeCall("client.Aggregate", "GET /aggregates/{id}", ref))
}

// CreateAggregate creates an aggregate. It is not repeated: a second one with that name is
// a conflict. Admins only.
func (c *Client) CreateAggregate(ctx context.Context, s rest.AggregateSpec) (rest.Aggregate, error) {
	return callValue[rest.Aggregate](ctx, c, routeCall("client.CreateAggregate", "POST /aggregates").withBody(rest.AggregateBody{Aggregate: s}))
}

// UpdateAggregate sets the fields given in s. It may be repeated, but a renamed aggregate
// is found only under its new name or its id. Admins only.
func (c *Client) UpdateAggregate(ctx context.Context, ref string, s rest.AggregateSpec) (rest.Aggregate, error) {
	return callValue[rest.Aggregate](ctx, c,
		routeCall("client.UpdateAggregate", "PUT /aggregates/{id}", ref).withBody(rest.AggregateBody{Aggregate: s}).withRepeat(s.Name == nil))
}

// DeleteAggregate deletes an aggregate; its hosts stay. It may be repeated. Admins only.
func (c *Client) DeleteAggregate(ctx context.Context, ref string) error {
	return c.callNothing(ctx, deleteCall("client.DeleteAggregate", "DELETE /aggregates/{id}", ref))
}

// AvailabilityZones returns one page of the availability zones, by name. It may be
// repeated.
func (c *Client) AvailabilityZones(ctx context.Context, o ListOptions) (Page[rest.AvailabilityZone], error) {
	return callPage[rest.AvailabilityZone](ctx, c, routeCall("client.AvailabilityZones", "GET /availability-zones"), o)
}
