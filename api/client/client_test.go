package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
	"berth/api/rest"
	"berth/internal/golden"
)

// at returns a client of a server that h is.
func at(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := client.New(client.Config{Addr: srv.URL, Token: "berth_id_secret"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// answers is a handler that answers everything with one body.
func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"no address":     {},
		"no URL":         {Addr: "https://[::1"},
		"no scheme":      {Addr: "zone.example:7600"},
		"another scheme": {Addr: "ftp://zone.example"},
		"clear text":     {Addr: "http://zone.example:7600"},
		"userinfo":       {Addr: "https://a:b@zone.example"},
		"a query":        {Addr: "https://zone.example?a=b"},
		"two lines":      {Addr: "https://zone.example", Token: "a\nb"},
		"no PEM":         {Addr: "https://zone.example", CACert: []byte("nothing")},
		"two kinds of trust": {
			Addr: "https://zone.example", CACert: []byte("x"), HTTP: http.DefaultClient,
		},
	} {
		_, err := client.New(cfg)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
	}
	for _, addr := range []string{"http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://zone.example:7600/"} {
		_, err := client.New(client.Config{Addr: addr})
		assert.NoError(t, err, addr)
	}
}

// everyCall makes each call once; what it returns is checked elsewhere.
func everyCall(ctx context.Context, c *client.Client) []func() error {
	count := 3
	wish := rest.ServerCreate{Name: "web", FlavorRef: "small", MaxCount: &count}
	plan := wish
	plan.Reservation, plan.Blob, plan.ReturnRes = "r-1", []byte("sealed"), true
	name, offset, scale, paused, enabled, pool := "west", int64(-5), int64(2), api.LinkPaused, false, api.PoolShared
	o := client.ListOptions{Limit: 10, Marker: "m"}
	do := func(_ any, err error) error { return err }
	return slices.Concat(placementCalls(ctx, c), leaseCalls(ctx, c), []func() error{
		func() error { return do(c.Select(ctx, wish)) },
		func() error { return do(c.Boot(ctx, wish, "my-key")) },
		func() error { return do(c.Reservations(ctx, o)) },
		func() error { return do(c.Reservation(ctx, "r-1", 0)) },
		func() error { return do(c.Reservation(ctx, "r/1 ?", 30*time.Second)) },
		func() error { return do(c.Reservation(ctx, "r-1", time.Hour)) },
		func() error { return do(c.Release(ctx, "r-1", time.Second)) },
		func() error { return do(c.InProject("web").Reservations(ctx, o)) },
		func() error { return do(c.InProject("web").Linearizable().Reservation(ctx, "r-1", 0)) },
		func() error { return do(c.InProject("a&b").Release(ctx, "r-1", time.Second)) },
		func() error { return do(c.CreateServer(ctx, plan, "my-key")) },
		func() error { return do(c.BootAndWait(ctx, wish, "my-key", 7*time.Second)) },
		func() error {
			return do(c.FindReservations(ctx, client.ReservationQuery{State: api.BootActive, AllProjects: true}, o))
		},
		func() error { return do(c.Servers(ctx, client.ServerQuery{}, client.ListOptions{})) },
		func() error { return do(c.Servers(ctx, client.ServerQuery{Preemptible: true}, client.ListOptions{})) },
		func() error {
			return do(c.Servers(ctx, client.ServerQuery{Reservation: "r-1", Name: "we", Status: "ACTIVE", AllProjects: true}, o))
		},
		func() error {
			return do(c.Servers(ctx, client.ServerQuery{
				Host: "h1", Flavor: "small", Group: "web", Zone: "west", Since: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
			}, o))
		},
		func() error { return do(c.Server(ctx, "i-1")) },
		func() error { return c.DeleteServer(ctx, "i-1") },
		func() error { return do(c.OrderServer(ctx, "i-1", api.PowerStop)) },
		func() error { return do(c.OrderServer(ctx, "i-1", api.PowerStart)) },
		func() error { return do(c.OrderServer(ctx, "i-1", api.PowerRestart)) },
		func() error {
			return do(c.ServerOutput(ctx, "i-1", client.OutputQuery{Stream: api.Stderr, After: new(uint64(0)), Limit: 9}))
		},
		func() error {
			s := rest.VolumeCreate{Name: "data", Metadata: map[string]string{"a": "b"}, VolumeSpec: rest.VolumeSpec{Size: 10, Type: "fast", Class: "CUSTOM_SSD"}}
			return do(c.CreateVolume(ctx, s, "my-key"))
		},
		func() error {
			return do(c.Volumes(ctx, client.VolumeQuery{Name: "da", Status: api.VolumeInUse, Type: "fast", Zone: "west", AllProjects: true}, o))
		},
		func() error { return do(c.Volume(ctx, "v-1")) },
		func() error { return c.AttachVolume(ctx, "v-1", "i-1") },
		func() error { return c.DetachVolume(ctx, "v-1") },
		func() error { return c.DeleteVolume(ctx, "v-1") },
		func() error { return do(c.Flavors(ctx, o)) },
		func() error { return do(c.Flavor(ctx, "small")) },
		func() error {
			return do(c.CreateFlavor(ctx, rest.FlavorSpec{Name: "small", VCPUs: new(int64(1)), RAM: new(int64(512)), Disk: new(int64(10)), Command: []string{"/bin/true"}}))
		},
		func() error {
			return do(c.UpdateFlavor(ctx, "small", rest.FlavorSpec{Name: "small", Resources: api.Resources{"VCPU": 2}}))
		},
		func() error { return c.DeleteFlavor(ctx, "small") },
		func() error { return do(c.Zones(ctx, o)) },
		func() error { return do(c.Zone(ctx, "west")) },
		func() error { return do(c.ZoneInfo(ctx)) },
		func() error {
			return do(c.CreateLinkToken(ctx, rest.ZoneSpec{Name: &name, Offset: &offset, Scale: &scale}))
		},
		func() error { return do(c.LinkZone(ctx, "token", "east")) },
		func() error { return do(c.UpdateZone(ctx, "west", rest.ZoneSpec{State: &paused})) },
		func() error { return c.DeleteZone(ctx, "west") },
		func() error { return do(c.PlanMaintenance(ctx, "west", true)) },
		func() error { return do(c.RelinkZone(ctx, "west", rest.Relink{DryRun: true})) },
		func() error { return do(c.WriteOffZone(ctx, "west", rest.WriteOff{EndWork: true, DryRun: true})) },
		func() error { return do(c.Bindings(ctx, client.BindingQuery{}, client.ListOptions{})) },
		func() error {
			return do(c.Bindings(ctx, client.BindingQuery{
				Project: "p1", Zone: "west", AZ: "az1", Tag: "gpu=cad", Active: "all", After: "2030-01-01T00:00:00Z", Before: "2030-01-02T00:00:00Z",
			}, o))
		},
		func() error { return do(c.Binding(ctx, "b-1")) },
		func() error {
			return do(c.SetBinding(ctx, rest.BindingSpec{Project: "p1", Zone: "west", AZ: "az1", Tags: []string{"gpu=cad"}, Parent: "up"}))
		},
		func() error { return do(c.MoveBinding(ctx, "b-1", "east")) },
		func() error { return c.EndBinding(ctx, "b-1") },
		func() error { return do(c.Hosts(ctx, o)) },
		func() error { return do(c.Host(ctx, "h1")) },
		func() error {
			return do(c.UpdateHost(ctx, "h1", rest.HostSpec{Enabled: &enabled, Pool: &pool, Generation: 7}))
		},
		func() error {
			return do(c.UpdateHost(ctx, "h2", rest.HostSpec{Attributes: map[string]string{"price": "3"}, Maintenance: &name}))
		},
		func() error {
			return do(c.HostsWhere(ctx, client.HostQuery{State: api.HostUp, Pool: pool, AZ: "az1", Aggregate: "rack1"}, o))
		},
		func() error { return do(c.Host(ctx, "h1")) },
		func() error { return do(c.DrainHost(ctx, "h1", api.DrainMove, "disk")) },
		func() error { return do(c.UndrainHost(ctx, "h1")) },
		func() error { return do(c.HostEvacuation(ctx, "h1")) },
		func() error { return do(c.WriteOffHost(ctx, "h1", rest.LoseBody{DryRun: true})) },
		func() error { return do(c.WriteOffServer(ctx, "i-1", rest.LoseBody{DryRun: true})) },
		func() error { return do(c.WriteOffVolume(ctx, "v-1", rest.LoseBody{DryRun: true})) },
		func() error { return do(c.PlanDrain(ctx, []string{"h1", "h2"}, 0)) },
		func() error { return do(c.PlanDrain(ctx, []string{"h1"}, 1_900_000_000_000)) },
		func() error { return c.DeleteHost(ctx, "h1") },
		func() error { return do(c.Aggregates(ctx, o)) },
		func() error { return do(c.Aggregate(ctx, "rack1")) },
		func() error {
			return do(c.CreateAggregate(ctx, rest.AggregateSpec{Name: &name, Metadata: map[string]string{"k": "v"}}))
		},
		func() error {
			return do(c.UpdateAggregate(ctx, "rack1", rest.AggregateSpec{Metadata: map[string]string{}, Hosts: &[]string{}}))
		},
		func() error { return c.DeleteAggregate(ctx, "rack1") },
		func() error { return do(c.AvailabilityZones(ctx, o)) },
		func() error { return do(c.ServerGroups(ctx, o)) },
		func() error { return do(c.InProject("shop").ServerGroup(ctx, "apart")) },
		func() error {
			return do(c.CreateServerGroup(ctx, rest.ServerGroupSpec{Name: "apart", Policy: api.AntiAffinity, Max: 2}))
		},
		func() error { return c.DeleteServerGroup(ctx, "apart") },
		func() error { return do(c.Explain(ctx, "req-7")) },
		func() error {
			return firstError(c.InProject("shop").Events(ctx, client.EventsQuery{After: "4711-2", Kinds: []string{"boot", "host.up"}, Reservation: "r-1", Lease: "l-1"}))
		},
		func() error { return do(c.Webhooks(ctx)) },
		func() error { return do(c.AllWebhooks(ctx)) },
		func() error { return do(c.AllServerGroups(ctx, client.ListOptions{})) },
		func() error { return do(c.InProject("shop").Webhook(ctx, "pager")) },
		func() error {
			return do(c.CreateWebhook(ctx, rest.WebhookSpec{Name: "pager", URL: "https://example.org/", Kinds: []string{"boot"}}))
		},
		func() error { return c.DeleteWebhook(ctx, "pager") },
		func() error { return do(c.ResumeWebhook(ctx, "pager")) },
		func() error { return do(c.Quotas(ctx)) },
		func() error { return do(c.OwnQuota(ctx)) },
		func() error { return do(c.Quota(ctx, "shop")) },
		func() error { return do(c.SetQuota(ctx, "", map[string]*int64{"hosts": new(int64)})) },
		func() error { return do(c.SetQuota(ctx, "shop", map[string]*int64{"hosts": nil})) },
		func() error { return c.DeleteQuota(ctx, "shop") },
		func() error { return do(c.Members(ctx)) },
		func() error { return c.RemoveMember(ctx, "n3") },
		func() error { return c.Transfer(ctx, "n2") },
		func() error { return do(c.Snapshot(ctx, io.Discard)) },
		func() error { return c.Restore(ctx, strings.NewReader("state")) },
		func() error { return do(c.Tokens(ctx, o)) },
		func() error { return do(c.Audit(ctx, o)) },
		func() error {
			return do(c.CreateToken(ctx, rest.TokenSpec{User: "ada", Project: "web", Roles: []api.UserRole{"member"}, TTL: rest.Duration(time.Hour)}))
		},
		func() error { return c.DeleteToken(ctx, "t1") },
		func() error { return do(c.OwnTokens(ctx, o)) },
		func() error { return c.RevokeToken(ctx, "t1") },
		func() error { return do(c.Roles(ctx, o)) },
		func() error {
			return do(c.SetRole(ctx, "deployer", rest.RoleSpec{Allow: []api.RouteGroup{"boots:write"}}))
		},
		func() error { return c.DeleteRole(ctx, "deployer") },
		func() error { return do(c.Agents(ctx, o)) },
		func() error { return c.RevokeAgent(ctx, "a1") },
		func() error { return do(c.CreateJoinToken(ctx, rest.JoinTokenSpec{Kind: "agent", Name: "a1"})) },
		func() error { return do(c.Join(ctx, rest.JoinBody{Token: "token", CSR: []byte("csr")})) },
		func() error { return do(c.Config(ctx)) },
		func() error {
			return do(c.SetConfig(ctx, rest.ZoneConfig{DefaultAZ: "az1", PlanTTL: rest.Duration(time.Minute)}))
		},
		func() error { return do(c.Scheduler(ctx)) },
		func() error {
			return do(c.SetScheduler(ctx, rest.Scheduler{Costs: []rest.CostWeight{{Name: "spread", Weight: 2}}}))
		},
		func() error { return c.RotateKeyring(ctx) },
		func() error { return c.RotateKEK(ctx) },
		func() error { return do(c.CA(ctx)) },
		func() error { return c.RotateCA(ctx, rest.CABrought{Cert: "cert", Key: "key"}) },
		func() error { return c.UseCA(ctx, true) },
		func() error { return c.FinishCA(ctx, false) },
		func() error { return do(c.Upgrade(ctx)) },
		func() error { return c.FinishUpgrade(ctx) },
		func() error { return do(c.Holds(ctx)) },
		func() error { return c.ResolveHold(ctx, "h-1", api.DecisionAbort) },
		func() error { return do(c.Capacity(ctx, time.Time{}, "")) },
		func() error { return do(c.Capacity(ctx, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), "west")) },
	})
}

// firstError returns the error that ends a sequence.
func firstError[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// echo answers every call with something of the right shape.
const echo = `{
  "reservation_id": "r-1", "boot": {"reservation_id": "r-1"}, "boots": [], "server": {"id": "i-1"}, "servers": [], "volume": {"id": "v-1"}, "volumes": [],
  "flavor": {"name": "small"}, "flavors": [], "zone": {"name": "west"}, "zones": [], "host": {"name": "h1"}, "hosts": [],
  "members": [], "token": "text", "tokens": [], "roles": [], "role": {"name": "deployer"}, "agents": [], "config": {"plan_ttl": "1m0s", "host_grace": "10s"}, "holds": [],
  "scheduler": {"filters": [], "costs": []}, "known": {"filters": [], "costs": []}, "evacuation": {"movable": 1}, "plan": {"hosts": []}, "losses": {"zone": "west"}, "lost": {"host": "h1"}, "relinked": {"zone": "west"},
  "authority": {"phase": "stable"}, "upgrade": {"phase": "finished"}, "binding": {"id": "b-1"}, "bindings": [], "audit": [], "output": {"stream": "stderr", "data": ""},
  "aggregate": {"name": "rack1"}, "aggregates": [], "availability_zones": [], "server_group": {"name": "apart"}, "server_groups": [],
  "explanation": {"reservation_id": "r-1"}, "webhook": {"name": "pager"}, "webhooks": [], "quota": {"project_id": "shop"}, "quotas": [{"project_id": "shop"}], "capacity": {"zones": []}, "resource_providers": [], "resource_classes": [], "traits": [],
  "resource_provider_generation": 3, "inventories": {}, "allocations": {}, "usages": {}, "allocation_requests": []
}`

func TestCallsAreSpeltAsTheContractSaysThem(t *testing.T) {
	var said bytes.Buffer
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "Bearer berth_id_secret", r.Header.Get("Authorization"))
		fmt.Fprintf(&said, "%s %s\n", r.Method, r.URL.RequestURI())
		if k := r.Header.Get(api.HeaderIdempotencyKey); k != "" {
			fmt.Fprintf(&said, "  key %s\n", k)
		}
		version := r.Header.Get("OpenStack-API-Version")
		assert.Equal(t, strings.HasPrefix(r.URL.Path, "/placement/"), version == "placement 1.39", "%s: %q", r.URL, version)
		if len(body) > 0 {
			fmt.Fprintf(&said, "  %s: %s\n", r.Header.Get("Content-Type"), body)
		}
		if r.Method == http.MethodGet && r.URL.Path == "/reservation/v1/series" {
			answers(http.StatusOK, `{"series": []}`)(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/reservation/") {
			answers(http.StatusOK, leaseEcho)(w, r)
			return
		}
		answers(http.StatusOK, echo)(w, r)
	})
	for i, call := range everyCall(t.Context(), c) {
		require.NoError(t, call(), "call %d", i)
	}
	golden.Check(t, "testdata/calls.txt", said.Bytes())
}

// TestEveryRouteHasACall: the client has a call for every route of the native API, but
// for those that others stand for.
func TestEveryRouteHasACall(t *testing.T) {
	text, err := os.ReadFile("testdata/calls.txt")
	require.NoError(t, err)
	for _, r := range rest.Routes() {
		path := strings.ReplaceAll(regexp.QuoteMeta(r.Path), `\{id\}`, `[^/?]+`)
		called := regexp.MustCompile(`(?m)^` + r.Method + ` ` + path + `(\?|$)`).Match(text)
		switch r.Name() {
		case "GET /", "GET /servers", "GET /flavors/detail", "GET /zones/detail":
			continue
		case "GET /operator/snapshot", "PUT /operator/snapshot":
			continue // a file: see TestSnapshots
		}
		assert.True(t, called, "no call of the client makes %s", r.Name())
	}
}

func TestRefusalsKeepCodeSentenceAndRequestID(t *testing.T) {
	c := at(t, answers(http.StatusConflict, `{"error": {"code": "no_capacity", "message": "3 of 5 fit", "request_id": "req-9"}}`))
	for i, call := range everyCall(t.Context(), c) {
		err := call()
		e, ok := errors.AsType[*api.Error](err)
		require.True(t, ok, "call %d", i)
		assert.Equal(t, api.CodeNoCapacity, e.Code)
		assert.Equal(t, "3 of 5 fit", e.Msg)
		assert.True(t, strings.HasPrefix(e.Op, "client."), e.Op)
		assert.Equal(t, api.RequestID("req-9"), client.RequestIDOf(err))
	}
	assert.Empty(t, client.RequestIDOf(errors.New("another")))
}

func TestRefusalsOfOthersThanZones(t *testing.T) {
	for status, code := range map[int]api.Code{
		http.StatusUnauthorized: api.CodeUnauthenticated, http.StatusForbidden: api.CodeForbidden,
		http.StatusNotFound: api.CodeNotFound, http.StatusTeapot: api.CodeInternal,
		http.StatusInternalServerError: api.CodeInternal, http.StatusFound: api.CodeInternal,
	} {
		c := at(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example")
			w.Header().Set(api.HeaderRequestID, "req-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>")
		})
		_, err := c.ZoneInfo(t.Context())
		assert.Equal(t, code, api.CodeOf(err), "status %d", status)
		assert.Equal(t, api.RequestID("req-8"), client.RequestIDOf(err))
	}
}

// TestRefusalsSayHowLongToPause, if they do so in seconds.
func TestRefusalsSayHowLongToPause(t *testing.T) {
	for says, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, "65535": 65535 * time.Second, "65536": 0, "18446744073709551616": 0, "-1": 0, "1.5": 0, "soon": 0,
	} {
		c := at(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", says)
			w.WriteHeader(http.StatusConflict)
		})
		_, err := c.ZoneInfo(t.Context())
		refused, ok := errors.AsType[*client.RefusedError](err)
		require.True(t, ok)
		assert.Equal(t, want, refused.RetryAfter, "%q", says)
	}
}

// TestListsWithoutPagesAreReadWhole: answers that have all of a zone may be larger than others. No other call reads as much.
func TestListsWithoutPagesAreReadWhole(t *testing.T) {
	large := []string{
		"/placement/allocation_candidates", "/placement/resource_providers", "/placement/resource_providers/p-1/allocations", "/placement/traits",
		"/reservation/v1/leases", "/reservation/v1/leases/l-1/hosts", "/reservation/v1/os-hosts", "/reservation/v1/os-hosts/allocations", "/reservation/v1/series",
	}
	streams := []string{"/events", "/operator/snapshot"} // which have limits of their own
	var asked, read []string
	c, _ := talk(t, func(_ int, r *http.Request) (*http.Response, error) {
		size := int64(0)
		if r.Method == http.MethodGet && !slices.Contains(streams, r.URL.Path) {
			asked, size = append(asked, r.URL.Path), client.AnswerMaxBytes+1
		}
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(io.LimitReader(endless{}, size)), Request: r}, nil
	})
	for _, call := range everyCall(t.Context(), c) {
		asked = nil
		if err := call(); api.CodeOf(err) != api.CodeTooLarge {
			read = append(read, asked...)
		}
	}
	slices.Sort(read)
	assert.Equal(t, large, slices.Compact(read))
}

func TestStrangeAnswers(t *testing.T) {
	for _, body := range []string{``, `[]`, `{}`, `{"zone": 1, "zones": 1}`, `{"zones": [], "next_marker": 1, "zone": ""}`} {
		c := at(t, answers(http.StatusOK, body))
		_, err := c.Zone(t.Context(), "west")
		assert.Equal(t, api.CodeInternal, api.CodeOf(err), body)
		_, err = c.Zones(t.Context(), client.ListOptions{})
		assert.Equal(t, api.CodeInternal, api.CodeOf(err), body)
		if body == `{}` {
			assert.ErrorContains(t, err, "the answer has no zones")
		}
	}
}

func TestAnswersOfNewerZonesAreRead(t *testing.T) {
	c := at(t, answers(http.StatusOK, `{"zone": {"name": "west", "colour": "blue"}, "extra": 1}`))
	z, err := c.Zone(t.Context(), "west")
	require.NoError(t, err)
	assert.Equal(t, "west", z.Name)
}

func TestAnswerIsHandedOnAsItCame(t *testing.T) {
	const body = `{"zone": {"name": "west",  "colour": "blue"}}`
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderIndex, "42")
		w.Header().Set(api.HeaderRequestID, "req-7")
		answers(http.StatusOK, body)(w, r)
	})
	var got client.Answer
	_, err := c.Zone(client.WithAnswer(t.Context(), func(a client.Answer) { got = a }), "west")
	require.NoError(t, err)
	assert.Equal(t, client.Answer{Body: []byte(body), Index: 42, RequestID: "req-7"}, got)
}

func TestPages(t *testing.T) {
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("marker") == "" {
			answers(http.StatusOK, `{"hosts": [{"name": "a"}], "next_marker": "a"}`)(w, r)
			return
		}
		answers(http.StatusOK, `{"hosts": [{"name": "b"}]}`)(w, r)
	})
	p, err := c.Hosts(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	p, err = c.Hosts(t.Context(), client.ListOptions{Marker: p.Next})
	require.NoError(t, err)
	assert.Equal(t, "b", p.Items[0].Name)
	assert.Empty(t, p.Next)
}

func TestNamesCannotLeaveTheirPlace(t *testing.T) {
	c := at(t, func(http.ResponseWriter, *http.Request) { t.Error("called") })
	for _, name := range []string{"", ".", ".."} {
		_, err := c.Host(t.Context(), name)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), name)
	}
}

func TestSelectAnswerCarriesThePlan(t *testing.T) {
	c := at(t, answers(http.StatusOK, `{"reservation_id": "r-1", "weights": [[1, 2]], "blob": "c2VhbGVk", "expires_in_ms": 60000,
		"zones": [{"zone": "west", "outcome": "answered", "wanted": 2, "offered": 2, "short": 0}], "refusals": []}`))
	a, err := c.Select(t.Context(), rest.ServerCreate{})
	require.NoError(t, err)
	assert.Equal(t, []byte("sealed"), a.Blob)
	assert.Equal(t, int64(60000), a.ExpiresInMS)
	assert.Equal(t, [][]int64{{1, 2}}, a.Weights)
	assert.Equal(t, "west", a.Zones[0].Zone)
}

// bootOf returns a wish whose body has so many bytes.
func bootOf(t *testing.T, size int) rest.ServerCreate {
	t.Helper()
	s := rest.ServerCreate{ImageRef: "x"}
	b, err := json.Marshal(rest.BootBody{Server: s})
	require.NoError(t, err)
	s.ImageRef = strings.Repeat("x", 1+size-len(b))
	return s
}

func TestBodyLimit(t *testing.T) {
	c := at(t, answers(http.StatusOK, echo))
	_, err := c.Boot(t.Context(), bootOf(t, api.BodyMaxBytes), "")
	require.NoError(t, err)
	_, err = c.Boot(t.Context(), bootOf(t, api.BodyMaxBytes+1), "")
	assert.Equal(t, api.CodeTooLarge, api.CodeOf(err))

	plans := api.BodyMaxBytes + base64.StdEncoding.EncodedLen(api.BlobMaxBytes)
	_, err = c.CreateServer(t.Context(), bootOf(t, plans), "")
	require.NoError(t, err)
	_, err = c.CreateServer(t.Context(), bootOf(t, plans+1), "")
	assert.Equal(t, api.CodeTooLarge, api.CodeOf(err))
}

func TestAnswerLimit(t *testing.T) {
	for extra, code := range map[int]api.Code{0: "", 1: api.CodeTooLarge} {
		const frame = `{"zone": {"name": "w"}, "x": ""}`
		c := at(t, answers(http.StatusOK, `{"zone": {"name": "w"}, "x": "`+strings.Repeat("x", client.AnswerMaxBytes-len(frame)+extra)+`"}`))
		_, err := c.Zone(t.Context(), "w")
		assert.Equal(t, code, api.CodeOf(err), "limit and %d", extra)
	}
}

func TestTrustIsWhatWasGiven(t *testing.T) {
	srv := httptest.NewTLSServer(answers(http.StatusOK, echo))
	srv.Config.ErrorLog = nil
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c, err := client.New(client.Config{Addr: srv.URL, CACert: ca})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.ZoneInfo(t.Context())
	require.NoError(t, err)

	stranger, err := client.New(client.Config{Addr: srv.URL})
	require.NoError(t, err)
	defer stranger.Close()
	_, err = stranger.ZoneInfo(t.Context())
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	assert.ErrorContains(t, err, "not trusted")
}

func TestSnapshots(t *testing.T) {
	var stored []byte
	var asked string
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, r.Method == http.MethodPut, r.Header.Get("Content-Type") != "", "of what has a body")
		assert.Equal(t, "application/octet-stream, application/json", r.Header.Get("Accept"))
		if r.Method == http.MethodPut {
			stored, _ = io.ReadAll(r.Body)
			asked = r.URL.RawQuery
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write(stored)
	})
	require.NoError(t, c.RestoreUnauthenticated(t.Context(), strings.NewReader("old")))
	assert.Equal(t, "unauthenticated=true", asked)
	require.NoError(t, c.Restore(t.Context(), strings.NewReader("state")))
	assert.Empty(t, asked)
	var b bytes.Buffer
	n, err := c.Snapshot(t.Context(), &b)
	require.NoError(t, err)
	assert.Equal(t, int64(5), n)
	assert.Equal(t, "state", b.String())
}

func TestSnapshotThatEndsEarlyIsAnError(t *testing.T) {
	c := at(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err := c.Snapshot(t.Context(), io.Discard)
	assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
}

func TestDurations(t *testing.T) {
	var d rest.Duration
	require.NoError(t, json.Unmarshal([]byte(`"90s"`), &d))
	b, err := json.Marshal(d)
	require.NoError(t, err)
	assert.JSONEq(t, `"1m30s"`, string(b))
	for _, bad := range []string{`90`, `"soon"`, `null`} {
		assert.Error(t, json.Unmarshal([]byte(bad), &d), bad)
	}
}
