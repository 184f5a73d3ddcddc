package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/buildplan/seal"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/internal/actor"
	"berth/internal/codec"
	"berth/internal/memstore"
	"berth/internal/requestid"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/output"
	"berth/zone/saga"
)

// canary is in every word that must stay in the zone.
const canary = "canary"

// below is the peers of a zone with one child, which offers nothing and notes until when
// it was asked to answer.
type below struct {
	asked    bool
	deadline time.Time
	depth    int
	request  api.RequestID
}

var errAway = errors.New("dialing 10.0.0.7: " + canary)

func (b *below) Select(ctx context.Context, _ *api.Link, _ *api.Request) (*api.SelectAnswer, error) {
	b.asked, b.depth, b.request = true, zone.Depth(ctx), requestid.Of(ctx)
	b.deadline, _ = ctx.Deadline()
	return nil, errAway
}

func (b *below) Room(ctx context.Context, _ *api.Link, _ *api.RoomQuestion) (*api.RoomAnswer, error) {
	b.asked, b.depth, b.request = true, zone.Depth(ctx), requestid.Of(ctx)
	b.deadline, _ = ctx.Deadline()
	return nil, errAway
}

func (*below) Hold(context.Context, *api.Link, *api.HoldRequest) (*api.HoldAnswer, error) {
	return nil, errAway
}

func (*below) SharesHolds(*api.Link) bool { return false }

func (*below) HoldAll(context.Context, *api.Link, []api.HoldRequest) ([]*api.HoldAnswer, error) {
	return nil, errAway
}

func (*below) Decide(context.Context, *api.Link, api.HoldID, api.Decision) (*api.HoldAnswer, error) {
	return nil, errAway
}

func (*below) DecideAll(context.Context, *api.Link, []api.HoldDecision) ([]error, error) {
	return nil, errAway
}

func (*below) Decision(context.Context, *api.Link, api.HoldID) (api.Decision, error) {
	return "", errAway
}

func (*below) ConfirmedChanges(context.Context, *api.Link, uint64) (*api.Changes, error) {
	return nil, errAway
}

func (*below) Changes(context.Context, *api.Link, uint64, time.Duration) (*api.Changes, error) {
	return nil, errAway
}

func (*below) EndInstance(context.Context, *api.Link, api.InstanceID) error { return errAway }

func (*below) Attach(context.Context, *api.Link, *api.VolumeCall) error { return errAway }

func (*below) Detach(context.Context, *api.Link, *api.VolumeCall) error { return errAway }
func (*below) Power(context.Context, *api.Link, *api.PowerCall) (*api.PowerAnswer, error) {
	return nil, errAway
}

func (b *below) Output(ctx context.Context, _ *api.Link, _ *api.OutputQuestion) (*api.OutputAnswer, error) {
	b.asked, b.depth, b.request = true, zone.Depth(ctx), requestid.Of(ctx)
	b.deadline, _ = ctx.Deadline()
	return nil, errAway
}

// silence is zone.Digests of a zone that has heard nobody.
type silence struct{}

func (silence) Digest(api.ZoneID) (api.Digest, time.Duration, bool) { return api.Digest{}, 0, false }

// ring is estimate.Keys with one key for ever.
type ring struct{}

func (ring) Ring(*state.State) (seal.Keyring, error) { return seal.Keyring{{Epoch: [4]byte{1}}}, nil }

// world is a zone with a parent, up, a child, east, and two hosts. Everything
// that names a host, an agent or an address of it has the canary.
type world struct {
	http.Handler
	rates     *rates.Limiter // nil for no limit
	store     *memstore.Store
	zone      *zone.Zone
	log       *slog.Logger
	below     *below
	now       func() time.Time
	follower  bool
	headless  bool // it knows of no leader
	forwarded []string
	returned  []string // zones and their incarnations
	enrolled  *api.Enrolment
	callers   []actor.Call // of what the gateway passes on
	counter   *refusals.Counter
	refusal   error // of an enrolment, and of who is above
	enrol     http.Handler
	lines     bytes.Buffer // of the log
}

type peerKey struct{}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return newWorldAt(tb, func() time.Time { return at })
}

func newWorldAt(tb testing.TB, now func() time.Time) *world {
	tb.Helper()
	w := &world{store: memstore.NewOfForm(api.FormNewest), below: &below{}, now: now}
	w.log = slog.New(requestid.NewHandler(slog.NewJSONHandler(&w.lines, &slog.HandlerOptions{Level: slog.LevelDebug})))
	w.counter = refusals.New(w.log, now)
	w.zone = zone.New(zone.Config{Store: w.store, Now: now, Log: w.log})
	c := w.config(w.zone)
	w.Handler, w.enrol = New(c), Enrol(c)
	w.furnish(tb)
	return w
}

// config is what the gateway of a zone is made of.
func (w *world) config(z *zone.Zone) Config {
	e := estimate.New(estimate.Config{Zone: z, Peers: w.below, Digests: silence{}, Keys: ring{}})
	s := saga.New(saga.Config{Zone: z, Estimator: e, Peers: w.below, Digests: silence{}})
	return Config{
		Zone: z, Estimator: e, Saga: s, Outputs: output.New(z, w.below), Log: w.log, Version: "v1",
		Rates: w.rates, Now: w.now, Refusals: w.counter, Address: func(r *http.Request) string { return r.RemoteAddr },
		Peer: func(r *http.Request) (api.ZoneID, bool) {
			z, ok := r.Context().Value(peerKey{}).(api.ZoneID)
			return z, ok
		},
		Enrol: func(ctx context.Context, e *api.Enrolment) (*api.Enrolment, error) {
			w.enrolled = e
			w.callers = append(w.callers, actor.Of(ctx))
			return &api.Enrolment{Link: "link-new", Zone: "zone-mid"}, w.refusal
		},
		Hello: func(ctx context.Context, _ *api.Link, h *api.Hello) error {
			w.callers = append(w.callers, actor.Of(ctx))
			if string(h.KeyCheck) == "ours" {
				return api.Wrap(api.CodeConflict, "", "one key", errAway)
			}
			return nil
		},
		Above: func(ctx context.Context, id api.ZoneID) (*api.AboveAnswer, error) {
			w.below.depth = zone.Depth(ctx)
			w.callers = append(w.callers, actor.Of(ctx))
			return &api.AboveAnswer{Above: id == "zone-top", Zones: 2}, w.refusal
		},
		Below: func(ctx context.Context) int {
			w.below.depth = zone.Depth(ctx)
			w.callers = append(w.callers, actor.Of(ctx))
			return 3
		},
		Returned: func(l *api.Link, n api.Incarnation) {
			w.returned = append(w.returned, fmt.Sprint(l.Zone, " ", n))
		},
		Leader: func() bool { return !w.follower },
		Led:    func() bool { return !w.headless },
		Forward: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.forwarded = append(w.forwarded, r.Method+" "+r.URL.Path)
			rw.WriteHeader(http.StatusTeapot)
		}),
	}
}

func (w *world) furnish(tb testing.TB) {
	tb.Helper()
	at := w.zone.Stamp()
	link := func(name string, role api.LinkRole) command.LinkPut {
		return command.LinkPut{Stamp: at, Link: api.Link{
			ID: api.LinkID("link-" + name), Name: name, Role: role, Zone: api.ZoneID("zone-" + name),
			Endpoints: []string{"https://" + canary + ":1"}, Scale: 1, State: api.LinkActive,
		}}
	}
	hosts := command.HostsPut{Stamp: at, Agent: canary + "-agent"}
	for _, n := range []string{"-1", "-2"} {
		hosts.Hosts = append(hosts.Hosts, command.HostEntry{ID: api.HostID(canary + "-id" + n), Host: api.AgentHost{
			Name: canary + "-host" + n, Driver: canary + "-driver", Pool: api.PoolShared, Traits: []string{"CUSTOM_FAST"}, // a public word
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
		}})
	}
	addr := canary + ":1"
	w.store.Must(
		tb,
		command.Init{Stamp: at, Zone: "zone-mid", Name: "mid", Admin: api.Token{ID: canary + "-token"}},
		command.NodePut{Stamp: at, Node: api.Node{ID: canary + "-node", NodeAddr: addr, APIAddr: addr, GatewayAddr: addr, AgentAddr: addr, Form: api.FormNewest}},
		hosts, link("up", api.LinkParent), link("east", api.LinkChild),
	)
}

// call is one request to the gateway.
type call struct {
	method, target string
	peer           api.ZoneID // "" for one that cannot be told
	body           any        // nil for none; bytes as they are
	head           map[string]string
}

// encode returns the bytes of a body.
func encode(tb testing.TB, body any) []byte {
	tb.Helper()
	b, err := codec.Marshal(body)
	require.NoError(tb, err)
	return b
}

func (w *world) do(tb testing.TB, c call) *httptest.ResponseRecorder {
	tb.Helper()
	b, raw := c.body.([]byte)
	if !raw && c.body != nil {
		b = encode(tb, c.body)
	}
	r := httptest.NewRequest(c.method, c.target, bytes.NewReader(b))
	r.Header.Set("Content-Type", api.MediaCBOR)
	r.Header.Set("Accept", api.MediaCBOR)
	for k, v := range c.head {
		r.Header.Set(k, v)
	}
	if c.peer != "" {
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, c.peer))
	}
	rec := httptest.NewRecorder()
	if c.target == "/links/enrol" {
		w.enrol.ServeHTTP(rec, r)
	} else {
		w.ServeHTTP(rec, r)
	}
	said := strings.ToLower(fmt.Sprint(rec.Header(), rec.Body))
	assert.NotContains(tb, said, canary, "%s %s", c.method, c.target)
	return rec
}

// refused makes a call that must be refused so, and must change nothing.
func (w *world) refused(tb testing.TB, c call, code api.Code) string {
	tb.Helper()
	before := w.store.View().Index()
	rec := w.do(tb, c)
	var b api.ErrorBody
	require.NoError(tb, codec.Unmarshal(rec.Body.Bytes(), &b), "%s %s: %s", c.method, c.target, rec.Body)
	assert.Equal(tb, code.HTTPStatus(), rec.Code, "%s %s: %s", c.method, c.target, b.Error.Message)
	assert.Equal(tb, code, b.Error.Code, "%s %s: %s", c.method, c.target, b.Error.Message)
	assert.NotEmpty(tb, b.Error.Message)
	assert.NotEmpty(tb, b.Error.RequestID)
	assert.Equal(tb, before, w.store.View().Index(), "%s %s was logged", c.method, c.target)
	return b.Error.Message
}

// answered makes a call that must be answered, and reads the answer into v
// unless it is nil.
func (w *world) answered(tb testing.TB, c call, status int, v any) {
	tb.Helper()
	rec := w.do(tb, c)
	require.Equal(tb, status, rec.Code, "%s %s: %s", c.method, c.target, rec.Body)
	if v != nil {
		require.NoError(tb, codec.Unmarshal(rec.Body.Bytes(), v))
	}
}

// request is a request for n instances.
func request(n int) api.Request {
	return api.Request{
		Reservation: "r-1", Project: "p1", User: "somebody", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: n, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}},
	}
}

// roomQuestion asks when n slots would fit.
func roomQuestion(n int) api.RoomQuestion {
	req := request(n)
	start := api.InstantOf(time.Date(2030, 1, 1, 10, 0, 0, 0, time.UTC))
	req.Reserves, req.Groups[0].Name, req.Window = true, "r", api.Window{Start: start, End: start.Add(time.Hour)}
	return api.RoomQuestion{Request: req, Until: start.Add(24 * time.Hour)}
}

// plan selects n slots for the parent and returns the request that holds them.
func (w *world) plan(tb testing.TB, n int) api.HoldRequest {
	tb.Helper()
	var a api.SelectAnswer
	w.answered(tb, call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(n)}, 200, &a)
	require.Len(tb, a.Weights[0], n)
	h := api.HoldRequest{ID: "hold-1", Attempt: 1, Request: request(n), Blob: a.Blob, Instances: [][]api.InstanceSpec{nil}}
	for i := range n {
		id := "i-" + strconv.Itoa(i)
		h.Instances[0] = append(h.Instances[0], api.InstanceSpec{ID: api.InstanceID(id), Name: id})
	}
	return h
}
