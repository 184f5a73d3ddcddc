package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fakeZone answers like a zone, out of a table of routes. A route is a method
// and a path; each call of it takes the next of its answers, and the last one
// stays. In virtual time it is called without a network.
type fakeZone struct {
	*httptest.Server
	mu     sync.Mutex
	routes map[string][]answer
	seen   []seen
}

// answer is one answer of a route.
type answer struct {
	status int
	body   string
	do     func() // beforehand; nil for nothing
}

// seen is one call that the zone got.
type seen struct {
	call, body, token, key string
}

func newFakeZone(t *testing.T) *fakeZone {
	t.Helper()
	z := &fakeZone{routes: map[string][]answer{}}
	for route, body := range canned {
		z.on(route, answer{status: statusOf(route), body: body})
	}
	for route, body := range cannedLeases {
		z.on(route, answer{status: statusOfLeases(route), body: body})
	}
	for route, body := range cannedPlacement {
		status := http.StatusOK
		if body == "" {
			status = http.StatusNoContent
		}
		z.on(route, answer{status: status, body: body})
	}
	if virtual() {
		z.Server = &httptest.Server{URL: fmt.Sprint("http://127.0.0.1:", zonesMade.Add(1))}
		zonesInMemory.Store(strings.TrimPrefix(z.URL, "http://"), z)
	} else {
		z.Server = httptest.NewServer(z)
	}
	t.Cleanup(z.Close)
	return z
}

// zonesInMemory are the zones of virtual time by their addresses, at which nobody listens.
var (
	zonesInMemory sync.Map
	zonesMade     atomic.Int64
)

// virtual reports whether the caller is in a bubble, whose clock begins in 2000.
func virtual() bool { return time.Now().Year() < 2020 }

// Close ends the zone: nobody reaches it any more.
func (z *fakeZone) Close() {
	zonesInMemory.Delete(strings.TrimPrefix(z.URL, "http://"))
	if z.Listener != nil {
		z.Server.Close()
	}
}

// memory calls zones of virtual time.
type memory struct{}

func (memory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	z, ok := zonesInMemory.Load(r.URL.Host)
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	z.(*fakeZone).ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func statusOf(route string) int {
	switch method, path, _ := strings.Cut(route, " "); {
	case canned[route] == "":
		return http.StatusNoContent
	case method == http.MethodPost && !strings.HasSuffix(path, "/select"):
		return http.StatusCreated
	}
	return http.StatusOK
}

// on sets the answers of a route.
func (z *fakeZone) on(route string, answers ...answer) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.routes[route] = answers
}

func (z *fakeZone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	z.mu.Lock()
	route := r.Method + " " + r.URL.Path
	z.seen = append(z.seen, seen{
		call: r.Method + " " + r.URL.RequestURI(), body: string(body),
		token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), key: r.Header.Get("Idempotency-Key"),
	})
	a := answer{status: http.StatusNotFound, body: refusalOf("not_found", "there is nothing at "+r.URL.Path)}
	if next := z.routes[route]; len(next) > 0 {
		a = next[0]
		if len(next) > 1 {
			z.routes[route] = next[1:]
		}
	}
	z.mu.Unlock()
	if a.do != nil {
		a.do()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	if a.status != http.StatusNoContent {
		_, _ = io.WriteString(w, a.body)
	}
}

// asked returns the calls of one method and path prefix, such as "POST /zones".
func (z *fakeZone) asked(prefix string) []seen {
	z.mu.Lock()
	defer z.mu.Unlock()
	var out []seen
	for _, s := range z.seen {
		if strings.HasPrefix(s.call, prefix) {
			out = append(out, s)
		}
	}
	return out
}

func refusalOf(code, message string) string {
	return `{"error": {"code": "` + code + `", "message": "` + message + `", "request_id": "req-1"}}`
}

// result is the result of one command line.
type result struct {
	out, errOut string
	exit        int
}

// berth runs one command line against z, with a token in the environment.
func (z *fakeZone) berth(ctx context.Context, args ...string) result {
	return berth(ctx, map[string]string{"BERTH_ADDR": z.URL, "BERTH_TOKEN": "berth_id_env"}, "", args...)
}

func berth(ctx context.Context, environ map[string]string, in string, args ...string) result {
	var out, errOut bytes.Buffer
	getenv := func(k string) string { return environ[k] }
	p := Program{In: strings.NewReader(in), Out: &out, ErrOut: &errOut, Getenv: getenv, Now: time.Now, Version: "dev"}
	run := p.Run
	if virtual() {
		e := newEnv(getenv, p.In, &out, &errOut)
		e.version, e.now, e.http = p.Version, p.Now, &http.Client{Transport: memory{}}
		run = e.executeArgs
	}
	err := run(ctx, args)
	exit := ReportError(&errOut, err)
	return result{out.String(), errOut.String(), exit}
}

// onTerminal runs one command line as a person at a terminal would, who types in.
func (z *fakeZone) onTerminal(ctx context.Context, in string, args ...string) result {
	var out, errOut bytes.Buffer
	environ := map[string]string{"BERTH_ADDR": z.URL}
	e := newEnv(func(k string) string { return environ[k] }, strings.NewReader(in), &out, &errOut)
	e.inTTY, e.errTTY, e.now = true, true, time.Now
	if virtual() {
		e.http = &http.Client{Transport: memory{}}
	}
	exit := ReportError(&errOut, e.executeArgs(ctx, args))
	return result{out.String(), errOut.String(), exit}
}

// boot returns the answer that shows a boot in a state.
func bootIn(state string) answer {
	return answer{status: http.StatusOK, body: strings.Replace(canned["GET /zones/boot/r-1"], `"state": "ACTIVE"`, `"state": "`+state+`"`, 1)}
}

// canned has the zone's default answers.
var canned = map[string]string{
	"POST /zones/boot": `{"reservation_id": "r-1"}`,
	"GET /zones/boot": `{"boots": [{"reservation_id": "r-1", "name": "web", "project_id": "p", "user_id": "u", "flavor": "small",
		"min_count": 2, "max_count": 4, "state": "DEGRADED", "attempts": [], "instances": {"ACTIVE": 3, "ERROR": 1}, "zones": [],
		"created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z", "index": 9}]}`,
	"GET /zones/boot/r-2": `{"boot": {"reservation_id": "r-2", "name": "batch", "project_id": "p", "user_id": "u", "flavor": "small",
		"min_count": 1, "max_count": 2, "state": "BUILDING", "attempts": [], "instances": {"DELETED": 2}, "zones": [], "index": 9,
		"created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z", "preemptible": true, "preemptible_by": "flavor", "on_preempt": "requeue",
		"requeue": {"instances": 1, "since": "2026-06-01T12:00:05.000Z", "tries": 2, "next": "2026-06-01T12:01:00.000Z"}}}`,
	"GET /zones/boot/r-1": `{"boot": {"reservation_id": "r-1", "name": "web", "project_id": "p", "user_id": "u", "flavor": "small",
		"min_count": 2, "max_count": 5, "state": "ACTIVE",
		"attempts": [{"attempt": 1, "wanted": 5, "held": 3, "refused": 1, "short": 1,
			"zones": [{"zone": "home", "outcome": "answered", "wanted": 5, "offered": 1, "short": 4},
				{"zone": "west", "outcome": "answered", "wanted": 5, "offered": 3, "short": 2},
				{"zone": "east", "outcome": "late", "reason": "no answer within 5s", "wanted": 5, "offered": 0, "short": 5}],
			"refusals": [{"considered": 4, "offering": 1, "filters": [{"filter": "enabled", "hosts": 1}, {"filter": "capacity", "hosts": 2}]}]}],
		"instances": {"ACTIVE": 2, "ERROR": 1}, "zones": [{"zone": "home", "instances": {"ACTIVE": 1}}, {"zone": "west", "instances": {"ACTIVE": 1, "ERROR": 1}}],
		"created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z", "index": 9}}`,
	"DELETE /zones/boot/r-1": `{"boot": {"reservation_id": "r-1", "name": "web", "state": "RELEASING"}}`,
	"POST /zones/select": `{"reservation_id": "r-1", "weights": [[0, 0, 1, 2, 3, 5, 8, 13, 21, 34]], "blob": "c2VhbGVk", "expires_in_ms": 60000,
		"zones": [{"zone": "home", "outcome": "answered", "wanted": 10, "offered": 10, "short": 0, "taken": 7, "cost": 20},
			{"zone": "west", "outcome": "answered", "wanted": 10, "offered": 5, "short": 5, "taken": 3, "cost": 68,
				"refusals": [{"considered": 9, "offering": 4, "filters": [{"filter": "traits", "hosts": 5, "tier": "never_fits"}], "advice": [{"change": "count", "value": 4}]}]}],
		"refusals": [{"considered": 3, "offering": 2, "filters": [{"filter": "capacity", "hosts": 1, "tier": "not_now"}]}], "request_id": "req-7"}`,
	"GET /explain/r-1": `{"explanation": {"request_id": "req-7", "reservation_id": "r-1", "project_id": "p", "zone": "home", "at": "2026-06-01T12:00:00.000Z",
		"state": "FAILED", "reason": "no_capacity: 3 of 5 could be had, 5 are needed", "groups": [
			{"name": "web", "flavor": "small", "wanted": 3, "offered": 3, "refusals": {"considered": 4, "offering": 4}},
			{"name": "db", "flavor": "big", "wanted": 2, "offered": 0, "refusals": {"considered": 9, "offering": 0, "filters": [
				{"filter": "host_state", "hosts": 1, "tier": "not_now", "hosts_by_name": ["h1"]}, {"filter": "traits", "hosts": 2, "tier": "never_fits", "hosts_by_name": ["h2", "h3"]},
				{"filter": "size", "hosts": 2, "tier": "never_fits"}, {"filter": "pool", "hosts": 1, "tier": "not_allowed"}, {"filter": "query", "hosts": 1, "tier": "not_asked"},
				{"filter": "units", "hosts": 1, "tier": "invalid"}, {"filter": "new", "hosts": 1}],
				"advice": [{"change": "count", "value": 1}, {"change": "amount", "resource_class": "VCPU", "value": 4}, {"change": "zone", "name": "west"}, {"change": "drop", "name": "traits"}]}}],
		"zones": [{"zone": "home", "outcome": "answered", "wanted": 5, "offered": 3, "short": 2, "taken": 0, "cost": 0},
			{"zone": "west", "outcome": "late", "reason": "no answer in time", "wanted": 5, "offered": 0, "short": 5, "taken": 0, "cost": 0}]}}`,
	"GET /server-groups":                `{"server_groups": [` + cannedGroup + `]}`,
	"GET /server-groups/apart":          `{"server_group": ` + cannedGroup + `}`,
	"POST /server-groups":               `{"server_group": ` + cannedGroup + `}`,
	"DELETE /server-groups/apart":       "",
	"GET /aggregates":                   `{"aggregates": [` + cannedAggregate + `]}`,
	"GET /aggregates/rack1":             `{"aggregate": ` + cannedAggregate + `}`,
	"POST /aggregates":                  `{"aggregate": ` + cannedAggregate + `}`,
	"PUT /aggregates/rack1":             `{"aggregate": ` + cannedAggregate + `}`,
	"DELETE /aggregates/rack1":          "",
	"GET /availability-zones":           `{"availability_zones": [{"name": "az1", "available": true, "zones": ["home", "west"]}, {"name": "az2", "available": false, "zones": ["west"]}]}`,
	"GET /operator/scheduler":           cannedScheduler,
	"PUT /operator/scheduler":           cannedScheduler,
	"POST /hosts/h1/drain":              `{"host": ` + cannedDraining + `}`,
	"POST /hosts/plan-drain":            `{"plan": ` + cannedDrainPlan + `}`,
	"DELETE /hosts/h1/drain":            `{"host": ` + cannedHost + `}`,
	"GET /hosts/h1/evacuation":          `{"evacuation": {"movable": 0, "staying": 1, "wait_ms": 0}}`,
	"POST /servers":                     `{"server": ` + cannedServer + `, "reservation_id": "r-1"}`,
	"GET /servers/detail":               `{"servers": [` + cannedServer + `]}`,
	"GET /servers/i-1":                  `{"server": ` + cannedServer + `}`,
	"GET /servers/i-2":                  `{"server": ` + cannedPreempted + `}`,
	"DELETE /servers/i-1":               "",
	"GET /servers/i-1/output":           `{"output": {"stream": "stdout", "offset": 7, "next": 13, "total": 13, "data": "aGVsbG8K"}}`,
	"POST /servers/i-1/stop":            `{"server": ` + cannedServer + `}`,
	"POST /servers/i-1/start":           `{"server": ` + cannedServer + `}`,
	"POST /servers/i-1/restart":         `{"server": ` + cannedServer + `}`,
	"POST /volumes":                     `{"volume": ` + cannedVolume + `, "reservation_id": "r-1"}`,
	"GET /volumes":                      `{"volumes": [` + cannedVolume + `]}`,
	"GET /volumes/v-1":                  `{"volume": ` + cannedVolume + `}`,
	"DELETE /volumes/v-1":               "",
	"POST /volumes/v-1/attach":          "",
	"POST /volumes/v-1/detach":          "",
	"GET /flavors":                      `{"flavors": [` + cannedFlavor + `]}`,
	"GET /flavors/small":                `{"flavor": ` + cannedFlavor + `}`,
	"POST /flavors":                     `{"flavor": ` + cannedFlavor + `}`,
	"PUT /flavors/small":                `{"flavor": ` + cannedFlavor + `}`,
	"DELETE /flavors/small":             "",
	"GET /zones":                        `{"zones": [` + cannedZone + `]}`,
	"GET /zones/west":                   `{"zone": ` + cannedZone + `}`,
	"PUT /zones/west":                   `{"zone": ` + cannedZone + `}`,
	"PUT /zones/europe":                 `{"zone": ` + cannedParent + `}`,
	"POST /zones/west/plan-maintenance": `{"plan": ` + cannedMaintenance + `}`,
	"POST /zones/west/relink":           `{"relinked": {"zone": "west", "role": "child", "before": 0, "incarnation": 1780315200, "at": "2026-06-01T12:00:00.000Z", "instances": 4}}`,
	"POST /zones/west/write-off":        `{"losses": {"zone": "west", "role": "child", "parts": 1, "instances": 4, "holds": 0, "instances_to_end": 0, "unlinked": true}}`,
	"POST /zones/europe/write-off":      `{"losses": {"zone": "europe", "role": "parent", "parts": 0, "instances": 0, "holds": 2, "instances_to_end": 3, "unlinked": false}}`,
	"GET /bindings":                     `{"bindings": [` + cannedBinding + `, ` + cannedPastBinding + `]}`,
	"GET /bindings/b-1":                 `{"binding": ` + cannedBinding + `}`,
	"POST /bindings":                    `{"binding": ` + cannedBinding + `}`,
	"POST /bindings/b-1/move":           `{"binding": ` + cannedBinding + `}`,
	"DELETE /bindings/b-1":              "",
	"GET /zones/info":                   `{"zone": {"id": "z-0", "name": "home", "version": "v1.2.3", "digest": ` + cannedDigest + `}}`,
	"POST /zones":                       `{"token": "link-token-text"}`,
	"POST /zones/link":                  `{"zone": ` + cannedZone + `}`,
	"DELETE /zones/west":                "",
	"GET /hosts":                        `{"hosts": [` + cannedHost + `]}`,
	"GET /hosts/h1":                     `{"host": ` + cannedHost + `}`,
	"PUT /hosts/h1":                     `{"host": ` + cannedHost + `}`,
	"DELETE /hosts/h1":                  "",
	"POST /hosts/h1/write-off":          cannedLost,
	"POST /volumes/v-1/write-off":       `{"lost": {"host": "h1", "down_since": "2026-06-01T12:00:00.000Z", "servers": 0, "volumes": 1, "slots": 0, "allocations": 0, "forgotten": false, "list": [{"id": "v-1", "name": "data", "kind": "volume", "project_id": "shop", "status": "ACTIVE", "reservation_id": "r-2"}]}}`,
	"POST /servers/i-1/write-off":       `{"lost": {"host": "h1", "down_since": "2026-06-01T12:00:00.000Z", "servers": 1, "volumes": 0, "slots": 0, "allocations": 0, "forgotten": false, "list": [{"id": "i-1", "name": "web-1", "kind": "server", "project_id": "shop", "status": "DELETING", "reservation_id": "r-1"}]}}`,
	"GET /operator/members":             `{"members": [{"id": "n1", "node_addr": "10.0.0.1:7602", "api_addr": "10.0.0.1:7600", "gateway_addr": "10.0.0.1:7601", "agent_addr": "10.0.0.1:7603", "version": "v1.2.3", "joined": "2026-06-01T12:00:00.000Z", "voter": true, "leader": true, "alive": "alive", "expires": "2027-06-01T12:00:00.000Z", "state_bytes": 734003200, "clock": {"offset": "-1.2s", "error": "2ms", "far": true}, "disk": {"free_bytes": 5368709120, "total_bytes": 21474836480, "full_in": "74h0m0s"}}]}`,
	"GET /operator/agents":              `{"agents": [{"id": "rack1", "hosts": 3, "first_seen": "2026-06-01T12:00:00.000Z", "last_seen": "2026-06-02T12:00:00.000Z", "joined": "2026-06-01T12:00:00.000Z", "expires": "2027-06-01T12:00:00.000Z", "revoked": false, "host_prefix": "rack1-", "hosts_max": 40, "host_capacity": {"VCPU": 128}, "disabled": true}, {"id": "rack2", "hosts": 1, "first_seen": "2026-06-01T12:00:00.000Z", "revoked": true}]}`,
	"DELETE /operator/agents/rack1":     "",
	"GET /operator/tokens":              `{"tokens": [{"id": "0123456789abcdef", "user_id": "ada", "project_id": "web", "roles": ["member", "reader"], "created": "2026-06-01T12:00:00.000Z", "expires": null}]}`,
	"GET /operator/roles":               `{"roles": [{"name": "deployer", "allow": ["boots:write", "servers:read"], "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-02T12:00:00.000Z"}]}`,
	"PUT /operator/roles/deployer":      `{"role": {"name": "deployer", "allow": ["boots:write", "servers:read"], "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-02T12:00:00.000Z"}}`,
	"DELETE /operator/roles/deployer":   "",
	"GET /tokens":                       `{"tokens": [{"id": "0123456789abcdef", "user_id": "ada", "project_id": "web", "roles": ["member"], "created": "2026-06-01T12:00:00.000Z", "expires": "2026-08-30T12:00:00.000Z", "last_used": "2026-06-02T12:00:00.000Z"}]}`,
	"POST /operator/tokens":             `{"token": "berth_0123456789abcdef_secret", "id": "0123456789abcdef"}`,
	"GET /operator/config":              `{"config": {"plan_ttl": "1m0s", "host_grace": "10s", "tags": ["ssd"], "default_availability_zone": "", "webhook_networks": ["10.1.0.0/16"], "leases": {"check": {"url": "https://10.1.0.7/check", "has_token": true, "timeout": "5s"}}, "preemptibles": {"grace": "1m30s", "ways": ["hint", "flavor"], "projects": ["lab"], "firm_projects": ["ops"]}}}`,
	"PUT /operator/config":              `{"config": {"plan_ttl": "1m30s", "host_grace": "10s", "tags": [], "default_availability_zone": "az1", "webhook_networks": ["10.1.0.0/16"], "leases": {"check": {"url": "https://10.1.0.7/check", "has_token": true, "timeout": "5s"}}}}`,
	"GET /operator/holds":               `{"holds": [{"id": "r-2.1", "parent": "world", "reservation_id": "r-2", "project_id": "p", "state": "held", "held": 3, "created": "2026-06-01T12:00:00.000Z"}]}`,
	"GET /operator/snapshot":            "the whole state",
	"PUT /operator/snapshot":            "",
	"GET /operator/ca":                  cannedCA,
	"POST /operator/ca/rotate":          "", "POST /operator/ca/use": "", "POST /operator/ca/finish": "",
	"GET /operator/upgrade": cannedUpgrade, "POST /operator/upgrade/finish": "",
	"POST /operator/transfer": "", "POST /operator/keyring/rotate": "", "DELETE /operator/members/n3": "",
	"POST /operator/join-tokens": `{"token": "join-token-text"}`, "POST /operator/holds/r-2.1": "",
	"DELETE /operator/tokens/0123456789abcdef": "", "DELETE /tokens/0123456789abcdef": "",
	"GET /events":                 cannedEvents,
	"GET /quotas":                 `{"quotas": [` + cannedDefaults + `, ` + cannedQuota + `]}`,
	"GET /quotas/shop":            `{"quota": ` + cannedQuota + `}`,
	"PUT /quotas/shop":            `{"quota": ` + cannedQuota + `}`,
	"PUT /quotas":                 `{"quota": ` + cannedDefaults + `}`,
	"DELETE /quotas/shop":         "",
	"GET /webhooks":               `{"webhooks": [` + cannedWebhook + `]}`,
	"GET /webhooks/pager":         `{"webhook": ` + cannedWebhook + `}`,
	"POST /webhooks":              `{"webhook": {"id": "w-1", "name": "pager", "secret": "whsec_text"}}`,
	"POST /webhooks/pager/resume": `{"webhook": ` + cannedWebhook + `}`,
	"DELETE /webhooks/pager":      "",
}

const (
	cannedEvents = "retry: 1000\n:\nid: 1-0\n\nid: 4711-1\nevent: gap\ndata: {\"id\": \"4711-1\", \"kind\": \"gap\", \"at\": \"2026-06-01T12:00:00.000Z\", " +
		"\"gap\": {\"after\": \"12-1\", \"reason\": \"dropped\"}}\n\nid: 4711-2\nevent: instance.active\ndata: {\"id\": \"4711-2\", \"kind\": \"instance.active\", " +
		"\"at\": \"2026-06-01T12:00:00.000Z\", \"project_id\": \"p\", \"reservation_id\": \"r-1\", \"server_id\": \"i-1\", \"was\": \"BUILD\", \"is\": \"ACTIVE\", " +
		"\"zone\": \"home\", \"host\": \"h1\"}\n\n:\nid: 4711-2\n\n"
	cannedWebhook = `{"id": "w-1", "name": "pager", "project_id": "p", "user_id": "u", "url": "https://example.org/berth", "kinds": ["boot", "instance.error"], "state": "failing",
		"reason": "it answered with status 500", "failing_since": "2026-06-01T12:00:00.000Z", "delivered": "4711-2", "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z"}`
	cannedDefaults = `{"limits": {"hosts": 2, "leases": 10}, "use": []}`
	cannedQuota    = `{"project_id": "shop", "limits": {"hosts": 4, "leases": -1}, "use": [{"name": "hosts", "limit": 4, "default": false, "used": 1, "peak": 3,
		"peak_at": "2026-06-02T12:00:00.000Z"}, {"name": "instances", "limit": -1, "default": true, "used": 7, "peak": 7, "peak_at": "2026-06-01T12:00:00.000Z"},
		{"name": "leases", "limit": -1, "default": false, "used": 0, "peak": 0}, {"name": "preemptibles", "limit": -1, "default": true, "used": 0, "peak": 0},
		{"name": "reserved", "limit": 20, "default": true, "used": 0, "peak": 0}]}`
	cannedServer = `{"id": "i-1", "name": "web-1", "reservation_id": "r-1", "project_id": "p", "user_id": "u", "flavor": "small",
		"resources": {"VCPU": 1, "MEMORY_MB": 512}, "metadata": {"b": "2", "a": "1"}, "status": "ACTIVE", "window": {"start": "2026-06-01T12:00:00.000Z", "end": null},
		"class": "firm", "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z", "zone": "home", "host": "h1"}`
	cannedVolume = `{"id": "v-1", "name": "data", "reservation_id": "r-1", "project_id": "p", "user_id": "u", "size": 20, "type": "fast", "storage_class": "CUSTOM_SSD",
		"metadata": {"a": "1"}, "status": "in-use", "attached_to": "i-1", "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z", "zone": "home", "host": "h1"}`
	cannedPreempted = `{"id": "i-2", "name": "batch", "reservation_id": "r-2", "project_id": "p", "user_id": "u", "flavor": "small",
		"resources": {"VCPU": 1}, "status": "DELETING", "window": {"start": "2026-06-01T12:00:00.000Z", "end": null}, "class": "preemptible",
		"created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:05.000Z", "zone": "home", "preemptible": true, "preemptible_by": "flavor", "on_preempt": "requeue",
		"eviction": {"for": "lease", "reservation_id": "r-3", "lease_id": "l-1", "at": "2026-06-01T12:59:00.000Z", "deadline": "2026-06-01T13:00:00.000Z"}}`
	cannedFlavor = `{"id": "small", "name": "small", "resources": {"VCPU": 1, "MEMORY_MB": 512}, "extra_specs": {"trait:CUSTOM_X": "required"},
		"command": ["/bin/sleep", "3600"], "created": "2026-06-01T12:00:00.000Z"}`
	cannedDigest = `{"zone_id": "z-1", "sequence": 7, "at": "2026-06-01T12:00:00.000Z", "health": "up", "tags": ["ssd"],
		"classes": {"VCPU": {"total": 64, "free": 32, "slot_min": 1, "slot_max": 16}, "MEMORY_MB": {"total": 1024, "free": 512, "slot_min": 1, "slot_max": 512}}}`
	cannedBinding = `{"id": "b-1", "project_id": "web", "zone": "west", "link_id": "l-1", "availability_zone": "az1", "tags": ["gpu=cad"], "active": true,
		"start": "2026-06-01T12:00:00.000Z", "end": null, "why": "maintenance", "reservation_id": "r-1", "user_id": "ada"}`
	cannedPastBinding = `{"id": "b-0", "project_id": "web", "parent": "world", "zone": "east", "link_id": "l-2", "availability_zone": "", "tags": [], "active": false,
		"start": "2026-05-01T12:00:00.000Z", "end": "2026-06-01T12:00:00.000Z", "why": "operator", "ended": "maintenance", "user_id": "bob"}`
	cannedMaintenance = `{"zone": "west", "mode": "prefer", "maintenance": true, "in_maintenance": false, "bindings": 2, "to": [{"zone": "east", "bindings": 1}], "moves": [
		{"binding_id": "b-1", "project_id": "web", "availability_zone": "az1", "tags": ["gpu=cad"], "to": "east"},
		{"binding_id": "b-2", "project_id": "shop", "parent": "world", "availability_zone": "", "tags": [], "reason": "no other child fits: east: its affinity tags do not match"}]}`
	cannedZone = `{"id": "l-1", "name": "west", "role": "child", "zone_id": "z-1", "gateways": ["https://198.51.100.1:7601"], "weight_offset": 5, "weight_scale": 1,
		"state": "active", "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:00.000Z", "health": "up", "availability_zone": "az1",
		"tags": ["disk=fast", "gpu=cad"], "headroom": {"VCPU": 10, "MEMORY_MB": 5}, "digest": ` + cannedDigest + `}`
	cannedParent = `{"id": "l-2", "name": "europe", "role": "parent", "zone_id": "z-2", "gateways": ["https://198.51.100.2:7601"], "weight_offset": 0, "weight_scale": 1,
		"state": "active", "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:00.000Z", "health": "up",
		"share": {"held": 25, "committed": 80, "classes": {"VCPU": {"held": 2, "held_max": 16, "committed": 34, "committed_max": 51},
			"MEMORY_MB": {"held": 512, "held_max": 4096, "committed": 8192, "committed_max": 13107}}}}`
	cannedGroup     = `{"id": "g-1", "name": "apart", "project_id": "p", "policy": "anti-affinity", "max_per_host": 1, "created": "2026-06-01T12:00:00.000Z", "members": ["i-1", "i-2"]}`
	cannedAggregate = `{"id": "` + uuidRack + `", "name": "rack1", "metadata": {"availability_zone": "az1", "ssd": "true"}, "hosts": ["h1", "h2"],
		"created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:00.000Z"}`
	cannedScheduler = `{"scheduler": {"filters": [{"name": "pool"}, {"name": "instances", "options": {"max": "50"}}], "costs": [{"name": "spread", "weight": 1}]},
		"known": {"filters": [{"name": "pool", "help": "the pool takes the class", "tier": "not_allowed", "default": true, "example": {"name": "pool"}},
			{"name": "instances", "help": "few instances", "tier": "not_now", "default": false, "options": [{"name": "max", "help": "instances on one host", "required": true}], "example": {"name": "instances", "options": {"max": "50"}}},
			{"name": "query", "help": "the query is true", "tier": "not_asked", "default": true, "example": {"name": "query"}}],
		"costs": [{"name": "attribute", "help": "an attribute's number", "default": false}, {"name": "spread", "help": "what is taken", "default": true}]}}`
	cannedDrainPlan = `{"at": "2030-06-02T10:00:00.000Z", "hosts": ["h1", "h2"], "leases": {"breaks": 1, "moves": 1, "stays": 1}, "slots": {"breaks": 1, "moves": 3, "stays": 1},
		"boots": {"breaks": 0, "moves": 1, "stays": 0}, "instances": {"breaks": 0, "moves": 1, "stays": 0}, "owners": [
			{"kind": "lease", "id": "l-1", "name": "nightly", "project_id": "p", "start": "2030-06-02T10:00:00.000Z", "end": "2030-06-02T12:00:00.000Z", "outcome": "breaks", "parts": [
				{"id": "s-1", "reservation_id": "r-1", "host": "h1", "outcome": "moves", "to": "h3"}, {"id": "s-2", "reservation_id": "r-1", "host": "h1", "outcome": "moves", "to": "h3"},
				{"id": "s-3", "reservation_id": "r-1", "host": "h2", "outcome": "breaks", "reason": "no other host of the zone takes it (hosts turned away: capacity 3)"}]},
			{"kind": "lease", "id": "r-2", "project_id": "q", "parent": "world", "start": "2030-06-02T11:00:00.000Z", "end": "2030-06-02T12:00:00.000Z", "outcome": "moves", "parts": [
				{"id": "s-4", "reservation_id": "r-2", "host": "h2", "outcome": "moves", "to": "h4"}]},
			{"kind": "boot", "id": "r-3", "name": "web", "project_id": "p", "start": "2030-06-01T11:00:00.000Z", "end": null, "outcome": "moves", "parts": [
				{"id": "i-1", "host": "h1", "outcome": "moves", "to": "h4"}]},
			{"kind": "lease", "id": "l-2", "name": "repair", "project_id": "ops", "start": "2030-06-02T14:00:00.000Z", "end": "2030-06-02T16:00:00.000Z", "outcome": "stays", "parts": [
				{"id": "s-5", "reservation_id": "r-5", "host": "h1", "outcome": "stays", "reason": "it is maintenance of this host"}]}]}`
	cannedDraining = `{"id": "h-1", "name": "h1", "agent": "a1", "driver": "process", "inventory": {}, "pool": "shared", "state": "up", "enabled": true,
		"generation": 8, "used": {}, "instances": 2, "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:00.000Z", "availability_zone": "az1",
		"maintenance": "new disk", "drain": "move", "leaving": {"left": 2, "ending": 0, "moving": 1}, "missing_traits": [{"traits": ["CUSTOM_FPGA", "CUSTOM_GPU"], "servers": ["i-1"], "count": 1}]}`
	cannedHost = `{"id": "h-1", "name": "h1", "agent": "a1", "driver": "process", "inventory": {"VCPU": {"total": 4, "reserved": 0, "allocation_ratio": 2.5},
		"MEMORY_MB": {"total": 2048, "reserved": 48, "step_size": 64, "allocation_ratio": 1}}, "traits": ["CUSTOM_X"], "pool": "shared", "state": "up", "enabled": true,
		"generation": 7, "used": {"VCPU": 3}, "instances": 3, "slots": 1, "created": "2026-06-01T12:00:00.000Z", "updated": "2026-06-01T12:00:00.000Z"}`
)

const cannedUpgrade = `{"upgrade": {"phase": "ready", "form": 4, "next": 5,
  "nodes": [{"id": "n1", "version": "v2.0", "form": 5, "voter": true, "alive": "alive"}, {"id": "n2", "version": "v2.0", "form": 5, "voter": true, "alive": "alive"}],
  "links": [{"name": "root", "role": "parent", "form": 4}, {"name": "edge", "role": "child"}]}}`

const cannedCA = `{"authority": {"phase": "trusted", "due": "a removed node has its key", "authorities": [
  {"fingerprint": "0f115db062b7c0dd030b16878c99dea5c354b49dc37b38eb8846179c7783e9d7", "issues": true, "since": "2026-06-01T12:00:00.000Z", "expires": "2036-05-29T12:00:00.000Z"},
  {"fingerprint": "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c", "issues": false, "since": "2026-06-02T12:00:00.000Z", "expires": "2036-05-30T12:00:00.000Z"}],
  "waits": [{"kind": "node", "name": "n2"}, {"kind": "link", "name": "west", "error": "no gateway of the zone answers"}], "behind": [],
  "bundle": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n"}}`
