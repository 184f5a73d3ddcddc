package agents

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/rates"
	"berth/httpd/refusals"
	"berth/internal/budget"
	"berth/internal/codec"
	"berth/internal/memstore"
	"berth/internal/requestid"
	"berth/internal/skew"
	"berth/raftstore/command"
	"berth/zone"
	"berth/zone/fleet"
	"berth/zone/output"
)

type agentKey struct{}

// world is a zone of two nodes without hosts.
type world struct {
	http.Handler
	conf     Config
	store    *memstore.Store
	zone     *zone.Zone
	follower bool
	lines    bytes.Buffer // of the log
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{store: memstore.New()}
	log := slog.New(requestid.NewHandler(slog.NewTextHandler(&w.lines, nil)))
	w.zone = zone.New(zone.Config{Store: w.store, Now: time.Now, Log: log})
	w.conf = Config{
		Zone: w.zone, Fleet: fleet.New(w.zone, nil), Outputs: output.New(w.zone, nil), Log: log,
		Rates: rates.New(rates.Rates{rates.Heartbeats: 1000}), Now: func() time.Time { return time.Unix(0, 0) },
		Refusals: refusals.New(log, func() time.Time { return time.Unix(1, 0) }),
		Agent: func(r *http.Request) (api.AgentID, bool) {
			id, ok := r.Context().Value(agentKey{}).(api.AgentID)
			return id, ok
		},
		Leader: func() (string, bool) { return "10.0.0.2:4", !w.follower },
	}
	w.Handler = New(w.conf)
	w.store.Must(tb, command.Init{Zone: "zone-1", Name: "root"})
	for _, n := range []string{"1", "2"} {
		w.store.Must(tb, command.NodePut{Node: api.Node{ID: api.NodeID(n), AgentAddr: "10.0.0." + n + ":4"}})
	}
	return w
}

// encode returns the bytes of a body.
func encode(tb testing.TB, body any) []byte {
	tb.Helper()
	b, err := codec.Marshal(body)
	require.NoError(tb, err)
	return b
}

func (w *world) do(tb testing.TB, agent api.AgentID, path string, body any) *httptest.ResponseRecorder {
	tb.Helper()
	b, raw := body.([]byte)
	if !raw {
		b = encode(tb, body)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(b))
	r.Header.Set("Content-Type", api.MediaCBOR)
	if agent != "" {
		r = r.WithContext(context.WithValue(r.Context(), agentKey{}, agent))
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

func (w *world) answered(tb testing.TB, agent api.AgentID, path string, body, answer any) {
	tb.Helper()
	rec := w.do(tb, agent, path, body)
	require.Equal(tb, http.StatusOK, rec.Code, "%s: %s", path, rec.Body)
	require.NoError(tb, codec.Unmarshal(rec.Body.Bytes(), answer))
}

// refused makes a call that must be refused so, and must log nothing.
func (w *world) refused(tb testing.TB, agent api.AgentID, path string, body any, code api.Code, says string) {
	tb.Helper()
	before := w.store.View().Index()
	rec := w.do(tb, agent, path, body)
	var b api.ErrorBody
	require.NoError(tb, codec.Unmarshal(rec.Body.Bytes(), &b), "%s: %q", path, rec.Body)
	assert.Equal(tb, code, b.Error.Code, "%s: %s", path, b.Error.Message)
	assert.Equal(tb, code.HTTPStatus(), rec.Code)
	assert.Contains(tb, b.Error.Message, says)
	assert.NotEmpty(tb, b.Error.RequestID)
	assert.Equal(tb, before, w.store.View().Index())
}

// host describes a host with four processors.
func host(name string) api.AgentHost {
	return api.AgentHost{
		Name: name, Driver: "fake", Pool: api.PoolShared,
		Inventory: map[api.ResourceClass]api.Inventory{api.VCPU: {Total: 4}},
	}
}

func hosts(n int) api.AgentRegister {
	var r api.AgentRegister
	for i := range n {
		r.Hosts = append(r.Hosts, host(fmt.Sprintf("h-%05d", i)))
	}
	return r
}

func reports(n int) api.AgentReport {
	var r api.AgentReport
	for i := range n {
		r.Items = append(r.Items, api.InstanceReport{Host: "h", Instance: api.InstanceID(fmt.Sprint("i-", i)), Status: api.StatusActive})
	}
	return r
}

// place makes an instance on a host.
func (w *world) place(tb testing.TB, id api.InstanceID, on api.HostID) {
	tb.Helper()
	spec := api.InstanceSpec{ID: id, Name: string(id)}
	req := api.Request{
		Reservation: api.ReservationID("r-" + id), Project: "p", Class: api.Firm, Window: api.Window{End: api.Forever},
		Groups: []api.Group{{Count: 1, Flavor: "small", Resources: api.Resources{api.VCPU: 1}}},
	}
	at := w.zone.Stamp()
	w.store.Must(tb, command.BootCreate{Stamp: at, BootTerms: command.BootTerms{Digest: []byte(id), Name: spec.Name, Request: req, Min: 1, Instances: []api.InstanceSpec{spec}}})
	w.store.Must(tb, command.Hold{
		Stamp: at, ID: api.HoldID("hold-" + id), Attempt: 1, Request: req, Expires: api.Forever, Commit: true,
		Slots: []command.Slot{{Instance: spec, Host: on}},
	})
}

func TestAnAgentRegistersWorksAndReports(t *testing.T) {
	w := newWorld(t)
	var reg, again api.AgentRegistered
	w.answered(t, "a-1", api.PathAgentRegister, hosts(2), &reg)
	require.Len(t, reg.Hosts, 2)
	assert.EqualValues(t, memstore.Term, reg.Term)
	assert.Equal(t, fleet.AgentBeat, reg.Beat)
	w.answered(t, "a-1", api.PathAgentRegister, hosts(2), &again)
	assert.Equal(t, reg.Hosts, again.Hosts, "hosts keep their ids")
	w.place(t, "i-1", reg.Hosts[1])

	var work api.AgentWorkload
	w.answered(t, "a-1", api.PathAgentWork, api.AgentWork{}, &work)
	assert.Equal(t, []string{"10.0.0.1:4", "10.0.0.2:4"}, work.Addresses)
	require.Len(t, work.Hosts, 2, "everything, to one that has seen nothing")
	listed := map[api.HostID]int{}
	for _, h := range work.Hosts {
		listed[h.Host] = len(h.Instances)
	}
	assert.Equal(t, map[api.HostID]int{reg.Hosts[0]: 0, reg.Hosts[1]: 1}, listed)

	var ack api.AgentAck
	active := api.AgentReport{Items: []api.InstanceReport{{Host: reg.Hosts[1], Instance: "i-1", Status: api.StatusActive}}}
	w.answered(t, "a-1", api.PathAgentReport, active, &ack)
	assert.EqualValues(t, memstore.Term, ack.Term)
	assert.Equal(t, api.StatusActive, statusOf(t, w, "i-1"))
}

func statusOf(t *testing.T, w *world, id api.InstanceID) api.Status {
	t.Helper()
	i, ok := w.store.View().Instance(id)
	require.True(t, ok)
	return i.Status
}

func TestAnotherAgentsHostsAreNotItsBusiness(t *testing.T) {
	w := newWorld(t)
	var reg api.AgentRegistered
	w.answered(t, "a-1", api.PathAgentRegister, hosts(1), &reg)
	w.place(t, "i-1", reg.Hosts[0])

	var ack api.AgentAck
	gone := api.AgentReport{Items: []api.InstanceReport{{Host: reg.Hosts[0], Instance: "i-1", Status: api.StatusDeleted}}}
	w.answered(t, "a-2", api.PathAgentReport, gone, &ack)
	assert.Equal(t, api.StatusBuild, statusOf(t, w, "i-1"), "a report of another agent is ignored")
	other := hosts(1)
	other.Hosts[0].Name = "mine"
	var mine api.AgentRegistered
	w.answered(t, "a-2", api.PathAgentRegister, other, &mine)
	gone.Items[0].Host = mine.Hosts[0]
	w.answered(t, "a-2", api.PathAgentReport, gone, &ack)
	assert.Equal(t, api.StatusBuild, statusOf(t, w, "i-1"), "and so is one for the wrong host")

	rec := w.do(t, "a-2", api.PathAgentRegister, hosts(1))
	assert.Equal(t, api.CodeConflict.HTTPStatus(), rec.Code, "a host belongs to one agent")
	var work api.AgentWorkload
	w.answered(t, "a-2", api.PathAgentWork, api.AgentWork{}, &work)
	require.Len(t, work.Hosts, 1)
	assert.Equal(t, mine.Hosts[0], work.Hosts[0].Host)
}

func TestLimits(t *testing.T) {
	w := newWorld(t)
	var reg api.AgentRegistered
	w.answered(t, "a-1", api.PathAgentRegister, hosts(api.HostsPerAgentMax), &reg)
	assert.Len(t, reg.Hosts, api.HostsPerAgentMax)
	w.refused(t, "a-1", api.PathAgentRegister, hosts(api.HostsPerAgentMax+1), api.CodeInvalid, "1 to 10000 hosts, got 10001")
	w.refused(t, "a-1", api.PathAgentRegister, hosts(0), api.CodeInvalid, "1 to 10000 hosts, got 0")

	var ack api.AgentAck
	w.answered(t, "a-1", api.PathAgentReport, reports(0), &ack)
	w.answered(t, "a-1", api.PathAgentReport, reports(api.ReportsMax), &ack)
	w.refused(t, "a-1", api.PathAgentReport, reports(api.ReportsMax+1), api.CodeInvalid, "at most 5000 items, got 5001")

	for path, limit := range map[string]int{
		api.PathAgentRegister: registerMax, api.PathAgentWork: api.SmallBodyMaxBytes, api.PathAgentReport: api.ZoneBodyMaxBytes,
	} {
		w.refused(t, "a-1", path, make([]byte, limit), api.CodeInvalid, "not what this call takes")
		w.refused(t, "a-1", path, make([]byte, limit+1), api.CodeTooLarge, "at most")
		w.refused(t, "a-1", path, []byte("\xa1\x18\x63\x01"), api.CodeInvalid, "not what this call takes")
	}
}

func TestHostsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for name, edit := range map[string]func(*api.AgentHost){
		"no name":         func(h *api.AgentHost) { h.Name = "" },
		"a bad name":      func(h *api.AgentHost) { h.Name = "a b" },
		"no pool":         func(h *api.AgentHost) { h.Pool = "" },
		"no inventory":    func(h *api.AgentHost) { h.Inventory = nil },
		"a bad class":     func(h *api.AgentHost) { h.Inventory = map[api.ResourceClass]api.Inventory{"vcpu": {Total: 1}} },
		"a bad amount":    func(h *api.AgentHost) { h.Inventory[api.VCPU] = api.Inventory{Total: api.AmountMax + 1} },
		"a reserve above": func(h *api.AgentHost) { h.Inventory[api.VCPU] = api.Inventory{Total: 1, Reserved: 2} },
		"many classes": func(h *api.AgentHost) {
			for i := range api.ClassesMax {
				h.Inventory[api.ResourceClass(fmt.Sprintf("CUSTOM_%d", i))] = api.Inventory{Total: 1}
			}
		},
		"a name twice": func(h *api.AgentHost) { h.Name = "h-00000" },
	} {
		r := hosts(2)
		edit(&r.Hosts[1])
		t.Run(name, func(t *testing.T) { w.refused(t, "a-1", api.PathAgentRegister, r, api.CodeInvalid, "") })
	}
}

// TestHostsThatRunCommandsNeedTokens: where anybody may define a flavor there is no host that runs its
// command, also if it was there before.
func TestHostsThatRunCommandsNeedTokens(t *testing.T) {
	w := newWorld(t)
	of := func(driver string, needs *api.Needs) api.AgentRegister {
		h := host("h-" + driver)
		h.Driver, h.Needs = driver, needs
		return api.AgentRegister{Hosts: []api.AgentHost{host("h-first-" + driver), h}}
	}
	runs := &api.Needs{Command: true}
	var registered api.AgentRegistered
	w.answered(t, "agent-1", api.PathAgentRegister, of("process", runs), &registered)
	w.answered(t, "agent-2", api.PathAgentRegister, of("fake", &api.Needs{}), &registered)
	w.conf.Insecure = true
	w.Handler = New(w.conf)
	w.refused(t, "agent-1", api.PathAgentWork, api.AgentWork{}, api.CodeForbidden, "asks for no tokens")
	w.refused(t, "agent-3", api.PathAgentRegister, of("process", nil), api.CodeForbidden, "asks for no tokens")
	w.refused(t, "agent-3", api.PathAgentRegister, of("other", runs), api.CodeForbidden, "asks for no tokens")
	var work api.AgentWorkload
	w.answered(t, "agent-2", api.PathAgentWork, api.AgentWork{}, &work)
	assert.Len(t, work.Hosts, 2)
}

func TestAFollowerSaysWhereTheLeaderIs(t *testing.T) {
	w := newWorld(t)
	w.follower = true
	before := w.store.View().Index()
	for path, body := range map[string]any{
		api.PathAgentRegister: hosts(1), api.PathAgentWork: api.AgentWork{}, api.PathAgentReport: reports(1),
	} {
		rec := w.do(t, "a-1", path, body)
		assert.Equal(t, http.StatusMisdirectedRequest, rec.Code)
		var to api.AgentRedirect
		require.NoError(t, codec.Unmarshal(rec.Body.Bytes(), &to))
		assert.Equal(t, api.AgentRedirect{Leader: "10.0.0.2:4", Addresses: []string{"10.0.0.1:4", "10.0.0.2:4"}}, to)
		w.refused(t, "", path, body, api.CodeUnauthenticated, "for agents of the zone") // and is told no address
	}
	assert.Equal(t, before, w.store.View().Index())
}

func TestOnlyAgentsAreAnswered(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{api.PathAgentRegister, api.PathAgentWork, api.PathAgentReport} {
		w.refused(t, "", path, make([]byte, registerMax+1), api.CodeUnauthenticated, "for agents of the zone")
	}
}

// TestAddressesAreToldAtOnce: a poll is answered when a node has come or gone, once, so that an agent knows the new nodes of its zone
// before all of the old ones are gone.
func TestAddressesAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answered(t, "a-1", api.PathAgentRegister, hosts(1), &api.AgentRegistered{})
		after, begun := w.store.View().Index(), time.Now()
		ask := func() (work api.AgentWorkload) {
			w.answered(t, "a-1", api.PathAgentWork, api.AgentWork{After: after, Wait: 30 * time.Second}, &work)
			return work
		}
		known := ask().Addresses
		require.Equal(t, 30*time.Second, time.Since(begun))
		w.store.Must(t, command.NodePut{Node: api.Node{ID: "n9", AgentAddr: "n9:7603"}})
		begun = time.Now()
		got := ask()
		assert.Zero(t, time.Since(begun))
		assert.Equal(t, append(slices.Clone(known), "n9:7603"), got.Addresses)
		assert.Equal(t, after, got.Generation, "no work was skipped")
		ask()
		assert.Equal(t, 30*time.Second, time.Since(begun), "it is told once")
		w.store.Must(t, command.NodeRemove{ID: "n9"})
		begun = time.Now()
		assert.Equal(t, known, ask().Addresses)
		assert.Zero(t, time.Since(begun))
	})
}

func TestWorkIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var reg api.AgentRegistered
		w.answered(t, "a-1", api.PathAgentRegister, hosts(1), &reg)
		after := w.store.View().Index()
		begun := time.Now()
		var work api.AgentWorkload
		w.answered(t, "a-1", api.PathAgentWork, api.AgentWork{After: after, Wait: 30 * time.Second}, &work)
		assert.Equal(t, 30*time.Second, time.Since(begun))
		assert.Equal(t, api.AgentWorkload{Term: 7, Generation: after, Addresses: work.Addresses}, work, "nothing is new")

		begun = time.Now()
		w.answered(t, "a-1", api.PathAgentWork, api.AgentWork{After: after, Wait: 365 * 24 * time.Hour}, &work)
		assert.Equal(t, api.WaitMax, time.Since(begun), "nobody waits for ever")

		var wg sync.WaitGroup
		var got []byte
		wg.Go(func() {
			got = w.do(t, "a-1", api.PathAgentWork, encode(t, api.AgentWork{After: after, Wait: time.Minute})).Body.Bytes()
		})
		synctest.Wait()
		begun = time.Now()
		w.place(t, "i-1", reg.Hosts[0])
		wg.Wait()
		require.NoError(t, codec.Unmarshal(got, &work))
		assert.Zero(t, time.Since(begun))
		require.Len(t, work.Hosts, 1)
		assert.Len(t, work.Hosts[0].Instances, 1)
	})
}

// TestAPollEndsWhenAnotherNodeLeads: what this one would answer later may never come.
func TestAPollEndsWhenAnotherNodeLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		change, changes := context.WithCancel(t.Context())
		w.conf.OnLeaderChange = func(f func()) (stop func()) {
			end := context.AfterFunc(change, f)
			return func() { end() }
		}
		w.Handler = New(w.conf)
		var reg api.AgentRegistered
		w.answered(t, "a-1", api.PathAgentRegister, hosts(1), &reg)
		begun, got := time.Now(), make(chan *httptest.ResponseRecorder)
		go func() {
			got <- w.do(t, "a-1", api.PathAgentWork, encode(t, api.AgentWork{After: w.store.View().Index(), Wait: time.Minute}))
		}()
		synctest.Wait()
		w.follower = true
		changes()
		answer := <-got
		assert.Equal(t, http.StatusMisdirectedRequest, answer.Code)
		assert.Zero(t, time.Since(begun))
	})
}

// TestAnAgentOfBeforeGetsNoNotice: it would read none of its lists.
func TestAnAgentOfBeforeGetsNoNotice(t *testing.T) {
	d := &agentDoor{Config{
		Fleet:  newWorld(t).conf.Fleet,
		Agent:  func(*http.Request) (api.AgentID, bool) { return "a", true },
		Leader: func() (string, bool) { return "", true },
		Log:    slog.New(slog.DiscardHandler),
	}}
	list := func(context.Context, api.AgentID, *api.AgentWork) (*api.AgentWorkload, error) {
		evicted := api.Workload{Instance: "i", Stop: true, Notice: &api.PreemptNotice{For: "r", Action: api.PreemptStop}}
		return &api.AgentWorkload{Hosts: []api.HostWorkload{{Host: "h", Instances: []api.Workload{{Instance: "j"}, evicted}}}}, nil
	}
	for form, has := range map[api.Form]bool{api.FormThird: false, api.FormFourth: true} {
		r := httptest.NewRequest(http.MethodPost, api.PathAgentWork, bytes.NewReader(encode(t, api.AgentWork{})))
		r.Header.Set("Content-Type", api.MediaCBOR)
		r.Header.Set(api.HeaderForm, form.String())
		rec := httptest.NewRecorder()
		serveCall(d, api.BodyMaxBytes, list)(rec, r)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		var got api.AgentWorkload
		require.NoError(t, codec.Unmarshal(rec.Body.Bytes(), &got))
		assert.Equal(t, has, got.Hosts[0].Instances[1].Notice != nil, "form %d", form)
		assert.True(t, got.Hosts[0].Instances[1].Stop)
	}
}

// TestAnAgentOfBeforeGetsWholeLists: an agent that reads no changes gets whole lists that it can read, whatever it
// asks after; one that reads them gets these.
func TestAnAgentOfBeforeGetsWholeLists(t *testing.T) {
	w := newWorld(t)
	var reg api.AgentRegistered
	w.answered(t, "a", api.PathAgentRegister, hosts(1), &reg)
	w.place(t, "i-1", reg.Hosts[0])
	seen := w.store.View().Index()
	w.place(t, "i-2", reg.Hosts[0])
	ask := func(form api.Form, after uint64) (got api.AgentWorkload) {
		r := httptest.NewRequest(http.MethodPost, api.PathAgentWork, bytes.NewReader(encode(t, api.AgentWork{After: after})))
		r.Header.Set("Content-Type", api.MediaCBOR)
		r.Header.Set(api.HeaderForm, form.String())
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), agentKey{}, api.AgentID("a"))))
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.NoError(t, codec.Unmarshal(rec.Body.Bytes(), &got))
		require.Len(t, got.Hosts, 1)
		return got
	}
	for form := api.FormFirst; form < api.FormFifth; form++ {
		for _, after := range []uint64{0, seen} {
			got := ask(form, after)
			assert.Zero(t, got.Hosts[0].Since, "form %d", form)
			assert.Len(t, got.Hosts[0].Instances, 2)
			assert.Equal(t, api.FlavorID("small"), got.Hosts[0].Instances[1].Flavor)
			assert.LessOrEqual(t, api.Form(codec.NeededForm(got)), form)
		}
	}
	assert.Len(t, ask(api.FormFifth, 0).Hosts[0].Instances, 2)
	got := ask(api.FormFifth, seen)
	assert.Equal(t, seen, got.Hosts[0].Since)
	assert.Len(t, got.Hosts[0].Instances, 1)
}

// TestAnAgentThatCallsTooOften is refused before its body is read, and the others are served.
func TestAnAgentThatCallsTooOften(t *testing.T) {
	w := newWorld(t)
	for n := range 2 * 1000 {
		require.Equal(t, http.StatusNotFound, w.do(t, "a", api.PathAgentWork, api.AgentWork{}).Code, "call %d", n)
	}
	w.refused(t, "a", api.PathAgentWork, []byte("nonsense"), api.CodeOverloaded, "too many calls")
	assert.Equal(t, "1", w.do(t, "a", api.PathAgentReport, nil).Header().Get("Retry-After"))
	assert.Equal(t, http.StatusNotFound, w.do(t, "b", api.PathAgentWork, api.AgentWork{}).Code)
}

// TestARefusedCallIsOneLine: of whomever it is, with the id that the answer has, and of all together not too many.
func TestARefusedCallIsOneLine(t *testing.T) {
	w := newWorld(t)
	for agent, want := range map[api.AgentID]string{
		"":  `msg="authentication refused" listener=agent reason=revoked path=/agent/work`,
		"a": `msg="call refused" listener=agent`,
	} {
		w.lines.Reset()
		rec := w.do(t, agent, api.PathAgentWork, []byte("nonsense"))
		require.GreaterOrEqual(t, rec.Code, http.StatusBadRequest)
		said := w.lines.String()
		assert.Equal(t, 1, strings.Count(said, "\n"), said)
		assert.Contains(t, said, want)
		assert.Contains(t, said, "request_id="+rec.Header().Get(api.HeaderRequestID)+"\n")
	}
	for range refusals.LinesMax {
		w.do(t, "", api.PathAgentWork, nil)
		w.do(t, "a", api.PathAgentWork, []byte("nonsense"))
	}
	w.lines.Reset()
	w.do(t, "a", api.PathAgentWork, []byte("nonsense"))
	assert.Empty(t, w.lines.String())
}

// TestAnAgentThatRunsTwice: the second one is refused, is told so by a header, and changes nothing.
func TestAnAgentThatRunsTwice(t *testing.T) {
	w := newWorld(t)
	call := func(home string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, api.PathAgentRegister, bytes.NewReader(encode(t, hosts(1))))
		r.Header.Set("Content-Type", api.MediaCBOR)
		if home != "" {
			r.Header.Set(api.HeaderHome, home)
		}
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), agentKey{}, api.AgentID("rack1"))))
		return rec
	}
	require.Equal(t, http.StatusOK, call("here").Code)
	before := w.store.View().Index()
	second := call("copy")
	assert.Equal(t, http.StatusConflict, second.Code)
	assert.NotEmpty(t, second.Header().Get(api.HeaderHome))
	assert.Contains(t, second.Body.String(), "runs already")
	assert.Equal(t, before, w.store.View().Index())
	assert.Contains(t, w.lines.String(), "runs already")
	again := call("here")
	assert.Equal(t, http.StatusOK, again.Code)
	assert.Empty(t, again.Header().Get(api.HeaderHome))
	assert.Equal(t, http.StatusOK, call("").Code, "of an earlier release")
}

// TestAboutAnAgent: its release and the skew of its clock are taken from its headers, and what cannot be is left out.
func TestAboutAnAgent(t *testing.T) {
	w := newWorld(t)
	ask := func(version, clock string) fleet.About {
		r := httptest.NewRequest(http.MethodPost, api.PathAgentRegister, bytes.NewReader(encode(t, hosts(1))))
		r.Header.Set("Content-Type", api.MediaCBOR)
		r.Header.Set(api.HeaderVersion, version)
		r.Header.Set(api.HeaderSkew, clock)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), agentKey{}, api.AgentID("rack1"))))
		require.Equal(t, http.StatusOK, rec.Code)
		assert.Regexp(t, `^\d+$`, rec.Header().Get(api.HeaderTime))
		all := w.conf.Fleet.Agents(w.store.View())
		require.Len(t, all, 1)
		return all[0].About
	}
	longest, skews := strings.Repeat("v", versionMax), skewMax.Milliseconds()
	for _, c := range []struct {
		version, clock string
		want           fleet.About
	}{
		{"v1", "-1500 20", fleet.About{Version: "v1", Skew: &skew.Skew{Ahead: -1500 * time.Millisecond, Error: 20 * time.Millisecond}}},
		{"", "", fleet.About{}},
		{longest, "0 0", fleet.About{Version: longest, Skew: &skew.Skew{}}},
		{longest + "v", "0", fleet.About{}},
		{"v1\x1b[2J", "x y", fleet.About{}},
		{"", "0 -1", fleet.About{}},
		{"", fmt.Sprintf("%d %d", -skews, skews), fleet.About{Skew: &skew.Skew{Ahead: -skewMax, Error: skewMax}}},
		{"", fmt.Sprintf("%d 0", skews+1), fleet.About{}},
		{"", fmt.Sprintf("0 %d", skews+1), fleet.About{}},
		{"", "9223372036854775808 0", fleet.About{}},
	} {
		assert.Equal(t, c.want, ask(c.version, c.clock), "%q %q", c.version, c.clock)
	}
}

// TestAnAgentRegistersOnceAtATime: what it has under way is counted for it, and a second registration is refused before its
// body is read; others may register meanwhile.
func TestAnAgentRegistersOnceAtATime(t *testing.T) {
	w := newWorld(t)
	h := w.Handler
	b := budget.New(budget.Limits{budget.Registrations: {budget.Agent: 1}, budget.Bodies: {budget.Agent: 2 * api.SmallBodyMaxBytes}})
	call := func(agent api.AgentID, path string, body any) (*budget.Account, int) {
		a := b.Begin()
		w.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(rw, r.WithContext(budget.With(r.Context(), a)))
		})
		return a, w.do(t, agent, path, body).Code
	}
	first, code := call("a", api.PathAgentRegister, hosts(1))
	assert.Equal(t, http.StatusOK, code)
	_, code = call("a", api.PathAgentRegister, []byte("nonsense"))
	assert.Equal(t, http.StatusTooManyRequests, code)
	_, code = call("b", api.PathAgentRegister, []byte("nonsense"))
	assert.Equal(t, http.StatusBadRequest, code)
	_, code = call("a", api.PathAgentReport, api.AgentReport{})
	assert.Equal(t, http.StatusOK, code, "another call of the same agent")
	_, code = call("a", api.PathAgentReport, make([]byte, 2*api.SmallBodyMaxBytes))
	assert.Equal(t, http.StatusBadRequest, code)
	_, code = call("a", api.PathAgentReport, make([]byte, 2*api.SmallBodyMaxBytes))
	assert.Equal(t, http.StatusTooManyRequests, code, "too many bytes")
	first.End()
	_, code = call("a", api.PathAgentRegister, []byte("x"))
	assert.Equal(t, http.StatusBadRequest, code)
}
