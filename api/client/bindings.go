package client

import (
	"context"

	"berth/api"
	"berth/api/rest"
)

// BindingQuery selects bindings; the zero value means all active ones. Times are RFC 3339.
type BindingQuery struct {
	Project api.ProjectID
	Zone    string // name of a child, or name or id of its link
	AZ      string
	Tag     string // as key=value
	Active  string // "true", "false" or "all"; "" for "true"
	After   string // that were active after this time
	Before  string // that began before this time
}

// Bindings returns one page of the bindings that match q, the newest first. It may be repeated. Admins
// only.
func (c *Client) Bindings(ctx context.Context, q BindingQuery, o ListOptions) (Page[rest.Binding], error) {
	k := routeCall("client.Bindings", "GET /bindings")
	k.query = queryOf(map[string]string{
		"project_id": string(q.Project), "zone": q.Zone, "availability_zone": q.AZ, "tag": q.Tag, "active": q.Active, "after": q.After, "before": q.Before,
	})
	return callPage[rest.Binding](ctx, c, k, o)
}

// Binding returns one binding, active or past. It may be repeated. Admins only.
func (c *Client) Binding(ctx context.Context, id api.BindingID) (rest.Binding, error) {
	return callValue[rest.Binding](ctx, c, routeCall("client.Binding", "GET /bindings/{id}", string(id)))
}

// SetBinding binds a project to a child, and returns the binding. It may be repeated. Admins only.
func (c *Client) SetBinding(ctx context.Context, s rest.BindingSpec) (rest.Binding, error) {
	q := routeCall("client.SetBinding", "POST /bindings").withBody(rest.BindingBody{Binding: s}).withRepeat(true)
	return callValue[rest.Binding](ctx, c, q)
}

// MoveBinding ends an active binding and binds its project to another child; a conflict if it is not
// active any more. It is not repeated: after it has moved, it is not. Admins only.
func (c *Client) MoveBinding(ctx context.Context, id api.BindingID, zone string) (rest.Binding, error) {
	return callValue[rest.Binding](ctx, c, routeCall("client.MoveBinding", "POST /bindings/{id}/move", string(id)).withBody(rest.BindingMove{Zone: zone}))
}

// EndBinding ends a binding: the next work of its project chooses anew. It may be repeated. Admins
// only.
func (c *Client) EndBinding(ctx context.Context, id api.BindingID) error {
	return c.callNothing(ctx, deleteCall("client.EndBinding", "DELETE /bindings/{id}", string(id)))
}

// PlanMaintenance returns who would move if a child went into maintenance, or what the end of its
// maintenance would change. It changes nothing and may be repeated. Admins only.
func (c *Client) PlanMaintenance(ctx context.Context, ref string, on bool) (rest.MaintenancePlan, error) {
	q := routeCall("client.PlanMaintenance", "POST /zones/{id}/plan-maintenance", ref).withBody(rest.MaintenanceQuestion{Maintenance: &on}).withRepeat(true)
	return callValue[rest.MaintenancePlan](ctx, c, q)
}
