package native

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// several returns a body that asks for groups, and what is given beside them.
func several(groups []string, fields ...string) string {
	all := append([]string{`"name":"shop"`, `"groups":[` + strings.Join(groups, ",") + `]`}, fields...)
	return `{"server":{` + strings.Join(all, ",") + `}}`
}

// group returns one group of a body.
func group(name string, fields ...string) string {
	return `{` + strings.Join(append([]string{fmt.Sprintf("%q:%q", "name", name), `"flavorRef":"small"`}, fields...), ",") + `}`
}

func hints(fields ...string) string {
	return `"scheduler_hints":{` + strings.Join(fields, ",") + `}`
}

// many returns a JSON list of n texts that begin with name.
func many(name string, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d", name, i))
	}
	b, _ := json.Marshal(list) // strings always can be
	return string(b)
}

// groups returns n groups.
func groups(n int) []string {
	var out []string
	for i := range n {
		out = append(out, group(fmt.Sprintf("g%d", i)))
	}
	return out
}

func TestWhatABootMaySayOfHostsIsChecked(t *testing.T) {
	w := newWorld(t)
	web, db := group("web"), group("db")
	for _, c := range []struct{ body, says string }{
		{several([]string{web, web}), `groups[1].name: each group needs a name of its own, "web" is there twice`},
		{several([]string{`{"flavorRef":"small"}`}), "groups[0].name must be 1 to 64"},
		{several([]string{web, `{"name":"db","flavorRef":"none"}`}), `groups[1].flavorRef: there is no flavor "none"`},
		{several([]string{group("web", `"max_count":0`)}), "groups[0].max_count must be 1 to 10000, got 0"},
		{several([]string{group("web", `"min_count":3`, `"max_count":2`)}), "groups[0].min_count 3 must not exceed"},
		{several([]string{group("web", `"max_count":9999`), group("db", `"max_count":2`)}), "1 to 10000 instances in all, got 10001"},
		{several(groups(api.GroupsMax + 1)), "groups must have 1 to 16 entries, got 17"},
		{`{"server":{"name":"shop","groups":[]}}`, "groups must have 1 to 16 entries, got 0"},
		{order(`"groups":[]`), "groups must have 1 to 16 entries, got 0"},
		{several([]string{web}, `"flavorRef":"small"`), "flavorRef goes into each of the groups"},
		{several([]string{web}, `"max_count":2`), "max_count goes into each"},
		{several([]string{web}, `"traits":{"required":["A"]}`), "traits goes into each"},
		{several([]string{web}, hints()), "scheduler_hints goes into each"},
		{several([]string{web, db}, `"rules":[{"policy":"near"}]`), "rules[0].policy must be affinity"},
		{several([]string{web, db}, `"rules":[{"policy":"affinity"},{"policy":"affinity","groups":["app"]}]`), `rules[1].groups: this boot has no group "app"`},
		{several([]string{web, db}, `"rules":[{"policy":"affinity","groups":["db","db"]}]`), `rules[0].groups: "db" is there twice`},
		{several([]string{web}, `"rules":[{"policy":"affinity","max_per_host":1}]`), "rules[0].max_per_host is for anti-affinity alone"},
		{several([]string{web}, `"rules":[{"policy":"anti-affinity","max_per_host":-1}]`), "rules[0].max_per_host must be"},
		{several([]string{web}, `"rules":[`+strings.TrimSuffix(strings.Repeat(`{"policy":"affinity"},`, api.RulesMax+1), ",")+`]`), "rules may have at most 16"},
		{
			several([]string{group("web", hints(`"group":"apart"`))}, `"rules":[`+strings.TrimSuffix(strings.Repeat(`{"policy":"affinity"},`, api.RulesMax), ",")+`]`),
			"rules may have at most 16 entries, server groups in hints among them, got 17",
		},
		{order(`"rules":[{"policy":"affinity","groups":[""]}]`), `rules[0].groups: this boot has no group ""`},
		{order(`"traits":{"required":["lower"]}`), `trait "lower" must be`},
		{several([]string{web, group("db", `"traits":{"required":["A"],"forbidden":["A"]}`)}), "groups[1].trait A is both required and forbidden"},
		{order(`"traits":{"required":` + many("T", api.TraitsMax+1) + `}`), "at most 64 traits, got 65"},
		{order(`"traits":{"any_of":[[]]}`), "any_of needs at least one"},
		{order(`"image_properties":` + pairs(api.ExtraSpecsMax+1, 3)), "image_properties may have at most 64"},
		{order(`"imageRef":` + text(api.ExtraSpecMaxBytes+1)), "imageRef may have at most 255"},
		{order(`"availability_zone":"a b"`), "availability_zone must be"},
		{order(hints(`"color":1`)), `unknown field "server.scheduler_hints.color"`},
		{order(hints(`"same_host":[]`)), "scheduler_hints.same_host: an empty list names nothing; leave the field out for any host"},
		{order(`"zones":{"allowed":[]}`), "zones.allowed: an empty list names nothing; leave the field out for all zones"},
		{order(`"zones":{"allowed_tags":[]}`), "zones.allowed_tags: an empty list names nothing"},
		{order(`"rules":[{"policy":"affinity","groups":[]}]`), "rules[0].groups: an empty list names nothing; leave the field out for all groups"},
		{order(hints(`"force_hosts":[]`)), "scheduler_hints.force_hosts: an empty list names nothing; leave the field out for any host"},
		{order(hints(`"same_host":["id-hidden"]`)), `scheduler_hints.same_host: there is no server "id-hidden" in this project`},
		{order(hints(`"different_host":["id-up"]`)), `scheduler_hints.different_host: there is no server "id-up"`},
		{several([]string{web, group("db", hints(`"same_host":["id-absent"]`))}), `groups[1].scheduler_hints.same_host: there is no server "id-absent"`},
		{order(hints(`"same_host":` + many("x", api.HintHostsMax+1))), "same_host"},
		{order(hints(`"query":["nope","$free",1]`)), `query: `},
		{order(hints(`"query":"[\"=\", 1"`)), `query: it ends too early`},
		{order(hints(`"query":7`)), "query: "},
		{order(hints(`"build_near_host_ip":"x"`)), "build_near_host_ip must be an address"},
		{order(hints(`"build_near_host_ip":"10.0.0.1","cidr":"/33"`)), "cidr must be a length"},
		{order(hints(`"build_near_host_ip":"2001:db8::1"`)), "cidr must be given"},
		{order(hints(`"cidr":"/24"`)), "cidr needs build_near_host_ip"},
		{order(hints(`"group":"a b"`)), "scheduler_hints.group must be"},
		{order(hints(`"group":"none"`)), `there is no server group "none" in this project`},
		{order(`"zones":{"allowed":["a b"]}`), "zones.allowed must be"},
		{order(`"zones":{"allowed":` + many("z", api.ZoneNamesMax+1) + `}`), "zones.allowed may have at most 64"},
		{order(`"max_count":2`, `"zones":{"pack":true,"min_zones":2}`), "zones.pack excludes"},
		{order(`"lifetime":"1"`), "lifetime must be a duration"},
		{order(`"lifetime":"0s"`), "lifetime must be"},
		{order(`"lifetime":"1500us"`), "whole milliseconds"},
		{order(`"lifetime":"` + (api.LifetimeMax + time.Millisecond).String() + `"`), "lifetime must be"},
		{order(`"timeout":"61m"`), "timeout must be"},
		{`{"server":{"name":"a","flavorRef":"small","scheduler_hints":{}},"os:scheduler_hints":{}}`, "two names of one thing"},
		{`{"server":{"name":"a","flavorRef":"small"},"os:scheduler_hints":{"group":"none"}}`, `no server group "none"`},
	} {
		for _, target := range []string{"/zones/boot", "/zones/select", "/servers"} {
			w.refused(t, call{method: "POST", target: target, token: member, body: c.body}, api.CodeInvalid, c.says)
		}
	}
	for _, c := range []struct{ body, says string }{
		{order(hints(`"force_hosts":["host-1"]`)), "force_hosts and ignore_hosts need the role admin"},
		{order(hints(`"ignore_hosts":["host-1"]`)), "force_hosts and ignore_hosts need the role admin"},
		{order(`"availability_zone":"az:host-1"`), "availability_zone with a host needs the role admin"},
	} {
		w.refused(t, call{method: "POST", target: "/zones/boot", token: member, body: c.body}, api.CodeForbidden, c.says)
	}
	for _, c := range []struct{ body, says string }{
		{order(hints(`"force_hosts":["none"]`)), `scheduler_hints.force_hosts: there is no host "none"`},
		{order(`"availability_zone":"az:none"`), `availability_zone: there is no host "none"`},
		{order(`"availability_zone":"az:"`), "availability_zone: the host must be"},
		{several([]string{group("web", `"availability_zone":"az:none"`)}), `groups[0].availability_zone: there is no host "none"`},
	} {
		w.refused(t, call{method: "POST", target: "/zones/boot", token: admin, body: c.body}, api.CodeInvalid, c.says)
	}
}

// booted returns the request that a body makes.
func (w *world) booted(t *testing.T, token, body string) api.Request {
	t.Helper()
	var got rest.BootAnswer
	w.answered(t, call{method: "POST", target: "/zones/boot", token: token, body: body}, 202, &got)
	b, ok := w.store.View().Boot("p1", got.Reservation)
	require.True(t, ok)
	return b.Request
}

func TestWhatABootMaySayOfHostsIsHandedOn(t *testing.T) {
	w := newWorld(t)
	r := w.booted(t, admin, several(
		[]string{
			group("web", `"max_count":3`, `"min_count":2`, `"traits":{"required":["B","A"],"any_of":[["D","C"]]}`, `"imageRef":"i"`,
				`"image_properties":{"architecture":"arm"}`, `"availability_zone":"az1:host-2"`,
				hints(`"same_host":["id-web","id-far"]`, `"query":"[ \"=\", \"$host\", \"h\" ]"`, `"build_near_host_ip":"10.1.2.3"`, `"force_hosts":["host-1"]`)),
			group("db", hints(`"query":[">=","$free_ram_mb",1024]`, `"build_near_host_ip":"2001:db8::1","cidr":"/64"`, `"ignore_hosts":["host-3"]`)),
		},
		`"rules":[{"policy":"anti-affinity","groups":["db","web"]},{"policy":"soft-affinity"}]`,
		`"zones":{"allowed":["east"],"min_zones":1}`, `"lifetime":"90m"`, `"timeout":"30s"`,
	))
	web, db := r.Groups[0], r.Groups[1]
	assert.Equal(t, []any{"web", 3, 2, "az1"}, []any{web.Name, web.Count, web.Min, web.AZ})
	assert.Equal(t, api.Traits{Required: []string{"A", "B"}, AnyOf: [][]string{{"C", "D"}}}, web.Traits)
	assert.Equal(t, api.Image{Ref: "i", Properties: map[string]string{"architecture": "arm"}}, web.Image)
	assert.Equal(t, api.Hints{
		SameHost: []api.InstanceID{"id-web", "id-far"}, Query: `["=","$host","h"]`, Near: "10.1.2.0/24", ForceHosts: []string{"host-2", "host-1"},
	}, web.Hints)
	assert.Equal(t, []any{1, 1}, []any{db.Count, db.Min})
	assert.Equal(t, api.Hints{Query: `[">=","$free_ram_mb",1024]`, Near: "2001:db8::/64", IgnoreHosts: []string{"host-3"}}, db.Hints)
	assert.Equal(t, []api.Rule{
		{Policy: api.AntiAffinity, Max: 1, Groups: []int{0, 1}}, {Policy: api.SoftAffinity, Groups: []int{0, 1}},
	}, r.Rules)
	assert.Equal(t, api.ZoneRule{Allowed: []string{"east"}, MinZones: 1}, r.Zones)
	assert.Equal(t, 90*time.Minute, r.Lifetime)

	r = w.booted(t, member, `{"server":{"name":"a","flavorRef":"small","availability_zone":"az1"},"os:scheduler_hints":{"different_host":["id-web"]}}`)
	assert.Equal(t, []api.InstanceID{"id-web"}, r.Groups[0].Hints.DifferentHost)
	assert.Empty(t, r.Groups[0].Name)
}

func TestWhatABootMaySayOfHostsAtItsLimits(t *testing.T) {
	for _, body := range []string{
		several(groups(api.GroupsMax)),
		several([]string{group("web", `"max_count":9999`), group("db")}),
		several([]string{group("web")}, `"rules":[`+strings.TrimSuffix(strings.Repeat(`{"policy":"affinity"},`, api.RulesMax), ",")+`]`),
		order(`"traits":{"required":` + many("T", api.TraitsMax) + `}`),
		order(`"image_properties":` + pairs(api.ExtraSpecsMax, api.ExtraSpecMaxBytes)),
		order(`"imageRef":` + text(api.ExtraSpecMaxBytes)),
		order(`"zones":{"allowed":["root"` + strings.Repeat(`,"east"`, api.ZoneNamesMax-1) + `]}`),
		order(`"zones":{"excluded":` + many("z", api.ZoneNamesMax) + `}`),
		order(`"lifetime":"` + api.LifetimeMax.String() + `"`), order(`"lifetime":"1ms"`),
		order(`"timeout":"1h"`), order(`"timeout":"1ms"`),
		order(hints(`"query":null`)), order(hints(`"query":""`)), order(hints(`"query":[]`)),
		order(hints(`"same_host":[` + strings.TrimSuffix(strings.Repeat(`"id-web",`, api.HintHostsMax), ",") + `]`)),
	} {
		newWorld(t).answered(t, call{method: "POST", target: "/zones/boot", token: member, body: body}, 202, nil)
	}
	newWorld(t).refused(t, call{
		method: "POST", target: "/zones/boot", token: member,
		body: order(hints(`"same_host":[` + strings.TrimSuffix(strings.Repeat(`"id-web",`, api.HintHostsMax+1), ",") + `]`)),
	}, api.CodeInvalid, "same_host may have at most 64 entries")
}

func TestARepeatIsKnownWhenWhatItNamedIsGone(t *testing.T) {
	w := newWorld(t)
	c := call{
		method: "POST", target: "/zones/boot", token: admin, body: order(hints(`"ignore_hosts":["host-3"]`, `"group":"apart"`), `"zones":{"allowed":["east"]}`),
		head: map[string]string{api.HeaderIdempotencyKey: "k"},
	}
	var first, again rest.BootAnswer
	w.answered(t, c, 202, &first)
	w.store.Must(
		t, command.HostDelete{Stamp: w.zone.Stamp(), ID: "host-id-3"},
		command.GroupDelete{Stamp: w.zone.Stamp(), Project: "p1", ID: "group-apart"}, command.FlavorDelete{Stamp: w.zone.Stamp(), ID: "small"},
		command.LinkSet{Stamp: w.zone.Stamp(), ID: "link-east", Name: new("far-east")},
	)
	w.answered(t, c, 202, &again)
	assert.Equal(t, first, again)
	c.head = nil
	w.refused(t, c, api.CodeInvalid, "there is no flavor")
}

// TestZonesThatABootNamesAreThere names zones that are not there, or not direct
// children. Whoever excludes those has what was asked for.
func TestZonesThatABootNamesAreThere(t *testing.T) {
	for _, target := range []string{"/zones/boot", "/zones/select", "/servers"} {
		for rule, says := range map[string]string{
			`"allowed":["nope"]`:                         `zones.allowed: there is no zone "nope" here; this is zone root, and its direct children are east, west`,
			`"allowed":["east","nope"]`:                  `there is no zone "nope"`,
			`"allowed":["Root"]`:                         `there is no zone "Root"`,
			`"allowed":["link-east"]`:                    `there is no zone "link-east"`,
			`"allowed":["root/west"]`:                    `zones.allowed: a path such as "root/west" names no zone; give the name of this zone or of a direct child`,
			`"excluded":["west/edge"]`:                   `zones.excluded: a path such as "west/edge" names no zone`,
			`"allowed":["no such zone"]`:                 `zones.allowed must be`,
			`"allowed":` + many("z", api.ZoneNamesMax+1): fmt.Sprintf("at most %d entries", api.ZoneNamesMax),
		} {
			newWorld(t).refused(t, call{method: "POST", target: target, token: member, body: order(`"zones":{` + rule + `}`)}, api.CodeInvalid, says)
		}
		for part, says := range map[string]string{
			`"availability_zone":"az11"`:       `availability_zone: there is no availability zone "az11" here or below (did you mean "az1"?); there are az-zone-east, az-zone-west, az1, root`,
			`"zones":{"allowed_tags":["ssd"]}`: `zones.allowed_tags: there is no zone with the tag "ssd" here or below`,
		} {
			newWorld(t).refused(t, call{method: "POST", target: target, token: member, body: order(part)}, api.CodeInvalid, says)
		}
	}
	for _, rule := range []string{`"allowed":["root"]`, `"allowed":["west","east"]`, `"excluded":["nope"]`, `"allowed":["east"],"excluded":["east","nope"]`} {
		newWorld(t).answered(t, call{method: "POST", target: "/zones/boot", token: member, body: order(`"zones":{` + rule + `}`)}, 202, nil)
	}
}

// TestProbesNeedNoBody: a load balancer asks with HEAD whether somebody is there.
func TestProbesNeedNoBody(t *testing.T) {
	s := httptest.NewServer(newWorld(t))
	t.Cleanup(s.Close)
	for path, want := range map[string]int{"/": http.StatusOK, "/servers": http.StatusMethodNotAllowed} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, s.URL+path, http.NoBody)
		require.NoError(t, err)
		a, err := s.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		assert.Equal(t, want, a.StatusCode, path)
	}
}

func TestAFlavorsTraitsAreSaidClearly(t *testing.T) {
	w := newWorld(t)
	flavor := func(specs string) call {
		return call{method: "POST", target: "/flavors", token: admin, body: `{"flavor":{"name":"f","vcpus":1,"extra_specs":` + specs + `}}`}
	}
	w.refused(t, flavor(`{"trait:SSD":"yes"}`), api.CodeInvalid, `extra_specs: trait:SSD must be required or forbidden, got "yes"`)
	w.refused(t, flavor(`{"trait:ssd":"required"}`), api.CodeInvalid, `"trait:ssd" must name a trait`)
	w.answered(t, flavor(`{"trait:SSD":"required","trait:GPU":"forbidden","traits":"x"}`), 201, nil)
	r := w.booted(t, member, order(`"flavorRef":"f"`, `"traits":{"required":["AVX"]}`))
	assert.Equal(t, api.Traits{Required: []string{"AVX", "SSD"}, Forbidden: []string{"GPU"}}, r.Groups[0].Traits)
	w.refused(t, call{method: "POST", target: "/zones/boot", token: member, body: order(`"flavorRef":"f"`, `"traits":{"required":["GPU"]}`)},
		api.CodeInvalid, "trait GPU is both required and forbidden")
}

func TestUnknownQueryParametersAreRefused(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		w := r.of(t)
		w.refused(t, call{method: method, target: withQuery(r.target, "colour=red"), token: admin, body: r.body}, api.CodeInvalid, `unknown query parameter "colour"`)
	})
	w := newWorld(t)
	w.refused(t, call{method: "GET", target: "/servers?limit=1&limit=2", token: reader}, api.CodeInvalid, `"limit" is given twice`)
	w.refused(t, call{method: "GET", target: "/servers?limit=%zz", token: reader}, api.CodeInvalid, "cannot be read")
	w.refused(t, call{method: "GET", target: "/operator/members?limit=1", token: admin}, api.CodeInvalid, "this call takes none")
}

func TestFiltersOfServers(t *testing.T) {
	w := newWorld(t)
	for query, want := range map[string][]string{
		"?flavor=small":                       {"id-far", "id-web"},
		"?zone=east":                          {"id-far"},
		"?zone=root":                          {"id-web"},
		"?host=host-1":                        {"id-web"},
		"?host=host-id-2&all_projects=true":   {"id-hidden"}, // what is held for a parent is no instance yet
		"?group=web":                          {},
		"?changes_since=2030-01-01T00:00:00Z": {"id-far", "id-web"},
		"?changes_since=2030-01-01T00:00:01Z": {},
		"?all_projects=false":                 {"id-far", "id-web"},
	} {
		assert.Equal(t, want, w.ids(t, admin, query), query)
	}
	for query, says := range map[string]string{
		"?zone=nope": `zone: there is no zone "nope" here; this is zone root, and its direct children are east, west`, "?zone=west/edge": "there is no zone",
		"?flavor=nope": `flavor: there is no flavor "nope" in this zone; see GET /flavors`,
		"?host=none":   "there is no host", "?status=BOGUS": "status must be one of BUILD, ACTIVE, SHUTOFF, ERROR, DELETING, DELETED, got \"BOGUS\"",
		"?changes_since=today": "changes_since must be a time", "?all_projects=1": "all_projects must be true or false",
	} {
		w.refused(t, call{method: "GET", target: "/servers" + query, token: admin}, api.CodeInvalid, says)
	}
	w.refused(t, call{method: "GET", target: "/servers?host=host-1", token: member}, api.CodeForbidden, "host needs the role admin")
}
