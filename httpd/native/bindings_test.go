package native

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
)

// bindingPage is one page of bindings.
type bindingPage struct {
	Bindings []rest.Binding `json:"bindings"`
	Next     string         `json:"next_marker"`
}

func TestListOfBindings(t *testing.T) {
	w := newWorld(t)
	ids := func(query string) (out []api.BindingID) {
		t.Helper()
		var p bindingPage
		w.answered(t, call{method: "GET", target: "/bindings" + query, token: admin}, 200, &p)
		for _, b := range p.Bindings {
			out = append(out, b.ID)
		}
		return out
	}
	for query, want := range map[string][]api.BindingID{
		"":                                       {"binding-1", "binding-2", "binding-3"},
		"?active=true":                           {"binding-1", "binding-2", "binding-3"},
		"?active=false":                          {"binding-0"},
		"?active=all":                            {"binding-0", "binding-1", "binding-2", "binding-3"},
		"?project_id=p2":                         {"binding-2"},
		"?zone=east":                             {"binding-1", "binding-3"},
		"?zone=link-west&active=all":             {"binding-0", "binding-2"},
		"?zone=none":                             nil,
		"?availability_zone=az1":                 {"binding-2"},
		"?tag=gpu%3Dcad":                         {"binding-2"},
		"?tag=gpu":                               nil,
		"?after=2030-01-01T00:00:00Z":            {"binding-1", "binding-2", "binding-3"},
		"?before=2030-01-01T00:00:00Z":           nil,
		"?before=2030-01-01T00:00:01Z":           {"binding-1", "binding-2", "binding-3"},
		"?active=all&after=2030-01-01T00:00:00Z": {"binding-1", "binding-2", "binding-3"},
		"?active=all&after=2029-12-31T23:59:59.999Z":         {"binding-0", "binding-1", "binding-2", "binding-3"},
		"?active=all&before=2030-01-01T01:00:00.001%2B01:00": {"binding-0", "binding-1", "binding-2", "binding-3"},
	} {
		assert.Equal(t, want, ids(query), query)
	}
	for query, part := range map[string]string{
		"?active=yes":        "active must be true, false or all",
		"?after=today":       "after must be a time",
		"?before=2030-01-01": "before must be a time",
		"?marker=x":          "marker is not one",
		"?marker=5.":         "marker is not one",
		"?limit=1001":        "limit must be",
		"?project=p1":        `unknown query parameter "project"`,
	} {
		w.refused(t, call{method: "GET", target: "/bindings" + query, token: admin}, api.CodeInvalid, part)
	}

	var got []api.BindingID
	for marker := ""; ; {
		var p bindingPage
		w.answered(t, call{method: "GET", target: "/bindings?active=all&limit=1&marker=" + marker, token: admin}, 200, &p)
		require.Len(t, p.Bindings, 1)
		got = append(got, p.Bindings[0].ID)
		if marker = p.Next; marker == "" {
			break
		}
	}
	assert.Equal(t, []api.BindingID{"binding-0", "binding-1", "binding-2", "binding-3"}, got)
}

func TestBindingsOfOtherCalls(t *testing.T) {
	w := newWorld(t)
	w.refused(t, call{method: "GET", target: "/bindings/none", token: admin}, api.CodeNotFound, `no binding "none"`)
	w.refused(t, call{method: "DELETE", target: "/bindings/none", token: admin}, api.CodeNotFound, `no binding "none"`)
	w.refused(t, call{method: "POST", target: "/bindings/binding-0/move", token: admin, body: `{"zone":"east"}`}, api.CodeConflict, "not active any more")
	w.refused(t, call{method: "POST", target: "/bindings/binding-1/move", token: admin, body: `{}`}, api.CodeInvalid, "zone is missing")
	w.refused(t, call{method: "POST", target: "/bindings/binding-1/move", token: admin, body: `{"zone":"up"}`}, api.CodeInvalid, "is the parent")
	w.refused(t, call{method: "POST", target: "/zones", token: admin, body: `{"zone":{"name":"south","maintenance":true}}`}, api.CodeInvalid, "once the zone is linked")
	w.refused(t, call{method: "POST", target: "/zones/up/plan-maintenance", token: admin, body: `{}`}, api.CodeInvalid, "is the parent")

	var got struct {
		Binding rest.Binding `json:"binding"`
	}
	w.answered(t, call{method: "POST", target: "/bindings", token: admin, body: `{"binding":{"project_id":"p3","zone":"east","parent":"up"}}`}, 200, &got)
	assert.Equal(t, api.BindingID("binding-3"), got.Binding.ID, "it is bound there already")
	assert.Equal(t, "up", got.Binding.Parent)
}

// TestTermsAreForAdmins: what an operator says of a child is not for its users.
func TestTermsAreForAdmins(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/zones", "/zones/detail", "/zones/west"} {
		assert.Contains(t, w.do(call{method: "GET", target: target, token: admin}).Body.String(), "gpu=cad", target)
		rec := w.do(call{method: "GET", target: target, token: reader})
		for _, secret := range []string{"gpu=cad", "az1", "headroom"} {
			assert.NotContains(t, rec.Body.String(), secret, target)
		}
	}
}

// TestSharesAreForAdmins: only operators see and set what a parent may have of the zone.
func TestSharesAreForAdmins(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/zones", "/zones/detail", "/zones/up"} {
		assert.Contains(t, w.do(call{method: "GET", target: target, token: admin}).Body.String(), `"committed_max"`, target)
		assert.NotContains(t, w.do(call{method: "GET", target: target, token: reader}).Body.String(), "share", target)
	}
	for body, status := range map[string]int{
		`{"share_held":0}`: 200, `{"share_committed":100}`: 200, `{"share_held":101}`: 400, `{"share_committed":-1}`: 400,
	} {
		assert.Equal(t, status, w.do(call{method: "PUT", target: "/zones/up", token: admin, body: `{"zone":` + body + `}`}).Code, body)
	}
	for _, c := range []call{
		{method: "PUT", target: "/zones/west", token: admin, body: `{"zone":{"share_held":50}}`},
		{method: "POST", target: "/zones", token: admin, body: `{"zone":{"name":"south","share_held":50}}`},
	} {
		assert.Equal(t, 400, w.do(c).Code, c.target)
	}
}

// TestEventsOfBindings: a project is told where it is bound and why, and operators by which binding.
func TestEventsOfBindings(t *testing.T) {
	w := newWorld(t)
	w.answered(t, call{method: "POST", target: "/bindings/binding-1/move", token: admin, body: `{"zone":"west"}`}, 200, nil)
	told := func(token string) string {
		return w.do(call{method: "GET", target: "/events?follow=false&kind=binding", token: token}).Body.String()
	}
	for _, text := range []string{`"kind":"binding.end"`, `"kind":"binding.begin"`, `"zone":"west"`, `"is":"operator"`} {
		assert.Contains(t, told(admin), text)
		assert.Contains(t, told(reader), text)
	}
	assert.Contains(t, told(admin), `"binding_id":"binding-1"`)
	assert.NotContains(t, told(reader), "binding_id")
	assert.NotContains(t, told(reader), "p2", "of another project")
	assert.NotContains(t, told(reader), "p3", "of a parent's project")
}
