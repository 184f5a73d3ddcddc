package client

import (
	"context"

	"berth/api/rest"
)

// Scheduler returns how the zone chooses hosts. It may be repeated. Admins only.
func (c *Client) Scheduler(ctx context.Context) (rest.SchedulerAnswer, error) {
	return answer[rest.SchedulerAnswer](ctx, c, to("client.Scheduler", "GET /operator/scheduler"))
}

// SetScheduler replaces as a whole how the zone chooses hosts; empty lists stand
// for the default. It may be repeated. Admins only.
func (c *Client) SetScheduler(ctx context.Context, s rest.Scheduler) (rest.SchedulerAnswer, error) {
	q := to("client.SetScheduler", "PUT /operator/scheduler").with(rest.SchedulerBody{Scheduler: &s}).repeating(true)
	return answer[rest.SchedulerAnswer](ctx, c, q)
}
