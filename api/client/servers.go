package client

import (
	"context"
	"time"

	"berth/api"
	"berth/api/rest"
)

// ServerQuery selects servers; the zero value means all of the caller's project.
type ServerQuery struct {
	Reservation api.ReservationID
	Name        string     // a part of the name
	Status      api.Status // DELETED ones are listed, for as long as they are kept, only with this or Since
	Preemptible bool       // only preemptible ones
	AllProjects bool       // including those created for a parent zone; admins only
	Host        string     // name or id; admins only
	Flavor      api.FlavorID
	Group       string    // name of the group of their boot
	Zone        string    // this zone, or the direct child that leads to them
	Since       time.Time // changed at or after it, including deleted ones; the zero time for any
}

// createWait is how long a zone may take to decide on a server.
const createWait = 60 * time.Second

// CreateServer creates servers and returns the first once the zone has decided, or a
// no_capacity error. With s.Blob it boots exactly the plan that Select returned; s must
// then equal that of the select, with its reservation id. With s.ReturnRes it does not
// wait for the decision. It may be repeated with the same key, like Boot.
func (c *Client) CreateServer(ctx context.Context, s rest.ServerCreate, key string) (rest.ServerCreated, error) {
	q := bootCall("client.CreateServer", "POST /servers", s, key)
	q.limit, q.patience = planBodyMaxBytes, createWait
	return callValue[rest.ServerCreated](ctx, c, q)
}

// Servers returns one page of the servers that match q. It may be repeated.
func (c *Client) Servers(ctx context.Context, q ServerQuery, o ListOptions) (Page[rest.Server], error) {
	k := routeCall("client.Servers", "GET /servers/detail")
	k.query = queryOf(map[string]string{
		"reservation_id": string(q.Reservation), "name": q.Name, "status": string(q.Status),
		"host": q.Host, "flavor": string(q.Flavor), "group": q.Group, "zone": q.Zone,
	})
	if !q.Since.IsZero() {
		k.query.Set("changes_since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Preemptible {
		k.query.Set("preemptible", "true")
	}
	if q.AllProjects {
		k.query.Set("all_projects", "true")
	}
	return callPage[rest.Server](ctx, c, k, o)
}

// Server returns one server. It may be repeated.
func (c *Client) Server(ctx context.Context, id api.InstanceID) (rest.Server, error) {
	return callValue[rest.Server](ctx, c, routeCall("client.Server", "GET /servers/{id}", string(id)))
}

// WriteOffServer takes a server on a lost host as gone, as WriteOffHost does with all that is there.
// Admins only.
func (c *Client) WriteOffServer(ctx context.Context, id api.InstanceID, b rest.LoseBody) (rest.LostHost, error) {
	q := routeCall("client.WriteOffServer", "POST /servers/{id}/write-off", string(id)).withBody(b).withRepeat(b.DryRun)
	return callValue[rest.LostHost](ctx, c, q)
}

// DeleteServer deletes one server; it is DELETING until its host has ended it. It may be
// repeated.
func (c *Client) DeleteServer(ctx context.Context, id api.InstanceID) error {
	return c.callNothing(ctx, deleteCall("client.DeleteServer", "DELETE /servers/{id}", string(id)))
}
