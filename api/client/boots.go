package client

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"berth/api"
	"berth/api/rest"
)

// Select returns the offer of the zone and all zones below it for s. It changes nothing
// and may be repeated; a repeat may return another offer.
func (c *Client) Select(ctx context.Context, s rest.ServerCreate) (rest.SelectAnswer, error) {
	q := routeCall("client.Select", "POST /zones/select").withBody(rest.BootBody{Server: s}).withRepeat(true)
	return callValue[rest.SelectAnswer](ctx, c, q)
}

// Boot boots instances and returns the reservation id as soon as the zone has recorded
// the request; Reservation returns its progress. Boot may be repeated with the same key:
// the zone then returns the first answer. With "" for key the Client makes one, so that
// its own repeats are harmless; the caller's are not unless s has a reservation id.
//
// A key or a reservation id that was used with another request is a conflict.
func (c *Client) Boot(ctx context.Context, s rest.ServerCreate, key string) (api.ReservationID, error) {
	return placementValue[api.ReservationID](ctx, c, bootCall("client.Boot", "POST /zones/boot", s, key), "reservation_id")
}

// BootAndWait is Boot, and returns the boot once it has reached an outcome or wait has
// passed, at most api.WaitMax. The end of wait is not an error.
func (c *Client) BootAndWait(ctx context.Context, s rest.ServerCreate, key string, wait time.Duration) (rest.Boot, error) {
	q := bootCall("client.BootAndWait", "POST /zones/boot", s, key)
	q.wait = wait
	return placementValue[rest.Boot](ctx, c, q, "boot")
}

// bootCall returns a call that boots.
func bootCall(op, route string, s rest.ServerCreate, key string) call {
	q := routeCall(op, route).withBody(rest.BootBody{Server: s}).withRepeat(true)
	q.key = cmp.Or(key, api.NewUUID())
	return q
}

// Reservations returns one page of the boots of the caller's project, or of that
// of InProject. It may be repeated.
func (c *Client) Reservations(ctx context.Context, o ListOptions) (Page[rest.Boot], error) {
	return c.FindReservations(ctx, ReservationQuery{}, o)
}

// ReservationQuery selects boots.
type ReservationQuery struct {
	State       api.BootState // "" for any
	AllProjects bool          // instead of those of one project; for admins
}

// FindReservations returns one page of the boots that match q. It may be repeated.
func (c *Client) FindReservations(ctx context.Context, q ReservationQuery, o ListOptions) (Page[rest.Boot], error) {
	k := routeCall("client.FindReservations", "GET /zones/boot")
	k.query = c.whoseQuery()
	if q.State != "" {
		k.query.Set("state", string(q.State))
	}
	if q.AllProjects {
		k.query.Set("all_projects", "true")
	}
	return callPage[rest.Boot](ctx, c, k, o)
}

// Reservation returns a boot once it has reached an outcome or wait has passed, at most
// api.WaitMax. The end of wait is not an error. It may be repeated.
func (c *Client) Reservation(ctx context.Context, id api.ReservationID, wait time.Duration) (rest.Boot, error) {
	q := routeCall("client.Reservation", "GET /zones/boot/{id}", string(id))
	q.wait, q.query = wait, c.whoseQuery()
	return callValue[rest.Boot](ctx, c, q)
}

// Release deletes all instances of a boot, and returns the boot as it is after wait. It
// may be repeated.
func (c *Client) Release(ctx context.Context, id api.ReservationID, wait time.Duration) (rest.Boot, error) {
	q := routeCall("client.Release", "DELETE /zones/boot/{id}", string(id)).withRepeat(true)
	q.wait, q.query = wait, c.whoseQuery()
	return callValue[rest.Boot](ctx, c, q)
}

// whoseQuery returns the query that selects the project of reservations.
func (c *Client) whoseQuery() url.Values {
	q := url.Values{}
	if c.project != "" {
		q.Set("project_id", string(c.project))
	}
	return q
}
