package client

import (
	"context"

	"berth/api/rest"
)

// Scheduler returns the filters and costs of the zone. It may be repeated. Admins only.
func (c *Client) Scheduler(ctx context.Context) (rest.SchedulerAnswer, error) {
	return callValue[rest.SchedulerAnswer](ctx, c, routeCall("client.Scheduler", "GET /operator/scheduler"))
}

// SetScheduler replaces the filters and costs of the zone as a whole; empty lists stand for
// the default. It may be repeated. Admins only.
func (c *Client) SetScheduler(ctx context.Context, s rest.Scheduler) (rest.SchedulerAnswer, error) {
	q := routeCall("client.SetScheduler", "PUT /operator/scheduler").withBody(rest.SchedulerBody{Scheduler: &s}).withRepeat(true)
	return callValue[rest.SchedulerAnswer](ctx, c, q)
}
