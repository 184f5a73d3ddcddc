package client

import (
	"context"
	"net/http"

	"berth/api"
	"berth/api/rest"
)

// OrderServer stops, starts or restarts a server, and returns it as it is then: the order is carried out
// when its status shows it. A restart is not repeated by itself: each call is one.
func (c *Client) OrderServer(ctx context.Context, id api.InstanceID, o api.PowerOrder) (rest.Server, error) {
	q := routeCall("client.OrderServer", http.MethodPost+" /servers/{id}/"+string(o), string(id)).withRepeat(o != api.PowerRestart)
	return callValue[rest.Server](ctx, c, q)
}
