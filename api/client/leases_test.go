package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
)

// leaseCalls makes each call of the reservation API once.
func leaseCalls(ctx context.Context, c *client.Client) []func() error {
	do := func(_ any, err error) error { return err }
	name, amount, size, action := "later", 3, int64(2), api.BeforeEndNotify
	create := rest.LeaseCreate{
		Name: "web", Start: rest.LeaseNow, End: "2030-06-02 12:00", Shared: []api.ProjectID{"p2"}, Zones: []string{"west"},
		Reservations: []rest.ReservationSpec{
			{Type: api.ReserveInstances, VCPUs: &size, Memory: &size, Disk: &size, Amount: &amount, Affinity: "false"},
			{Type: api.ReserveHosts, Min: &amount, Max: &amount, BeforeEnd: &action},
		},
	}
	return []func() error{
		func() error { return do(c.Leases(ctx)) },
		func() error { return do(c.Linearizable().Lease(ctx, "l/1")) },
		func() error { return do(c.CreateLease(ctx, create, "my-key")) },
		func() error { return do(c.PlanLease(ctx, create)) },
		func() error {
			return do(c.FindLease(ctx, rest.LeaseQuestion{Earliest: rest.LeaseNow, Minutes: 90, Zones: create.Zones, Reservations: create.Reservations}))
		},
		func() error { return do(c.PlanLeaseUpdate(ctx, "l/1", rest.LeaseUpdate{Name: &name})) },
		func() error {
			return do(c.UpdateLease(ctx, "l-1", rest.LeaseUpdate{Name: &name, End: "2030-06-02 13:00", Shared: &[]api.ProjectID{}}))
		},
		func() error {
			return do(c.UpdateLease(ctx, "l-1", rest.LeaseUpdate{Reservations: []rest.ReservationSpec{{ID: "r-1", Amount: &amount}}}))
		},
		func() error { return c.DeleteLease(ctx, "l-1") },
		func() error { return do(c.LeaseSlots(ctx, "l-1")) },
		func() error { return do(c.LeaseHosts(ctx)) },
		func() error { return do(c.LeaseAllocations(ctx, client.AllocationQuery{})) },
		func() error {
			return do(c.LeaseAllocations(ctx, client.AllocationQuery{Lease: "l-1", Reservation: "r-1"}))
		},
		func() error { return do(c.AllSeries(ctx)) },
		func() error { return do(c.Series(ctx, "s/1")) },
		func() error {
			return do(c.CreateSeries(ctx, rest.SeriesCreate{LeaseCreate: create, Rule: "FREQ=WEEKLY;COUNT=3", TimeZone: "Europe/Berlin"}, "my-key"))
		},
		func() error { return c.DeleteSeries(ctx, "s-1") },
	}
}

// leaseEcho answers every call of the reservation API with something of the right shape.
const leaseEcho = `{"lease": {"id": "l-1"}, "leases": [], "hosts": [], "allocations": [], "plan": {}, "availability": {}, "series": {"id": "s-1"}}`

func TestLeasesAreRead(t *testing.T) {
	const dates = `"created_at": "2030-06-01 12:00:30", "updated_at": null`
	c := at(t, answers(http.StatusOK, `{"lease": {"id": "l-1", "name": "web", "user_id": "ada", "project_id": "p", "start_date": "2030-06-02T10:00:00.000000",
		"end_date": "2030-06-02T12:00:00.000000", "status": "ERROR", "status_reason": "no room", "degraded": true, "trust_id": null, "shared_with": ["p2"], "zones": ["west"],
		"reservations": [
			{"id": "r-1", "lease_id": "l-1", "resource_id": "r-1", "resource_type": "physical:host", "status": "error", "missing_resources": true, "resources_changed": false,
				"allocated": 1, "min": 2, "max": 3, "hypervisor_properties": "", "resource_properties": "[]", "before_end": "default", `+dates+`},
			{"id": "r-2", "lease_id": "l-1", "resource_id": "r-2", "resource_type": "virtual:instance", "status": "error", "missing_resources": false, "resources_changed": true,
				"allocated": 3, "vcpus": 2, "memory_mb": 512, "disk_gb": 0, "amount": 3, "affinity": false, "resource_properties": "", "flavor_id": "r-2",
				"server_group_id": null, "aggregate_id": null, `+dates+`}],
		"events": [{"id": "e-1", "lease_id": "l-1", "event_type": "start_lease", "time": "2030-06-02T10:00:00.000000", "status": "DONE", `+dates+`}], `+dates+`}}`))
	l, err := c.Lease(t.Context(), "l-1")
	require.NoError(t, err)
	made := rest.RecordTime(api.InstantOf(time.Date(2030, 6, 1, 12, 0, 30, 0, time.UTC)))
	start := rest.LeaseTime(api.InstantOf(time.Date(2030, 6, 2, 10, 0, 0, 0, time.UTC)))
	no, reason := false, "no room"
	assert.Equal(t, rest.Lease{
		ID: "l-1", Name: "web", User: "ada", Project: "p", Start: start, End: start + rest.LeaseTime((2 * time.Hour).Milliseconds()),
		Status: api.LeaseError, Reason: &reason, Degraded: true, Shared: []api.ProjectID{"p2"}, Zones: []string{"west"}, Created: made,
		Reservations: []rest.LeaseReservation{
			{
				ID: "r-1", Lease: "l-1", Resource: "r-1", Type: api.ReserveHosts, Status: api.ReservationError, Missing: true, Allocated: 1, Created: made,
				ResourceProperties: "[]", ReservedHosts: &rest.ReservedHosts{Min: 2, Max: 3, BeforeEnd: api.BeforeEndDefault},
			},
			{
				ID: "r-2", Lease: "l-1", Resource: "r-2", Type: api.ReserveInstances, Status: api.ReservationError, Changed: true, Allocated: 3, Created: made,
				ReservedInstances: &rest.ReservedInstances{VCPUs: 2, Memory: 512, Amount: 3, Affinity: &no, Flavor: "r-2"},
			},
		},
		Events: []rest.LeaseEvent{{ID: "e-1", Lease: "l-1", Type: api.EventStartLease, Time: start, Status: api.EventDone, Created: made}},
	}, l)
}

func TestRefusalsOfLeases(t *testing.T) {
	const body = `{"error_code": 409, "error_message": "Not enough hosts\n available: 0 of 1", "error_name": 409}`
	for code, want := range map[string]api.Code{
		string(api.CodeNoCapacity): api.CodeNoCapacity, string(api.CodeContended): api.CodeContended, "new_code": api.CodeConflict, "": api.CodeConflict,
	} {
		c, asked := talk(t, func(int, *http.Request) (*http.Response, error) {
			r, err := reply(http.StatusConflict, body)
			r.Header.Set(api.HeaderCode, code)
			r.Header.Set(api.HeaderRequestID, "req-l")
			return r, err
		})
		_, err := c.CreateLease(t.Context(), rest.LeaseCreate{}, "")
		e, ok := errors.AsType[*api.Error](err)
		require.True(t, ok, code)
		assert.Equal(t, want, e.Code, code)
		assert.Equal(t, "Not enough hosts available: 0 of 1", e.Msg)
		assert.Equal(t, api.RequestID("req-l"), client.RequestIDOf(err))
		assert.Len(t, *asked, 1, "a refusal is not repeated")
		assert.NotEmpty(t, (*asked)[0].Header.Get(api.HeaderIdempotencyKey))
	}
	for body, says := range map[string]string{`{}`: "not from a zone of Berth", `<html>`: "not from a zone of Berth"} {
		_, err := at(t, answers(http.StatusConflict, body)).Lease(t.Context(), "l")
		assert.Equal(t, api.CodeConflict, api.CodeOf(err), body)
		assert.ErrorContains(t, err, says, body)
	}
}

func TestListsOfLeasesAreReadUpToTheirLimit(t *testing.T) {
	for extra, code := range map[int64]api.Code{0: api.CodeNotFound, 1: api.CodeTooLarge} {
		c, _ := talk(t, func(int, *http.Request) (*http.Response, error) {
			body := io.NopCloser(io.LimitReader(endless{}, client.LeasesMaxBytes+extra))
			return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: body}, nil
		})
		_, err := c.Leases(t.Context())
		assert.Equal(t, code, api.CodeOf(err), "limit and %d", extra)
	}
}
