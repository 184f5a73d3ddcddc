package client

import (
	"cmp"
	"context"

	"berth/api"
	"berth/api/rest"
)

// VolumeQuery selects volumes; the zero value means all of the caller's project.
type VolumeQuery struct {
	Name        string // a part of the name
	Status      api.VolumeStatus
	Type        string
	Zone        string // this zone, or the direct child that leads to them
	AllProjects bool   // including those made for a parent zone; admins only
}

// CreateVolume makes a volume and returns it once the zone has decided, or a no_capacity error. It
// may be repeated with the same key, like Boot.
func (c *Client) CreateVolume(ctx context.Context, s rest.VolumeCreate, key string) (rest.VolumeCreated, error) {
	q := routeCall("client.CreateVolume", "POST /volumes").withBody(rest.VolumeBody{Volume: s}).withRepeat(true)
	q.key, q.patience = cmp.Or(key, api.NewUUID()), createWait
	return callValue[rest.VolumeCreated](ctx, c, q)
}

// Volumes returns one page of the volumes that match q. It may be repeated.
func (c *Client) Volumes(ctx context.Context, q VolumeQuery, o ListOptions) (Page[rest.Volume], error) {
	k := routeCall("client.Volumes", "GET /volumes")
	k.query = queryOf(map[string]string{"name": q.Name, "status": string(q.Status), "type": q.Type, "zone": q.Zone})
	if q.AllProjects {
		k.query.Set("all_projects", "true")
	}
	return callPage[rest.Volume](ctx, c, k, o)
}

// Volume returns one volume. It may be repeated.
func (c *Client) Volume(ctx context.Context, id api.InstanceID) (rest.Volume, error) {
	return callValue[rest.Volume](ctx, c, routeCall("client.Volume", "GET /volumes/{id}", string(id)))
}

// DeleteVolume deletes a volume, which must not be attached. It may be repeated.
func (c *Client) DeleteVolume(ctx context.Context, id api.InstanceID) error {
	return c.callNothing(ctx, deleteCall("client.DeleteVolume", "DELETE /volumes/{id}", string(id)))
}

// WriteOffVolume takes a volume on a lost host as gone, or with DryRun returns what would be lost. Like
// WriteOffServer it is repeated only as a dry run. Admins only.
func (c *Client) WriteOffVolume(ctx context.Context, id api.InstanceID, b rest.LoseBody) (rest.LostHost, error) {
	q := routeCall("client.WriteOffVolume", "POST /volumes/{id}/write-off", string(id)).withBody(b).withRepeat(b.DryRun)
	return callValue[rest.LostHost](ctx, c, q)
}

// AttachVolume attaches a volume to a server. It may be repeated.
func (c *Client) AttachVolume(ctx context.Context, volume, server api.InstanceID) error {
	q := routeCall("client.AttachVolume", "POST /volumes/{id}/attach", string(volume)).withBody(rest.AttachBody{Server: server})
	return c.callNothing(ctx, q.withRepeat(true))
}

// DetachVolume ends the attachment of a volume, if it has one. It may be repeated.
func (c *Client) DetachVolume(ctx context.Context, volume api.InstanceID) error {
	return c.callNothing(ctx, routeCall("client.DetachVolume", "POST /volumes/{id}/detach", string(volume)).withRepeat(true))
}
