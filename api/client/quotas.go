package client

import (
	"context"
	"net/url"

	"berth/api"
	"berth/api/rest"
)

// Quotas returns the defaults of the zone, and then the projects that have limits or anything
// that counts: all for admins, else the caller's own project. It may be repeated.
func (c *Client) Quotas(ctx context.Context) ([]rest.Quota, error) {
	return callAll[rest.Quota](ctx, c, routeCall("client.Quotas", "GET /quotas"))
}

// OwnQuota returns what the caller's own project may have and has. It may be repeated.
func (c *Client) OwnQuota(ctx context.Context) (rest.Quota, error) {
	q := routeCall("client.OwnQuota", "GET /quotas")
	q.query = url.Values{"own": {"true"}}
	all, err := callAll[rest.Quota](ctx, c, q)
	if err != nil {
		return rest.Quota{}, err
	}
	for _, one := range all {
		if one.Project != "" {
			return one, nil
		}
	}
	return rest.Quota{}, api.Errorf(api.CodeInternal, "the zone has not told the quota of the caller's project")
}

// Quota returns what a project may have and has. It may be repeated.
func (c *Client) Quota(ctx context.Context, p api.ProjectID) (rest.Quota, error) {
	return callValue[rest.Quota](ctx, c, routeCall("client.Quota", "GET /quotas/{id}", string(p)))
}

// SetQuota changes limits of a project, or the defaults of the zone for "", and returns what
// they are then. A nil limit stands for the default. It may be repeated.
func (c *Client) SetQuota(ctx context.Context, p api.ProjectID, limits map[string]*int64) (rest.Quota, error) {
	q := routeCall("client.SetQuota", "PUT /quotas")
	if p != "" {
		q = routeCall("client.SetQuota", "PUT /quotas/{id}", string(p))
	}
	return callValue[rest.Quota](ctx, c, q.withBody(rest.QuotaBody{Limits: limits}).withRepeat(true))
}

// DeleteQuota deletes the limits of a project, which has the defaults then. It may be
// repeated.
func (c *Client) DeleteQuota(ctx context.Context, p api.ProjectID) error {
	return c.callNothing(ctx, deleteCall("client.DeleteQuota", "DELETE /quotas/{id}", string(p)))
}
