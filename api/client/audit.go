package client

import (
	"context"

	"berth/api/rest"
)

// Audit returns one page of the audit log, oldest first. Admins only.
func (c *Client) Audit(ctx context.Context, o ListOptions) (Page[rest.AuditRecord], error) {
	return callPage[rest.AuditRecord](ctx, c, routeCall("client.Audit", "GET /operator/audit"), o)
}
