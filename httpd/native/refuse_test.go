package native

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// text returns n letters as a JSON string.
func text(n int) string { return `"` + strings.Repeat("x", n) + `"` }

// pairs returns a JSON object of n pairs, each key of size bytes.
func pairs(n, size int) string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("%0*d", size, i)] = "v"
	}
	b, _ := json.Marshal(m) // strings always can be
	return string(b)
}

// words returns a JSON list of n words of size bytes.
func words(n, size int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(text(size)+",", n), ",") + "]"
}

// order returns a body that asks for web, small, and what is given beside it. A
// field that is given replaces the one of the same name.
func order(fields ...string) string {
	all := []string{`"name":"web"`, `"flavorRef":"small"`}
	for _, f := range fields {
		name, _, _ := strings.Cut(f, ":")
		for i := range all {
			if strings.HasPrefix(all[i], name+":") {
				all = append(all[:i], all[i+1:]...)
				break
			}
		}
		all = append(all, f)
	}
	return `{"server":{` + strings.Join(all, ",") + `}}`
}

func TestABootThatIsRefused(t *testing.T) {
	w := newWorld(t)
	most := strconv.Itoa(api.CountMax + 1)
	for _, c := range []struct{ body, says string }{
		{order(`"max_count":0`), "max_count must be 1 to 10000, got 0"},
		{order(`"max_count":-1`), "max_count must be 1 to 10000, got -1"},
		{order(`"max_count":` + most), "max_count must be 1 to 10000, got " + most},
		{order(`"num_instances":0`), "num_instances must be"},
		{order(`"num_instances":` + most), "num_instances must be"},
		{order(`"min_count":0`), "must be 1 to 10000, got 0"},
		{order(`"min_count":0`, `"max_count":2`), "min_count must be"},
		{order(`"min_count":-1`, `"max_count":2`), "min_count must be"},
		{order(`"min_count":` + most), "must be 1 to 10000"},
		{order(`"min_count":3`, `"max_count":2`), "min_count"},
		{order(`"max_count":2`, `"num_instances":3`), "max_count and num_instances are two names"},
		{order(`"max_count":"2"`), "server.max_count must be a whole number, not string"},
		{order(`"max_count":1.5`), "server.max_count must be a whole number"},
		{order(`"flavorRef":"none"`), `there is no flavor "none"`},
		{order(`"flavorRef":""`), `there is no flavor ""`},
		{order(`"flavorRef":null`), `there is no flavor`},
		{order(`"flavorRef":7`), "server.flavorRef must be a text, not number"},
		{order(`"name":""`), "name must be 1 to 64"},
		{order(`"name":null`), "name must be 1 to 64"},
		{order(`"name":` + text(api.NameMaxBytes+1)), "name must be 1 to 64"},
		{order(`"name":"a b"`), "name must be"},
		{order(`"name":".a"`), "name must be"},
		{order(`"name":"ä"`), "name must be"},
		{order(`"name":"a\u0000b"`), "name must be"},
		{order(`"metadata":` + pairs(api.MetadataMax+1, 3)), "metadata may have at most 64 entries, got 65"},
		{order(`"metadata":` + pairs(1, api.ExtraSpecMaxBytes+1)), "metadata: keys must be"},
		{order(`"metadata":{"":"v"}`), "metadata: keys must be"},
		{order(`"metadata":{"k":` + text(api.ExtraSpecMaxBytes+1) + `}`), "values at most 255"},
		{order(`"metadata":{"k":5}`), "must be a text, not number"},
		{order(`"metadata":[]`), "server.metadata must be an object, not array"},
		{order(`"metadata":{"k":"a","k":"b"}`), `"k" is given twice`},
		{order(`"reservation_id":"a b"`), "reservation_id must be"},
		{order(`"reservation_id":` + text(api.NameMaxBytes+1)), "reservation_id must be"},
		{order(`"Name":"b"`), `unknown field "server.Name"`},
		{order(`"hosts":[]`), `unknown field "server.hosts"`},
		{order(`"user_data":"x"`), `unknown field "server.user_data"`},
		{`{"server":{},"server":{}}`, `"server" is given twice`},
		{`{"server":{}}`, "name must be"},
		{`{"server":null}`, "server is missing"},
		{`{"server":[]}`, "server must be an object, not array"},
		{`{}`, "server is missing"},
		{`null`, "server is missing"},
		{`[]`, "the body must be an object, not array"},
		{``, "the body is empty"},
		{order() + order(), "something after"},
		{order()[:20], "not valid JSON"},
	} {
		for _, target := range []string{"/zones/boot", "/zones/select", "/servers"} {
			w.refused(t, call{method: "POST", target: target, token: member, body: c.body}, api.CodeInvalid, c.says)
		}
	}
	for _, c := range []call{
		{target: "/zones/boot", head: map[string]string{api.HeaderIdempotencyKey: "a b"}},
		{target: "/servers", head: map[string]string{api.HeaderIdempotencyKey: strings.Repeat("x", api.NameMaxBytes+1)}},
		{target: "/zones/boot", body: order(`"blob":"AQ=="`)},
		{target: "/zones/boot", body: order(`"return_reservation_id":true`)},
		{target: "/zones/select", body: order(`"blob":"AQ=="`)},
		{target: "/zones/select", body: order(`"return_reservation_id":true`)},
		{target: "/servers", body: order(`"blob":"AQ=="`)}, // of which reservation?
		{target: "/servers", body: order(`"blob":"%"`)},
		{target: "/servers", body: order(`"blob":7`)},
	} {
		c.method, c.token = "POST", member
		if c.body == "" {
			c.body = order()
		}
		w.refused(t, c, api.CodeInvalid, "")
	}
	for _, ct := range []string{"", "text/plain"} { // what a page of another site may send
		w.refused(t, call{
			method: "POST", target: "/zones/boot", token: member, body: order(), head: map[string]string{"Content-Type": ct},
		}, api.CodeMediaType, "application/json")
	}
}

func TestABootAtItsLimits(t *testing.T) {
	for _, body := range []string{
		order(`"max_count":1`),
		order(`"num_instances":2`, `"max_count":2`),
		order(`"min_count":1`, `"max_count":`+strconv.Itoa(api.CountMax)),
		order(`"min_count":2`, `"max_count":2`),
		order(`"min_count":3`),
		order(`"name":` + text(api.NameMaxBytes)),
		order(`"reservation_id":` + text(api.NameMaxBytes)),
		order(`"metadata":` + pairs(api.MetadataMax, api.ExtraSpecMaxBytes)),
		order(`"metadata":{"k":` + text(api.ExtraSpecMaxBytes) + `,"K":""}`),
		order(`"imageRef":"anything"`),
	} {
		for target, status := range map[string]int{"/zones/select": 200, "/zones/boot": 202} {
			newWorld(t).answered(t, call{method: "POST", target: target, token: member, body: body}, status, nil)
		}
	}
	key := map[string]string{api.HeaderIdempotencyKey: strings.Repeat("x", api.NameMaxBytes)}
	newWorld(t).answered(t, call{method: "POST", target: "/zones/boot", token: member, body: order(), head: key}, 202, nil)
}

func TestBodiesAboveTheirLimit(t *testing.T) {
	padded := func(body string, n int) string { return body + strings.Repeat(" ", n-len(body)) }
	w := newWorld(t)
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		if r.body == "" || r.target == "/operator/snapshot" { // a backup has no limit here
			return
		}
		limit := int(rest.Find(r.name).BodyMax())
		c := call{method: method, target: r.target, token: admin, body: padded(r.body, limit+1)}
		at := w
		if r.disk {
			at = r.of(t) // a volume that is not there is refused first
		}
		at.refused(t, c, api.CodeTooLarge, fmt.Sprintf("at most %d bytes", limit))
		c.body = padded(r.body, limit)
		r.of(t).answered(t, c, r.status, nil)
	})
}

// refusals makes calls of one kind that must all be refused as invalid.
func refusals(t *testing.T, method, target string, says map[string]string) {
	t.Helper()
	w := newWorld(t)
	for body, part := range says {
		w.refused(t, call{method: method, target: target, token: admin, body: body}, api.CodeInvalid, part)
	}
}

// accepts makes calls of one kind that must all be answered, each in a world of
// its own.
func accepts(t *testing.T, method, target string, status int, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		newWorld(t).answered(t, call{method: method, target: target, token: admin, body: body}, status, nil)
	}
}

func TestFlavors(t *testing.T) {
	f := func(fields string) string { return `{"flavor":{"name":"f",` + fields + `}}` }
	most := strconv.Itoa(api.AmountMax)
	over := strconv.Itoa(api.AmountMax + 1)
	classes := func(n int) string {
		m := api.Resources{}
		for i := range n {
			m[api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))] = 1
		}
		b, _ := json.Marshal(m) // numbers always can be
		return `"resources":` + string(b)
	}
	refusals(t, "POST", "/flavors", map[string]string{
		f(`"vcpus":1,"resources":{"VCPU":1}`):                                    "give vcpus or resources.VCPU, not both",
		f(`"ram":1,"resources":{"MEMORY_MB":1}`):                                 "give ram or resources.MEMORY_MB",
		f(`"disk":1,"resources":{"DISK_GB":1}`):                                  "give disk or resources.DISK_GB",
		f(`"vcpus":1,"vcpus":2`):                                                 `"vcpus" is given twice`,
		f(`"vcpus":-1`):                                                          "amount of VCPU must be 1 to",
		f(`"vcpus":` + over):                                                     "amount of VCPU must be 1 to",
		f(`"vcpus":"2"`):                                                         "flavor.vcpus must be a whole number, not string",
		f(`"resources":{"VCPU":0}`):                                              "amount of VCPU must be 1 to",
		f(`"resources":{"VCPU":-1}`):                                             "amount of VCPU must be 1 to",
		f(`"resources":{"MEMORY_MB":` + over + `}`):                              "amount of MEMORY_MB must be 1 to",
		f(`"resources":{"vcpu":1}`):                                              "must be a standard one",
		f(`"resources":{"":1}`):                                                  "must be a standard one",
		f(`"resources":{"1A":1}`):                                                "must be a standard one",
		f(`"resources":{"A B":1}`):                                               "must be a standard one",
		f(`"resources":{"` + strings.Repeat("A", 65) + `":1}`):                   "must be a standard one",
		f(classes(api.ClassesMax + 1)):                                           "at most 32 resource classes",
		f(`"resources":{}`):                                                      "at least one resource",
		f(`"vcpus":0`):                                                           "amount of VCPU must be",
		`{"flavor":{"vcpus":1}}`:                                                 "flavor name must be",
		`{"flavor":{"name":` + text(65) + `,"vcpus":1}}`:                         "flavor name must be",
		f(`"vcpus":1,"command":` + words(api.CommandArgsMax+1, 1)):               "at most 64 words",
		f(`"vcpus":1,"command":` + words(2, api.CommandMaxBytes/2+1)):            "at most 4096 bytes",
		f(`"vcpus":1,"command":"true"`):                                          "flavor.command must be a list, not string",
		f(`"vcpus":1,"extra_specs":` + pairs(api.ExtraSpecsMax+1, 2)):            "extra_specs may have at most 64",
		f(`"vcpus":1,"extra_specs":` + pairs(1, api.ExtraSpecMaxBytes+1)):        "extra_specs: keys must be",
		f(`"vcpus":1,"extra_specs":{"k":` + text(api.ExtraSpecMaxBytes+1) + `}`): "extra_specs: keys must be",
		f(`"vcpus":1,"id":"a b"`):                                                "flavor id: ",
		f(`"vcpus":1,"id":` + text(65)):                                          "flavor id: ",
		f(`"vcpus":1,"uuid":"x"`):                                                `unknown field "flavor.uuid"`,
	})
	accepts(
		t, "POST", "/flavors", 201,
		f(`"vcpus":`+most), f(`"vcpus":1,"resources":{"MEMORY_MB":`+most+`}`), f(classes(api.ClassesMax)),
		f(`"vcpus":1,"command":`+words(api.CommandArgsMax, 1)), f(`"vcpus":1,"command":`+words(2, api.CommandMaxBytes/2)),
		f(`"vcpus":1,"extra_specs":`+pairs(api.ExtraSpecsMax, api.ExtraSpecMaxBytes)),
		`{"flavor":{"name":`+text(api.NameMaxBytes)+`,"vcpus":1}}`,
	)
	refusals(t, "PUT", "/flavors/small", map[string]string{
		`{"flavor":{"id":"other","vcpus":1}}`: "cannot be changed",
		`{"flavor":{}}`:                       "at least one resource",
	})
	w := newWorld(t)
	w.refused(t, call{method: "POST", target: "/flavors", token: admin, body: `{"flavor":{"name":"small","vcpus":1}}`}, api.CodeConflict, `"small" exists`)
	w.refused(t, call{method: "PUT", target: "/flavors/none", token: admin, body: `{"flavor":{"vcpus":1}}`}, api.CodeNotFound, `no flavor "none"`)
	w.refused(t, call{method: "DELETE", target: "/flavors/none", token: admin}, api.CodeNotFound, `no flavor "none"`)
	w.refused(t, call{method: "GET", target: "/flavors/none", token: admin}, api.CodeNotFound, `no flavor "none"`)
}

// Bounds of what a link does to weights.
const scaleMax, offsetMax = 1_000_000, 1_000_000_000_000

func TestZones(t *testing.T) {
	z := func(fields string) string { return `{"zone":{` + fields + `}}` }
	says := map[string]string{
		z(`"name":""`):                                                    "name must be",
		z(`"name":` + text(65)):                                           "name must be",
		z(`"name":"south","weight_scale":0`):                              "weight_scale must be 1 to 1000000",
		z(`"name":"south","weight_scale":-1`):                             "weight_scale must be",
		z(`"name":"south","weight_scale":1.5`):                            "zone.weight_scale must be a whole number",
		z(fmt.Sprintf(`"name":"south","weight_scale":%d`, scaleMax+1)):    "weight_scale must be",
		z(`"name":"south","gateways":[]`):                                 "1 to 16 gateways",
		z(`"name":"south","gateways":["a"]`):                              "must be HOST:PORT",
		z(fmt.Sprintf(`"name":"south","weight_offset":%d`, offsetMax+1)):  "weight_offset must be",
		z(fmt.Sprintf(`"name":"south","weight_offset":%d`, -offsetMax-1)): "weight_offset must be",
		z(`"name":"south","state":"asleep"`):                              `state must be "active" or "paused"`,
		z(`"name":"south","endpoints":[]`):                                `unknown field "zone.endpoints"`,
	}
	refusals(t, "PUT", "/zones/east", says)
	says[z(`"weight_scale":1`)] = "zone.name is missing"
	says[z(`"name":"south","gateways":["a:1"]`)] = "a zone says itself"
	refusals(t, "POST", "/zones", says)
	good := []string{
		z(fmt.Sprintf(`"name":"south","weight_scale":%d,"weight_offset":%d`, scaleMax, offsetMax)),
		z(fmt.Sprintf(`"name":"south","weight_scale":1,"weight_offset":%d`, -offsetMax)), z(`"name":` + text(64)),
	}
	accepts(t, "POST", "/zones", 201, good...)
	accepts(t, "PUT", "/zones/link-east", 200, append(good, z(`"state":"paused"`), z(``), z(`"gateways":["a:1","b:1"]`))...)
	refusals(t, "POST", "/zones/link", map[string]string{
		`{"token":"t","name":"a b"}`: "name must be", `{"token":5}`: "token must be a text", `{"x":1}`: `unknown field "x"`,
	})
	w := newWorld(t)
	w.refused(t, call{method: "PUT", target: "/zones/east", token: admin, body: z(`"name":"west"`)}, api.CodeConflict, `"west" exists`)
	w.refused(t, call{method: "DELETE", target: "/zones/east", token: admin}, api.CodeConflict, "depend on zone")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.refused(t, call{method: method, target: "/zones/north", token: admin, body: z(``)}, api.CodeNotFound, `no zone "north"`)
	}
}

func TestHosts(t *testing.T) {
	h := func(fields string) string { return `{"host":{` + fields + `}}` }
	refusals(t, "PUT", "/hosts/host-1", map[string]string{
		h(`"pool":"swimming"`): `pool must be "on_demand", "reservable" or "shared"`,
		h(`"pool":""`):         "pool must be",
		h(`"enabled":"yes"`):   "host.enabled must be true or false",
		h(`"generation":-1`):   "host.generation must be a whole number",
		h(`"name":"x"`):        `unknown field "host.name"`,
	})
	w := newWorld(t)
	var got struct{ Host rest.Host }
	put := func(fields string) call {
		return call{method: "PUT", target: "/hosts/host-3", token: admin, body: h(fields)}
	}
	w.answered(t, put(`"pool":"reservable"`), 200, &got)
	assert.Equal(t, api.PoolReservable, got.Host.Pool)
	now := got.Host.Generation
	w.refused(t, put(fmt.Sprintf(`"enabled":false,"generation":%d`, now-1)), api.CodeStale, "read it again")
	w.refused(t, put(fmt.Sprintf(`"enabled":false,"generation":%d`, now+1)), api.CodeStale, "read it again")
	w.answered(t, put(fmt.Sprintf(`"enabled":false,"generation":%d`, now)), 200, &got)
	assert.False(t, got.Host.Enabled)
	assert.Equal(t, now+1, got.Host.Generation, "one change, one generation")
	w.refused(t, call{method: "DELETE", target: "/hosts/host-1", token: admin}, api.CodeConflict, "still on it")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.refused(t, call{method: method, target: "/hosts/none", token: admin, body: h(``)}, api.CodeNotFound, `no host "none"`)
	}
}

func TestTokens(t *testing.T) {
	k := func(fields string) string { return `{"user_id":"u","project_id":"p",` + fields + `}` }
	refusals(t, "POST", "/operator/tokens", map[string]string{
		`{"project_id":"p","roles":["reader"]}`:                 "user_id must be",
		`{"user_id":"u","roles":["reader"]}`:                    "project_id must be",
		`{"roles":["reader"]}`:                                  "user_id must be",
		`{"user_id":"a b","project_id":"p","roles":["reader"]}`: "user_id must be",
		k(`"roles":[]`):                                         "roles must name at least one",
		k(`"ttl":"1h"`):                                         "roles must name at least one",
		k(`"roles":["root"]`):                                   `role "root" must be`,
		k(`"roles":["reader","root"]`):                          `role "root" must be`,
		k(`"roles":[""]`):                                       `role "" must be`,
		k(`"roles":"reader"`):                                   "roles must be a list, not string",
		k(`"roles":["reader"],"ttl":5`):                         "ttl: a duration must be a text",
		k(`"roles":["reader"],"ttl":"soon"`):                    `ttl: "soon" is not a duration`,
		k(`"roles":["reader"],"ttl":"-1h"`):                     "ttl must not be negative",
		k(`"roles":["reader"],"id":"x"`):                        `unknown field "id"`,
	})
	for ttl, expires := range map[string]string{`"0s","never_expires":true`: "forever", `"0s"`: "2030-04-01T00:00:00.000Z", `"1h"`: "2030-01-01T01:00:00.000Z"} {
		w := newWorld(t)
		w.answered(t, call{method: "POST", target: "/operator/tokens", token: admin, body: k(`"roles":["member"],"ttl":` + ttl)}, 201, nil)
		assert.Equal(t, []string{"token u " + expires}, w.auth.did)
	}
	w := newWorld(t)
	w.refused(t, call{method: "DELETE", target: "/operator/tokens/none", token: admin}, api.CodeNotFound, `no token "none"`)
	refusals(t, "POST", "/operator/join-tokens", map[string]string{
		`{"kind":"link","name":"a"}`:                  "kind must be",
		`{"name":"a"}`:                                "kind must be",
		`{"kind":"node"}`:                             "name must be",
		`{"kind":"node","name":"a","ttl":"-1s"}`:      "ttl must be more than 0s and at most 1h0m0s",
		`{"kind":"node","name":"a","ttl":"1h0m0.1s"}`: "ttl must be",
		`{"kind":"node","name":"a","ttl":60}`:         "ttl: a duration must be a text",
	})
	accepts(t, "POST", "/operator/join-tokens", 201, `{"kind":"node","name":"a","ttl":"1h"}`, `{"kind":"agent","name":"a"}`)
	refusals(t, "POST", "/operator/holds/hold-up", map[string]string{
		`{}`: "decision must be", `{"decision":"pending"}`: "decision must be", `{"decision":true}`: "decision must be a text",
	})
	w.refused(t, call{method: "POST", target: "/operator/holds/none", token: admin, body: `{"decision":"abort"}`}, api.CodeNotFound, "no undecided hold")
}

func TestConfig(t *testing.T) {
	c := func(fields string) string { return `{"config":{` + fields + `}}` }
	refusals(t, "PUT", "/operator/config", map[string]string{
		c(`"costs":[]`):                                          `unknown field "config.costs"`,
		c(`"default_availability_zone":"a:b"`):                   "default_availability_zone must be",
		c(`"default_availability_zone":` + text(65)):             "default_availability_zone must be",
		c(`"plan_ttl":"9s"`):                                     "plan_ttl must be 10s to 10m0s",
		c(`"plan_ttl":"10m1s"`):                                  "plan_ttl must be",
		c(`"plan_ttl":"-1s"`):                                    "plan_ttl must be",
		c(`"plan_ttl":60`):                                       "config.plan_ttl: a duration must be a text",
		c(`"plan_ttl":"soon"`):                                   `config.plan_ttl: "soon" is not a duration`,
		c(`"host_grace":"3.9s"`):                                 "host_grace must be 4s to 1h0m0s",
		c(`"host_grace":"1h1s"`):                                 "host_grace must be",
		c(`"tags":` + words(33, 3)):                              "at most 32 tags",
		c(`"tags":["a b"]`):                                      "tag must be",
		c(`"tags":[` + text(65) + `]`):                           "tag must be",
		c(`"color":"red"`):                                       `unknown field "config.color"`,
		c(`"leases":{"max_duration":"59s"}`):                     "leases.max_duration must be 1m0s to",
		c(`"leases":{"max_duration":"90s"}`):                     "in whole minutes",
		c(`"leases":{"max_lead":"876001h"}`):                     "leases.max_lead must be 1m0s to 876000h0m0s",
		c(`"leases":{"cleaning_time":"24h1m"}`):                  "leases.cleaning_time must be 1m0s to 24h0m0s",
		c(`"leases":{"before_end":"-1m"}`):                       "leases.before_end must not be negative",
		c(`"leases":{"extension_window":"1h"}`):                  "leases.extension_window needs leases.max_duration",
		c(`"leases":{"exempt_projects":["a b"]}`):                "leases.exempt_projects must be",
		c(`"leases":{"exempt_projects":` + words(1001, 3) + `}`): "at most 1000 projects, got 1001",

		c(`"preemptibles":{"grace":"1h0.001s"}`):                        "preemptibles.grace must be 1ms to 1h0m0s",
		c(`"preemptibles":{"grace":"-1s"}`):                             "preemptibles.grace must be",
		c(`"preemptibles":{"ways":["wish"]}`):                           `preemptibles.ways: "wish" is none of`,
		c(`"preemptibles":{"projects":["!p1"]}`):                        "preemptibles.projects: !p1 is an exception",
		c(`"preemptibles":{"allowed_projects":[]}`):                     "preemptibles.allowed_projects: an empty list names nothing; leave the field out for all projects",
		c(`"preemptibles":{"ways":[]}`):                                 "preemptibles.ways: an empty list names nothing; leave the field out for hint and flavor",
		c(`"preemptibles":{"allowed_projects":` + words(1001, 3) + `}`): "preemptibles.allowed_projects may name at most 1000 projects, got 1001",
		c(`"preemptibles":{"closed":true}`):                             "unknown field",

		c(`"leases":{"check":{}}`):                                                 "leases.check.url is needed",
		c(`"leases":{"check":{"url":"http://example.org"}}`):                       "leases.check.url: url must begin with https://",
		c(`"leases":{"check":{"url":"https://10.1.0.7"}}`):                         "the operator of the zone may allow networks",
		c(`"leases":{"check":{"url":"https://e.org/?x"}}`):                         "must not have a query",
		c(`"leases":{"check":{"url":"https://e.org/` + long(2_035) + `"}}`):        "url has 2049 bytes",
		c(`"leases":{"check":{"url":"https://e.org","timeout":"0.9s"}}`):           "leases.check.timeout must be 1s to 30s",
		c(`"leases":{"check":{"url":"https://e.org","timeout":"31s"}}`):            "leases.check.timeout must be",
		c(`"leases":{"check":{"url":"https://e.org","has_token":true}}`):           "there is none",
		c(`"leases":{"check":{"url":"https://e.org","token":` + text(1025) + `}}`): "leases.check.token has 1025 characters",
		c(`"leases":{"check":{"url":"https://e.org","token":"a b"}}`):              "printable characters",
		c(`"leases":{"check":{"url":"https://e.org","fail_closed":true}}`):         "unknown field",
	})
	accepts(
		t, "PUT", "/operator/config", 200,
		c(``), c(`"plan_ttl":"10s","host_grace":"4s"`), c(`"plan_ttl":"10m","host_grace":"1h"`), c(`"tags":`+words(32, 64)),
		c(`"default_availability_zone":`+text(64)),
		c(`"leases":{"max_duration":"1m","extension_window":"1m","max_lead":"876000h","before_end":"0s","cleaning_time":"24h","exempt_projects":`+words(1000, 3)+`}`),
		c(`"leases":{"check":{"url":"https://e.org/`+long(2_034)+`","timeout":"1s","token":`+text(1024)+`}}`),
		c(`"preemptibles":{"grace":"1h","ways":["hint","flavor","image","project"],"projects":["*","!p1"],"allowed_projects":["p1"],"firm_projects":["p1"],"closed_to_parents":true}`),
		c(`"preemptibles":{"grace":"0s"}`),
		c(`"webhook_networks":["10.1.0.0/16"],"leases":{"check":{"url":"https://10.1.0.7","timeout":"30s","fail_open":true}}`),
	)
}

func long(n int) string { return strings.Repeat("x", n) }

// TestLeaseCheckToken: a token is never shown, and kept for the same address only.
func TestLeaseCheckToken(t *testing.T) {
	w := newWorld(t)
	put := func(check string) call {
		return call{method: "PUT", target: "/operator/config", token: admin, body: `{"config":{"leases":{"check":` + check + `}}}`}
	}
	stored := func() string { return string(w.store.View().Config.Leases.Check.Token) }
	for _, one := range []struct{ check, stored string }{
		{`{"url":"https://a.org","token":"hidden-1"}`, "https://a.org hidden-1"},
		{`{"url":"https://a.org","has_token":true,"fail_open":true}`, "https://a.org hidden-1"},
		{`{"url":"https://b.org","has_token":true,"token":"hidden-2"}`, "https://b.org hidden-2"},
		{`{"url":"https://b.org"}`, ""},
		{`{"url":"https://b.org","token":"hidden-3"}`, "https://b.org hidden-3"},
		{`{"url":"https://b.org","has_token":true,"token":""}`, ""},
		{`{"url":"https://b.org","token":"hidden-4"}`, "https://b.org hidden-4"},
	} {
		var out rest.ConfigBody
		w.answered(t, put(one.check), 200, &out)
		assert.Equal(t, one.stored, stored(), one.check)
		require.NotNil(t, out.Config.Leases.Check)
		assert.Nil(t, out.Config.Leases.Check.Token)
		assert.Equal(t, one.stored != "", out.Config.Leases.Check.HasToken)
	}
	w.refused(t, put(`{"url":"https://c.org","has_token":true}`), api.CodeInvalid, "for the same url only")
	assert.Equal(t, "https://b.org hidden-4", stored())
	w.answered(t, call{method: "PUT", target: "/operator/config", token: admin, body: `{"config":{}}`}, 200, nil)
	assert.Empty(t, w.store.View().Config.Leases.Check)
}

func TestPagesAndWaits(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{
		"/servers", "/servers/detail", "/zones/boot", "/hosts", "/server-groups", "/aggregates", "/availability-zones",
		"/operator/tokens",
	} {
		for _, q := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=1.0", "marker=" + strings.Repeat("x", 130)} {
			w.refused(t, call{method: "GET", target: target + "?" + q, token: admin}, api.CodeInvalid, "")
		}
		for _, q := range []string{"", "limit=1", "limit=1000", "marker=zzz", "marker=%00"} {
			w.answered(t, call{method: "GET", target: target + "?" + q, token: admin}, 200, nil)
		}
	}
	for _, c := range []call{
		{method: "POST", target: "/zones/boot", body: order()},
		{method: "GET", target: "/zones/boot/r-web"},
		{method: "DELETE", target: "/zones/boot/r-web"},
	} {
		for _, q := range []string{"5m1s", "-1s", "30", "soon"} {
			bad := c
			bad.token, bad.target = member, c.target+"?wait="+q
			w.refused(t, bad, api.CodeInvalid, "wait must be a duration from 0s to 5m0s")
		}
	}
	w.answered(t, call{method: "GET", target: "/zones/boot/r-web?wait=5m", token: reader}, 200, nil)
}
