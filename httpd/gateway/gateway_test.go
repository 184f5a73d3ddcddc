package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
	"berth/internal/actor"
	"berth/internal/codec"
	"berth/internal/memstore"
	"berth/raftstore/command"
)

// row is what the contract says of one call between zones.
type row struct {
	target string
	body   any
	parent bool     // only the parent may make it
	child  bool     // only a child may make it
	leader bool     // only the leader answers
	code   api.Code // of this very call when one who may makes it; "" if it is answered
	status int      // of the answer; 0 is 200
}

var rows = map[string]row{
	"GET /zones/info":                {target: "/zones/info"},
	"POST /zones/hello":              {target: "/zones/hello", body: api.Hello{KeyCheck: []byte("theirs")}, leader: true, status: http.StatusNoContent},
	"POST /zones/above":              {target: "/zones/above", body: api.AboveQuestion{Zone: "zone-top"}, child: true, leader: true},
	"GET /zones/below":               {target: "/zones/below", parent: true},
	"POST /zones/select":             {target: "/zones/select", body: request(1), parent: true},
	"POST /zones/room":               {target: "/zones/room", body: roomQuestion(1), parent: true},
	"POST /zones/holds":              {target: "/zones/holds", body: api.HoldRequest{}, parent: true, leader: true, code: api.CodeInvalid},
	"POST /zones/holds/many":         {target: "/zones/holds/many", body: api.Holds{Items: []api.HoldRequest{{}}}, parent: true, leader: true},
	"POST /zones/holds/{id}/commit":  {target: "/zones/holds/h/commit", parent: true, leader: true, code: api.CodeNotFound},
	"DELETE /zones/holds/{id}":       {target: "/zones/holds/h", parent: true, leader: true},
	"POST /zones/decisions":          {target: "/zones/decisions", body: api.Decisions{Holds: []api.HoldDecision{{ID: "h", Decision: api.DecisionAbort}}}, parent: true, leader: true},
	"GET /zones/holds/{id}/decision": {target: "/zones/holds/h/decision", leader: true},
	"GET /zones/changes":             {target: "/zones/changes?after=0", parent: true, leader: true},
	"POST /servers":                  {target: "/servers", body: api.HoldRequest{}, parent: true, leader: true, code: api.CodeInvalid},
	"DELETE /servers/{id}":           {target: "/servers/i", parent: true, leader: true, code: api.CodeNotFound},
	"POST /zones/output":             {target: "/zones/output", body: api.OutputQuestion{Instance: "i", Stream: api.Stdout, Limit: 1}, parent: true, leader: true, code: api.CodeNotFound},
	"POST /servers/power":            {target: "/servers/power", body: api.PowerCall{Instance: "i"}, parent: true, leader: true, code: api.CodeNotFound},
	"POST /volumes/attach":           {target: "/volumes/attach", body: api.VolumeCall{Volume: "v", Instance: "i"}, parent: true, leader: true, code: api.CodeNotFound},
	"POST /volumes/detach":           {target: "/volumes/detach", body: api.VolumeCall{Volume: "v"}, parent: true, leader: true, code: api.CodeNotFound},
}

func eachRoute(t *testing.T, visit func(t *testing.T, method string, r row)) {
	t.Helper()
	n := 0
	err := chi.Walk(newWorld(t).Handler.(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		require.True(t, slices.ContainsFunc(Routes(), func(r door.Route) bool { return r.Method == method && r.Path == route }), "%s says not which read it makes", method+" "+route)
		r, ok := rows[method+" "+route]
		require.True(t, ok, "%s %s has no row here: say who may call it", method, route)
		n++
		t.Run(method+" "+route, func(t *testing.T) { visit(t, method, r) })
		return nil
	})
	require.NoError(t, err)
	assert.Len(t, rows, n)
}

func TestWhoMayCall(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		for _, peer := range []api.ZoneID{"", "zone-else", "zone-mid"} {
			says := newWorld(t).refused(t, call{method: method, target: r.target, peer: peer, body: r.body}, api.CodeForbidden)
			assert.Equal(t, "the zones are not linked", says)
		}
		child := call{method: method, target: r.target, peer: "zone-east", body: r.body}
		if r.parent {
			says := newWorld(t).refused(t, child, api.CodeForbidden)
			assert.Equal(t, "only the parent zone may do this", says)
		} else {
			newWorld(t).answered(t, child, cmp.Or(r.status, http.StatusOK), nil)
		}
		parent := call{method: method, target: r.target, peer: "zone-up", body: r.body}
		if r.child {
			says := newWorld(t).refused(t, parent, api.CodeForbidden)
			assert.Equal(t, "only a child zone may do this", says)
		} else if rec := newWorld(t).do(t, parent); r.code == "" {
			assert.Equal(t, cmp.Or(r.status, http.StatusOK), rec.Code, "%s", rec.Body)
		} else {
			assert.Equal(t, r.code.HTTPStatus(), rec.Code, "%s", rec.Body)
		}
		w := newWorld(t)
		l, _ := w.store.View().LinkByName("up")
		w.store.Must(t, command.LinkDelete{ID: l.ID})
		w.refused(t, parent, api.CodeForbidden) // since the handshake
	})
}

func TestAFollowerForwards(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		w := newWorld(t)
		w.follower = true
		rec := w.do(t, call{method: method, target: r.target, peer: "zone-up", body: r.body})
		assert.Equal(t, r.leader, rec.Code == http.StatusTeapot)
		assert.Equal(t, r.leader, len(w.forwarded) == 1)
	})
	w := newWorld(t)
	w.follower = true
	assert.Equal(t, http.StatusTeapot, w.do(t, call{method: "POST", target: "/links/enrol", body: api.Enrolment{}}).Code)
}

// TestWithoutALeaderNothingIsOffered: what a node offered that knows of no leader
// could not be held.
func TestWithoutALeaderNothingIsOffered(t *testing.T) {
	w := newWorld(t)
	ask := call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(1)}
	w.answered(t, ask, http.StatusOK, nil)
	w.headless = true
	assert.Equal(t, "no leader just now", w.refused(t, ask, api.CodeUnavailable))
}

func TestWhatIsNotACall(t *testing.T) {
	w := newWorld(t)
	assert.Equal(t, "no such call", w.refused(t, call{method: "GET", target: "/hosts", peer: "zone-up"}, api.CodeNotFound))
	for _, c := range []struct{ method, target, allow string }{
		{"GET", "/zones/select", "POST"},
		{"PUT", "/zones/holds/h", "DELETE"},
		{"DELETE", "/zones/info", "GET"},
	} {
		wrong := call{method: c.method, target: c.target, peer: "zone-up"}
		assert.Equal(t, "no such call", w.refused(t, wrong, api.CodeMethod))
		assert.Equal(t, c.allow, w.do(t, wrong).Header().Get("Allow"))
	}
}

func TestWhoIsAbove(t *testing.T) {
	w := newWorld(t)
	ask := func(zone api.ZoneID) call {
		return call{method: "POST", target: "/zones/above", peer: "zone-east", body: api.AboveQuestion{Zone: zone}}
	}
	var a api.AboveAnswer
	w.answered(t, ask("zone-top"), 200, &a)
	assert.Equal(t, api.AboveAnswer{Above: true, Zones: 2}, a)
	assert.Equal(t, 1, w.below.depth)
	deep := ask("zone-else")
	deep.head = map[string]string{api.HeaderDepth: strconv.Itoa(api.DepthMax)}
	w.answered(t, deep, 200, &a)
	assert.Equal(t, api.DepthMax, w.below.depth)
	deep.head[api.HeaderDepth] = strconv.Itoa(api.DepthMax + 1)
	w.refused(t, deep, api.CodeInvalid)

	w.answered(t, ask(api.ZoneID(strings.Repeat("z", api.NameMaxBytes))), 200, nil)
	for _, bad := range []string{"", "a b", strings.Repeat("z", api.NameMaxBytes+1)} {
		w.refused(t, ask(api.ZoneID(bad)), api.CodeInvalid)
	}
	w.refusal = errAway
	w.refused(t, ask("zone-top"), api.CodeInternal)
}

func TestHowMuchIsBelow(t *testing.T) {
	w := newWorld(t)
	ask := call{method: "GET", target: "/zones/below", peer: "zone-up", head: map[string]string{api.HeaderDepth: strconv.Itoa(api.DepthMax)}}
	var a api.BelowAnswer
	w.answered(t, ask, 200, &a)
	assert.Equal(t, 3, a.Levels)
	assert.Equal(t, api.DepthMax, w.below.depth)
	ask.head[api.HeaderDepth] = strconv.Itoa(api.DepthMax + 1)
	w.refused(t, ask, api.CodeInvalid)
}

func TestTheRequestIDGoesDown(t *testing.T) {
	for sent, want := range map[string]string{"req-7": "req-7", "": "req-", "a b": "req-", strings.Repeat("x", api.NameMaxBytes+1): "req-"} {
		w := newWorld(t)
		rec := w.do(t, call{
			method: "POST", target: "/zones/select", peer: "zone-up", body: request(1), head: map[string]string{api.HeaderRequestID: sent},
		})
		assert.Equal(t, 200, rec.Code)
		assert.True(t, api.ValidName(string(w.below.request)))
		assert.True(t, strings.HasPrefix(string(w.below.request), want), "%q became %q", sent, w.below.request)
		assert.Equal(t, rec.Header().Get(api.HeaderRequestID), string(w.below.request))
	}
}

func TestAParentSeesCountsAndNoNames(t *testing.T) {
	own := []api.Refusals{{
		Considered: 2, Offering: 1,
		Filters: []api.FilterCount{{Filter: "state", Hosts: 1, Tier: api.TierNotNow, Names: []string{canary}}},
		Advice:  []api.Advice{{Change: api.AdviceCount, Value: 1}, {Change: api.AdviceDrop, Name: "query"}},
	}}
	b := encode(t, api.SelectAnswer{Refusals: own, Zones: []api.ZoneOutcome{{Zone: "east"}}})
	assert.NotContains(t, string(b), canary)
	assert.NotContains(t, string(b), "east")
	var a api.SelectAnswer
	require.NoError(t, codec.Unmarshal(b, &a))
	want := own[0]
	want.Filters = []api.FilterCount{{Filter: "state", Hosts: 1, Tier: api.TierNotNow}}
	assert.Equal(t, []api.Refusals{want}, a.Refusals)

	w := newWorld(t)
	w.answered(t, call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(9)}, 200, &a)
	require.Len(t, a.Refusals, 1)
	assert.Equal(t, 2, a.Refusals[0].Considered)
}

func TestAHoldGoesItsWay(t *testing.T) {
	w := newWorld(t)
	h := w.plan(t, 3)
	var a, again api.HoldAnswer
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, 200, &a)
	assert.Equal(t, api.HoldAnswer{ID: "hold-1", State: api.HoldHeld, Held: []api.InstanceID{"i-0", "i-1", "i-2"}}, a)
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, 200, &again)
	assert.Equal(t, a, again, "the same hold again gives the same answer")
	other := h
	other.ID = "hold-2"
	says := w.do(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: other})
	assert.Equal(t, api.CodePlanRefused.HTTPStatus(), says.Code, "a plan is taken up once")

	var d api.DecisionAnswer
	w.answered(t, call{method: "POST", target: "/zones/holds/hold-1/commit", peer: "zone-up"}, 200, &a)
	assert.Equal(t, api.HoldCommitted, a.State)
	w.answered(t, call{method: "GET", target: "/zones/holds/hold-1/decision", peer: "zone-east"}, 200, &d)
	assert.Equal(t, api.DecisionAbort, d.Decision, "the child has no part in it")

	w.store.Must(t, command.InstanceReport{Stamp: w.zone.Stamp(), Agent: canary + "-agent", Items: []api.InstanceReport{
		{Host: hostOf(t, w, "i-1"), Instance: "i-1", Status: api.StatusError, Fault: canary + " has no disk"},
	}})
	var ch api.Changes
	w.answered(t, call{method: "GET", target: "/zones/changes?after=0", peer: "zone-up"}, 200, &ch)
	require.Len(t, ch.Items, 3)
	assert.NotEmpty(t, ch.Items[2].Fault, "that it failed, and not why")
	var confirmed api.Changes
	w.answered(t, call{method: "GET", target: "/zones/changes?after=0&confirmed=true", peer: "zone-up"}, 200, &confirmed)
	require.Equal(t, ch, confirmed)
	w.answered(t, call{method: "GET", target: "/zones/changes?after=" + strconv.FormatUint(ch.Next, 10), peer: "zone-up"}, 200, &ch)
	assert.Empty(t, ch.Items)

	w.answered(t, call{method: "DELETE", target: "/servers/i-0", peer: "zone-up"}, http.StatusNoContent, nil)
	w.refused(t, call{method: "DELETE", target: "/servers/none", peer: "zone-up"}, api.CodeNotFound)
	w.answered(t, call{method: "DELETE", target: "/zones/holds/hold-1", peer: "zone-up"}, 200, &a)
	assert.Equal(t, api.HoldReleased, a.State)
}

func hostOf(t *testing.T, w *world, id api.InstanceID) api.HostID {
	t.Helper()
	i, ok := w.store.View().Instance(id)
	require.True(t, ok)
	return i.Host
}

// TestWhatAParentHasHere can be told of and ordered over the link until it is gone.
func TestWhatAParentHasHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, time.Now)
		w.answered(t, call{method: "POST", target: "/servers", peer: "zone-up", body: w.plan(t, 1)}, 200, nil)
		w.makeVolume(t, hostOf(t, w, "i-0"))
		ask := func(target string, body any) call {
			return call{method: "POST", target: target, peer: "zone-up", body: body, head: map[string]string{api.HeaderForm: api.FormNewest.String()}}
		}
		volumes := func() []api.InstanceID {
			i, _ := w.store.View().Instance("i-0")
			return i.Volumes
		}
		w.answered(t, ask("/volumes/attach", api.VolumeCall{Volume: "v-0", Instance: "i-0"}), http.StatusNoContent, nil)
		assert.Equal(t, []api.InstanceID{"v-0"}, volumes())
		w.answered(t, ask("/volumes/detach", api.VolumeCall{Volume: "v-0", Instance: "i-0"}), http.StatusNoContent, nil)
		assert.Empty(t, volumes())
		var run api.PowerAnswer
		w.answered(t, ask("/servers/power", api.PowerCall{Instance: "i-0"}), http.StatusOK, &run)
		assert.Equal(t, api.PowerAnswer{Run: 1}, run)
		var out api.OutputAnswer
		w.answered(t, ask("/zones/output", api.OutputQuestion{Instance: "i-0", Stream: api.Stdout, Limit: 1}), http.StatusOK, &out)
		assert.Equal(t, api.OutputAnswer{Lack: api.OutputSilent}, out)
	})
}

// makeVolume makes the volume v-0 of the parent, which is available, on a host.
func (w *world) makeVolume(tb testing.TB, on api.HostID) {
	tb.Helper()
	room := request(1)
	room.Reservation, room.Groups = "r-2", []api.Group{{Count: 1, Volume: "standard", Resources: api.Resources{api.DiskGB: 1}}}
	w.store.Must(tb, command.HostsPut{Stamp: w.zone.Stamp(), Agent: canary + "-agent", Hosts: []command.HostEntry{{Host: api.AgentHost{
		Name: strings.Replace(string(on), "id", "host", 1), Driver: canary + "-driver", Pool: api.PoolShared, Traits: []string{api.TraitVolumes},
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}, api.DiskGB: {Total: 1}},
	}}}}, command.Hold{
		Stamp: w.zone.Stamp(), ID: "h-vol", Origin: "link-up", Attempt: 1, Request: room, Expires: api.Forever, Commit: true,
		Slots: []command.Slot{{Instance: api.InstanceSpec{ID: "v-0", Name: "v-0"}, Host: on}},
	}, command.InstanceReport{Stamp: w.zone.Stamp(), Agent: canary + "-agent", Items: []api.InstanceReport{{Host: on, Instance: "v-0", Status: api.StatusActive}}})
}

// TestCallsAreMadeByTheirZone: the audit log names the linked zone and its call, and of an enrolment, whose token is not
// checked yet, the call alone.
func TestCallsAreMadeByTheirZone(t *testing.T) {
	for key, peer := range map[string]api.ZoneID{"POST /zones/hello": "zone-east", "POST /zones/above": "zone-east", "GET /zones/below": "zone-up"} {
		w := newWorld(t)
		method, _, _ := strings.Cut(key, " ")
		assert.Less(t, w.do(t, call{method: method, target: rows[key].target, peer: peer, body: rows[key].body}).Code, 300)
		assert.Equal(t, []actor.Call{{By: api.AuditActor{Kind: api.ActorLink, ID: string(peer)}, Path: key}}, w.callers)
	}
	w := newWorld(t)
	w.answered(t, call{method: "POST", target: enrolPath, body: api.Enrolment{}}, 200, nil)
	assert.Equal(t, []actor.Call{{By: api.AuditActor{Kind: api.ActorZone}, Path: "POST " + enrolPath}}, w.callers)
}

func TestHoldAndCommitInOne(t *testing.T) {
	w := newWorld(t)
	var a api.HoldAnswer
	w.answered(t, call{method: "POST", target: "/servers", peer: "zone-up", body: w.plan(t, 2)}, 200, &a)
	assert.Equal(t, api.HoldCommitted, a.State)
	assert.Len(t, a.Held, 2)
}

func TestOnesOwnServersAreNotAParents(t *testing.T) {
	w := newWorld(t)
	own := request(1)
	w.store.Must(
		t,
		command.BootCreate{BootTerms: command.BootTerms{Digest: []byte{1}, Name: "own", Request: own, Min: 1, Instances: []api.InstanceSpec{{ID: "i-own", Name: "own"}}}},
		command.Hold{
			ID: "h-own", Attempt: 1, Request: own, Expires: api.Forever, Commit: true,
			Slots: []command.Slot{{Instance: api.InstanceSpec{ID: "i-own", Name: "own"}, Host: canary + "-id-1"}},
		},
	)
	w.refused(t, call{method: "DELETE", target: "/servers/i-own", peer: "zone-up"}, api.CodeNotFound)
	assert.Equal(t, "canary-id-1", string(hostOf(t, w, "i-own")))
	var ch api.Changes
	w.answered(t, call{method: "GET", target: "/zones/changes?after=0", peer: "zone-up"}, 200, &ch)
	assert.Empty(t, ch.Items)
}

// TestAnOlderParentFollowsEvictions: it hears that an instance leaves, and not why.
func TestAnOlderParentFollowsEvictions(t *testing.T) {
	w := newWorld(t)
	up, _ := w.store.View().LinkByName("up")
	at := w.zone.Stamp()
	soft, own := request(1), request(1)
	soft.Class, own.Reservation, own.Preempt = api.Preemptible, "own", true
	soft.Groups[0].Resources, own.Groups[0].Resources = api.Resources{api.VCPU: 4}, api.Resources{api.VCPU: 4}
	slot := func(id api.InstanceID) []command.Slot {
		return []command.Slot{{Instance: api.InstanceSpec{ID: id, Name: string(id)}, Host: canary + "-id-1"}}
	}
	w.store.Must(
		t,
		command.Hold{Stamp: at, ID: "h-soft", Origin: up.ID, Attempt: 1, Request: soft, Expires: api.Forever, Commit: true, Slots: slot("i-soft")},
		command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte{1}, Name: "own", Request: own, Min: 1, Instances: []api.InstanceSpec{{ID: "i-own", Name: "own"}}}},
		command.Hold{Stamp: at, ID: "h-own", Attempt: 1, Request: own, Expires: api.Forever, Commit: true, Slots: slot("i-own")},
	)
	for form, told := range map[api.Form]bool{api.FormThird: false, api.FormFourth: true} {
		poll := call{method: "GET", target: "/zones/changes?after=0", peer: "zone-up", head: map[string]string{api.HeaderForm: form.String()}}
		var ch api.Changes
		w.answered(t, poll, 200, &ch)
		require.Len(t, ch.Items, 1)
		assert.Equal(t, api.StatusDeleting, ch.Items[0].Status)
		assert.Equal(t, told, ch.Items[0].Eviction != nil, "form %s", form)
	}
}

// TestAParentHearsOfRestores: where a backup last replaced the state is told to those that read it, and at once to those that do not know
// of it. An older one, which does not say what it knows, waits for changes as before.
func TestAParentHearsOfRestores(t *testing.T) {
	w := newWorld(t)
	var backup bytes.Buffer
	require.NoError(t, w.store.View().Save(&backup))
	sum := sha256.Sum256(backup.Bytes())
	w.store.Must(t, command.Restore{Sum: sum[:], Size: int64(backup.Len()), Data: backup.Bytes()})
	at := w.store.View().Restored()
	require.Positive(t, at)
	for form, told := range map[api.Form]uint64{api.FormFourth: 0, api.FormFifth: at} {
		for _, q := range []string{"&restored=0&wait=5m", "&confirmed=true", "&wait=1ms"} {
			var ch api.Changes
			w.answered(t, call{method: "GET", target: "/zones/changes?after=0" + q, peer: "zone-up", head: map[string]string{api.HeaderForm: form.String()}}, 200, &ch)
			assert.Equal(t, told, ch.Restored, "form %s %s", form, q)
		}
	}
}

// TestAnOlderParentHearsOfNoRestarts: how often an instance was started anew is told to those that read it.
func TestAnOlderParentHearsOfNoRestarts(t *testing.T) {
	w := newWorld(t)
	up, _ := w.store.View().LinkByZone("zone-up")
	r := request(1)
	r.Groups = r.Groups[:1]
	r.Groups[0].Count = 1
	h := command.Hold{Stamp: w.zone.Stamp(), ID: "h-1", Origin: up.ID, Attempt: 1, Request: r, Expires: api.Forever, Commit: true}
	h.Slots = []command.Slot{{Instance: api.InstanceSpec{ID: "i-1", Name: "i-1"}, Host: canary + "-id-1"}}
	host, _ := w.store.View().Host(canary + "-id-1")
	w.store.Must(t, h, command.InstanceReport{Stamp: w.zone.Stamp(), Agent: host.Agent, Items: []api.InstanceReport{
		{Host: host.ID, Instance: "i-1", Status: api.StatusActive, Restarted: 5, Reason: api.RestartFenced},
	}})
	for form, told := range map[api.Form]uint64{api.FormFourth: 0, api.FormFifth: 1} {
		var ch api.Changes
		w.answered(t, call{method: "GET", target: "/zones/changes?after=0", peer: "zone-up", head: map[string]string{api.HeaderForm: form.String()}}, 200, &ch)
		require.Len(t, ch.Items, 1)
		assert.Equal(t, told, ch.Items[0].Restarts, "form %s", form)
	}
}

// TestAnOlderParentHearsOfSilence: that it may end soon is told to those that read it.
func TestAnOlderParentHearsOfSilence(t *testing.T) {
	w := newWorld(t)
	w.store.Must(t, command.LinkPut{Link: api.Link{ID: "l-away", Name: "away", Role: api.LinkChild, Zone: "zone-away", State: api.LinkActive, Scale: 1}})
	for form, told := range map[api.Form]bool{api.FormFourth: false, api.FormFifth: true} {
		ask := call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(9), head: map[string]string{api.HeaderForm: form.String()}}
		var a api.SelectAnswer
		w.answered(t, ask, 200, &a)
		assert.True(t, a.Silent)
		assert.Equal(t, told, a.Soon, "form %s", form)
	}
}

func TestAPausedLinkTakesNoNewWork(t *testing.T) {
	w := newWorld(t)
	h := w.plan(t, 1)
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, 200, nil)
	next := w.plan(t, 1)
	next.ID, next.Instances[0][0].ID = "hold-2", "i-new"
	paused := api.LinkPaused
	w.store.Must(t, command.LinkSet{ID: "link-up", State: &paused})

	assert.Equal(t, "paused", w.refused(t, call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(1)}, api.CodePaused))
	assert.Equal(t, "paused", w.refused(t, call{method: "POST", target: "/zones/room", peer: "zone-up", body: roomQuestion(1)}, api.CodePaused))
	for _, target := range []string{"/zones/holds", "/servers"} {
		assert.Equal(t, "paused", w.refused(t, call{method: "POST", target: target, peer: "zone-up", body: next}, api.CodePaused))
	}
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, 200, nil)
	w.answered(t, call{method: "POST", target: "/zones/holds/hold-1/commit", peer: "zone-up"}, 200, nil)
	w.answered(t, call{method: "GET", target: "/zones/changes?after=0", peer: "zone-up"}, 200, nil)
	w.answered(t, call{method: "DELETE", target: "/servers/i-0", peer: "zone-up"}, http.StatusNoContent, nil)
}

// TestQuestionsForRoom answers with counts by time, and refuses what is no such question.
func TestQuestionsForRoom(t *testing.T) {
	w := newWorld(t)
	ask := call{method: "POST", target: "/zones/room", peer: "zone-up", body: roomQuestion(9)}
	var a api.RoomAnswer
	w.answered(t, ask, 200, &a)
	q := roomQuestion(9)
	assert.True(t, a.IsSound(&q))
	assert.Equal(t, q.Until, a.Until)
	for name, spoil := range map[string]func(*api.RoomQuestion){
		"does not reserve": func(q *api.RoomQuestion) { q.Request.Reserves = false },
		"no starts":        func(q *api.RoomQuestion) { q.Until = q.Request.Window.Start },
		"off the minute":   func(q *api.RoomQuestion) { q.Request.Window.Start++ },
		"odd length":       func(q *api.RoomQuestion) { q.Request.Window.End++ },
		"far":              func(q *api.RoomQuestion) { q.Until = q.Request.Window.Start.Add(2 * api.LeaseLeadMax) },
		"no groups":        func(q *api.RoomQuestion) { q.Request.Groups = nil },
		"preemptible":      func(q *api.RoomQuestion) { q.Request.Class = api.Preemptible },
	} {
		q := roomQuestion(1)
		spoil(&q)
		ask.body = q
		assert.NotEmpty(t, w.refused(t, ask, api.CodeInvalid), name)
	}
	q = roomQuestion(1)
	q.Request.Groups[0].Hints.ForceHosts = []string{"h"}
	ask.body = q
	w.refused(t, ask, api.CodeForbidden)
}

func TestDepth(t *testing.T) {
	for _, depth := range []string{"", "0", "-5", "x", "1", strconv.Itoa(api.DepthMax)} {
		w := newWorld(t)
		head := map[string]string{api.HeaderDepth: depth}
		w.answered(t, call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(1), head: head}, 200, nil)
		want, _ := strconv.Atoi(depth)
		assert.Equal(t, max(want, 1), w.below.depth, "it is passed on")
	}
	w := newWorld(t)
	head := map[string]string{api.HeaderDepth: strconv.Itoa(api.DepthMax + 1)}
	for target, body := range map[string]any{
		"/zones/select": request(1), "/zones/room": roomQuestion(1), "/zones/holds": w.plan(t, 1), "/servers": w.plan(t, 1), "/zones/output": rows["POST /zones/output"].body,
	} {
		says := w.refused(t, call{method: "POST", target: target, peer: "zone-up", body: body, head: head}, api.CodeInvalid)
		assert.Contains(t, says, "is there a ring?")
	}
}

func TestBodies(t *testing.T) {
	w := newWorld(t)
	good, err := codec.Marshal(request(1))
	require.NoError(t, err)
	larger := map[string]int{"/zones/holds": api.ZoneBodyMaxBytes, "/zones/holds/many": api.HoldsBytesMax, "/servers": api.ZoneBodyMaxBytes, enrolPath: enrolMaxBytes}
	all := map[string]row{enrolPath: {target: enrolPath, body: api.Enrolment{}}}
	maps.Copy(all, rows)
	for _, r := range all {
		if r.body == nil {
			continue
		}
		target, limit := r.target, cmp.Or(larger[r.target], api.BodyMaxBytes)
		c := call{method: "POST", target: target, peer: "zone-up"}
		if r.child {
			c.peer = "zone-east"
		}
		for name, b := range map[string][]byte{
			"empty": {}, "cut short": good[:len(good)-1], "JSON": []byte(`{"id":"x"}`), "noise": []byte("\xff\xfe\xfd"), "something after": append(bytes.Clone(good), 0),
			"unknown field": []byte("\xa1\x18\x63\x01"), "a length that is not there": []byte("\x9b\x00\x00\x00\xff\xff\xff\xff\xff"), "at the limit": make([]byte, limit),
		} {
			c.body = b
			assert.Equal(t, "the body is not what this call takes", w.refused(t, c, api.CodeInvalid), "%s: %s", target, name)
		}
		c.body = make([]byte, limit+1)
		w.refused(t, c, api.CodeTooLarge)
		c.head = map[string]string{"Content-Type": "application/json"}
		w.refused(t, c, api.CodeMediaType)
	}
}

func TestHoldsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		edit func(*api.HoldRequest)
		code api.Code
	}{
		"no id":               {func(h *api.HoldRequest) { h.ID = "" }, api.CodeInvalid},
		"long id":             {func(h *api.HoldRequest) { h.ID = api.HoldID(strings.Repeat("x", api.NameMaxBytes+1)) }, api.CodeInvalid},
		"attempt 0":           {func(h *api.HoldRequest) { h.Attempt = 0 }, api.CodeInvalid},
		"too many attempts":   {func(h *api.HoldRequest) { h.Attempt = api.HoldsPerBootMax + 1 }, api.CodeInvalid},
		"no group":            {func(h *api.HoldRequest) { h.Request.Groups = nil }, api.CodeInvalid},
		"other groups":        {func(h *api.HoldRequest) { h.Instances = nil }, api.CodeInvalid},
		"an instance twice":   {func(h *api.HoldRequest) { h.Instances[0][1] = h.Instances[0][0] }, api.CodeInvalid},
		"an instance without": {func(h *api.HoldRequest) { h.Instances[0][0].ID = "" }, api.CodeInvalid},
		"more than offered": {func(h *api.HoldRequest) {
			h.Instances[0] = append(h.Instances[0], api.InstanceSpec{ID: "x", Name: "x"})
		}, api.CodePlanRefused},
		"no plan":              {func(h *api.HoldRequest) { h.Blob = nil }, api.CodePlanRefused},
		"a broken plan":        {func(h *api.HoldRequest) { h.Blob[40] ^= 1 }, api.CodePlanRefused},
		"another project":      {func(h *api.HoldRequest) { h.Request.Project = "p2" }, api.CodePlanRefused},
		"another reservation":  {func(h *api.HoldRequest) { h.Request.Reservation = "r-2" }, api.CodePlanRefused},
		"another count":        {func(h *api.HoldRequest) { h.Request.Groups[0].Count = 3 }, api.CodePlanRefused},
		"another amount":       {func(h *api.HoldRequest) { h.Request.Groups[0].Resources = api.Resources{api.VCPU: 2} }, api.CodePlanRefused},
		"another window":       {func(h *api.HoldRequest) { h.Request.Window.Start = 5 }, api.CodePlanRefused},
		"a window that is not": {func(h *api.HoldRequest) { h.Request.Window.End = 0 }, api.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			h := w.plan(t, 2)
			c.edit(&h)
			says := w.refused(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, c.code)
			if c.code == api.CodePlanRefused {
				assert.Equal(t, api.PlanRefusedMessage, says)
			}
		})
	}
	long := strings.Repeat("x", api.NameMaxBytes+1)
	w.refused(t, call{method: "POST", target: "/zones/holds/" + long + "/commit", peer: "zone-up"}, api.CodeInvalid)
	w.refused(t, call{method: "DELETE", target: "/zones/holds/" + long, peer: "zone-up"}, api.CodeInvalid)
	for _, q := range []string{"", "?after=", "?after=-1", "?after=x", "?after=0&wait=5m1s", "?after=0&wait=x", "?after=0&confirmed=yes", "?after=0&restored=-1"} {
		w.refused(t, call{method: "GET", target: "/zones/changes" + q, peer: "zone-up"}, api.CodeInvalid)
	}
	two := request(2)
	two.Groups[0].Count = api.CountMax + 1
	w.refused(t, call{method: "POST", target: "/zones/select", peer: "zone-up", body: two}, api.CodeInvalid)
}

func TestTheDeadlineIsHonoured(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"2000": 2 * time.Second, "1": time.Millisecond, "": api.SelectTimeout, "x": api.SelectTimeout,
		"0": api.SelectTimeout, "-5": api.SelectTimeout, "300001": api.WaitMax, "9223372036854775807": api.WaitMax,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldAt(t, time.Now)
			begun := time.Now()
			head := map[string]string{api.HeaderDeadline: header}
			w.answered(t, call{method: "POST", target: "/zones/select", peer: "zone-up", body: request(1), head: head}, 200, nil)
			synctest.Wait() // a child that is late is not waited for
			require.True(t, w.below.asked)
			assert.Equal(t, want-api.HopReserve, w.below.deadline.Sub(begun), "%q", header)
			assert.Zero(t, time.Since(begun))
		})
	}
}

func TestChangesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldAt(t, time.Now)
		begun := time.Now()
		poll := call{method: "GET", target: "/zones/changes?after=0&wait=30s", peer: "zone-up"}
		w.answered(t, poll, 200, nil)
		assert.Equal(t, 30*time.Second, time.Since(begun))
		poll.head = map[string]string{api.HeaderDeadline: "2000"}
		begun = time.Now()
		w.answered(t, poll, 200, nil)
		assert.Equal(t, 2*time.Second, time.Since(begun), "the caller's budget ends it")

		h := w.plan(t, 1)
		var wg sync.WaitGroup
		var got []byte
		wg.Go(func() { got = w.do(t, poll).Body.Bytes() })
		synctest.Wait()
		begun = time.Now()
		w.answered(t, call{method: "POST", target: "/servers", peer: "zone-up", body: h}, 200, nil)
		var ch api.Changes
		wg.Wait()
		require.NoError(t, codec.Unmarshal(got, &ch))
		assert.Len(t, ch.Items, 1)
		assert.Zero(t, time.Since(begun))
	})
}

func TestEnrol(t *testing.T) {
	w := newWorld(t)
	e := api.Enrolment{Token: "t", Zone: "zone-new", Name: "new", Endpoints: []string{"https://new:1"}}
	var back api.Enrolment
	w.answered(t, call{method: "POST", target: "/links/enrol", body: e}, 200, &back)
	assert.Equal(t, &e, w.enrolled)
	assert.Equal(t, api.LinkID("link-new"), back.Link)
	e.Incarnation = 5
	w.answered(t, call{method: "POST", target: "/links/enrol", body: e, head: map[string]string{api.HeaderIncarnation: "5"}}, 200, nil)
	assert.Equal(t, &e, w.enrolled, "the header says in which incarnation it is")
	w.refusal = api.Wrap(api.CodeUnauthenticated, "node.enrol", "no", errAway)
	assert.Equal(t, "no", w.refused(t, call{method: "POST", target: "/links/enrol", body: e}, api.CodeUnauthenticated))
	w.refusal = errAway
	w.refused(t, call{method: "POST", target: "/links/enrol", body: e}, api.CodeInternal)
}

func TestZonesThatSealWithOneKeyAreToldSo(t *testing.T) {
	w := newWorld(t)
	c := call{method: "POST", target: "/zones/hello", peer: "zone-east", body: api.Hello{KeyCheck: []byte("ours")}}
	assert.Equal(t, "one key", w.refused(t, c, api.CodeConflict))
}

func TestInfoTellsSumsAlone(t *testing.T) {
	w := newWorld(t)
	var z api.ZoneInfo
	w.answered(t, call{method: "GET", target: "/zones/info", peer: "zone-up"}, 200, &z)
	assert.Equal(t, "mid", z.Name)
	assert.EqualValues(t, 8, z.Digest.Classes[api.VCPU].Total)
	var bare api.ZoneInfo
	w.answered(t, call{method: "GET", target: "/zones/info", peer: "zone-east"}, 200, &bare)
	assert.Equal(t, api.ZoneInfo{ID: "zone-mid", Name: "mid", Version: "v1"}, bare, "a child learns nothing of its siblings")
}

func TestAPanicTellsNothing(t *testing.T) {
	w := newWorld(t)
	*w.store = memstore.Store{} // a bug: it has no state
	rec := w.do(t, call{method: "GET", target: "/zones/info", peer: "zone-up"})
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
}

// decisions returns a call with one decision.
func decisions(id api.HoldID, d api.Decision) api.Decisions {
	return api.Decisions{Holds: []api.HoldDecision{{ID: id, Decision: d}}}
}

// TestDecisionsOfOneCall: each is carried out or refused by itself, in one entry, and a
// repeat gets the same answer.
func TestDecisionsOfOneCall(t *testing.T) {
	w := newWorld(t)
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: w.plan(t, 1)}, http.StatusOK, nil)
	before := w.store.View().Index()
	ask := call{method: "POST", target: "/zones/decisions", peer: "zone-up", body: api.Decisions{Holds: []api.HoldDecision{
		{ID: "unknown", Decision: api.DecisionCommit}, {ID: "hold-1", Decision: api.DecisionCommit}, {ID: "late", Decision: api.DecisionAbort},
	}}}
	for range 2 {
		var a api.DecisionsAnswer
		w.answered(t, ask, http.StatusOK, &a)
		assert.Equal(t, []api.Code{api.CodeNotFound, "", ""}, a.Codes)
	}
	assert.LessOrEqual(t, w.store.View().Index(), before+2, "an entry for a call")
	l, _ := w.store.View().LinkByName("up")
	h, _ := w.store.View().Hold(l.ID, "hold-1")
	assert.Equal(t, api.DecisionCommit, h.Decision)
	h, _ = w.store.View().Hold(l.ID, "late")
	assert.Equal(t, api.DecisionAbort, h.Decision, "remembered, for a hold that comes late")
}

// TestDecisionsAreSoMany: the limit of a call, and one more; and each must be a decision.
func TestDecisionsAreSoMany(t *testing.T) {
	w := newWorld(t)
	var q api.Decisions
	for n := range api.DecisionsMax {
		q.Holds = append(q.Holds, api.HoldDecision{ID: api.HoldID(strconv.Itoa(n)), Decision: api.DecisionAbort})
	}
	ask := func(q api.Decisions) call {
		return call{method: "POST", target: "/zones/decisions", peer: "zone-up", body: q}
	}
	var a api.DecisionsAnswer
	w.answered(t, ask(q), http.StatusOK, &a)
	assert.Len(t, a.Codes, api.DecisionsMax)
	q.Holds = append(q.Holds, api.HoldDecision{ID: "more", Decision: api.DecisionAbort})
	w.refused(t, ask(q), api.CodeInvalid)
	w.refused(t, ask(api.Decisions{}), api.CodeInvalid)
	w.refused(t, ask(decisions("", api.DecisionAbort)), api.CodeInvalid)
	w.refused(t, ask(decisions("h", api.DecisionPending)), api.CodeInvalid)
	q = decisions("h", api.DecisionAbort)
	for n := range api.RulesMax {
		q.Holds[0].Lifted = append(q.Holds[0].Lifted, api.ServerGroupID(strconv.Itoa(n)))
	}
	w.answered(t, ask(q), http.StatusOK, &a)
	q.Holds[0].Lifted = append(q.Holds[0].Lifted, "more")
	w.refused(t, ask(q), api.CodeInvalid)
	q.Holds[0].Lifted = []api.ServerGroupID{""}
	w.refused(t, ask(q), api.CodeInvalid)
}

// TestHoldsOfOneCall: those that this zone can answer alone are answered, in one entry; the others take a
// call of their own.
func TestHoldsOfOneCall(t *testing.T) {
	w := newWorld(t)
	first, second := w.plan(t, 1), w.plan(t, 1)
	second.ID, second.Commit = "hold-2", true
	second.Instances[0][0].ID = "i-9"
	unknown := first
	unknown.ID, unknown.Blob = "hold-3", []byte("no plan")
	before := w.store.View().Index()
	ask := call{method: "POST", target: "/zones/holds/many", peer: "zone-up", body: api.Holds{Items: []api.HoldRequest{first, unknown, second}}}
	var a api.HoldsAnswer
	w.answered(t, ask, http.StatusOK, &a)
	require.Len(t, a.Items, 3)
	assert.Equal(t, api.HoldHeld, a.Items[0].Answer.State)
	assert.Equal(t, []api.InstanceID{"i-0"}, a.Items[0].Answer.Held)
	assert.Nil(t, a.Items[1].Answer)
	assert.Equal(t, api.HoldCommitted, a.Items[2].Answer.State)
	assert.Equal(t, before+1, w.store.View().Index(), "an entry for a call")

	a = api.HoldsAnswer{}
	w.answered(t, ask, http.StatusOK, &a)
	assert.Equal(t, make([]api.HoldReply, 3), a.Items, "a repeat of each is answered by itself")
	assert.Equal(t, before+1, w.store.View().Index())
}

// TestAPausedLinkGetsNoHoldOfACall: nor does it log any.
func TestAPausedLinkGetsNoHoldOfACall(t *testing.T) {
	w := newWorld(t)
	h := w.plan(t, 1)
	l, _ := w.store.View().LinkByName("up")
	paused := api.LinkPaused
	w.store.Must(t, command.LinkSet{ID: l.ID, State: &paused})
	var a api.HoldsAnswer
	w.answered(t, call{method: "POST", target: "/zones/holds/many", peer: "zone-up", body: api.Holds{Items: []api.HoldRequest{h}}}, http.StatusOK, &a)
	assert.Equal(t, make([]api.HoldReply, 1), a.Items)
	_, known := w.store.View().Hold(l.ID, h.ID)
	assert.False(t, known)
}

// TestHoldsAreSoMany: the limit of a call, and one more, and none.
func TestHoldsAreSoMany(t *testing.T) {
	w := newWorld(t)
	ask := func(n int) call {
		return call{method: "POST", target: "/zones/holds/many", peer: "zone-up", body: api.Holds{Items: make([]api.HoldRequest, n)}}
	}
	var a api.HoldsAnswer
	w.answered(t, ask(api.HoldsMax), http.StatusOK, &a)
	assert.Len(t, a.Items, api.HoldsMax)
	w.refused(t, ask(api.HoldsMax+1), api.CodeInvalid)
	w.refused(t, ask(0), api.CodeInvalid)
}
