package openstack_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"berth/api"
	"berth/httpd/door"
	"berth/httpd/openstack"
	"berth/internal/memstore"
	"berth/zone"
)

// An API is a Service, a table of calls, and handlers that return their refusals.
func Example() {
	service := openstack.Service{
		Name: "reservation", Mount: "/reservation", Major: 1, Oldest: 0, Newest: 2,
		Shape: func(p openstack.Problem, _ int) any {
			return map[string]any{"error_code": p.Status, "error_message": p.Detail}
		},
	}
	lease := &openstack.Schema{
		Kind: openstack.Object, Required: []string{"name"},
		Fields: map[string]*openstack.Schema{"name": {Kind: openstack.String, Shortest: 1}},
	}
	calls := []openstack.Call{
		{Method: http.MethodPost, Path: "/leases", Until: 2, Takes: true, Role: api.RoleMember, Do: func(w http.ResponseWriter, r *http.Request) error {
			body, err := openstack.ReadObject(r, lease)
			if err != nil {
				return err
			}
			return openstack.Answer(w, http.StatusCreated, body)
		}},
		{Method: http.MethodGet, Path: "/leases/{id}", Since: 1, Until: 2, Gives: true, Role: api.RoleReader, Do: func(_ http.ResponseWriter, r *http.Request) error {
			return api.Errorf(api.CodeNotFound, "no lease %s", openstack.Cut(r.PathValue("id")))
		}},
	}

	now := func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }
	z := zone.New(zone.Config{Store: memstore.New(), Now: now, Log: slog.New(slog.DiscardHandler)})
	config := door.Config{Zone: z, Now: now, Log: slog.New(slog.DiscardHandler), Leader: func() bool { return true }, Insecure: true}
	handler := openstack.New(service, config).Handler(calls)
	for _, c := range []struct{ method, path, version, body string }{
		{http.MethodPost, "/leases", "1.0", `{"name": "june"}`},
		{http.MethodPost, "/leases", "1.0", `{"name": ""}`},
		{http.MethodGet, "/leases/7", "1.0", ""},
		{http.MethodGet, "/leases/7?read=local", "1.1", ""},
	} {
		r := httptest.NewRequest(c.method, "/reservation"+c.path, strings.NewReader(c.body))
		r.Header.Set("OpenStack-API-Version", "reservation "+c.version)
		r.Header.Set("Content-Type", openstack.MediaJSON)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("OpenStack-API-Version"), w.Body)
	}
	// Output:
	// 201 reservation 1.0 {"name":"june"}
	// 400 reservation 1.0 {"error_code":400,"error_message":"JSON does not validate: '' is too short  Failed validating 'minLength' at ['name']"}
	// 404 reservation 1.0 {"error_code":404,"error_message":"The resource could not be found: GET /leases/{id} needs microversion 1.1, and this call is made at 1.0"}
	// 404 reservation 1.1 {"error_code":404,"error_message":"no lease 7"}
}
