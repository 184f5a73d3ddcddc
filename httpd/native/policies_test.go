package native

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/internal/golden"
	"berth/raftstore/command"
)

// policiesPath is the document with the table of policies.
const policiesPath = "../../docs/policies.md"

var policies = regexp.MustCompile(`(?s)<!-- policies, made of api/rest -->\n.*?<!-- end -->\n`)

var leading = regexp.MustCompile(`(?s)<!-- rights that lead to everything, made of api/rest -->\n.*?<!-- end -->\n`)

// leadingTable lists the calls by which a right leads to everything, and the parts of calls that need admin.
func leadingTable() string {
	all := "| right | call | |\n| --- | --- | --- |\n"
	for _, r := range rest.Routes() {
		switch {
		case r.Leads != "":
			all += fmt.Sprintf("| `%s` | `%s` | leads to everything: %s |\n", r.Allows(), r.Name(), r.Leads)
		case len(r.Admin) > 0:
			all += fmt.Sprintf("| `%s` | `%s` | without `%s`, for which the role `admin` is needed: %s |\n", r.Allows(), r.Name(), strings.Join(r.Admin, "`, `"), r.Why)
		}
	}
	return all
}

// TestWhatEachRightReaches: every right with the calls that it allows, how it leads to everything, and what it leaves to admins. Who
// adds a call says so here.
func TestWhatEachRightReaches(t *testing.T) {
	reach := map[api.RouteGroup]string{}
	for _, r := range rest.Routes() {
		one := "  " + r.Name()
		if r.Leads != "" {
			one += "  EVERYTHING: " + r.Leads
		}
		if len(r.Admin) > 0 {
			one += "  but for admins: " + strings.Join(r.Admin, ", ")
		}
		reach[r.Allows()] += one + "\n"
	}
	all := "every caller\n" + reach[""]
	for _, g := range api.AllRouteGroups() {
		all += "\n" + string(g) + "\n" + cmp.Or(reach[g], "  no call of the native API\n")
	}
	golden.Check(t, "testdata/rights.txt", []byte(all))
}

// TestPartsOfCallsForAdmins: over the router's own list, a role that allows everything may make a call without the parts that the table
// leaves to admins, and not with any of them.
func TestPartsOfCallsForAdmins(t *testing.T) {
	values := map[string]string{"certificate": `{"certificate":"c"}`, "key": `{"key":"k"}`, "flavor.command": `{"flavor":{"vcpus":2,"name":"f","command":["/bin/sh"]}}`}
	without := map[string]string{"POST /operator/ca/rotate": `{}`, "POST /flavors": `{"flavor":{"name":"f","vcpus":1}}`, "PUT /flavors/{id}": `{"flavor":{"vcpus":2}}`}
	for _, route := range rest.Routes() {
		r := rows[route.Name()]
		for _, part := range route.Admin {
			w := r.of(t)
			everything := w.custom(t, "everything", "p1", api.AllRouteGroups()...)
			require.Contains(t, values, part)
			w.refused(t, call{method: route.Method, target: r.target, token: everything, body: values[part]}, api.CodeForbidden, "needs the role admin, whatever other roles allow")
			assert.Equal(t, r.status, w.do(call{method: route.Method, target: r.target, token: everything, body: without[route.Name()]}).Code)
		}
	}
}

// TestWhoReplacesAFlavorLeavesItsCommand, or takes it away, unless he is an admin.
func TestWhoReplacesAFlavorLeavesItsCommand(t *testing.T) {
	w := newWorld(t)
	desk := w.custom(t, "desk", "p1", api.AreaFlavors.Writes())
	put := func(token, command string) call {
		return call{method: "PUT", target: "/flavors/small", token: token, body: `{"flavor":{"vcpus":2,"command":[` + command + `]}}`}
	}
	w.answered(t, put(admin, `"/bin/true"`), 200, nil)
	w.answered(t, put(desk, `"/bin/true"`), 200, nil)
	w.refused(t, put(desk, `"/bin/true","x"`), api.CodeForbidden, "the command of a flavor")
	w.answered(t, put(desk, ""), 200, nil)
	w.refused(t, put(desk, `"/bin/true"`), api.CodeForbidden, "the command of a flavor")
}

// TestPolicyDocument: docs/policies.md says of every route who may call it, what he sees, how fresh
// it is and which rate it has; -update writes it.
func TestPolicyDocument(t *testing.T) {
	was, err := os.ReadFile(policiesPath)
	require.NoError(t, err)
	require.Len(t, policies.FindAll(was, -1), 1)
	table := "| call | group | role | sees | read | rate |\n| --- | --- | --- | --- | --- | --- |\n"
	for _, r := range rest.Routes() {
		role, group := string(r.Role), "`"+string(r.Allows())+"`"
		if role == "" {
			role = "everybody"
		}
		if r.Area == "" {
			group = "-"
		}
		class := door.ClassOf(r.Method, r.Read, r.Role)
		table += fmt.Sprintf("| `%s` | %s | %s | %s | %s | %v |\n", r.Name(), group, role, r.Sees, r.Read, class)
	}
	is := policies.ReplaceAllLiteralString(string(was), "<!-- policies, made of api/rest -->\n"+table+"<!-- end -->\n")
	require.Len(t, leading.FindAllString(is, -1), 1)
	is = leading.ReplaceAllLiteralString(is, "<!-- rights that lead to everything, made of api/rest -->\n"+leadingTable()+"<!-- end -->\n")
	golden.Check(t, policiesPath, []byte(is))
	for _, g := range api.AllRouteGroups() {
		area, _, _ := strings.Cut(string(g), ":")
		assert.Contains(t, is, "`"+area, "an area that nobody explains")
	}
}

// custom makes a role and a token with it, of a user of a project, and returns the token.
func (w *world) custom(tb testing.TB, name string, project api.ProjectID, allow ...api.RouteGroup) string {
	tb.Helper()
	slices.Sort(allow)
	w.store.Must(tb, command.RoleSet{Stamp: w.zone.Stamp(), Role: api.Role{Name: api.UserRole(name), Allow: allow}})
	w.store.Must(tb, command.TokenPut{Stamp: w.zone.Stamp(), Token: api.Token{
		ID: api.TokenID(name), Hash: []byte("s"), User: api.UserID(name), Project: project, Roles: []api.UserRole{api.UserRole(name)}, Expires: api.Forever,
	}})
	return name + ":s"
}

// TestEveryRouteAdmitsItsGroup: over the router's own list, a role with the group of a route alone
// admits to it, and one with all other groups does not, and changes nothing.
func TestEveryRouteAdmitsItsGroup(t *testing.T) {
	const needs = "this call needs the role"
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		name := strings.TrimPrefix(t.Name(), "TestEveryRouteAdmitsItsGroup/")
		_, path, _ := strings.Cut(name, "/")
		route := rest.Find(method + " /" + path)
		w := r.of(t)
		if route.Role == "" {
			return
		}
		group := route.Allows()
		other := slices.DeleteFunc(api.AllRouteGroups(), func(g api.RouteGroup) bool { return g == group })
		all := w.custom(t, "all-others", "p1", other...)
		if group == "" {
			assert.NotContains(t, w.do(call{method: method, target: r.target, token: all, body: r.body}).Body.String(), needs)
			return
		}
		w.refused(t, call{method: method, target: r.target, token: all, body: r.body}, api.CodeForbidden, "or one that allows "+string(group))
		if len(route.Admin) > 0 && strings.Contains(r.body, route.Admin[0]) {
			return // see TestPartsOfCallsForAdmins
		}
		just := w.custom(t, "just", "p1", group)
		rec := w.do(call{method: method, target: r.target, token: just, body: r.body})
		assert.NotContains(t, rec.Body.String(), needs)
		if name := route.Name(); !slices.Contains([]string{"POST /operator/tokens", "PUT /operator/roles/{id}", "DELETE /operator/roles/{id}"}, name) {
			assert.Equal(t, r.status, rec.Code, "%s", rec.Body) // of those, see TestNobodyGivesMoreThanHeHas
		}
	})
}

// TestARoleSeesItsProjectAlone, also if it allows what only admins do otherwise.
func TestARoleSeesItsProjectAlone(t *testing.T) {
	w := newWorld(t)
	everything := w.custom(t, "everything", "p1", api.AllRouteGroups()...)
	w.answered(t, call{method: "GET", target: "/servers/id-web", token: everything}, 200, nil)
	w.refused(t, call{method: "GET", target: "/servers/id-hidden", token: everything}, api.CodeNotFound, "")
	w.refused(t, call{method: "GET", target: "/servers?all_projects=true", token: everything}, api.CodeForbidden, "")
	w.refused(t, call{method: "GET", target: "/zones/boot/r-hidden?project_id=p2", token: everything}, api.CodeForbidden, "")
	w.refused(t, call{method: "GET", target: "/quotas/p2", token: everything}, api.CodeForbidden, "")
	w.answered(t, call{method: "GET", target: "/hosts", token: everything}, 200, nil)
}

// TestNobodyGivesMoreThanHeHas: who may make tokens and roles gives what he has, in his project.
func TestNobodyGivesMoreThanHeHas(t *testing.T) {
	w := newWorld(t)
	desk := w.custom(t, "desk", "p1", "tokens:read", "tokens:write", "roles:write", "servers:read")
	token := func(project, role string) call {
		return call{method: "POST", target: "/operator/tokens", token: desk, body: `{"user_id":"u","project_id":"` + project + `","roles":["` + role + `"]}`}
	}
	role := func(name, allow string) call {
		return call{method: "PUT", target: "/operator/roles/" + name, token: desk, body: `{"role":{"allow":["` + allow + `"]}}`}
	}
	const more = "allows what your token does not"
	for _, name := range []string{"reader", "member", "admin", "idle"} {
		w.refused(t, token("p1", name), api.CodeForbidden, more)
	}
	w.refused(t, token("p2", "desk"), api.CodeForbidden, "another project")
	w.refused(t, token("p1", "none"), api.CodeInvalid, "a role of the zone")
	w.answered(t, token("p1", "desk"), 201, nil)

	w.refused(t, role("desk", "hosts:write"), api.CodeForbidden, more)
	w.refused(t, role("viewer", "servers:write"), api.CodeForbidden, more)
	w.refused(t, role("idle", "servers:read"), api.CodeForbidden, more)
	w.refused(t, role("viewer", "servers"), api.CodeInvalid, "no group of calls")
	w.refused(t, call{method: "DELETE", target: "/operator/roles/idle", token: desk}, api.CodeForbidden, more)
	w.answered(t, role("viewer", "servers:read"), 200, nil)
	w.answered(t, call{method: "DELETE", target: "/operator/roles/viewer", token: desk}, 204, nil)
	w.refused(t, call{method: "DELETE", target: "/operator/roles/desk", token: desk}, api.CodeConflict, "have the role")

	var got struct{ Tokens []rest.Token }
	w.answered(t, call{method: "GET", target: "/operator/tokens", token: desk}, 200, &got)
	for _, one := range got.Tokens {
		assert.Equal(t, api.ProjectID("p1"), one.Project)
	}
	other := w.custom(t, "elsewhere", "p2", "servers:read")
	w.refused(t, call{method: "DELETE", target: "/operator/tokens/elsewhere", token: desk}, api.CodeNotFound, "")
	w.answered(t, call{method: "GET", target: "/servers", token: other}, 200, nil)
}

// TestServiceTokens: a token of no user does what its role allows, and is nobody's but the service's.
func TestServiceTokens(t *testing.T) {
	w := newWorld(t)
	w.custom(t, "deployer", "p1", "boots:read", "boots:write", "servers:read")
	w.answered(t, call{method: "POST", target: "/operator/tokens", token: admin, body: `{"service":"ci","project_id":"p1","roles":["deployer"]}`}, 201, nil)
	made := w.auth.token
	assert.Equal(t, "ci", made.Service)
	assert.Empty(t, made.User)
	made.ID, made.Hash = "ci", []byte("s")
	w.store.Must(t, command.TokenPut{Stamp: w.zone.Stamp(), Token: made})
	w.answered(t, call{method: "POST", target: "/zones/boot", token: "ci:s", body: order(`"reservation_id":"r-ci"`)}, 202, nil)
	b, ok := w.store.View().Boot("p1", "r-ci")
	require.True(t, ok)
	assert.Empty(t, b.Request.User)
	w.refused(t, call{method: "POST", target: "/volumes", token: "ci:s", body: `{"volume":{"name":"a","size":1}}`}, api.CodeForbidden, "volumes:write")
	var got struct{ Tokens []rest.Token }
	w.answered(t, call{method: "GET", target: "/tokens", token: "ci:s"}, http.StatusOK, &got)
	require.Len(t, got.Tokens, 1)
	assert.Equal(t, "ci", got.Tokens[0].Service)
	w.refused(t, call{method: "DELETE", target: "/tokens/ci", token: member}, api.CodeNotFound, "")
	for body, says := range map[string]string{
		`"service":"ci","user_id":"u","project_id":"p1","roles":["reader"]`:              "user_id or a service",
		`"service":"c i","project_id":"p1","roles":["reader"]`:                           "service must be",
		`"project_id":"p1","roles":["reader"]`:                                           "user_id must be",
		`"service":"ci","project_id":"p1","roles":["a","b","c","d","e","f","g","h","i"]`: "at most 8",
	} {
		w.refused(t, call{method: "POST", target: "/operator/tokens", token: admin, body: "{" + body + "}"}, api.CodeInvalid, says)
	}
}
