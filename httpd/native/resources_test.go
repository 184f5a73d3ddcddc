package native

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/costs"
	"berth/raftstore/command"
)

func TestServerGroups(t *testing.T) {
	k := func(fields string) string { return `{"server_group":{` + fields + `}}` }
	w := newWorld(t)
	for body, says := range map[string]string{
		k(`"name":"b","policy":"near"`):                            "policy must be affinity",
		k(`"name":"b"`):                                            "policy must be affinity",
		k(`"policy":"affinity"`):                                   "server group name must be",
		k(`"name":"b","policy":"affinity","max_per_host":1`):       "max_per_host is for anti-affinity alone",
		k(`"name":"b","policy":"anti-affinity","max_per_host":-1`): "max_per_host must be 1 to 10000",
		k(fmt.Sprintf(`"name":"b","policy":"anti-affinity","max_per_host":%d`, api.CountMax+1)): "max_per_host must be 1 to 10000",
		k(`"name":"b","policy":"affinity","members":[]`):                                        "unknown field",
	} {
		w.refused(t, call{method: "POST", target: "/server-groups", token: member, body: body}, api.CodeInvalid, says)
	}
	w.refused(t, call{method: "POST", target: "/server-groups", token: member, body: k(`"name":"apart","policy":"affinity"`)}, api.CodeConflict, "apart")
	accepts(t, "POST", "/server-groups", 201,
		k(`"name":`+text(api.NameMaxBytes)+`,"policy":"soft-affinity"`), k(fmt.Sprintf(`"name":"b","policy":"anti-affinity","max_per_host":%d`, api.CountMax)))

	// Somebody else's is not there, and its name is free.
	for _, method := range []string{"GET", "DELETE"} {
		w.refused(t, call{method: method, target: "/server-groups/apart", token: other}, api.CodeNotFound, `no server group "apart"`)
	}
	w.answered(t, call{method: "POST", target: "/server-groups", token: other, body: k(`"name":"apart","policy":"affinity"`)}, 201, nil)
	w.refused(t, call{method: "GET", target: "/server-groups?project_id=p2", token: member}, api.CodeForbidden, "admin")
	var got struct {
		Groups []rest.ServerGroup `json:"server_groups"`
	}
	w.answered(t, call{method: "GET", target: "/server-groups?project_id=p2", token: admin}, 200, &got)
	require.Len(t, got.Groups, 1)
	assert.Equal(t, api.ProjectID("p2"), got.Groups[0].Project)
	w.refused(t, call{method: "GET", target: "/server-groups?all_projects=true", token: member}, api.CodeForbidden, "admin")
	w.refused(t, call{method: "GET", target: "/server-groups?all_projects=maybe", token: admin}, api.CodeInvalid, "true or false")
	projects := func(target string) (out []api.ProjectID, next string) {
		var page struct {
			Groups []rest.ServerGroup `json:"server_groups"`
			Next   string             `json:"next_marker"`
		}
		w.answered(t, call{method: "GET", target: target, token: admin}, 200, &page)
		for _, g := range page.Groups {
			out = append(out, g.Project)
		}
		return out, page.Next
	}
	all, next := projects("/server-groups?all_projects=true")
	assert.Contains(t, all, api.ProjectID("p1"))
	assert.Contains(t, all, api.ProjectID("p2"))
	assert.Empty(t, next)
	var paged []api.ProjectID
	for next = "-"; next != ""; {
		marker := "&marker=" + url.QueryEscape(next)
		if next == "-" {
			marker = ""
		}
		var page []api.ProjectID
		page, next = projects("/server-groups?all_projects=true&limit=1" + marker)
		require.Len(t, page, 1)
		paged = append(paged, page...)
	}
	assert.Equal(t, all, paged)
}

// TestWebhooksOfAllProjects: an operator sees whose deliveries fail, and nobody else does.
func TestWebhooksOfAllProjects(t *testing.T) {
	w := newWorld(t)
	w.store.Must(t, command.WebhookPut{Stamp: w.zone.Stamp(), Webhook: api.Webhook{ // p1 has one already
		ID: "hook-2", Name: "theirs", Project: "p2", User: "u", URL: "https://example.org/", Secret: []byte("wrapped"),
	}})
	var got struct {
		Webhooks []rest.Webhook `json:"webhooks"`
	}
	w.answered(t, call{method: "GET", target: "/webhooks?all_projects=true", token: admin}, 200, &got)
	var of []string
	for _, h := range got.Webhooks {
		of = append(of, string(h.Project)+"/"+h.Name)
	}
	assert.Equal(t, []string{"p1/pager", "p2/theirs"}, of)
	w.refused(t, call{method: "GET", target: "/webhooks?all_projects=true", token: member}, api.CodeForbidden, "admin")
}

func TestABootJoinsAServerGroup(t *testing.T) {
	w := newWorld(t)
	want := []api.Rule{{ID: "group-apart", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	assert.Equal(t, want, w.booted(t, member, order(hints(`"group":"apart"`))).Rules)
	assert.Equal(t, want, w.booted(t, member, order(hints(`"group":"group-apart"`))).Rules)
	want[0].Groups = []int{0, 1}
	r := w.booted(t, member, several([]string{group("a", hints(`"group":"apart"`)), group("b", hints(`"group":"group-apart"`))}))
	assert.Equal(t, want, r.Rules, "one group by two names is one rule")
	w.refused(t, call{method: "POST", target: "/zones/boot", token: other, body: order(hints(`"group":"apart"`))}, api.CodeInvalid, "there is no server group")
}

func TestAggregates(t *testing.T) {
	k := func(fields string) string { return `{"aggregate":{` + fields + `}}` }
	w := newWorld(t)
	for body, says := range map[string]string{
		k(``):                            "aggregate name must be",
		k(`"name":"a b"`):                "aggregate name must be",
		k(`"name":"b","hosts":["none"]`): `hosts: there is no host "none"`,
		k(`"name":"b","metadata":` + pairs(api.MetadataMax+1, 3)): "metadata may have at most 64",
		k(`"name":"b","metadata":{"availability_zone":"a:b"}`):    "metadata.availability_zone must be",
		k(`"name":"b","id":"x"`):                                  "unknown field",
	} {
		w.refused(t, call{method: "POST", target: "/aggregates", token: admin, body: body}, api.CodeInvalid, says)
	}
	w.refused(t, call{method: "POST", target: "/aggregates", token: admin, body: k(`"name":"rack1"`)}, api.CodeConflict, "rack1")
	w.refused(t, call{
		method: "POST", target: "/aggregates", token: admin, body: k(`"name":"b","hosts":["host-1"],"metadata":{"availability_zone":"az2"}`),
	}, api.CodeConflict, `puts it into availability zone "az1"`)
	w.refused(t, call{method: "PUT", target: "/aggregates/none", token: admin, body: k(``)}, api.CodeNotFound, `no aggregate "none"`)
	accepts(t, "POST", "/aggregates", 201, k(`"name":`+text(api.NameMaxBytes)+`,"metadata":`+pairs(api.MetadataMax, 3)))

	var got struct{ Aggregate rest.Aggregate }
	w.answered(t, call{method: "PUT", target: "/aggregates/rack1", token: admin, body: k(`"name":"rack2","hosts":["host-3","host-id-2"]`)}, 200, &got)
	assert.Equal(t, []string{"host-2", "host-3"}, got.Aggregate.Hosts)
	assert.Equal(t, map[string]string{"availability_zone": "az1"}, got.Aggregate.Metadata, "what is absent stays")
	var bare struct{ Aggregate rest.Aggregate }
	w.answered(t, call{method: "PUT", target: "/aggregates/rack2", token: admin, body: k(`"metadata":{}`)}, 200, &bare)
	assert.Empty(t, bare.Aggregate.Metadata)
	w.answered(t, call{method: "DELETE", target: "/aggregates/aggregate-rack1", token: admin}, 204, nil)
	w.refused(t, call{method: "DELETE", target: "/aggregates/rack2", token: admin}, api.CodeNotFound, "")
}

func TestAvailabilityZones(t *testing.T) {
	w := newWorld(t)
	azs := func() map[string]string {
		var got struct {
			AZs []rest.AvailabilityZone `json:"availability_zones"`
		}
		w.answered(t, call{method: "GET", target: "/availability-zones", token: reader}, 200, &got)
		out := map[string]string{}
		for _, a := range got.AZs {
			out[a.Name] = fmt.Sprint(a.Available, " ", strings.Join(a.Zones, " "))
		}
		return out
	}
	assert.Equal(t, map[string]string{
		"az1": "true root east west", "root": "true root", "az-zone-east": "true east", "az-zone-west": "false west",
	}, azs(), "west has not been heard lately")
	said := func(az string) {
		w.store.Must(t, command.LinkSet{Stamp: w.zone.Stamp(), ID: "link-east", AZ: &az})
	}
	said("az-said")
	assert.Equal(t, []string{"true east", "true east"}, []string{azs()["az-said"], azs()["az-zone-east"]}, "nobody is bound, so either may be asked for")
	bound := w.zone.View().Config
	bound.Bindings.Mode = api.BindingStrict
	w.store.Must(t, command.ConfigSet{Stamp: w.zone.Stamp(), Config: bound})
	assert.Equal(t, map[string]string{
		"az1": "true root west", "root": "true root", "az-said": "true east",
	}, azs(), "the word of the operator takes the place of what the zones say; that of west is az1")
	bound.Bindings.Mode = ""
	w.store.Must(t, command.ConfigSet{Stamp: w.zone.Stamp(), Config: bound})
	said("")
	off := false
	w.store.Must(t, command.LinkSet{Stamp: w.zone.Stamp(), ID: "link-east", State: new(api.LinkPaused)})
	for _, id := range []api.HostID{"host-id-1", "host-id-2", "host-id-3"} {
		w.store.Must(t, command.HostSet{Stamp: w.zone.Stamp(), ID: id, Enabled: &off})
	}
	assert.Equal(t, map[string]string{"az1": "false root east west", "az-zone-east": "false east", "az-zone-west": "false west"}, azs())
}

func TestHostsAreDrained(t *testing.T) {
	w := newWorld(t)
	drain := func(body string) call {
		return call{method: "POST", target: "/hosts/host-1/drain", token: admin, body: body}
	}
	for body, says := range map[string]string{
		`{}`: "policy must be wait, end or move", `{"policy":"stop"}`: "policy must be",
		`{"policy":"end","reason":` + text(api.ExtraSpecMaxBytes+1) + `}`: "reason may have at most 255 bytes",
	} {
		w.refused(t, drain(body), api.CodeInvalid, says)
	}
	var got struct{ Host rest.Host }
	w.answered(t, drain(`{"policy":"wait"}`), 202, &got)
	assert.Equal(t, &rest.Leaving{Left: 1}, got.Host.Leaving)
	assert.Equal(t, "drained", got.Host.Maintenance)
	for _, body := range []string{`{"policy":"wait","reason":"new disk"}`, `{"policy":"wait"}`} {
		w.answered(t, drain(body), 202, &got)
		assert.Equal(t, "new disk", got.Host.Maintenance, body)
	}
	w.refused(t, call{method: "POST", target: "/hosts/none/drain", token: admin, body: `{"policy":"wait"}`}, api.CodeNotFound, `no host "none"`)
	w.answered(t, call{method: "DELETE", target: "/servers/id-web", token: member}, 204, nil)
	w.answered(t, call{method: "GET", target: "/hosts/host-1", token: admin}, 200, &got)
	assert.Equal(t, &rest.Leaving{Left: 1, Ending: 1}, got.Host.Leaving)
	var after struct{ Host rest.Host }
	w.answered(t, call{method: "DELETE", target: "/hosts/host-1/drain", token: admin}, 200, &after)
	assert.Nil(t, after.Host.Leaving)
	assert.Empty(t, after.Host.Maintenance)
	accepts(t, "POST", "/hosts/host-1/drain", 202, `{"policy":"end","reason":`+text(api.ExtraSpecMaxBytes)+`}`)
	w.refused(t, call{method: "GET", target: "/hosts/host-1/evacuation", token: admin}, api.CodeConflict, "drain it instead")
}

// TestDrainsArePlanned: what a drain would do is told to operators, with the names of hosts.
func TestDrainsArePlanned(t *testing.T) {
	refusals(t, "POST", "/hosts/plan-drain", map[string]string{
		`{}`: "name 1 to 64 hosts, got 0", `{"hosts":["host-1"],"policy":"move"}`: `unknown field "policy"`,
		`{"hosts":["host-1"],"at":"yesterday"}`: "reading an instant", `{"hosts":["host-1"],"at":"1999-01-01T00:00:00Z"}`: "at must not be in the past",
	})
	w := newWorld(t)
	w.refused(t, call{method: "POST", target: "/hosts/plan-drain", token: admin, body: `{"hosts":["none"]}`}, api.CodeNotFound, `no host "none"`)
	var got struct{ Plan rest.DrainPlan }
	w.answered(t, call{method: "POST", target: "/hosts/plan-drain", token: admin, body: `{"hosts":["host-id-1","host-1"]}`}, 200, &got)
	assert.Equal(t, []string{"host-1"}, got.Plan.Hosts)
	assert.Equal(t, 1, got.Plan.Boots.Breaks+got.Plan.Boots.Moves)
	require.Len(t, got.Plan.Owners, 1)
	assert.Equal(t, "boot", got.Plan.Owners[0].Kind)
	var after struct{ Host rest.Host }
	w.answered(t, call{method: "GET", target: "/hosts/host-1", token: admin}, 200, &after)
	assert.Empty(t, after.Host.Drain, "nothing was drained")
}

func TestHostsAreSetAndFound(t *testing.T) {
	k := func(fields string) string { return `{"host":{` + fields + `}}` }
	refusals(t, "PUT", "/hosts/host-1", map[string]string{
		k(`"attributes":` + pairs(api.AttributesMax+1, 3)):  "attributes may have at most 128",
		k(`"maintenance":` + text(api.ExtraSpecMaxBytes+1)): "maintenance may have at most 255 bytes",
		k(`"drain":"move"`): `unknown field "host.drain"`,
	})
	accepts(t, "PUT", "/hosts/host-1", 200, k(`"attributes":`+pairs(api.AttributesMax, 3)), k(`"maintenance":`+text(api.ExtraSpecMaxBytes)))
	w := newWorld(t)
	w.answered(t, call{method: "PUT", target: "/hosts/host-2", token: admin, body: k(`"pool":"reservable"`)}, 200, nil)
	names := func(query string) []string {
		var got struct{ Hosts []rest.Host }
		w.answered(t, call{method: "GET", target: "/hosts" + query, token: admin}, 200, &got)
		out := []string{}
		for _, h := range got.Hosts {
			out = append(out, h.Name)
		}
		return out
	}
	assert.Equal(t, []string{"host-1", "host-2", "host-3"}, names("?state=up"))
	assert.Empty(t, names("?state=down"))
	assert.Equal(t, []string{"host-2"}, names("?pool=reservable"))
	assert.Equal(t, []string{"host-1"}, names("?availability_zone=az1"))
	assert.Equal(t, []string{"host-1"}, names("?aggregate=rack1"))
	assert.Equal(t, []string{"host-3"}, names("?pool=shared&availability_zone=root&limit=1"))
	assert.Empty(t, names("?state=down&availability_zone=az1"), "there is one, and it is up")
	for query, says := range map[string]string{
		"?state=away": "state must be", "?pool=blue": "pool must be", "?aggregate=none": "there is no aggregate",
		"?availability_zone=nope": `availability_zone: no host of this zone is in "nope"`,
	} {
		w.refused(t, call{method: "GET", target: "/hosts" + query, token: admin}, api.CodeInvalid, says)
	}
}

func TestScheduler(t *testing.T) {
	k := func(fields string) string { return `{"scheduler":{` + fields + `}}` }
	w := newWorld(t)
	set := func(body string) call {
		return call{method: "PUT", target: "/operator/scheduler", token: admin, body: body}
	}
	for body, says := range map[string][]string{
		`{}`: {"scheduler is missing"},
		k(`"filters":[{"name":"dear"},{"name":"far"}],"costs":[{"name":"cheap","weight":1}]`):                  {`there is no filter "dear", "far"`, "cheap"},
		k(`"costs":[{"name":"spread","weight":1001}]`):                                                         {"1000"},
		k(`"costs":[{"Name":"spread","weight":1}]`):                                                            {`unknown field "scheduler.costs[0].Name"`},
		k(`"filters":[` + strings.TrimSuffix(strings.Repeat(`{"name":"pool"},`, api.FiltersMax+1), ",") + `]`): {"at most 64 filters"},
	} {
		for _, s := range says {
			w.refused(t, set(body), api.CodeInvalid, s)
		}
	}
	var got struct{ Scheduler rest.Scheduler }
	w.answered(t, set(k(`"filters":[{"name":"pool"}],"costs":[{"name":"spread","weight":-1000}]`)), 200, &got)
	assert.Equal(t, []rest.FilterSpec{{Name: "pool"}}, got.Scheduler.Filters)
	w.answered(t, call{method: "PUT", target: "/operator/config", token: admin, body: `{"config":{"tags":["ssd"]}}`}, 200, nil)
	assert.Len(t, w.store.View().Config.Filters, 1, "other settings leave the scheduler alone")
	w.answered(t, set(k(``)), 200, &got)
	assert.Equal(t, costs.DefaultWeights(), got.Scheduler.Record().Costs, "none stands for the default")
	for _, name := range costs.Names() {
		assert.NotEmpty(t, costs.Help(name), name)
	}
}

func TestExplanations(t *testing.T) {
	w := newWorld(t)
	explain := func(token, id string) call { return call{method: "GET", target: "/explain/" + id, token: token} }
	w.refused(t, explain(reader, "r-hidden"), api.CodeNotFound, "nothing is known of")
	w.refused(t, explain(reader, "r-absent"), api.CodeNotFound, "nothing is known of")
	var got struct{ Explanation rest.Explanation }
	w.answered(t, explain(admin, "r-hidden"), 200, &got)
	assert.Equal(t, api.ProjectID("p2"), got.Explanation.Project)
	w.refused(t, call{method: "GET", target: "/explain/r-hidden?project_id=p1", token: admin}, api.CodeNotFound, "")

	c := call{
		method: "POST", target: "/zones/select", token: member, body: order(`"max_count":50`, `"min_count":1`, `"traits":{"required":["SSD"]}`),
		head: map[string]string{api.HeaderRequestID: "req-7"},
	}
	var a rest.SelectAnswer
	w.answered(t, c, 200, &a)
	assert.Equal(t, api.RequestID("req-7"), a.Request)
	for token, named := range map[string]bool{member: false, admin: true} {
		body := w.answered(t, explain(token, "req-7"), 200, &got).Body.String()
		assert.Equal(t, named, strings.Contains(body, "host-1"), "hosts are named to admins alone")
		r := got.Explanation.Groups[0].Refusals
		sum := r.Offering
		for _, f := range r.Filters {
			sum += f.Hosts
		}
		assert.Equal(t, 3, r.Considered)
		assert.Equal(t, r.Considered, sum)
	}
}

// TestADrainCountsSlots: slots of leases are told apart from instances, and those of the maintenance
// of a host do not leave it.
func TestADrainCountsSlots(t *testing.T) {
	w := newWorld(t)
	reserve := func(host api.HostID, maintenance bool) {
		t.Helper()
		name := "slot-" + string(host)
		req := request("p1", api.ReservationID("r-"+name))
		req.Window = api.Window{Start: api.InstantOf(epoch), End: api.InstantOf(epoch.Add(time.Hour))}
		req.Reserves, req.Maintenance = true, maintenance
		if maintenance {
			req.Groups = []api.Group{{Name: "a", Count: 1, Min: 1, Whole: true, Hints: api.Hints{ForceHosts: []string{string(host)}}}}
		}
		spec := api.InstanceSpec{ID: api.InstanceID("id-" + name), Name: name}
		w.store.Must(t, command.BootCreate{Stamp: w.zone.Stamp(), BootTerms: command.BootTerms{
			Name: name, Digest: []byte(name), Request: req, Min: 1, Instances: []api.InstanceSpec{spec},
		}}, command.Hold{
			Stamp: w.zone.Stamp(), ID: api.HoldID("hold-" + name), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: spec, Host: host}},
		})
	}
	reserve("host-id-1", false)
	reserve("host-id-3", true)
	var got struct{ Host rest.Host }
	w.answered(t, call{method: "GET", target: "/hosts/host-1", token: admin}, 200, &got)
	assert.Equal(t, []int{2, 1}, []int{got.Host.Instances, got.Host.Slots})
	w.answered(t, call{method: "POST", target: "/hosts/host-1/drain", token: admin, body: `{"policy":"move"}`}, 202, &got)
	assert.Equal(t, &rest.Leaving{Left: 1, Slots: 1}, got.Host.Leaving)
	w.answered(t, call{method: "POST", target: "/hosts/host-3/drain", token: admin, body: `{"policy":"move"}`}, 202, &got)
	assert.Equal(t, []int{1, 1}, []int{got.Host.Instances, got.Host.Slots})
	assert.Equal(t, &rest.Leaving{}, got.Host.Leaving)
}
