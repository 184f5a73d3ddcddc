package client

import (
	"context"
	"time"

	"berth/api/rest"
)

// Capacity returns the capacity of the zone and of those below it, with the amounts free
// at an instant, now if it is zero; with name, only that of the named zone. It may be
// repeated.
func (c *Client) Capacity(ctx context.Context, at time.Time, name string) (rest.Capacity, error) {
	k := routeCall("client.Capacity", "GET /capacity")
	params := map[string]string{"zone": name}
	if !at.IsZero() {
		params["at"] = at.UTC().Format(time.RFC3339Nano)
	}
	k.query = queryOf(params)
	return callValue[rest.Capacity](ctx, c, k)
}
