package native

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/internal/dice"
	"berth/raftstore/command"
)

// row is what the contract says of one route: a good call, who may make it, and
// the status of its answer.
type row struct {
	target, body string
	role         api.UserRole // "" for everybody
	status       int
	leader       bool   // only the leader answers
	lost         bool   // it is about host-3 or what is on host-1, when these are down
	asks         bool   // it proposes nothing, and needs the leader for what only that one knows
	disk         bool   // it is about the volume id-disk
	paused       bool   // it is about the zone west, when that is paused
	name         string // of the route; set by eachRoute
}

// of makes the world as a row wants it.
func (r row) of(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if r.disk {
		w.makeDisk(t)
	}
	if r.lost {
		w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), State: api.HostDown, Hosts: []api.HostID{"host-id-1", "host-id-3"}})
	}
	if r.paused {
		w.store.Must(t, command.LinkSet{Stamp: w.zone.Stamp(), ID: "link-west", State: new(api.LinkPaused)})
	}
	return w
}

const one = `{"server":{"name":"a","flavorRef":"small"}}`

// rows has every route of the public API.
var rows = map[string]row{
	"GET /":               {target: "/", status: 200},
	"POST /operator/join": {target: "/operator/join", body: `{"token":"t","csr":"AA=="}`, status: 200, leader: true},

	"GET /tokens":         {target: "/tokens", role: api.RoleReader, status: 200},
	"DELETE /tokens/{id}": {target: "/tokens/" + ownToken, role: api.RoleReader, status: 204, leader: true},

	"POST /zones/select":      {target: "/zones/select", body: one, role: api.RoleMember, status: 200},
	"POST /zones/boot":        {target: "/zones/boot", body: one, role: api.RoleMember, status: 202, leader: true},
	"GET /zones/boot":         {target: "/zones/boot", role: api.RoleReader, status: 200},
	"GET /zones/boot/{id}":    {target: "/zones/boot/r-web", role: api.RoleReader, status: 200},
	"DELETE /zones/boot/{id}": {target: "/zones/boot/r-web", role: api.RoleMember, status: 202, leader: true},

	"POST /servers": {
		target: "/servers", body: `{"server":{"name":"a","flavorRef":"small","return_reservation_id":true}}`,
		role: api.RoleMember, status: 202, leader: true,
	},
	"GET /servers":         {target: "/servers", role: api.RoleReader, status: 200},
	"GET /servers/detail":  {target: "/servers/detail", role: api.RoleReader, status: 200},
	"GET /servers/{id}":    {target: "/servers/id-web", role: api.RoleReader, status: 200},
	"DELETE /servers/{id}": {target: "/servers/id-web", role: api.RoleMember, status: 204, leader: true},

	"GET /servers/{id}/output":   {target: "/servers/id-far/output", role: api.RoleReader, status: 200, leader: true, asks: true},
	"POST /servers/{id}/stop":    {target: "/servers/id-web/stop", role: api.RoleMember, status: 202, leader: true},
	"POST /servers/{id}/start":   {target: "/servers/id-web/start", role: api.RoleMember, status: 202, leader: true},
	"POST /servers/{id}/restart": {target: "/servers/id-web/restart", role: api.RoleMember, status: 202, leader: true},

	"POST /servers/{id}/write-off": {target: "/servers/id-web/write-off", body: `{}`, role: api.RoleAdmin, status: 200, leader: true, lost: true},

	"POST /volumes": {
		target: "/volumes", body: `{"volume":{"name":"a","size":1,"return_reservation_id":true}}`, role: api.RoleMember, status: 202, leader: true,
	},
	"POST /volumes/{id}/write-off": {target: "/volumes/id-disk/write-off", body: `{}`, role: api.RoleAdmin, status: 200, leader: true, lost: true, disk: true},

	"GET /volumes":         {target: "/volumes", role: api.RoleReader, status: 200},
	"GET /volumes/{id}":    {target: "/volumes/id-disk", role: api.RoleReader, status: 200, disk: true},
	"DELETE /volumes/{id}": {target: "/volumes/id-disk", role: api.RoleMember, status: 204, leader: true, disk: true},
	"POST /volumes/{id}/attach": {
		target: "/volumes/id-disk/attach", body: `{"server_id":"id-web"}`, role: api.RoleMember, status: 204, leader: true, disk: true,
	},
	"POST /volumes/{id}/detach": {target: "/volumes/id-disk/detach", role: api.RoleMember, status: 204, leader: true, disk: true},

	"GET /flavors":         {target: "/flavors", role: api.RoleReader, status: 200},
	"GET /flavors/detail":  {target: "/flavors/detail", role: api.RoleReader, status: 200},
	"POST /flavors":        {target: "/flavors", body: `{"flavor":{"name":"f","vcpus":1}}`, role: api.RoleAdmin, status: 201, leader: true},
	"GET /flavors/{id}":    {target: "/flavors/small", role: api.RoleReader, status: 200},
	"PUT /flavors/{id}":    {target: "/flavors/small", body: `{"flavor":{"vcpus":2}}`, role: api.RoleAdmin, status: 200, leader: true},
	"DELETE /flavors/{id}": {target: "/flavors/small", role: api.RoleAdmin, status: 204, leader: true},

	"GET /zones":         {target: "/zones", role: api.RoleReader, status: 200},
	"GET /zones/detail":  {target: "/zones/detail", role: api.RoleReader, status: 200},
	"GET /zones/info":    {target: "/zones/info", role: api.RoleReader, status: 200},
	"POST /zones":        {target: "/zones", body: `{"zone":{"name":"south"}}`, role: api.RoleAdmin, status: 201, leader: true},
	"POST /zones/link":   {target: "/zones/link", body: `{"token":"t"}`, role: api.RoleAdmin, status: 201, leader: true},
	"GET /zones/{id}":    {target: "/zones/east", role: api.RoleReader, status: 200},
	"PUT /zones/{id}":    {target: "/zones/east", body: `{"zone":{"state":"paused"}}`, role: api.RoleAdmin, status: 200, leader: true},
	"DELETE /zones/{id}": {target: "/zones/west", role: api.RoleAdmin, status: 204, leader: true},

	"POST /zones/{id}/plan-maintenance": {target: "/zones/east/plan-maintenance", body: `{}`, role: api.RoleAdmin, status: 200, leader: true, asks: true},
	"POST /zones/{id}/relink":           {target: "/zones/west/relink", body: `{"incarnation": 1800000000}`, role: api.RoleAdmin, status: 200, leader: true},
	"POST /zones/{id}/write-off":        {target: "/zones/west/write-off", body: `{}`, role: api.RoleAdmin, status: 200, leader: true, paused: true},

	"GET /bindings":            {target: "/bindings", role: api.RoleAdmin, status: 200},
	"POST /bindings":           {target: "/bindings", body: `{"binding":{"project_id":"p9","zone":"east"}}`, role: api.RoleAdmin, status: 200, leader: true},
	"GET /bindings/{id}":       {target: "/bindings/binding-0", role: api.RoleAdmin, status: 200},
	"DELETE /bindings/{id}":    {target: "/bindings/binding-1", role: api.RoleAdmin, status: 204, leader: true},
	"POST /bindings/{id}/move": {target: "/bindings/binding-1/move", body: `{"zone":"west"}`, role: api.RoleAdmin, status: 200, leader: true},

	"GET /hosts":         {target: "/hosts", role: api.RoleAdmin, status: 200},
	"GET /hosts/{id}":    {target: "/hosts/host-1", role: api.RoleAdmin, status: 200},
	"PUT /hosts/{id}":    {target: "/hosts/host-1", body: `{"host":{"enabled":false}}`, role: api.RoleAdmin, status: 200, leader: true},
	"DELETE /hosts/{id}": {target: "/hosts/host-id-3", role: api.RoleAdmin, status: 204, leader: true},

	"POST /hosts/{id}/drain": {
		target: "/hosts/host-1/drain", body: `{"policy":"move","reason":"new disk"}`, role: api.RoleAdmin, status: 202, leader: true,
	},
	"POST /hosts/plan-drain":     {target: "/hosts/plan-drain", body: `{"hosts":["host-1"]}`, role: api.RoleAdmin, status: 200, leader: true, asks: true},
	"DELETE /hosts/{id}/drain":   {target: "/hosts/host-1/drain", role: api.RoleAdmin, status: 200, leader: true},
	"GET /hosts/{id}/evacuation": {target: "/hosts/host-3/evacuation", role: api.RoleAdmin, status: 200, leader: true, lost: true, asks: true},

	"POST /hosts/{id}/write-off": {target: "/hosts/host-3/write-off", body: `{}`, role: api.RoleAdmin, status: 200, leader: true, lost: true},

	"GET /events": {target: "/events?follow=false", role: api.RoleReader, status: 200},
	"POST /webhooks": {
		target: "/webhooks", body: `{"webhook":{"name":"b","url":"https://example.org/"}}`, role: api.RoleMember, status: 201, leader: true,
	},
	"GET /webhooks":              {target: "/webhooks", role: api.RoleReader, status: 200},
	"GET /webhooks/{id}":         {target: "/webhooks/pager", role: api.RoleReader, status: 200},
	"DELETE /webhooks/{id}":      {target: "/webhooks/pager", role: api.RoleMember, status: 204, leader: true},
	"POST /webhooks/{id}/resume": {target: "/webhooks/pager/resume", role: api.RoleMember, status: 200, leader: true},

	"GET /explain/{id}": {target: "/explain/r-web", role: api.RoleReader, status: 200},

	"GET /server-groups": {target: "/server-groups", role: api.RoleReader, status: 200},
	"POST /server-groups": {
		target: "/server-groups", body: `{"server_group":{"name":"b","policy":"affinity"}}`, role: api.RoleMember, status: 201, leader: true,
	},
	"GET /server-groups/{id}":    {target: "/server-groups/apart", role: api.RoleReader, status: 200},
	"DELETE /server-groups/{id}": {target: "/server-groups/apart", role: api.RoleMember, status: 204, leader: true},

	"GET /availability-zones": {target: "/availability-zones", role: api.RoleReader, status: 200},
	"GET /capacity":           {target: "/capacity", role: api.RoleAdmin, status: 200},

	"GET /aggregates":         {target: "/aggregates", role: api.RoleAdmin, status: 200},
	"POST /aggregates":        {target: "/aggregates", body: `{"aggregate":{"name":"b"}}`, role: api.RoleAdmin, status: 201, leader: true},
	"GET /aggregates/{id}":    {target: "/aggregates/rack1", role: api.RoleAdmin, status: 200},
	"PUT /aggregates/{id}":    {target: "/aggregates/rack1", body: `{"aggregate":{"hosts":[]}}`, role: api.RoleAdmin, status: 200, leader: true},
	"DELETE /aggregates/{id}": {target: "/aggregates/rack1", role: api.RoleAdmin, status: 204, leader: true},

	"GET /quotas":         {target: "/quotas", role: api.RoleReader, status: 200},
	"PUT /quotas":         {target: "/quotas", body: `{"limits":{"hosts":2}}`, role: api.RoleAdmin, status: 200, leader: true},
	"GET /quotas/{id}":    {target: "/quotas/p1", role: api.RoleReader, status: 200},
	"PUT /quotas/{id}":    {target: "/quotas/p1", body: `{"limits":{"hosts":2}}`, role: api.RoleAdmin, status: 200, leader: true},
	"DELETE /quotas/{id}": {target: "/quotas/p1", role: api.RoleAdmin, status: 204, leader: true},

	"GET /operator/scheduler": {target: "/operator/scheduler", role: api.RoleAdmin, status: 200},
	"PUT /operator/scheduler": {
		target: "/operator/scheduler", body: `{"scheduler":{"filters":[],"costs":[{"name":"spread","weight":2}]}}`,
		role: api.RoleAdmin, status: 200, leader: true,
	},

	"GET /operator/members":         {target: "/operator/members", role: api.RoleAdmin, status: 200},
	"DELETE /operator/members/{id}": {target: "/operator/members/node-1", role: api.RoleAdmin, status: 204, leader: true},
	"POST /operator/transfer":       {target: "/operator/transfer", body: `{"to":"node-1"}`, role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/snapshot":        {target: "/operator/snapshot", role: api.RoleAdmin, status: 200, leader: true},
	"PUT /operator/snapshot":        {target: "/operator/snapshot", body: "state", role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/audit":           {target: "/operator/audit", role: api.RoleAdmin, status: 200, leader: true, asks: true},
	"GET /operator/tokens":          {target: "/operator/tokens", role: api.RoleAdmin, status: 200},
	"POST /operator/tokens": {
		target: "/operator/tokens", body: `{"user_id":"u","project_id":"p","roles":["reader"]}`,
		role: api.RoleAdmin, status: 201, leader: true,
	},
	"DELETE /operator/tokens/{id}": {target: "/operator/tokens/late", role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/roles":          {target: "/operator/roles", role: api.RoleAdmin, status: 200},
	"PUT /operator/roles/{id}":     {target: "/operator/roles/deployer", body: `{"role":{"allow":["boots:write"]}}`, role: api.RoleAdmin, status: 200, leader: true},
	"DELETE /operator/roles/{id}":  {target: "/operator/roles/idle", role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/agents":         {target: "/operator/agents", role: api.RoleAdmin, status: 200, leader: true, asks: true},
	"DELETE /operator/agents/{id}": {target: "/operator/agents/agent-1", role: api.RoleAdmin, status: 204, leader: true},
	"POST /operator/join-tokens": {
		target: "/operator/join-tokens", body: `{"kind":"agent","name":"a"}`, role: api.RoleAdmin, status: 201, leader: true,
	},
	"GET /operator/config":          {target: "/operator/config", role: api.RoleAdmin, status: 200},
	"PUT /operator/config":          {target: "/operator/config", body: `{"config":{"tags":["ssd"]}}`, role: api.RoleAdmin, status: 200, leader: true},
	"POST /operator/keyring/rotate": {target: "/operator/keyring/rotate", role: api.RoleAdmin, status: 204, leader: true},
	"POST /operator/kek/rotate":     {target: "/operator/kek/rotate", role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/ca":              {target: "/operator/ca", role: api.RoleAdmin, status: 200, leader: true},
	"POST /operator/ca/rotate":      {target: "/operator/ca/rotate", body: `{"certificate":"c","key":"k"}`, role: api.RoleAdmin, status: 204, leader: true},
	"POST /operator/ca/use":         {target: "/operator/ca/use", body: `{"force":true}`, role: api.RoleAdmin, status: 204, leader: true},
	"POST /operator/ca/finish":      {target: "/operator/ca/finish", body: `{}`, role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/upgrade":         {target: "/operator/upgrade", role: api.RoleAdmin, status: 200, leader: true},
	"POST /operator/upgrade/finish": {target: "/operator/upgrade/finish", role: api.RoleAdmin, status: 204, leader: true},
	"GET /operator/holds":           {target: "/operator/holds", role: api.RoleAdmin, status: 200},
	"POST /operator/holds/{id}":     {target: "/operator/holds/hold-up", body: `{"decision":"abort"}`, role: api.RoleAdmin, status: 204, leader: true},
}

// routes returns every call of the public API, with the kind of read it makes.
func routes() []door.Route {
	var out []door.Route
	for _, r := range rest.Routes() {
		out = append(out, door.Route{Method: r.Method, Path: r.Path, Read: r.Read})
	}
	return out
}

// eachRoute calls visit for every route that the router itself knows.
func eachRoute(t *testing.T, visit func(t *testing.T, method string, r row)) {
	t.Helper()
	seen := map[string]bool{}
	err := chi.Walk(newWorld(t).Handler.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		name := method + " " + route
		require.True(t, slices.ContainsFunc(routes(), func(r door.Route) bool { return r.Method == method && r.Path == route }), "%s says not which read it makes", name)
		r, ok := rows[name]
		require.True(t, ok, "%s has no row here: say who may call it", name)
		seen[name], r.name = true, name
		t.Run(name, func(t *testing.T) { visit(t, method, r) })
		return nil
	})
	require.NoError(t, err)
	for name := range rows {
		assert.True(t, seen[name], "%s is not a route any more", name)
	}
}

// TestEveryRouteHasAHandler: the table of routes and the handlers have the same names.
func TestEveryRouteHasAHandler(t *testing.T) {
	left := maps.Clone(handlers)
	for _, r := range rest.Routes() {
		assert.NotNil(t, handlers[r.Name()], "%s has no handler", r.Name())
		delete(left, r.Name())
	}
	assert.Empty(t, left, "handlers of no route")
}

// rank orders the roles; everybody is 0.
var rank = map[api.UserRole]int{api.RoleReader: 1, api.RoleMember: 2, api.RoleAdmin: 3}

func TestEveryRouteAdmitsItsRolesAlone(t *testing.T) {
	type caller struct {
		name, token string
		role        api.UserRole
	}
	callers := dice.Part(t, []caller{
		{"no token", "", ""},
		{"malformed token", "berth", ""},
		{"unknown token", "nobody:s", ""},
		{"wrong secret", "admin:x", ""},
		{"expired token", late, ""},
		{"reader", reader, api.RoleReader},
		{"member", member, api.RoleMember},
		{"admin", admin, api.RoleAdmin},
	}, 4)
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		for _, c := range callers {
			w := r.of(t)
			one := call{method: method, target: r.target, token: c.token, body: r.body}
			switch {
			case rank[c.role] >= rank[r.role]:
				rec := w.answered(t, one, r.status, nil)
				assert.NotEmpty(t, rec.Header().Get(api.HeaderIndex), c.name)
				assert.NotEmpty(t, rec.Header().Get(api.HeaderRequestID), c.name)
			case c.role == "":
				w.refused(t, one, api.CodeUnauthenticated, "valid token")
			default:
				w.refused(t, one, api.CodeForbidden, "needs the role "+string(r.role))
			}
		}
	})
}

func TestAFollowerForwardsWhatTheLeaderMustAnswer(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		w := r.of(t)
		w.follower = true
		before := w.saved(t)
		one := call{method: method, target: r.target, token: admin, body: r.body}
		rec := w.do(one)
		assert.Equal(t, before, w.saved(t), "a follower changes nothing itself")
		assert.Empty(t, w.auth.did)
		if r.leader {
			assert.Equal(t, http.StatusTeapot, rec.Code)
			assert.Equal(t, []string{method + " " + one.path()}, w.forwarded)
			return
		}
		assert.Equal(t, r.status, rec.Code)
		assert.Empty(t, w.forwarded)
	})
}

func TestAFollowerAsksTheLeaderAboutATokenThatItDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	w.follower = true
	list := func(token string) call { return call{method: "GET", target: "/servers", token: token} }
	assert.Equal(t, http.StatusTeapot, w.do(list("brandnew:s")).Code)
	assert.Len(t, w.forwarded, 1)
	for _, token := range []string{"", "malformed", "admin:x", late} {
		w.refused(t, list(token), api.CodeUnauthenticated, "")
	}
	assert.Len(t, w.forwarded, 1)
}

func TestEveryWritingRouteIsForTheLeader(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		if method != http.MethodGet && r.target != "/zones/select" {
			assert.True(t, r.leader)
		}
	})
}

func TestWhatIsNotARoute(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/nothing", "/operator/nothing", "/servers/a/b", "//"} {
		w.refused(t, call{method: "GET", target: target, token: admin}, api.CodeNotFound, "there is nothing at")
	}
	for _, c := range []call{
		{method: "PATCH", target: "/hosts/host-1"},
		{method: "DELETE", target: "/operator/config"},
		{method: "PUT", target: "/"},
		{method: "GET", target: "/zones/select"},
		{method: "GET", target: "/operator/join"},
	} {
		want := api.CodeMethod
		if c.target == "/zones/select" { // a zone might be called so
			want = api.CodeNotFound
		}
		c.token = admin
		w.refused(t, c, want, "")
	}
	for target, allow := range map[string]string{
		"/hosts/host-1": "GET, PUT, DELETE", "/operator/config": "GET, PUT", "/": "GET", "/operator/join": "POST", "/zones/select": "GET, POST, PUT, DELETE",
	} {
		assert.Equal(t, allow, w.do(call{method: "PATCH", target: target, token: admin}).Header().Get("Allow"), target)
	}
}

func TestATokenMayComeInAnotherHeader(t *testing.T) {
	w := newWorld(t)
	w.answered(t, call{method: "GET", target: "/servers", head: map[string]string{"X-Auth-Token": reader}}, 200, nil)
	w.refused(t, call{method: "GET", target: "/servers", head: map[string]string{"X-Auth-Token": "x"}}, api.CodeUnauthenticated, "")
	w.refused(t, call{method: "GET", target: "/servers", head: map[string]string{"Authorization": "Basic " + reader}}, api.CodeUnauthenticated, "")
	basic := func(password string) map[string]string {
		return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+password))}
	}
	w.answered(t, call{method: "GET", target: "/servers", head: basic(reader)}, 200, nil)
	w.refused(t, call{method: "GET", target: "/servers", head: basic("x")}, api.CodeUnauthenticated, "")
	rec := w.do(call{method: "GET", target: "/servers"})
	assert.Contains(t, rec.Header().Get("WWW-Authenticate"), "Bearer")
}

func TestOnlyADevelopersZoneAsksForNoToken(t *testing.T) {
	w := newWorld(t)
	h := New(Config{Authority: w.auth, Digests: gossip{}, Door: door.Config{
		Zone: w.zone, Tokens: tokens{}, Now: w.now, Insecure: true, Leader: func() bool { return true },
	}})
	w.Handler = h
	var got struct{ Hosts []json.RawMessage }
	w.answered(t, call{method: "GET", target: "/hosts"}, 200, &got)
	assert.Len(t, got.Hosts, 3)
}

func TestALeaderThatCannotCommitSaysSo(t *testing.T) {
	noQuorum := api.Errorf(api.CodeUnavailable, "no quorum")
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		if r.leader && !r.asks {
			w := r.of(t)
			w.auth.fail = noQuorum
			w.store.Fail(noQuorum)
			c := call{method: method, target: r.target, token: admin, body: r.body}
			w.refused(t, c, api.CodeUnavailable, "no quorum")
			assert.Equal(t, "1", w.do(c).Header().Get("Retry-After"))
		}
	})
}

// TestWhatNamesNothingIsNotLogged: a call that would change or end what is not there
// leaves the log as it is, on every route that names something.
func TestWhatNamesNothingIsNotLogged(t *testing.T) {
	for name, r := range rows {
		method, route, _ := strings.Cut(name, " ")
		if !r.leader || method == http.MethodGet || !strings.Contains(route, "{id}") || strings.Contains(route, "members") || name == "PUT /quotas/{id}" || name == "PUT /operator/roles/{id}" {
			continue // members are for the authority; projects have no record of their own; a role is made so
		}
		t.Run(name, func(t *testing.T) {
			w := r.of(t)
			before := w.store.View().Index()
			c := call{method: method, target: strings.Replace(route, "{id}", "nobody", 1), token: admin, body: r.body}
			w.refused(t, c, api.CodeNotFound, "")
			assert.Equal(t, before, w.store.View().Index())
		})
	}
}

// unaudited has the routes that change something and leave no record in the audit log, and why.
var unaudited = map[string]string{
	"POST /zones/select":      estimates,
	"POST /zones/boot":        ownWork,
	"DELETE /zones/boot/{id}": ownWork,

	"POST /servers":              ownWork,
	"DELETE /servers/{id}":       ownWork,
	"POST /servers/{id}/stop":    ownWork,
	"POST /servers/{id}/start":   ownWork,
	"POST /servers/{id}/restart": ownWork,
	"POST /volumes":              ownWork,
	"DELETE /volumes/{id}":       ownWork,
	"POST /volumes/{id}/attach":  ownWork,
	"POST /volumes/{id}/detach":  ownWork,
	"POST /server-groups":        ownWork,
	"DELETE /server-groups/{id}": ownWork,
	"POST /webhooks":             ownWork,
	"DELETE /webhooks/{id}":      ownWork,
	"POST /webhooks/{id}/resume": ownWork,

	"POST /operator/transfer":       "who leads is in the log of Raft alone",
	"POST /zones":                   byAuthority,
	"POST /zones/link":              byAuthority,
	"POST /zones/{id}/relink":       byAuthority,
	"DELETE /operator/members/{id}": byAuthority,
	"PUT /operator/snapshot":        byAuthority,
	"POST /operator/tokens":         byAuthority,
	"POST /operator/join-tokens":    byAuthority,
	"POST /operator/join":           byAuthority,
	"POST /operator/keyring/rotate": byAuthority,
	"POST /operator/kek/rotate":     byAuthority,
	"POST /operator/ca/rotate":      byAuthority,
	"POST /operator/ca/use":         byAuthority,
	"POST /operator/ca/finish":      byAuthority,
	"POST /operator/upgrade/finish": byAuthority,
}

// Reasons why a route leaves no record in the audit log here.
const (
	estimates   = "it changes nothing but a plan"
	ownWork     = "a project's own work, with its owner in its own records and events"
	byAuthority = "the authority of this test proposes nothing; the commands of a real one are recorded, see node TestAuditOfAZone"
)

// TestEveryChangeIsAudited: each route that changes something leaves a record of its caller,
// call and request id in the audit log, or is excluded by name.
func TestEveryChangeIsAudited(t *testing.T) {
	for _, route := range rest.Routes() {
		name := route.Name()
		r, known := rows[name]
		if route.Method == http.MethodGet || !known || r.asks {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := r.of(t)
			method, _, _ := strings.Cut(name, " ")
			c := call{method: method, target: r.target, token: admin, body: r.body}
			require.Equal(t, r.status, w.do(c).Code)
			records, _ := w.store.View().Audit()
			if why, excluded := unaudited[name]; excluded {
				assert.Empty(t, records, "excluded because: %s", why)
				return
			}
			require.NotEmpty(t, records, "no record of this call, and no reason why")
			for _, one := range records {
				assert.Equal(t, api.ActorToken, one.Actor.Kind)
				assert.NotEmpty(t, one.Actor.ID)
				assert.NotEmpty(t, one.Request)
				path, _, _ := strings.Cut(c.path(), "?")
				assert.Equal(t, method+" "+path, one.Call)
			}
		})
	}
}
