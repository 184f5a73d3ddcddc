package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// HostQuery selects hosts; the zero value means all.
type HostQuery struct {
	State     api.HostState
	Pool      api.Pool
	AZ        string
	Aggregate string // name or id
}

// Hosts returns one page of the zone's own hosts. It may be repeated. Admins only.
func (c *Client) Hosts(ctx context.Context, o ListOptions) (Page[rest.Host], error) {
	return callPage[rest.Host](ctx, c, routeCall("client.Hosts", "GET /hosts"), o)
}

// HostsWhere returns one page of the zone's own hosts that match q. It may be
// repeated. Admins only.
func (c *Client) HostsWhere(ctx context.Context, q HostQuery, o ListOptions) (Page[rest.Host], error) {
	k := routeCall("client.Hosts", "GET /hosts")
	k.query = queryOf(map[string]string{
		"state": string(q.State), "pool": string(q.Pool), "availability_zone": q.AZ, "aggregate": q.Aggregate,
	})
	return callPage[rest.Host](ctx, c, k, o)
}

// DrainHost drains a host with a policy for its instances, and a reason or "". It returns
// at once. It may be repeated. Admins only.
func (c *Client) DrainHost(ctx context.Context, ref string, p api.DrainPolicy, reason string) (rest.Host, error) {
	q := routeCall("client.DrainHost", "POST /hosts/{id}/drain", ref).withBody(rest.DrainBody{Policy: p, Reason: reason}).withRepeat(true)
	return callValue[rest.Host](ctx, c, q)
}

// UndrainHost ends the drain of a host. Moved instances do not return. It may be repeated.
// Admins only.
func (c *Client) UndrainHost(ctx context.Context, ref string) (rest.Host, error) {
	return callValue[rest.Host](ctx, c, routeCall("client.UndrainHost", "DELETE /hosts/{id}/drain", ref).withRepeat(true))
}

// PlanDrain returns what would become of everything on some hosts, by name or id, if they were
// drained by moving at a time, or now for 0. It changes nothing and may be repeated. Admins only.
func (c *Client) PlanDrain(ctx context.Context, hosts []string, at api.Instant) (rest.DrainPlan, error) {
	q := routeCall("client.PlanDrain", "POST /hosts/plan-drain").withBody(rest.DrainQuestion{Hosts: hosts, At: at}).withRepeat(true)
	return callValue[rest.DrainPlan](ctx, c, q)
}

// HostEvacuation returns the progress of evacuating a host that is down; a conflict while it
// is up. The zone evacuates by itself, so the call may be repeated to follow the
// progress. Admins only.
func (c *Client) HostEvacuation(ctx context.Context, ref string) (rest.Evacuation, error) {
	return callValue[rest.Evacuation](ctx, c, routeCall("client.HostEvacuation", "GET /hosts/{id}/evacuation", ref))
}

// Host returns one host by name or id, with the progress of its drain. It may be repeated. Admins only.
func (c *Client) Host(ctx context.Context, ref string) (rest.Host, error) {
	return callValue[rest.Host](ctx, c, routeCall("client.Host", "GET /hosts/{id}", ref))
}

// UpdateHost sets the fields given in s; a stale_generation error if the host has changed
// since s.Generation. It may be repeated unless it has a generation. Admins only.
func (c *Client) UpdateHost(ctx context.Context, ref string, s rest.HostSpec) (rest.Host, error) {
	q := routeCall("client.UpdateHost", "PUT /hosts/{id}", ref).withBody(rest.HostBody{Host: s}).withRepeat(s.Generation == 0)
	return callValue[rest.Host](ctx, c, q)
}

// WriteOffHost forgets a host whose agent is gone for good, and returns what is lost with it; a conflict
// while it is up, or may still run something. A dry run changes nothing and may be repeated. Admins only.
func (c *Client) WriteOffHost(ctx context.Context, ref string, b rest.LoseBody) (rest.LostHost, error) {
	q := routeCall("client.WriteOffHost", "POST /hosts/{id}/write-off", ref).withBody(b).withRepeat(b.DryRun)
	return callValue[rest.LostHost](ctx, c, q)
}

// DeleteHost deletes a host; a conflict while it has instances. It may be repeated. Admins
// only.
func (c *Client) DeleteHost(ctx context.Context, ref string) error {
	return c.callNothing(ctx, deleteCall("client.DeleteHost", "DELETE /hosts/{id}", ref))
}
