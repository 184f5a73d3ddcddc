package native

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/httpd/door"
	"berth/raftstore/command"
	"berth/zone"
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
		var got struct{ Boots []rest.Boot }
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
		"/availability-zones": "availability_zones", "/operator/tokens": "tokens",
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

// TestTokensFillPages lists as many tokens as one answer holds, and one more.
func TestTokensFillPages(t *testing.T) {
	w := newWorld(t)
	var page struct {
		Tokens []rest.Token
		Next   string `json:"next_marker"`
	}
	list := func(query string) []rest.Token {
		t.Helper()
		page.Next = ""
		w.answered(t, call{method: "GET", target: "/operator/tokens" + query, token: admin}, 200, &page)
		return page.Tokens
	}
	for n := len(list("")); n < api.PageMax; n++ {
		w.store.Must(t, command.TokenPut{Stamp: w.zone.Stamp(), Token: api.Token{ID: api.TokenID(fmt.Sprintf("z-%04d", n)), Hash: []byte("s"), Expires: api.Forever}})
	}
	assert.Len(t, list(""), api.PageMax)
	assert.Empty(t, page.Next)
	w.store.Must(t, command.TokenPut{Stamp: w.zone.Stamp(), Token: api.Token{ID: "zz", Hash: []byte("s"), Expires: api.Forever}})
	assert.Len(t, list(""), api.PageMax)
	last := list("?marker=" + page.Next)
	require.Len(t, last, 1)
	assert.Equal(t, api.TokenID("zz"), last[0].ID)
	assert.Empty(t, page.Next)
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

// TestDeletedServersAreListedForWhoAsks: a watcher must see what went, here and in
// zones below.
func TestDeletedServersAreListedForWhoAsks(t *testing.T) {
	w := newWorld(t)
	for _, id := range []api.InstanceID{"id-web", "id-far", "id-hidden"} {
		w.store.Must(t, command.InstanceDelete{Stamp: w.zone.Stamp(), ID: id})
	}
	w.store.Must(
		t,
		command.InstanceReport{Stamp: w.zone.Stamp(), Agent: "agent-1", Items: []api.InstanceReport{
			{Host: "host-id-1", Instance: "id-web", Status: api.StatusDeleted}, {Host: "host-id-2", Instance: "id-hidden", Status: api.StatusDeleted},
		}},
		command.InstanceChanges{Stamp: w.zone.Stamp(), Link: "link-east", Next: 9, Items: []api.InstanceChange{
			{ID: "id-far", Status: api.StatusDeleted, Updated: w.zone.Stamp().At, Index: 9},
		}},
	)
	for _, path := range []string{"", "/detail"} {
		assert.Empty(t, w.ids(t, reader, path), "a list without a wish has what lives")
		assert.Empty(t, w.ids(t, reader, path+"?reservation_id=r-web"))
		assert.Equal(t, []string{"id-far", "id-web"}, w.ids(t, reader, path+"?status=DELETED"))
		assert.Equal(t, []string{"id-web"}, w.ids(t, reader, path+"?status=DELETED&reservation_id=r-web"))
		assert.Equal(t, []string{"id-far"}, w.ids(t, reader, path+"?status=DELETED&limit=1"))
		assert.Equal(t, []string{"id-web"}, w.ids(t, reader, path+"?status=DELETED&marker=id-far"))
		assert.Equal(t, []string{"id-far", "id-web"}, w.ids(t, reader, path+"?changes_since=2030-01-01T00:00:00Z"))
		assert.Empty(t, w.ids(t, reader, path+"?changes_since=2030-01-01T00:00:00Z&status=ACTIVE"))
		assert.Empty(t, w.ids(t, reader, path+"?changes_since=2031-01-01T00:00:00Z&status=DELETED"))
		assert.Equal(t, []string{"id-hidden"}, w.ids(t, other, path+"?status=DELETED"), "of the own project alone")
	}
	w.refused(t, call{method: "GET", target: "/servers/id-web", token: reader}, api.CodeNotFound, "no such server")
	w.store.Must(t, command.Prune{Stamp: w.zone.Stamp(), Before: api.Forever, BeforeAbroad: api.Forever, Limit: 10})
	assert.Empty(t, w.ids(t, reader, "?status=DELETED"), "they are listed for as long as they are kept")
}

// TestAServerThatIsOutOfReachSaysSo: its status is what was last known.
func TestAServerThatIsOutOfReachSaysSo(t *testing.T) {
	type shown struct {
		ID        string
		Status    api.Status
		Reachable *bool
		Since     string `json:"unreachable_since"`
	}
	yes, no := true, false
	w := newWorld(t)
	see := func(path string) map[string]shown {
		var got struct{ Servers []shown }
		w.answered(t, call{method: "GET", target: "/servers" + path, token: reader}, 200, &got)
		out := map[string]shown{}
		for _, s := range got.Servers {
			out[s.ID] = s
		}
		return out
	}
	for _, path := range []string{"", "/detail"} {
		got := see(path)
		assert.Equal(t, shown{"id-web", api.StatusActive, &yes, ""}, got["id-web"])
		assert.Equal(t, shown{"id-far", api.StatusBuild, &yes, ""}, got["id-far"])
	}
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), Hosts: []api.HostID{"host-id-1"}, State: api.HostDown})
	down := w.zone.View().Now().Time().UTC().Format("2006-01-02T15:04:05.000Z")
	later := w.zone.Stamp()
	later.At += 5000
	maintenance := "disk"
	w.store.Must(t, command.HostSet{Stamp: later, ID: "host-id-1", Maintenance: &maintenance})
	for _, path := range []string{"", "/detail"} {
		assert.Equal(t, shown{"id-web", api.StatusActive, &no, down}, see(path)["id-web"], "since it is down, not since it was changed")
	}
	w.store.Must(t, command.HostsState{Stamp: later, Hosts: []api.HostID{"host-id-1"}, State: api.HostUp})
	assert.Equal(t, shown{"id-web", api.StatusActive, &yes, ""}, see("")["id-web"])

	l, _ := w.zone.View().LinkByZone("zone-east")
	for _, c := range []struct {
		heard gossip
		want  *bool
	}{
		{gossip{"zone-east": zone.LinkFresh}, &yes},
		{gossip{"zone-east": zone.LinkFresh + time.Second}, &no},
		{gossip{}, nil},
	} {
		d := &dialect{door.New(door.Config{Now: func() time.Time { return epoch }}, nil), Config{Digests: c.heard}}
		got := d.reachOf(w.zone.View(), &api.Instance{InstanceTerms: &api.InstanceTerms{}, InstanceExtras: &api.InstanceExtras{}, Link: l.ID, Status: api.StatusActive})
		assert.Equal(t, c.want, got.Reachable)
		if c.want == &no {
			assert.Equal(t, api.InstantOf(epoch.Add(-zone.LinkFresh-time.Second)), got.Since)
		}
		assert.Nil(t, d.reachOf(w.zone.View(), &api.Instance{InstanceTerms: &api.InstanceTerms{}, InstanceExtras: &api.InstanceExtras{}, Link: l.ID, Status: api.StatusDeleted}).Reachable)
		below := d.reachOf(w.zone.View(), &api.Instance{InstanceTerms: &api.InstanceTerms{}, Link: l.ID, Status: api.StatusActive, InstanceExtras: &api.InstanceExtras{Unreachable: 7}})
		assert.Equal(t, rest.Reach{Reachable: &no, Since: 7}, below, "its zone has said so, whether that is heard now or not")
	}
}

// TestAReservationOutOfReachSaysSo: its counts are what was last known, here and by zone.
func TestAReservationOutOfReachSaysSo(t *testing.T) {
	w := newWorld(t)
	see := func() rest.Boot {
		var got struct{ Boot rest.Boot }
		w.answered(t, call{method: "GET", target: "/zones/boot/r-web", token: reader}, 200, &got)
		var list struct{ Boots []rest.Boot }
		w.answered(t, call{method: "GET", target: "/zones/boot", token: reader}, 200, &list)
		i := slices.IndexFunc(list.Boots, func(b rest.Boot) bool { return b.Reservation == "r-web" })
		require.GreaterOrEqual(t, i, 0)
		assert.Equal(t, got.Boot.Unreachable, list.Boots[i].Unreachable)
		return got.Boot
	}
	before := see()
	assert.Zero(t, before.Unreachable)
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), Hosts: []api.HostID{"host-id-1"}, State: api.HostDown})
	down := see()
	assert.Equal(t, 1, down.Unreachable)
	assert.Equal(t, before.Instances, down.Instances)
	sum := 0
	for _, z := range down.Zones {
		sum += z.Unreachable
	}
	assert.Equal(t, 1, sum)
	w.store.Must(t, command.HostsState{Stamp: w.zone.Stamp(), Hosts: []api.HostID{"host-id-1"}, State: api.HostUp})
	assert.Equal(t, before.Zones, see().Zones)
}

// TestAParentsProjectIsNoProjectOfThisZone: a reservation of a parent may have the
// project and the id of one of this zone.
func TestAParentsProjectIsNoProjectOfThisZone(t *testing.T) {
	w := newWorld(t)
	w.store.Must(t, command.Hold{
		Stamp: w.zone.Stamp(), ID: "hold-twin", Origin: "link-up", Attempt: 1, Request: request("p1", "r-web"), Plan: "plan-twin", Expires: api.Forever,
		Slots: []command.Slot{{Instance: api.InstanceSpec{ID: "id-twin", Name: "twin"}, Host: "host-id-2"}}, Commit: true,
	})
	for _, token := range []string{reader, admin} {
		assert.Equal(t, []string{"id-web"}, w.ids(t, token, "?reservation_id=r-web"))
		assert.Equal(t, []string{"id-far", "id-web"}, w.ids(t, token, ""))
	}
	assert.Equal(t, []string{"id-twin", "id-web"}, w.ids(t, admin, "?reservation_id=r-web&all_projects=true"))
	var got struct {
		Servers []struct{ ID, Origin string }
	}
	w.answered(t, call{method: "GET", target: "/servers/detail?reservation_id=r-web&all_projects=true", token: admin}, 200, &got)
	assert.Equal(t, []struct{ ID, Origin string }{{"id-twin", "up"}, {"id-web", ""}}, got.Servers, "which is whose is said")
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

// TestOrdersOfLeasesAreNotListed: the room of a lease is a boot for the state, and none for
// callers. Pages are full and join up without them.
func TestOrdersOfLeasesAreNotListed(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 9 {
		id := api.ReservationID(fmt.Sprintf("r-z%d", i))
		r := api.Request{
			Reservation: id, Project: "p1", User: "member", Class: api.Firm, Window: api.Window{Start: api.InstantOf(epoch), End: api.InstantOf(epoch) + 1}, Reserves: i%3 != 1,
			Groups: []api.Group{{Name: "a", Count: 1, Min: 1, Resources: api.Resources{api.VCPU: 1}}},
		}
		if !r.Reserves {
			want = append(want, string(id))
		}
		w.store.Must(t, command.BootCreate{Stamp: w.zone.Stamp(), BootTerms: command.BootTerms{
			Name: "n", Digest: []byte("d"), Request: r, Min: 1, Instances: []api.InstanceSpec{{ID: api.InstanceID("id-z" + string(id)), Name: "n"}},
		}})
	}
	for limit := 1; limit <= 4; limit++ {
		var got []string
		for marker := "r-web"; ; {
			var page struct {
				Boots []rest.Boot
				Next  string `json:"next_marker"`
			}
			w.answered(t, call{method: "GET", target: fmt.Sprintf("/zones/boot?limit=%d&marker=%s", limit, marker), token: member}, 200, &page)
			for _, b := range page.Boots {
				got = append(got, string(b.Reservation))
			}
			if marker = page.Next; marker == "" {
				break
			}
			assert.Len(t, page.Boots, limit, "a page before another one is full")
		}
		assert.Equal(t, want, got, "pages of %d", limit)
	}
	var one map[string]any
	w.answered(t, call{method: "GET", target: "/zones/boot/r-z0", token: member}, 200, &one) // for whoever was told its id
}

// TestBootsOfAllProjects: an admin sees the boots of all projects page by page, or those of one state; nobody else does.
func TestBootsOfAllProjects(t *testing.T) {
	w := newWorld(t)
	list := func(query string) (ids []string) {
		for marker, more := "", true; more; more = marker != "" {
			var page struct {
				Boots []rest.Boot
				Next  string `json:"next_marker"`
			}
			w.answered(t, call{method: "GET", target: "/zones/boot?" + query + "&marker=" + marker, token: admin}, 200, &page)
			for _, b := range page.Boots {
				ids = append(ids, string(b.Project)+"/"+string(b.Reservation)+" "+string(b.State))
			}
			marker = page.Next
		}
		return ids
	}
	all := list("all_projects=true")
	assert.True(t, slices.IsSorted(all))
	assert.Contains(t, strings.Join(all, ","), "/r-hidden ")
	assert.Contains(t, strings.Join(all, ","), "/r-web ")
	assert.Equal(t, all, list("all_projects=true&limit=1"))
	var active []string
	for _, b := range all {
		if strings.HasSuffix(b, " ACTIVE") {
			active = append(active, b)
		}
	}
	assert.NotEmpty(t, active)
	assert.Less(t, len(active), len(all))
	assert.Equal(t, active, list("all_projects=true&state=ACTIVE&limit=1"))
	w.refused(t, call{method: "GET", target: "/zones/boot?state=active", token: admin}, api.CodeInvalid, "state must be one of ACCEPTED")
	w.refused(t, call{method: "GET", target: "/zones/boot?all_projects=x", token: admin}, api.CodeInvalid, "must be true or false")
	for _, token := range []string{reader, member, other} {
		w.refused(t, call{method: "GET", target: "/zones/boot?all_projects=true", token: token}, api.CodeForbidden, "needs the role admin")
	}
}
