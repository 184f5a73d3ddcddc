package openstack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
	"berth/internal/dice"
)

func someCalls(*Dialect) []Call {
	return []Call{
		{Method: http.MethodGet, Path: "/", Until: 5, Do: says("versions")},
		{Method: http.MethodGet, Path: "/leases", Since: 2, Until: 5, Gives: true, Role: api.RoleReader, Do: says("list")},
		{Method: http.MethodPut, Path: "/leases/{id}", Since: 2, Until: 3, Takes: true, Role: api.RoleAdmin, Do: says("old put")},
		{Method: http.MethodPut, Path: "/leases/{id}", Since: 4, Until: 5, Role: api.RoleAdmin, Do: says("new put")},
		{Method: http.MethodGet, Path: "/leases/{id}", Since: 3, Until: 5, Do: func(w http.ResponseWriter, r *http.Request) error {
			return Answer(w, http.StatusOK, r.PathValue("id"))
		}},
		{Method: http.MethodDelete, Path: "/leases/{id}", Since: 4, Until: 5, NotAllowed: true, Do: says("deleted")},
		{Method: http.MethodGet, Path: "/hosts/{id}/leases/{lease}", Since: 4, Until: 5, Gives: true, Early: true, Do: says("of a host")},
	}
}

func TestACallIsFoundByPathMethodAndMicroversion(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	for _, c := range []struct {
		method, version, path, body string
		status                      int
		want                        string // of an answer; of a refusal, a part of its sentence
	}{
		{"GET", "", "", "", 200, "versions"},
		{"GET", "", "/", "", 200, "versions"},
		{"GET", "", "/leases", "", 200, "list"},
		{"PUT", "1.3", "/leases/a", "{}", 200, "old put"},
		{"PUT", "1.4", "/leases/a", "", 200, "new put"},
		{"GET", "1.3", "/leases/a b%2Fc*{d}", "", 200, `"a b%2Fc*{d}"`},
		{"GET", "1.2", "/leases/a", "", 404, "GET /leases/{id} needs microversion 1.3, and this call is made at 1.2"},
		{"DELETE", "1.3", "/leases/a", "", 405, "not allowed for this resource: DELETE"},
		{"DELETE", "1.4", "/leases/a", "", 200, "deleted"},
		{"GET", "1.5", "/hosts/h/leases/l", "", 200, "of a host"},
		{"GET", "1.5", "/hosts//leases/l", "", 404, "there is no /hosts//leases/l"},
		{"GET", "1.5", "//", "", 404, "there is no //"},
		{"GET", "1.5", "/leases/", "", 404, "there is no /leases/"},
		{"GET", "1.5", "/leases/a/b", "", 404, "there is no /leases/a/b"},
		{"FOO", "1.5", "/moo", "", 404, "there is no /moo"},
		{"PUT", "1.3", "/leases/a", "", 415, "The media type None is not supported, use application/json"},
	} {
		rec := w.call(c.method, c.version, c.path, c.body)
		name := fmt.Sprint(c.method, " ", c.version, " ", c.path)
		if assert.Equal(t, c.status, rec.Code, name); c.status == http.StatusOK {
			assert.Equal(t, c.want, rec.Body.String(), name)
		} else {
			assert.Contains(t, refused(t, rec).Detail, c.want, name)
		}
	}
}

func TestARefusedMethodIsToldWhichThereAre(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	for _, method := range []string{"POST", "HEAD", "PATCH", "OPTIONS", "FOO"} { // the last one no router knows
		rec := w.call(method, "1.5", "/leases/a", "")
		assert.Equal(t, http.StatusMethodNotAllowed, rec.Code, method)
		assert.Equal(t, "PUT, GET, DELETE", rec.Header().Get("Allow"), "each once, in the order of the calls")
	}
}

func TestTheMediaTypesAreCheckedAfterTheMicroversion(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	for path, want := range map[string]int{"/leases": http.StatusNotAcceptable, "/leases/a": http.StatusNotFound, "/hosts/h/leases/l": http.StatusNotAcceptable} {
		r := newRequest("GET", "1.2", path)
		r.Header.Set("Accept", "text/plain")
		assert.Equal(t, want, w.serve(r).Code, path)
	}
}

// TestPathsAreFoundAsPartByPart draws paths and compares what the router finds with
// what is found part by part: a name stands for any part that is not empty.
func TestPathsAreFoundAsPartByPart(t *testing.T) {
	paths := []string{"/", "/a", "/a/{x}", "/a/{x}/b", "/a/{x}/b/{y}", "/a/{x}/c", "/{x}/b/b", "/b"}
	w := newWorld(t, leases, func(*Dialect) []Call {
		var out []Call
		for _, p := range paths {
			out = append(out, Call{Method: http.MethodGet, Path: p, Until: 5, Do: says(p)})
		}
		return out
	})
	draw := dice.Rand(t)
	found := 0
	for range 5_000 {
		path := ""
		for range 1 + draw.IntN(5) {
			path += "/" + []string{"", "a", "b", "c", "{x}", "%2F", "*"}[draw.IntN(7)]
		}
		var want []string
		for _, p := range paths {
			if samePath(p, path) {
				want = append(want, p)
			}
		}
		rec := w.call(http.MethodGet, "", path, "")
		if len(want) == 0 {
			require.Equal(t, http.StatusNotFound, rec.Code, path)
			continue
		}
		found++
		require.Contains(t, want, rec.Body.String(), path)
	}
	assert.Greater(t, found, 500)
}

func samePath(pattern, path string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && (have[i] == "" || !strings.HasPrefix(want[i], "{")) {
			return false
		}
	}
	return true
}

func TestRoutesNameEachCallOnce(t *testing.T) {
	assert.Equal(t, []door.Route{
		{Method: "GET", Path: "/reservation/", Read: api.ReadLocal},
		{Method: "GET", Path: "/reservation/leases", Read: api.ReadLinearizable},
		{Method: "PUT", Path: "/reservation/leases/{id}", Read: api.ReadLog},
		{Method: "GET", Path: "/reservation/leases/{id}", Read: api.ReadLinearizable},
		{Method: "DELETE", Path: "/reservation/leases/{id}", Read: api.ReadLog},
		{Method: "GET", Path: "/reservation/hosts/{id}/leases/{lease}", Read: api.ReadLinearizable},
	}, Routes(leases.Mount, someCalls(nil)))
}
