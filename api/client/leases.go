package client

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"berth/api"
	"berth/api/rest"
)

// LeasesMaxBytes bounds lists of leases, hosts and allocations, which have no pages. A zone with
// api.LeasesMax leases of one reservation each fits.
const LeasesMaxBytes = 256 << 20

// leasePatience is how long a zone may take to decide a lease, or to end one, beyond the
// usual timeout.
const leasePatience = time.Minute

// leaseCall returns a call of the reservation API, which is under /reservation/v1.
func leaseCall(op, method string, path ...string) call {
	q := call{op: op, method: method, path: append([]string{"reservation", "v1"}, path...), leases: true, repeats: method == http.MethodGet}
	if method != http.MethodGet {
		q.patience = leasePatience
	}
	return q
}

// leaseRefusal returns the error for an answer of the reservation API other than 2xx. Its
// code is in a header, because its body has only the status.
func leaseRefusal(op string, res *http.Response, body []byte) *api.Error {
	var told struct {
		Message string `json:"error_message"`
	}
	plain := readRefusal(op, res, body)
	if json.Unmarshal(body, &told) != nil || told.Message == "" {
		return plain
	}
	out := *plain
	out.Msg = strings.Join(strings.Fields(told.Message), " ") // it may have line breaks
	if own := api.Code(res.Header.Get(api.HeaderCode)); own.Known() {
		out.Code = own
	}
	return &out
}

// Leases returns all leases that the caller may see, by id. It may be repeated.
func (c *Client) Leases(ctx context.Context) ([]rest.Lease, error) {
	q := leaseCall("client.Leases", http.MethodGet, "leases")
	q.most = LeasesMaxBytes
	return placementValue[[]rest.Lease](ctx, c, q, "leases")
}

// Lease returns one lease. It may be repeated.
func (c *Client) Lease(ctx context.Context, id api.LeaseID) (rest.Lease, error) {
	return placementValue[rest.Lease](ctx, c, leaseCall("client.Lease", http.MethodGet, "leases", string(id)), "lease")
}

// CreateLease creates a lease, once all its room is held; it returns CodeNoCapacity if
// that cannot be. It may be repeated with the same key: the zone then returns the first
// lease. With "" for key the Client makes one, so that its own repeats are harmless.
func (c *Client) CreateLease(ctx context.Context, s rest.LeaseCreate, key string) (rest.Lease, error) {
	q := leaseCall("client.CreateLease", http.MethodPost, "leases").withBody(s).withRepeat(true)
	q.key = cmp.Or(key, api.NewUUID())
	return placementValue[rest.Lease](ctx, c, q, "lease")
}

// PlanLease is a dry run of CreateLease: it fails as that does for a lease that nobody may
// have, and changes nothing. It may be repeated.
func (c *Client) PlanLease(ctx context.Context, s rest.LeaseCreate) (rest.LeasePlan, error) {
	q := leaseCall("client.PlanLease", http.MethodPost, "leases", "plan").withBody(s).withRepeat(true)
	return placementValue[rest.LeasePlan](ctx, c, q, "plan")
}

// PlanLeaseUpdate is a dry run of UpdateLease, as PlanLease is of CreateLease. It may be
// repeated.
func (c *Client) PlanLeaseUpdate(ctx context.Context, id api.LeaseID, s rest.LeaseUpdate) (rest.LeasePlan, error) {
	q := leaseCall("client.PlanLeaseUpdate", http.MethodPost, "leases", string(id), "plan").withBody(s).withRepeat(true)
	return placementValue[rest.LeasePlan](ctx, c, q, "plan")
}

// FindLease returns when a lease would fit, and changes nothing. It may be repeated.
func (c *Client) FindLease(ctx context.Context, ask rest.LeaseQuestion) (rest.Availability, error) {
	q := leaseCall("client.FindLease", http.MethodPost, "availability").withBody(ask).withRepeat(true)
	return placementValue[rest.Availability](ctx, c, q, "availability")
}

// UpdateLease changes a lease by all that s asks for, or by nothing. It is not
// repeated: after a lost answer read the lease again.
func (c *Client) UpdateLease(ctx context.Context, id api.LeaseID, s rest.LeaseUpdate) (rest.Lease, error) {
	return placementValue[rest.Lease](ctx, c, leaseCall("client.UpdateLease", http.MethodPut, "leases", string(id)).withBody(s), "lease")
}

// DeleteLease ends a lease and deletes it. It waits up to a minute until nothing is left
// of it; what is left then continues to end. It may be repeated.
func (c *Client) DeleteLease(ctx context.Context, id api.LeaseID) error {
	q := leaseCall("client.DeleteLease", http.MethodDelete, "leases", string(id))
	q.repeats, q.ends = true, true
	return c.callNothing(ctx, q)
}

// AllSeries returns all series of leases that the caller may see, by age. It may be repeated.
func (c *Client) AllSeries(ctx context.Context) ([]rest.Series, error) {
	q := leaseCall("client.AllSeries", http.MethodGet, "series")
	q.most = LeasesMaxBytes
	return placementValue[[]rest.Series](ctx, c, q, "series")
}

// Series returns one series of leases. It may be repeated.
func (c *Client) Series(ctx context.Context, id api.SeriesID) (rest.Series, error) {
	return placementValue[rest.Series](ctx, c, leaseCall("client.Series", http.MethodGet, "series", string(id)), "series")
}

// CreateSeries creates a series of leases, once all their room is held; it returns
// CodeNoCapacity if that of one cannot be. It may be repeated as CreateLease may.
func (c *Client) CreateSeries(ctx context.Context, s rest.SeriesCreate, key string) (rest.Series, error) {
	q := leaseCall("client.CreateSeries", http.MethodPost, "series").withBody(s).withRepeat(true)
	q.key = cmp.Or(key, api.NewUUID())
	return placementValue[rest.Series](ctx, c, q, "series")
}

// DeleteSeries ends every lease of a series and deletes it, as DeleteLease does with one. It
// may be repeated.
func (c *Client) DeleteSeries(ctx context.Context, id api.SeriesID) error {
	q := leaseCall("client.DeleteSeries", http.MethodDelete, "series", string(id))
	q.repeats, q.ends = true, true
	return c.callNothing(ctx, q)
}

// LeaseSlots returns the slots of a lease, with their hosts for admins. It may be repeated.
func (c *Client) LeaseSlots(ctx context.Context, id api.LeaseID) ([]rest.LeaseSlot, error) {
	q := leaseCall("client.LeaseSlots", http.MethodGet, "leases", string(id), "hosts")
	q.most = LeasesMaxBytes
	return placementValue[[]rest.LeaseSlot](ctx, c, q, "hosts")
}

// LeaseHosts returns the hosts that leases may use, by name. It may be repeated. Admins only.
func (c *Client) LeaseHosts(ctx context.Context) ([]rest.LeaseHost, error) {
	q := leaseCall("client.LeaseHosts", http.MethodGet, "os-hosts")
	q.most = LeasesMaxBytes
	return placementValue[[]rest.LeaseHost](ctx, c, q, "hosts")
}

// AllocationQuery selects what leases have of hosts. The zero value means all that has not
// ended.
type AllocationQuery struct {
	Lease       api.LeaseID
	Reservation api.ReservationID
}

// LeaseAllocations returns what leases have of each host that they may use. It may be
// repeated. Admins only.
func (c *Client) LeaseAllocations(ctx context.Context, of AllocationQuery) ([]rest.LeaseAllocation, error) {
	q := leaseCall("client.LeaseAllocations", http.MethodGet, "os-hosts", "allocations")
	q.query = queryOf(map[string]string{"lease_id": string(of.Lease), "reservation_id": string(of.Reservation)})
	q.most = LeasesMaxBytes
	return placementValue[[]rest.LeaseAllocation](ctx, c, q, "allocations")
}
