package leasecheck_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/await"
	"berth/internal/crash"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/webhook"
	"berth/zone"
	"berth/zone/leasecheck"
)

// world is a zone with a service, and a leader that tells it of ends.
type world struct {
	t     *testing.T
	store *memstore.Store
	zone  *zone.Zone
	check *leasecheck.Check
	point func(crash.Point)
	stop  func()
	made  int
}

func newWorld(t *testing.T, s leasecheck.Sender, service api.LeaseCheck) *world {
	t.Helper()
	w := &world{t: t, store: memstore.NewOfForm(api.FormNewest), point: func(crash.Point) {}}
	w.store.Must(t, command.Init{Zone: "z-id", Name: "z"})
	w.configure(service)
	w.zone = zone.New(zone.Config{Store: w.store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Crash: func(p crash.Point) { w.point(p) }})
	w.check = leasecheck.New(leasecheck.Config{Zone: w.zone, Sender: s, Token: func(c *api.LeaseCheck) (string, error) { return string(c.Token), nil }})
	return w
}

func (w *world) stamp() command.Stamp { return command.Stamp{At: api.InstantOf(time.Now())} }

func (w *world) configure(service api.LeaseCheck) {
	w.t.Helper()
	w.store.Must(w.t, command.ConfigSet{Stamp: w.stamp(), Config: api.ZoneConfig{Leases: api.LeaseRule{Check: service}}})
}

var (
	someone = api.Caller{User: "u", Project: "p"}
	terms   = api.LeaseTerms{
		ID: "l1", Name: "lab", User: "u", Project: "p", Window: api.Window{Start: 3_600_000, End: 7_200_000}, BeforeEnd: 3_660_000,
		Reservations: []api.Reservation{
			{ID: "r1", Type: api.ReserveHosts, Min: 1, Max: 2, HypervisorProperties: `[">=","$vcpus","8"]`, BeforeEnd: "default"},
			{ID: "r2", Type: api.ReserveInstances, Min: 3, Max: 3, Resources: api.Resources{api.VCPU: 1, api.MemoryMB: 2, api.DiskGB: 3}},
		},
	}
	places = [][]rest.CheckedPlace{
		{{ID: "h1", Host: "host-1", Zone: "z", Amount: 1, Extra: map[string]string{"gpu": "A"}}},
		{{Zone: "west", Amount: 3}},
	}
)

// local returns a sender to receivers of this machine.
func local() *webhook.Sender {
	nets, _ := webhook.ParseNetworks([]string{"127.0.0.0/8"}) // it is right
	return webhook.New(webhook.Config{Networks: func() webhook.Networks { return nets }, Now: time.Now})
}

// TestAnswers: 204 allows, 403 refuses with its own sentence, and all else is no answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type reply struct {
		status int
		body   string
		slow   bool
	}
	var next atomic.Pointer[reply]
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		now := next.Load()
		if now.slow {
			_, _ = io.Copy(io.Discard, r.Body) // so that the end of the call is noticed
			<-r.Context().Done()
			return
		}
		rw.WriteHeader(now.status)
		_, _ = io.WriteString(rw, now.body)
	}))
	defer server.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	sender := local()
	defer sender.Close()
	const unanswered = "the external service that checks the leases of this zone gave no answer: "
	long := strings.Repeat("é", api.LeaseCheckMessageMaxBytes)
	for name, one := range map[string]struct {
		url    string
		status int
		body   string
		slow   bool
		code   api.Code // "" for allowed
		says   string
		open   bool // it is refused also if the zone fails open
	}{
		"allowed":            {status: 204},
		"refused":            {status: 403, body: `{"message":"No way"}`, code: api.CodeForbidden, says: "No way", open: true},
		"refused in a line":  {status: 403, body: `{"message":" a\nb\u0000 "}`, code: api.CodeForbidden, says: "a b", open: true},
		"refused at length":  {status: 403, body: `{"message":"x` + long + `"}`, code: api.CodeForbidden, says: "x" + long[:api.LeaseCheckMessageMaxBytes-2], open: true},
		"refused by a proxy": {status: 403, body: `<html>`, code: api.CodeForbidden, says: "refuses the lease", open: true},
		"refused in silence": {status: 403, code: api.CodeForbidden, says: "refuses the lease", open: true},
		"broken":             {status: 500, body: `{"message":"secret"}`, code: api.CodeUnavailable, says: unanswered + "it answered with status 500; nothing was changed"},
		"not an answer":      {status: 200, body: `{}`, code: api.CodeUnavailable, says: unanswered + "it answered with status 200; nothing was changed"},
		"elsewhere":          {status: 302, code: api.CodeUnavailable, says: "status 302"},
		"slow":               {slow: true, code: api.CodeUnavailable, says: "it did not answer within 50ms"},
		"not there":          {url: gone.URL, code: api.CodeUnavailable, says: "there was no connection"},
		"not allowed":        {url: "http://10.0.0.1/", code: api.CodeUnavailable, says: unanswered},
	} {
		for _, open := range []bool{false, true} {
			next.Store(&reply{one.status, one.body, one.slow})
			w := newWorld(t, sender, api.LeaseCheck{URL: server.URL, Timeout: 5 * time.Second, Open: open})
			if one.url != "" {
				w.configure(api.LeaseCheck{URL: one.url, Open: open})
			}
			if one.slow {
				w.configure(api.LeaseCheck{URL: server.URL, Timeout: 50 * time.Millisecond, Open: open})
			}
			for _, err := range []error{w.check.CheckCreate(t.Context(), someone, &terms, nil), w.check.CheckUpdate(t.Context(), someone, &terms, &terms, nil)} {
				if one.code == "" || open && !one.open {
					require.NoError(t, err, name)
					continue
				}
				require.Equal(t, one.code, api.CodeOf(err), name)
				assert.Contains(t, api.MessageOf(err), one.says, name)
				assert.LessOrEqual(t, len(api.MessageOf(err)), api.LeaseCheckMessageMaxBytes, name)
				assert.NotContains(t, api.MessageOf(err), "secret")
			}
		}
	}
}

// TestCalls: what the service is sent, and that nothing is without one.
func TestCalls(t *testing.T) {
	t.Parallel()
	var got []*http.Request
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, bodies = append(got, r), append(bodies, string(b))
		rw.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	sender := local()
	defer sender.Close()
	w := newWorld(t, sender, api.LeaseCheck{})
	assert.False(t, w.check.Asks())
	require.NoError(t, w.check.CheckCreate(t.Context(), someone, &terms, places))
	assert.Empty(t, got)

	w.configure(api.LeaseCheck{URL: server.URL + "/v1/", Token: []byte("a-token")})
	assert.True(t, w.check.Asks())
	require.NoError(t, w.check.CheckCreate(t.Context(), someone, &terms, places))
	longer := terms
	longer.Window.End += 60_000
	longer.Grace, longer.Reservations = 5*time.Minute, slices.Clone(terms.Reservations)
	longer.Reservations[1].ShareIdle = true
	w.configure(api.LeaseCheck{URL: server.URL + "/v1"}) // a base without a slash keeps its last part
	require.NoError(t, w.check.CheckUpdate(t.Context(), someone, &terms, &longer, nil))
	require.Len(t, got, 2)
	assert.Equal(t, "POST /v1/check-create", got[0].Method+" "+got[0].URL.Path)
	assert.Equal(t, "POST /v1/check-update", got[1].Method+" "+got[1].URL.Path)
	assert.Equal(t, "a-token", got[0].Header.Get("X-Auth-Token"))
	require.NoError(t, webhook.Verify("a-token", got[0].Header.Get(webhook.HeaderSignature), time.Now(), []byte(bodies[0])))
	assert.NotContains(t, got[1].Header, "X-Auth-Token")
	assert.NotContains(t, got[1].Header, webhook.HeaderSignature)
	const lease = `"id":"l1","name":"lab","user_id":"u","project_id":"p","start_date":"1970-01-01T01:00:00.000000","end_date":%q,` +
		`"before_end_date":"1970-01-01T01:01:00.000000","series_id":null,"shared_with":[],"zones":[],"reservations":[` +
		`{"id":"r1","resource_type":"physical:host","resource_properties":"","min":1,"max":2,"hypervisor_properties":"[\">=\",\"$vcpus\",\"8\"]","before_end":"default","allocations":%s},` +
		`{"id":"r2","resource_type":"virtual:instance","resource_properties":"","vcpus":1,"memory_mb":2,"disk_gb":3,"amount":3,"affinity":null,"flavor_id":"r2",` +
		`"server_group_id":null,"aggregate_id":null,"allocations":%s}]`
	const who = `"context":{"user_id":"u","project_id":"p","auth_url":"","region_name":"z","zone_id":"z-id"}`
	two, late := "1970-01-01T02:00:00.000000", "1970-01-01T02:01:00.000000"
	planned := fmt.Sprintf(lease, two, `[{"id":"h1","hypervisor_hostname":"host-1","zone":"z","amount":1,"extra":{"gpu":"A"}}]`, `[{"zone":"west","amount":3}]`)
	assert.JSONEq(t, `{`+who+`,"lease":{`+planned+`}}`, bodies[0])
	shares := strings.NewReplacer(`"zones":[]`, `"zones":[],"grace":"5m0s"`, `"id":"r2"`, `"id":"r2","share_idle":true`).Replace(fmt.Sprintf(lease, late, `[]`, `[]`))
	assert.JSONEq(t, `{`+who+`,"current_lease":{`+fmt.Sprintf(lease, two, `[]`, `[]`)+`},"lease":{`+shares+`}}`, bodies[1])
	assert.Equal(t, leasecheck.Counts{Allowed: 2}, w.check.Counts())
}

// TestQuestionsWaitForEachOther: no more than some are under way, and who would wait for longer
// than for the answer is refused.
func TestQuestionsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{hang: true}
		w := newWorld(t, s, api.LeaseCheck{URL: "https://x", Timeout: 30 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { assert.Error(t, w.check.CheckCreate(ctx, someone, &terms, nil)) })
		}
		synctest.Wait()
		w.configure(api.LeaseCheck{URL: "https://x", Timeout: time.Second})
		require.ErrorContains(t, w.check.CheckCreate(ctx, someone, &terms, nil), "too many other leases wait for it")
		assert.Len(t, s.calls(), 64)
		cancel()
		wg.Wait()
		require.ErrorContains(t, w.check.CheckCreate(t.Context(), someone, &terms, nil), "gave no answer")
		assert.Len(t, s.calls(), 65)
		assert.Equal(t, uint64(66), w.check.Counts().Unanswered)
	})
}

// service is the other side of a zone: it notes the ends that it is told.
type service struct {
	mu     sync.Mutex // guards the fields below
	got    []string   // "lease outcome"
	at     []time.Time
	status func(n int, lease string) int // nil for 204
	hang   bool
}

func (s *service) Ask(ctx context.Context, q *webhook.Question) (*webhook.Answer, error) {
	var b rest.LeaseCheckCall
	if err := json.Unmarshal(q.Body, &b); err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.got, s.at = append(s.got, fmt.Sprint(b.Lease.ID, " ", b.Lease.Outcome)), append(s.at, time.Now())
	n, status, hang := len(s.got), s.status, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if status == nil {
		return &webhook.Answer{Status: http.StatusNoContent}, nil
	}
	return &webhook.Answer{Status: status(n, string(b.Lease.ID))}, nil
}

func (s *service) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// lead begins a term of a leader; stop ends it.
func (w *world) lead() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { w.check.Lead(ctx) })
	w.stop = func() {
		cancel()
		wg.Wait()
	}
}

// end makes leases and deletes them, and returns what is to be told.
func (w *world) end(n int) (out []string) {
	w.t.Helper()
	for range n {
		w.made++
		id := fmt.Sprintf("l%04d", w.made)
		window := api.Window{Start: w.stamp().At.Add(time.Hour), End: w.stamp().At.Add(2 * time.Hour)}
		w.store.Must(w.t, command.LeaseCreate{Stamp: w.stamp(), Digest: []byte{1}, Terms: api.LeaseTerms{ID: api.LeaseID(id), Project: "p", User: "u", Window: window}})
		w.store.Must(w.t, command.LeaseDelete{Stamp: w.stamp(), Project: "p", ID: api.LeaseID(id)})
		out = append(out, id+" deleted")
		await.Sleep(time.Millisecond)
	}
	return out
}

func (w *world) owed() int {
	n, _ := w.store.View().CountLeaseEnds()
	return n
}

// TestEndsAreTold: each end once, if the service answers.
func TestEndsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{}
		w := newWorld(t, s, api.LeaseCheck{URL: "https://x"})
		want := w.end(3)
		w.lead()
		defer func() { w.stop() }()
		want = append(want, w.end(120)...)
		synctest.Wait()
		assert.ElementsMatch(t, want, s.calls())
		assert.Zero(t, w.owed())
		assert.Equal(t, leasecheck.Counts{Told: 123}, w.check.Counts())
	})
}

// TestEndsAreToldAgain until they are confirmed, after longer and longer pauses, and one that
// never is holds up no other.
func TestEndsAreToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		s := &service{status: func(_ int, lease string) int {
			if down || lease == "l0001" {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}}
		w := newWorld(t, s, api.LeaseCheck{URL: "https://x"})
		w.end(2)
		w.lead()
		defer func() { w.stop() }()
		await.Sleep(24 * time.Hour)
		synctest.Wait()
		calls := len(s.calls())
		assert.Greater(t, calls, 200, "for ever")
		assert.Less(t, calls, 700, "not all the time")

		w.end(130) // they are tried at once although the service seems to be down
		synctest.Wait()
		assert.Greater(t, len(s.calls()), calls+10)
		s.mu.Lock()
		down = false
		s.mu.Unlock()
		await.Sleep(15 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, w.owed(), "the first")
		w.end(1)
		synctest.Wait()
		assert.Equal(t, 1, w.owed(), "the first alone")

		w.configure(api.LeaseCheck{}) // nobody is to be told any more
		await.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Zero(t, w.owed())
		w.end(1)
		assert.Zero(t, w.owed())
	})
}

// TestANewLeaderTellsAgain what an old one has told and not recorded.
func TestANewLeaderTellsAgain(t *testing.T) {
	for _, p := range crash.LeaseEndPoints() {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{}
				w := newWorld(t, s, api.LeaseCheck{URL: "https://x"})
				want := w.end(1)
				var mu sync.Mutex
				ended, once := make(chan struct{}), true
				w.point = func(at crash.Point) {
					mu.Lock()
					first := at == p && once
					once = once && !first
					mu.Unlock()
					if first { // the process ends here
						close(ended)
						runtime.Goexit()
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go w.check.Lead(ctx) // it does not return if its goroutine ends within
				<-ended
				cancel()
				synctest.Wait()
				before := len(s.calls())
				w.lead()
				defer func() { w.stop() }()
				await.Sleep(time.Minute)
				synctest.Wait()
				assert.Zero(t, w.owed())
				again := map[crash.Point]int{crash.LeaseEndTelling: 1, crash.LeaseEndTold: 2, crash.LeaseEndLogging: 2, crash.LeaseEndLogged: 1}[p]
				assert.Len(t, s.calls(), again)
				assert.Equal(t, want[0], s.calls()[again-1])
				assert.LessOrEqual(t, before, 1)
			})
		})
	}
}
