package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/api/rest"
)

// TestEveryRouteIsDescribed: a row of the table that lacks something would be a hole in
// every document that is made of it.
func TestEveryRouteIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rest.Routes() {
		name := r.Name()
		assert.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		assert.NotEmpty(t, r.Help, "%s: no help", name)
		assert.NotEmpty(t, r.Since, "%s: no version", name)
		assert.NotEmpty(t, r.Group, "%s: no section", name)
		assert.Contains(t, []api.Read{api.ReadLocal, api.ReadLinearizable, api.ReadLog}, r.Read, "%s: no kind of read", name)
		assert.Contains(t, []api.UserRole{"", api.RoleReader, api.RoleMember, api.RoleAdmin}, r.Role, "%s: no such role", name)
		assert.Equal(t, strings.Contains(r.Path, "{"), r.ID != "", "%s: what does its path name?", name)
		assert.Equal(t, http.StatusOK, r.Status/100*100, "%s: status %d", name, r.Status)
		assert.Equal(t, r.Status == http.StatusNoContent || r.Stream, r.Answer.Body == nil, "%s: what does it answer?", name)
		assert.NotEmpty(t, r.Sees, "%s: whose objects?", name)
		if r.Area == "" {
			assert.Contains(t, []string{"GET /", "POST /operator/join", "GET /tokens", "DELETE /tokens/{id}"}, name, "no role of an operator can leave it out")
		}
		if r.Role == "" {
			assert.Contains(t, []string{"GET /", "POST /operator/join"}, name, "for everybody")
		}
		for _, p := range r.Query {
			assert.NotEmpty(t, p.Help, "%s: no help for %s", name, p.Name)
		}
	}
}

func TestPathsAreFilled(t *testing.T) {
	drain := rest.Find("POST /hosts/{id}/drain")
	assert.Equal(t, []string{"hosts", "a/b", "drain"}, drain.Fill("a/b"))
	assert.Panics(t, func() { drain.Fill() })
	assert.Panics(t, func() { drain.Fill("a", "b") })
	assert.Panics(t, func() { rest.Find("GET /nothing") })
}

// TestWhoIsUnknownSendsLittle: a call that needs no token takes no large body, and others only where something large is meant.
func TestWhoIsUnknownSendsLittle(t *testing.T) {
	large := map[string]int64{}
	for _, r := range rest.Routes() {
		switch {
		case r.Body == nil:
			assert.Zero(t, r.Most, r.Name())
		case r.Role == "":
			assert.Equal(t, int64(api.JoinBodyMaxBytes), r.BodyMax(), r.Name())
		case r.BodyMax() > api.SmallBodyMaxBytes:
			large[r.Name()] = r.BodyMax()
		}
	}
	assert.Equal(t, map[string]int64{
		"POST /servers": api.PlanBodyMaxBytes, "POST /zones/select": api.BodyMaxBytes, "POST /zones/boot": api.BodyMaxBytes,
		"POST /flavors": api.BodyMaxBytes, "PUT /flavors/{id}": api.BodyMaxBytes, "PUT /hosts/{id}": api.BodyMaxBytes,
		"POST /aggregates": api.BodyMaxBytes, "PUT /aggregates/{id}": api.BodyMaxBytes,
		"PUT /operator/config": api.BodyMaxBytes, "PUT /operator/scheduler": api.BodyMaxBytes,
	}, large)
}
