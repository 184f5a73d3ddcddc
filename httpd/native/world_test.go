package native

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/buildplan/seal"
	"berth/httpd/door"
	httpevents "berth/httpd/events"
	"berth/httpd/rates"
	"berth/internal/codec"
	"berth/internal/memstore"
	"berth/internal/skew"
	"berth/quota"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
	"berth/zone/estimate"
	"berth/zone/fleet"
	"berth/zone/output"
	"berth/zone/saga"
)

// lonely is the peers of a zone whose neighbours are all away.
type lonely struct{}

var errAway = api.Errorf(api.CodeUnavailable, "away")

func (lonely) Select(context.Context, *api.Link, *api.Request) (*api.SelectAnswer, error) {
	return nil, errAway
}

func (lonely) Room(context.Context, *api.Link, *api.RoomQuestion) (*api.RoomAnswer, error) {
	return nil, errAway
}

func (lonely) Hold(context.Context, *api.Link, *api.HoldRequest) (*api.HoldAnswer, error) {
	return nil, errAway
}

func (lonely) SharesHolds(*api.Link) bool { return false }

func (lonely) HoldAll(context.Context, *api.Link, []api.HoldRequest) ([]*api.HoldAnswer, error) {
	return nil, errAway
}

func (lonely) Decide(context.Context, *api.Link, api.HoldID, api.Decision) (*api.HoldAnswer, error) {
	return nil, errAway
}

func (lonely) DecideAll(context.Context, *api.Link, []api.HoldDecision) ([]error, error) {
	return nil, errAway
}

func (lonely) Decision(context.Context, *api.Link, api.HoldID) (api.Decision, error) {
	return "", errAway
}

func (lonely) ConfirmedChanges(context.Context, *api.Link, uint64) (*api.Changes, error) {
	return nil, errAway
}

func (lonely) Changes(context.Context, *api.Link, uint64, time.Duration) (*api.Changes, error) {
	return nil, errAway
}

func (lonely) EndInstance(context.Context, *api.Link, api.InstanceID) error { return errAway }
func (lonely) Attach(context.Context, *api.Link, *api.VolumeCall) error     { return errAway }
func (lonely) Detach(context.Context, *api.Link, *api.VolumeCall) error     { return errAway }
func (lonely) Power(context.Context, *api.Link, *api.PowerCall) (*api.PowerAnswer, error) {
	return nil, errAway
}

// gossip is what was heard of zones, and how long ago.
type gossip map[api.ZoneID]time.Duration

func (g gossip) Digest(z api.ZoneID) (api.Digest, time.Duration, bool) {
	age, ok := g[z]
	return api.Digest{
		Zone: z, Sequence: 9, At: api.InstantOf(epoch), Health: "up",
		Classes: map[api.ResourceClass]api.ClassTotals{api.VCPU: {Total: 64, Free: 32, SlotMin: 1, SlotMax: 16}},
		AZs:     []string{"az1", "az-" + string(z)},
	}, age, ok
}

// ring is estimate.Keys with one key for ever.
type ring seal.Key

func (r ring) Ring(*state.State) (seal.Keyring, error) { return seal.Keyring{seal.Key(r)}, nil }

// authority is an Authority that notes what it is told to do.
type authority struct {
	did   []string
	fail  error
	token api.Token // the latest one that was made
}

var _ Authority = (*authority)(nil)

func (a *authority) note(what string) error {
	if a.fail == nil {
		a.did = append(a.did, what)
	}
	return a.fail
}

func (a *authority) LinkToken(_ context.Context, name string, _, _ int64) (string, error) {
	return "berth-join-link", a.note("link token " + name)
}

func (a *authority) Link(_ context.Context, token, name string) (*api.Link, error) {
	return &api.Link{ID: "link-new", Name: name, Role: api.LinkParent, Zone: "zone-new", Scale: 1, State: api.LinkActive}, a.note("link " + token)
}

func (a *authority) Relink(_ context.Context, id api.LinkID, q rest.Relink) (*rest.Relinked, error) {
	return &rest.Relinked{Zone: string(id), Role: api.LinkChild, Incarnation: 1_800_000_000, DryRun: q.DryRun}, a.note(fmt.Sprintf("relink %s %d", id, q.Incarnation))
}

func (a *authority) JoinToken(_ context.Context, kind api.JoinKind, name string, ttl time.Duration) (string, error) {
	return "berth-join-" + string(kind), a.note("join token " + name + " " + ttl.String())
}

func (a *authority) AgentToken(ctx context.Context, name string, terms api.AgentTerms, ttl time.Duration) (string, error) {
	if !terms.IsZero() {
		return "berth-join-agent", a.note(fmt.Sprintf("join token %s %+v", name, terms))
	}
	return a.JoinToken(ctx, api.JoinAgent, name, ttl)
}

func (a *authority) Join(_ context.Context, b *rest.JoinBody) (*rest.JoinAnswer, error) {
	return &rest.JoinAnswer{
		Zone: "zone-root", ZoneName: "root", ID: "node-2", Certificates: map[string][]byte{"node": {1}}, CA: []byte{2},
		Addresses: []string{"127.0.0.1:1"},
	}, a.note("join " + b.Token)
}

func (a *authority) NewToken(_ context.Context, t api.Token) (string, api.TokenID, error) {
	a.token = t
	return "berth_new", "new", a.note("token " + string(t.User) + " " + t.Expires.String())
}

func (a *authority) WrapLeaseToken(url, token string) ([]byte, error) {
	return []byte(url + " " + token), nil
}

func (a *authority) NewWebhook(_ context.Context, w api.Webhook, secret string) (api.WebhookID, error) {
	return "hook-new", a.note("webhook " + w.URL + " " + secret)
}

func (a *authority) RotateKeyring(context.Context) error { return a.note("rotate") }

func (a *authority) RotateKEK(context.Context) error { return a.note("rotate KEK") }

func (a *authority) CAStatus(context.Context) (*rest.CA, error) {
	return &rest.CA{Phase: api.CAStable, Authorities: []rest.CAAuthority{}, Waits: []rest.CAWait{}, Behind: []rest.CAWait{}}, a.fail
}

func (a *authority) UpgradeStatus(context.Context) (*rest.Upgrade, error) {
	return &rest.Upgrade{Phase: rest.UpgradeFinished, Form: api.FormNewest, Next: api.FormNewest, Nodes: []rest.UpgradeNode{}, Links: []rest.UpgradeLink{}}, a.fail
}

func (a *authority) FinishUpgrade(context.Context) error { return a.note("finish upgrade") }

func (a *authority) RotateCA(_ context.Context, b rest.CABrought) error {
	return a.note("rotate CA " + b.Cert + b.Key)
}

func (a *authority) UseCA(_ context.Context, force bool) error {
	return a.note(fmt.Sprint("use CA ", force))
}

func (a *authority) FinishCA(_ context.Context, force bool) error {
	return a.note(fmt.Sprint("finish CA ", force))
}

func (a *authority) Members() []api.Node {
	return []api.Node{{
		ID: "node-1", NodeAddr: "127.0.0.1:1", APIAddr: "127.0.0.1:2", GatewayAddr: "127.0.0.1:3", AgentAddr: "127.0.0.1:4",
		Version: "v1", Joined: api.InstantOf(epoch), Voter: true, Leader: true, Alive: "alive",
	}}
}

func (a *authority) RemoveMember(_ context.Context, id api.NodeID) error {
	return a.note("remove " + string(id))
}

func (a *authority) Transfer(_ context.Context, to api.NodeID) error {
	return a.note("transfer " + string(to))
}

func (a *authority) Snapshot(_ context.Context, w io.Writer) error {
	if err := a.note("snapshot"); err != nil {
		return err
	}
	_, err := io.WriteString(w, "state")
	return err
}

func (a *authority) Restore(_ context.Context, r io.Reader, unauthenticated bool) error {
	b, err := io.ReadAll(r)
	note := "restore " + string(b)
	if unauthenticated {
		note += " unauthenticated"
	}
	return errors.Join(err, a.note(note))
}

// tokens are "id:secret"; the hash of a secret is the secret.
type tokens struct{}

func (tokens) Parse(text string) (api.TokenID, []byte, error) {
	id, secret, ok := strings.Cut(text, ":")
	if !ok {
		return "", nil, api.Errorf(api.CodeUnauthenticated, "malformed")
	}
	return api.TokenID(id), []byte(secret), nil
}

func (tokens) Check(stored, presented []byte) bool { return bytes.Equal(stored, presented) }

// epoch is the time of every world that does not run.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Tokens of a world. Members and readers are of project p1, but for "other".
const (
	reader = "reader:s"
	member = "member:s"
	admin  = "admin:s"
	other  = "other:s" // a member of p2
	late   = "late:s"  // an admin whose token has expired
)

// world is a zone, root, with a parent, up, and two children, east and west:
//   - p1 has the server web on host-1 and far in east;
//   - p2 has the server hidden on host-2;
//   - up holds one slot of host-2 for p3; host-3 is empty;
//   - p1 has the server group apart, which is empty; the aggregate rack1 has host-1.
type world struct {
	rates *rates.Limiter // nil for no limit
	http.Handler
	tb        testing.TB
	store     *memstore.Store
	zone      *zone.Zone
	estimator *estimate.Estimator
	saga      *saga.Saga
	fleet     *fleet.Fleet
	outputs   *output.Reader
	streams   *httpevents.Streams
	auth      *authority
	returned  api.Incarnation // of the zone east, to be confirmed
	now       func() time.Time
	follower  bool
	forwarded []string
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	return newWorldAt(tb, "zone-root", func() time.Time { return epoch })
}

func newWorldAt(tb testing.TB, id api.ZoneID, now func() time.Time) *world {
	tb.Helper()
	w := &world{tb: tb, store: memstore.NewOfForm(api.FormNewest), auth: &authority{}, now: now}
	w.serve(w.store)
	w.furnish(tb, id)
	return w
}

// serve makes the API answer from a store.
func (w *world) serve(store zone.Store) {
	digests := gossip{"zone-east": time.Second, "zone-west": zone.LinkFresh + time.Second}
	key := ring{Epoch: [4]byte{1}, Secret: [32]byte{2}}
	log := slog.New(slog.DiscardHandler)
	w.zone = zone.New(zone.Config{Store: store, Now: func() time.Time { return w.now() }, Log: log})
	e := estimate.New(estimate.Config{Zone: w.zone, Peers: lonely{}, Digests: digests, Keys: key})
	w.estimator = e
	w.saga = saga.New(saga.Config{Zone: w.zone, Estimator: e, Peers: lonely{}, Digests: digests})
	w.fleet = fleet.New(w.zone, e)
	w.streams = httpevents.New(httpevents.Config{Zone: w.zone, Led: func() bool { return true }})
	w.outputs = output.New(w.zone, talkative{})
	w.Handler = New(Config{Estimator: e, Saga: w.saga, Fleet: w.fleet, Outputs: w.outputs, Authority: w.auth, Digests: digests, Unconfirmed: w.unconfirmed, Skew: skewOf, Streams: w.streams, Version: "v1", Door: door.Config{
		Zone: w.zone, Tokens: tokens{}, Log: log, Leader: func() bool { return !w.follower },
		Forward: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.forwarded = append(w.forwarded, r.Method+" "+r.URL.Path)
			rw.WriteHeader(http.StatusTeapot)
		}),
		Now: func() time.Time { return w.now() }, Rates: w.rates, Address: func(r *http.Request) string { return r.RemoteAddr },
	}})
}

func (w *world) furnish(tb testing.TB, id api.ZoneID) {
	tb.Helper()
	at := w.zone.Stamp()
	token := func(id, project string, role api.UserRole) command.TokenPut {
		return command.TokenPut{Stamp: at, Token: api.Token{
			ID: api.TokenID(id), Hash: []byte("s"), User: api.UserID(id), Project: api.ProjectID(project),
			Roles: []api.UserRole{role}, Created: at.At, Expires: api.Forever,
		}}
	}
	expired := token("late", "p1", api.RoleAdmin)
	expired.Token.Expires = at.At
	link := func(name string, role api.LinkRole) command.LinkPut {
		return command.LinkPut{Stamp: at, Link: api.Link{
			ID: api.LinkID("link-" + name), Name: name, Role: role, Zone: api.ZoneID("zone-" + name),
			Endpoints: []string{"https://" + name + ".example:1"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
		}}
	}
	hosts := command.HostsPut{Stamp: at, Agent: "agent-1"}
	for _, n := range []string{"1", "2", "3"} {
		hosts.Hosts = append(hosts.Hosts, command.HostEntry{ID: api.HostID("host-id-" + n), Host: api.AgentHost{
			Name: "host-" + n, Driver: "fake", Pool: api.PoolShared,
			Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}, api.MemoryMB: {Total: 8192}},
		}})
	}
	small := api.Flavor{ID: "small", Name: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 1024}}
	huge := api.Flavor{ID: "huge", Name: "huge", Resources: api.Resources{api.VCPU: 5}}
	w.store.Must(
		tb,
		command.Init{Stamp: at, Zone: id, Name: "root"},
		token("reader", "p1", api.RoleReader), token("member", "p1", api.RoleMember), token("admin", "p1", api.RoleAdmin),
		token("other", "p2", api.RoleMember), expired,
		command.WebhookPut{Stamp: at, Webhook: api.Webhook{
			ID: "hook-pager", Name: "pager", Project: "p1", User: "member", URL: "https://example.org/berth", Secret: []byte("wrapped"), Kinds: []string{"boot"},
		}},
		command.RoleSet{Stamp: at, Role: api.Role{Name: "idle", Allow: []api.RouteGroup{api.AreaBoots.Writes()}}},
		command.QuotaSet{Stamp: at, Project: "p1", Set: quota.Limits{quota.Hosts: 3}},
		command.FlavorPut{Stamp: at, Flavor: small}, command.FlavorPut{Stamp: at, Flavor: huge}, hosts,
		link("up", api.LinkParent), link("east", api.LinkChild), link("west", api.LinkChild),
	)
	w.store.Must(
		tb,
		command.GroupPut{Stamp: at, Group: api.ServerGroup{ID: "group-apart", Name: "apart", Project: "p1", Policy: api.AntiAffinity, Max: 1}},
		command.AggregatePut{Stamp: at, Aggregate: api.Aggregate{
			ID: "aggregate-rack1", Name: "rack1", Metadata: map[string]string{api.MetaAZ: "az1"}, Hosts: []api.HostID{"host-id-1"},
		}},
	)
	w.place(tb, "p1", "web", "r-web", "host-id-1")
	w.place(tb, "p2", "hidden", "r-hidden", "host-id-2")
	w.placeFar(tb)
	up := request("p3", "r-up")
	w.store.Must(tb, command.Hold{
		Stamp: at, ID: "hold-up", Origin: "link-up", Attempt: 1, Request: up, Plan: "plan-up", Expires: api.Forever,
		Slots: []command.Slot{{Instance: api.InstanceSpec{ID: "id-up", Name: "up"}, Host: "host-id-2"}},
	})
	w.store.Must(
		tb,
		command.LinkSet{Stamp: at, ID: "link-west", AZ: new("az1"), Tags: []string{"gpu=cad"}, Headroom: map[api.ResourceClass]int64{api.VCPU: 10}},
		command.BindingSet{Stamp: at, ID: "binding-0", Project: "p1", Link: "link-west", User: "admin"},
		command.BindingSet{Stamp: at, ID: "binding-1", Project: "p1", Link: "link-east", User: "admin"},
		command.BindingSet{Stamp: at, ID: "binding-2", Project: "p2", Key: api.BindingKey{AZ: "az1", Tags: []string{"gpu=cad"}}, Link: "link-west", User: "admin"},
		command.BindingSet{Stamp: at, ID: "binding-3", Project: "p3", Origin: "link-up", Link: "link-east", User: "admin"},
	)
}

// request is a request for one small instance.
func request(p api.ProjectID, r api.ReservationID) api.Request {
	return api.Request{
		Reservation: r, Project: p, User: "somebody", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 1024}}},
	}
}

func (w *world) create(tb testing.TB, p api.ProjectID, name string, r api.ReservationID) command.Hold {
	tb.Helper()
	req, at := request(p, r), w.zone.Stamp()
	spec := api.InstanceSpec{ID: api.InstanceID("id-" + name), Name: name}
	w.store.Must(tb, command.BootCreate{
		Stamp: at, BootTerms: command.BootTerms{
			Digest: []byte(name), Name: name, Request: req, Min: 1, Instances: []api.InstanceSpec{spec},
			Metadata: map[string]string{"tier": "front"},
		},
	})
	return command.Hold{
		Stamp: at, ID: api.HoldID("hold-" + name), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
		Metadata: map[string]string{"tier": "front"}, Outcome: &api.BootAttempt{
			Attempt: 1, Wanted: 1,
			Zones:    []api.ZoneOutcome{{Zone: "root", Outcome: api.OutcomeAnswered, Wanted: 1, Offered: 1}},
			Refusals: []api.Refusals{{Considered: 3, Offering: 2, Filters: []api.FilterCount{{Filter: "capacity", Hosts: 1}}}},
		},
	}
}

// place makes an ACTIVE instance on a host.
func (w *world) place(tb testing.TB, p api.ProjectID, name string, r api.ReservationID, host api.HostID) {
	tb.Helper()
	h := w.create(tb, p, name, r)
	id := api.InstanceID("id-" + name)
	h.Slots = []command.Slot{{Instance: api.InstanceSpec{ID: id, Name: name}, Host: host}}
	w.store.Must(tb, h, command.InstanceReport{Stamp: h.Stamp, Agent: "agent-1", Items: []api.InstanceReport{
		{Host: host, Instance: id, Status: api.StatusActive},
	}})
}

// placeFar makes an instance of p1 in the child east.
func (w *world) placeFar(tb testing.TB) {
	tb.Helper()
	h := w.create(tb, "p1", "far", "r-far")
	h.Parts = []command.Part{{Link: "link-east", Instances: [][]api.InstanceSpec{{{ID: "id-far", Name: "far"}}}}}
	w.store.Must(tb, h, command.HoldParts{Stamp: h.Stamp, ID: h.ID, Answers: []command.PartAnswer{
		{Link: "link-east", Held: []api.InstanceID{"id-far"}, Committed: true},
	}})
}

// call is one request to the public API.
type call struct {
	method, target, token, body string
	head                        map[string]string
}

func (c call) String() string {
	body := c.body
	if len(body) > 100 {
		body = body[:100]
	}
	return c.method + " " + c.target + " " + body
}

// ownToken stands in a target for the id of the token that the call is made with.
const ownToken = "CALLER"

// path returns the target of a call.
func (c call) path() string {
	id, _, _ := strings.Cut(c.token, ":")
	return strings.Replace(c.target, ownToken, cmp.Or(id, "nobody"), 1)
}

func (w *world) do(c call) *httptest.ResponseRecorder {
	c.target = c.path()
	r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range c.head {
		r.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	w.checkDescribed(c, rec)
	return rec
}

// saved returns everything that the state would write to a snapshot but its index, its time
// and the audit log, which has refused changes as well: a line for each record.
func (w *world) saved(tb testing.TB) string {
	tb.Helper()
	var b bytes.Buffer
	require.NoError(tb, w.store.View().Save(&b))
	d := codec.NewDecoder(&b)
	head := map[uint64]any{}
	require.NoError(tb, d.Decode(&head))
	delete(head, 2)
	delete(head, 3)
	text := fmt.Sprintln(head)
	for {
		var item any
		err := d.Decode(&item)
		if errors.Is(err, io.EOF) {
			return auditCount.ReplaceAllString(text, "")
		}
		require.NoError(tb, err)
		if line := fmt.Sprintln(item); !auditRecord.MatchString(line) {
			text += line
		}
	}
}

// What the audit log has in the text of a snapshot.
var (
	auditCount  = regexp.MustCompile(`map\[1:audit( chain)? [^]]*\]`)
	auditRecord = regexp.MustCompile(`^map\[1:\d+ 2:\d+ 3:\d+ 4:map\[1:(token|zone|node|join)`)
)

// refused makes a call that must be refused so, and must change nothing. Says is
// part of the sentence.
func (w *world) refused(tb testing.TB, c call, code api.Code, says string) {
	tb.Helper()
	before, did := w.saved(tb), len(w.auth.did)
	rec := w.do(c)
	var b api.ErrorBody
	d := json.NewDecoder(rec.Body)
	d.DisallowUnknownFields()
	require.NoError(tb, d.Decode(&b), "%s", c)
	assert.Equal(tb, code.HTTPStatus(), rec.Code, "%s: %s", c, b.Error.Message)
	assert.Equal(tb, code, b.Error.Code, "%s: %s", c, b.Error.Message)
	assert.Contains(tb, b.Error.Message, says, "%s", c)
	assert.NotEmpty(tb, b.Error.Message, "%s", c)
	assert.NotEmpty(tb, b.Error.RequestID, "%s", c)
	assert.Equal(tb, rec.Header().Get(api.HeaderRequestID), string(b.Error.RequestID), "%s", c)
	assert.Equal(tb, "application/json", rec.Header().Get("Content-Type"))
	assert.Equal(tb, before, w.saved(tb), "%s changed the state", c)
	assert.Len(tb, w.auth.did, did, "%s was done", c)
}

// answered makes a call that must be answered with a status, and reads the
// answer into v unless it is nil.
func (w *world) answered(tb testing.TB, c call, status int, v any) *httptest.ResponseRecorder {
	tb.Helper()
	rec := w.do(c)
	require.Equal(tb, status, rec.Code, "%s: %s", c, rec.Body)
	if v != nil {
		require.NoError(tb, json.Unmarshal(rec.Body.Bytes(), v), "%s", c)
	}
	return rec
}

// unconfirmed says that the zone east was brought back from a backup, from its second incarnation on.
func (w *world) unconfirmed(l *api.Link) api.Incarnation {
	if l.Name == "east" {
		return w.returned
	}
	return 0
}

// skewOf is what is known of the clock of a linked zone.
func skewOf(l *api.Link) (skew.Skew, bool) {
	return skew.Skew{Ahead: -2 * time.Second, Error: time.Millisecond}, l.Name == "east"
}
