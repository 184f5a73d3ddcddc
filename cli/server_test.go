package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNamesAreFoundOnEveryPage: the zone lists what has the text in its name, and the item of just that name may come last.
func TestNamesAreFoundOnEveryPage(t *testing.T) {
	page := func(key string, next string, items ...string) answer {
		body := `{"` + key + `": [` + strings.Join(items, ",") + `]`
		if next != "" {
			body += `, "next_marker": "` + next + `"`
		}
		return answer{status: http.StatusOK, body: body + "}"}
	}
	named := func(id, name string) string { return `{"id": "` + id + `", "name": "` + name + `"}` }
	z := newFakeZone(t)
	gone := answer{status: http.StatusNotFound, body: refusalOf("not_found", "no such server")}
	asked := func(list string) (out []seen) {
		for _, c := range z.asked("GET " + list) {
			if at, _, _ := strings.Cut(c.call, "?"); at == "GET "+list {
				out = append(out, c)
			}
		}
		return out
	}
	for _, k := range []struct{ noun, list, key, id string }{{"server", "/servers/detail", "servers", "i-1"}, {"volume", "/volumes", "volumes", "v-1"}} {
		at := "/" + k.key + "/"
		for _, line := range []string{"show one", "delete one --yes", "show one --all-projects", "delete one --yes --all-projects", "delete one --lost --yes --all-projects"} {
			z.on("GET "+at+"one", gone)
			z.on("GET "+k.list, page(k.key, "m", named("x-1", "one-1"), named("x-2", "one-2")), page(k.key, "", named("x-3", "one-3"), named(k.id, "one")))
			before := len(asked(k.list))
			r := z.berth(t.Context(), append([]string{k.noun}, strings.Fields(line)...)...)
			assert.Zero(t, r.exit, "%s %s: %s", k.noun, line, r.errOut)
			calls := asked(k.list)[before:]
			if assert.Len(t, calls, 2, line) {
				assert.Contains(t, calls[1].call, "marker=m")
				assert.Equal(t, strings.Contains(line, "--all-projects"), strings.Contains(calls[1].call, "all_projects=true"), calls[1].call)
			}
		}
		z.on("GET "+k.list, page(k.key, "m", named("x-1", "one")), page(k.key, "", named("x-2", "one")))
		r := z.berth(t.Context(), k.noun, "show", "one", "--all-projects")
		assert.Equal(t, exitConflict, r.exit)
		assert.Contains(t, r.errOut, "x-1, x-2")
		z.on("GET "+k.list, page(k.key, "", named("x-1", "one-1")))
		r = z.berth(t.Context(), k.noun, "delete", "one", "--yes")
		assert.Equal(t, exitNotFound, r.exit)
		assert.Contains(t, r.errOut, "--all-projects")
		assert.Empty(t, z.asked("DELETE "+at+"x-"))
	}
}
