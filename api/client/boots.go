package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"berth/api"
)

// SelectAnswer is an estimate as the public API tells it. SelectAnswer.Expires is
// not set; ExpiresInMS is.
type SelectAnswer struct {
	api.SelectAnswer
	ExpiresInMS int64 `json:"expires_in_ms"` // from now on
}

// Select asks what the zone and everything below it could offer for s. It changes
// nothing and may be repeated; a repeat may find another offer.
func (c *Client) Select(ctx context.Context, s api.ServerCreate) (SelectAnswer, error) {
	return whole[SelectAnswer](ctx, c, call{
		op: "client.Select", method: http.MethodPost, path: []string{"zones", "select"},
		in: api.BootBody{Server: s}, repeats: true,
	})
}

// Boot asks for instances and returns the reservation id as soon as the zone has
// recorded the wish; Reservation tells what becomes of it. Boot may be repeated
// with the same key: the zone then returns the first answer. With "" for key the
// Client makes one, so that its own repeats are harmless; the caller's are not
// unless s names a reservation id.
//
// A key or a reservation id that came with another wish is a conflict.
func (c *Client) Boot(ctx context.Context, s api.ServerCreate, key string) (api.ReservationID, error) {
	return one[api.ReservationID](ctx, c, boot("client.Boot", s, key, "zones", "boot"), "reservation_id")
}

// boot returns a call that boots.
func boot(op string, s api.ServerCreate, key string, path ...string) call {
	if key == "" {
		key = api.NewUUID()
	}
	return call{
		op: op, method: http.MethodPost, path: path, in: api.BootBody{Server: s},
		key: key, repeats: true,
	}
}

// Reservations returns one page of the boots of the caller's project, or of that
// of InProject. It may be repeated.
func (c *Client) Reservations(ctx context.Context, o ListOptions) (Page[api.Boot], error) {
	q := get("client.Reservations", "zones", "boot")
	q.query = c.whose()
	return page[api.Boot](ctx, c, q, "boots", o)
}

// Reservation returns what has become of a boot, once it has come to an outcome
// or wait has passed, at most api.WaitMax. That wait has passed is no error. It
// may be repeated.
func (c *Client) Reservation(ctx context.Context, id api.ReservationID, wait time.Duration) (api.Boot, error) {
	q := get("client.Reservation", "zones", "boot", string(id))
	q.wait, q.query = wait, c.whose()
	return one[api.Boot](ctx, c, q, "boot")
}

// Release gives back all that a boot has made, and returns how far that has come
// after wait. It may be repeated: what is given back stays so.
func (c *Client) Release(ctx context.Context, id api.ReservationID, wait time.Duration) (api.Boot, error) {
	return one[api.Boot](ctx, c, call{
		op: "client.Release", method: http.MethodDelete, path: []string{"zones", "boot", string(id)},
		query: c.whose(), wait: wait, repeats: true,
	}, "boot")
}

// whose returns the query that says whose reservations are meant.
func (c *Client) whose() url.Values {
	q := url.Values{}
	if c.project != "" {
		q.Set("project_id", string(c.project))
	}
	return q
}
