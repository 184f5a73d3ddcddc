package public

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

func TestWhatIsNotYoursIsNotThere(t *testing.T) {
	head := map[string]string{api.HeaderRequestID: "req-1"}
	for _, c := range []struct{ method, there, absent string }{
		{"GET", "/servers/id-hidden", "/servers/id-absent"},
		{"DELETE", "/servers/id-hidden", "/servers/id-absent"},
		{"GET", "/servers/id-up", "/servers/id-absent"}, // held for a parent
	} {
		w := newWorld(t)
		theirs, none := call{method: c.method, target: c.there, token: member, head: head}, call{method: c.method, target: c.absent, token: member, head: head}
		w.refused(t, theirs, api.CodeNotFound, "no such server")
		a, b := w.do(theirs), w.do(none)
		assert.Equal(t, b.Code, a.Code)
		assert.Equal(t, b.Body.String(), a.Body.String())
		assert.Equal(t, b.Header(), a.Header())
	}
	for _, method := range []string{"GET", "DELETE"} {
		w := newWorld(t)
		theirs, none := call{method: method, target: "/zones/boot/r-hidden", token: member, head: head}, call{method: method, target: "/zones/boot/r-absent", token: member, head: head}
		w.refused(t, theirs, api.CodeNotFound, `no reservation "r-hidden"`)
		a, b := w.do(theirs), w.do(none)
		assert.Equal(t, b.Code, a.Code)
		assert.Equal(t, strings.ReplaceAll(b.Body.String(), "r-absent", "r-hidden"), a.Body.String(), "the id asked for is told back")
	}
}

// ids returns the ids of a list of servers, in its order.
func (w *world) ids(t *testing.T, token, query string) []string {
	t.Helper()
	var got struct{ Servers []struct{ ID string } }
	w.answered(t, call{method: "GET", target: "/servers" + query, token: token}, 200, &got)
	out := []string{}
	for _, s := range got.Servers {
		out = append(out, s.ID)
	}
	return out
}

func TestListsShowOnesOwnAlone(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"", "/detail"} {
		assert.Equal(t, []string{"id-far", "id-web"}, w.ids(t, reader, path))
		assert.Equal(t, []string{"id-far", "id-web"}, w.ids(t, admin, path))
		assert.Equal(t, []string{"id-hidden"}, w.ids(t, other, path))
		assert.Empty(t, w.ids(t, reader, path+"?reservation_id=r-hidden"))
		assert.Equal(t, []string{"id-web"}, w.ids(t, reader, path+"?reservation_id=r-web"))
		assert.Equal(t, []string{"id-web"}, w.ids(t, reader, path+"?name=we"))
		assert.Equal(t, []string{"id-web"}, w.ids(t, reader, path+"?status=ACTIVE"))
		assert.Empty(t, w.ids(t, reader, path+"?marker=id-web"))
		assert.Equal(t, []string{"id-far", "id-hidden", "id-web"}, w.ids(t, admin, path+"?all_projects=true"))
		assert.Equal(t, []string{"id-hidden"}, w.ids(t, admin, path+"?all_projects=true&reservation_id=r-hidden"))
		for _, token := range []string{reader, member, other} {
			w.refused(t, call{method: "GET", target: "/servers" + path + "?all_projects=true", token: token}, api.CodeForbidden, "needs the role admin")
		}
	}
	for token, want := range map[string][]api.ReservationID{reader: {"r-far", "r-web"}, other: {"r-hidden"}} {
		var got struct{ Boots []api.Boot }
		w.answered(t, call{method: "GET", target: "/zones/boot", token: token}, 200, &got)
		ids := []api.ReservationID{}
		for _, b := range got.Boots {
			ids = append(ids, b.Reservation)
		}
		assert.Equal(t, want, ids)
	}
}

func TestPagesJoinUp(t *testing.T) {
	w := newWorld(t)
	for target, name := range map[string]string{
		"/servers": "servers", "/zones/boot": "boots", "/hosts": "hosts", "/server-groups": "server_groups", "/aggregates": "aggregates",
		"/availability-zones": "availability_zones",
	} {
		var whole []any
		marker, pages := "", 0
		for {
			var page map[string]any
			w.answered(t, call{method: "GET", target: target + "?limit=1&marker=" + marker, token: admin}, 200, &page)
			whole = append(whole, page[name].([]any)...)
			pages++
			next, more := page["next_marker"]
			if !more {
				break
			}
			marker = next.(string)
		}
		var all map[string]any
		w.answered(t, call{method: "GET", target: target, token: admin}, 200, &all)
		assert.Equal(t, all[name], whole, "%s", target)
		assert.Len(t, whole, pages, "%s: a page is not empty", target)
	}
}

func TestOnlyAdminsOfTheOwningZoneSeeHosts(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/servers/id-web", "/servers/detail", "/servers", "/zones/boot", "/zones/boot/r-web", "/zones/info", "/zones"} {
		for _, token := range []string{reader, member} {
			body := w.answered(t, call{method: "GET", target: target, token: token}, 200, nil).Body.String()
			assert.NotContains(t, body, "host-1", "%s", target)
			assert.NotContains(t, body, "host-id-1", "%s", target)
			assert.NotContains(t, body, "agent-1", "%s", target)
		}
	}
	body := w.answered(t, call{method: "POST", target: "/zones/select", token: member, body: order()}, 200, nil).Body.String()
	assert.NotContains(t, body, "host-")
	assert.NotContains(t, w.answered(t, call{method: "GET", target: "/explain/r-web", token: member}, 200, nil).Body.String(), "host-")
	var got struct{ Server struct{ Host, Zone string } }
	w.answered(t, call{method: "GET", target: "/servers/id-web", token: admin}, 200, &got)
	assert.Equal(t, "host-1", got.Server.Host)
	assert.Equal(t, "root", got.Server.Zone)
	got.Server.Host = ""
	w.answered(t, call{method: "GET", target: "/servers/id-far", token: admin}, 200, &got)
	assert.Empty(t, got.Server.Host, "it is another zone's")
	assert.Equal(t, "east", got.Server.Zone)
	w.answered(t, call{method: "GET", target: "/servers/id-hidden", token: admin}, 200, &got)
	assert.Equal(t, "host-2", got.Server.Host, "an admin operates the whole zone")
}

func TestOnlyAdminsSeeWhereZonesAre(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/zones", "/zones/detail", "/zones/east", "/zones/link-east"} {
		body := w.answered(t, call{method: "GET", target: target, token: member}, 200, nil).Body.String()
		assert.NotContains(t, body, "example")
		assert.NotContains(t, body, "slot_max")
		body = w.answered(t, call{method: "GET", target: target, token: admin}, 200, nil).Body.String()
		assert.Contains(t, body, "https://east.example:1")
		assert.Contains(t, body, "slot_max")
	}
}

func TestADeletedServerIsNotThere(t *testing.T) {
	w := newWorld(t)
	w.answered(t, call{method: "DELETE", target: "/servers/id-web", token: member}, 204, nil)
	var got struct{ Server struct{ Status api.Status } }
	w.answered(t, call{method: "GET", target: "/servers/id-web", token: member}, 200, &got)
	assert.Equal(t, api.StatusDeleting, got.Server.Status, "until its host has ended it")
	before := w.saved(t)
	w.answered(t, call{method: "DELETE", target: "/servers/id-web", token: member}, 204, nil)
	assert.Equal(t, before, w.saved(t), "a repeat changes nothing")
}
