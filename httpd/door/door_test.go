package door

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/refusals"
	"berth/httpd/wire"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
	"berth/zone"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// tokens are "id:secret"; the hash of a secret is the secret.
type tokens struct{}

func (tokens) Parse(text string) (api.TokenID, []byte, error) {
	id, secret, ok := strings.Cut(text, ":")
	if !ok {
		return "", nil, api.Errorf(api.CodeUnauthenticated, "malformed")
	}
	return api.TokenID(id), []byte(secret), nil
}

func (tokens) Check(stored, presented []byte) bool { return bytes.Equal(stored, presented) }

// world is a door of a node that leads or follows. A call that is passed on to the
// leader is counted and answered with 418.
type world struct {
	*Door
	store    *memstore.Store
	follower bool
	passed   int
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{store: memstore.NewOfForm(api.FormNewest)}
	w.serve(w.store)
	w.store.Must(tb, command.Init{Stamp: w.Zone.Stamp(), Zone: "zone-root", Name: "root"})
	w.token(tb, "member", api.Forever, api.RoleReader, api.RoleMember)
	w.token(tb, "late", api.InstantOf(epoch), api.RoleAdmin)
	return w
}

// serve makes the door answer from a store.
func (w *world) serve(store zone.Store) {
	now, log := func() time.Time { return epoch }, slog.New(slog.DiscardHandler)
	w.Door = New(Config{
		Zone: zone.New(zone.Config{Store: store, Now: now, Log: log}), Tokens: tokens{}, Now: now, Log: log,
		Leader: func() bool { return !w.follower },
		Forward: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			w.passed++
			rw.WriteHeader(http.StatusTeapot)
		}),
	}, wire.Refuse)
}

func (w *world) token(tb testing.TB, id string, expires api.Instant, roles ...api.UserRole) {
	tb.Helper()
	w.store.Must(tb, command.TokenPut{Stamp: w.Zone.Stamp(), Token: api.Token{
		ID: api.TokenID(id), Hash: []byte("s"), User: api.UserID(id), Project: "p1", Roles: roles, Expires: expires,
	}})
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func get(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

func bearer(token string) *http.Request {
	r := get("/")
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// index is the index that an answer says it was read at.
func index(t *testing.T, rec *httptest.ResponseRecorder) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(rec.Header().Get(api.HeaderIndex), 10, 64)
	require.NoError(t, err)
	return n
}

func TestACallerHasTheHighestOfHisRoles(t *testing.T) {
	w := newWorld(t)
	var who api.Caller
	h := w.Authenticate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = Caller(r) }))
	assert.Equal(t, http.StatusOK, ask(h, bearer("member:s")).Code)
	assert.Equal(t, api.Caller{User: "member", Project: "p1", Role: api.RoleMember}, who)
	for _, token := range []string{"", "member", "member:wrong", "late:s", "nobody:s"} {
		assert.Equal(t, http.StatusUnauthorized, ask(h, bearer(token)).Code, "%q", token)
	}
	for set, want := range map[api.UserRole]int{api.RoleReader: http.StatusOK, api.RoleMember: http.StatusOK, api.RoleAdmin: http.StatusForbidden} {
		allowed := w.Authenticate(w.Allow(set, api.AreaServers.Reads())(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		assert.Equal(t, want, ask(allowed, bearer("member:s")).Code, set)
	}
	w.Insecure = true
	assert.Equal(t, http.StatusOK, ask(h, get("http://localhost/")).Code)
	assert.Equal(t, api.RoleAdmin, who.Role)
}

// TestAnUnknownTokenIsRefusedByTheLeaderAlone: it may have been made a moment ago.
func TestAnUnknownTokenIsRefusedByTheLeaderAlone(t *testing.T) {
	w := newWorld(t)
	past := w.store.View()
	w.token(t, "new", api.Forever, api.RoleReader)
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

	w.serve(memstore.NewPast(w.store, past, false))
	w.follower = true
	assert.Equal(t, http.StatusTeapot, ask(w.Authenticate(ok), bearer("new:s")).Code)
	assert.Equal(t, http.StatusUnauthorized, ask(w.Authenticate(ok), bearer("member:wrong")).Code, "a known one is not passed on")
	assert.Equal(t, 1, w.passed)
	w.follower = false
	assert.Equal(t, http.StatusOK, ask(w.Authenticate(ok), bearer("new:s")).Code, "the leader asks a majority first")

	w.serve(memstore.NewPast(w.store, past, true))
	assert.Equal(t, http.StatusServiceUnavailable, ask(w.Authenticate(ok), bearer("nobody:s")).Code, "it leads no more")
}

// posted is a request with a text, and textOf reads it.
func posted(text string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strconv.Quote(text)))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func textOf(t *testing.T, r *http.Request) (text string) {
	t.Helper()
	assert.NoError(t, wire.ReadJSON(r, 100, &text))
	return text
}

func TestTheLeaderAloneWrites(t *testing.T) {
	w := newWorld(t)
	h := w.Index(w.Lead(func(rw http.ResponseWriter, r *http.Request) error {
		_, err := io.WriteString(rw, textOf(t, r))
		w.store.Must(t, command.TraitPut{Stamp: w.Zone.Stamp(), Name: "CUSTOM_A"})
		return err
	}))
	post := func() *http.Request { return posted("body") }
	before := w.store.View().Index()
	rec := ask(h, post())
	assert.Equal(t, "body", rec.Body.String())
	assert.GreaterOrEqual(t, index(t, rec), before)
	w.follower = true
	rec = ask(h, post())
	assert.Equal(t, http.StatusTeapot, rec.Code)
	assert.Empty(t, rec.Header().Get(api.HeaderIndex), "the leader's answer has its own")
}

// TestARefusalOfThePastIsMadeAnew: the handler gets the same body again.
func TestARefusalOfThePastIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	past := w.store.View()
	w.token(t, "new", api.Forever, api.RoleReader)
	w.serve(memstore.NewPast(w.store, past, false))
	var bodies []string
	h := w.Lead(func(rw http.ResponseWriter, r *http.Request) error {
		bodies = append(bodies, textOf(t, r))
		if _, ok := w.View(rw).Token("new"); !ok {
			return api.Errorf(api.CodeNotFound, "no token")
		}
		return nil
	})
	rec := ask(h, posted("body"))
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.Equal(t, []string{"body", "body"}, bodies)
	assert.Equal(t, w.store.View().Index(), index(t, rec))

	bodies = nil
	w.serve(w.store)
	h = w.Lead(func(http.ResponseWriter, *http.Request) error {
		bodies = append(bodies, "")
		return api.Errorf(api.CodeNotFound, "nothing")
	})
	assert.Equal(t, http.StatusNotFound, ask(h, httptest.NewRequest(http.MethodPost, "/", nil)).Code)
	assert.Len(t, bodies, 1, "the state has not moved on")
}

func TestReads(t *testing.T) {
	w := newWorld(t)
	past := w.store.View()
	w.token(t, "new", api.Forever, api.RoleReader)
	now := w.store.View()
	for _, c := range []struct {
		usual    api.Read
		query    string
		follower bool
		want     *state.State // nil if it is passed on
	}{
		{api.ReadLocal, "", false, past},
		{api.ReadLocal, "?read=linearizable", false, now},
		{api.ReadLinearizable, "", false, now},
		{api.ReadLinearizable, "?read=local", false, past},
		{api.ReadLocal, "", true, past},
		{api.ReadLinearizable, "", true, nil},
		{api.ReadLocal, "?read=linearizable", true, nil},
	} {
		w.serve(memstore.NewPast(w.store, past, false))
		w.follower = c.follower
		rec := ask(w.Index(w.Fresh(c.usual)(w.Handle(func(rw http.ResponseWriter, _ *http.Request) error {
			rw.WriteHeader(http.StatusOK)
			return nil
		}))), get("/"+c.query))
		if c.want == nil {
			assert.Equal(t, http.StatusTeapot, rec.Code, "%+v", c)
			continue
		}
		assert.Equal(t, http.StatusOK, rec.Code, "%+v", c)
		assert.Equal(t, c.want.Index(), index(t, rec), "%+v", c)
	}
	w.follower = false
	h := w.Fresh(api.ReadLocal)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	assert.Equal(t, http.StatusBadRequest, ask(h, get("/?read=log")).Code)
	assert.Equal(t, http.StatusBadRequest, ask(h, httptest.NewRequest(http.MethodPost, "/?read=linearizable", nil)).Code)
	w.serve(memstore.NewPast(w.store, past, true))
	assert.Equal(t, http.StatusServiceUnavailable, ask(w.Fresh(api.ReadLinearizable)(h), get("/")).Code)
}

// TestWhoWaitsIsLookedAtAgain: a call that waits ends soon after its token has.
func TestWhoWaitsIsLookedAtAgain(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *world, late *atomic.Bool){
		"revoked": func(t *testing.T, w *world, _ *atomic.Bool) {
			t.Helper()
			w.store.Must(t, command.TokenDelete{Stamp: w.Zone.Stamp(), ID: "member"})
		},
		"expired": func(_ *testing.T, _ *world, late *atomic.Bool) { late.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var late atomic.Bool // an hour
				w.Now = func() time.Time {
					if late.Load() {
						return epoch.Add(time.Hour)
					}
					return epoch
				}
				w.token(t, "member", api.InstantOf(epoch.Add(time.Hour)), api.RoleMember)
				h := w.Authenticate(w.Handle(func(_ http.ResponseWriter, r *http.Request) error {
					ctx, lost, stop := w.WhileAdmitted(r)
					defer stop()
					begun := time.Now()
					select {
					case <-ctx.Done():
						t.Error("it is still admitted")
					case <-time.After(time.Hour):
					}
					assert.NoError(t, lost())
					end(t, w, &late)
					<-ctx.Done()
					assert.LessOrEqual(t, time.Since(begun), time.Hour+lookEvery)
					return lost()
				}))
				assert.Equal(t, http.StatusUnauthorized, ask(h, bearer("member:s")).Code)
			})
		})
	}
}

// TestANodeThatIsCutOff answers until TrustMax has passed, and then nobody.
func TestANodeThatIsCutOff(t *testing.T) {
	w := newWorld(t)
	var cut time.Duration
	w.Cut = func() time.Duration { return cut }
	h := w.Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	cut = TrustMax
	assert.Equal(t, http.StatusOK, ask(h, bearer("member:s")).Code)
	cut++
	assert.Equal(t, http.StatusServiceUnavailable, ask(h, bearer("member:s")).Code)
}

// TestPagesOfOthersAreNoCallers: without tokens, what a browser sends for another site is refused.
func TestPagesOfOthersAreNoCallers(t *testing.T) {
	w := newWorld(t)
	w.Insecure = true
	w.Address = func(r *http.Request) string { return r.Header.Get("From") }
	h := w.Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		host, origin, from string
		want               int
	}{
		{"127.0.0.1:7600", "", "127.0.0.1", http.StatusOK},
		{"127.0.0.2", "", "127.0.0.1", http.StatusOK},
		{"[::1]:7600", "", "127.0.0.1", http.StatusOK},
		{"[::1]", "", "127.0.0.1", http.StatusOK},
		{"localhost:7600", "", "127.0.0.1", http.StatusOK},
		{"node-2.example:7602", "", "", http.StatusOK}, // passed on
		{"evil.example", "", "127.0.0.1", http.StatusForbidden},
		{"127.0.0.1.evil.example:7600", "", "127.0.0.1", http.StatusForbidden},
		{"192.0.2.1:7600", "", "127.0.0.1", http.StatusForbidden},
		{"", "", "127.0.0.1", http.StatusForbidden},
		{"127.0.0.1:7600", "https://evil.example", "127.0.0.1", http.StatusForbidden},
		{"127.0.0.1:7600", "null", "127.0.0.1", http.StatusForbidden},
	} {
		r := from(c.from, "")
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		assert.Equal(t, c.want, ask(h, r).Code, "%+v", c)
	}
	w.Insecure = false
	r := bearer("member:s")
	r.Header.Set("Origin", "https://ui.example")
	assert.Equal(t, http.StatusOK, ask(h, r).Code, "a token says enough")
}

// TestWhatIsNotAllowedIsNotRead: a role is looked at before the body.
func TestWhatIsNotAllowedIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.store.Must(t, command.RoleSet{Stamp: w.Zone.Stamp(), Role: api.Role{Name: "hosts", Allow: []api.RouteGroup{api.AreaHosts.Writes()}}})
	w.token(t, "custom", api.Forever, "hosts")
	for token, areas := range map[string]map[api.Area]int{
		"member:s": {api.AreaHosts: http.StatusForbidden, api.AreaFlavors: http.StatusForbidden},
		"custom:s": {api.AreaHosts: http.StatusOK, api.AreaFlavors: http.StatusForbidden},
	} {
		for area, want := range areas {
			r := bearer(token)
			r.Method, r.Body = http.MethodPost, unread{t}
			h := w.Authenticate(w.Allow(api.RoleAdmin, area.Writes())(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			rec := ask(h, r)
			assert.Equal(t, want, rec.Code, "%s %s", token, area)
			if want == http.StatusForbidden {
				assert.Contains(t, rec.Body.String(), "needs the role admin, or one that allows "+string(area.Writes()))
			}
		}
	}
}

// TestRefusalsAreCounted: who is not authenticated is counted under his reason, and so are changes that a
// caller may not make; what he may not read is not.
func TestRefusalsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.Refusals = refusals.New(slog.New(slog.DiscardHandler), w.Now)
	h := w.Authenticate(w.Allow(api.RoleAdmin, api.AreaServers.Reads())(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for token, why := range map[string]refusals.Reason{
		"": refusals.TokenMissing, "member": refusals.TokenMalformed, "nobody:s": refusals.TokenUnknown,
		"member:wrong": refusals.TokenWrong, "late:s": refusals.TokenExpired,
	} {
		r := get("/")
		if token != "" {
			r = bearer(token)
		}
		require.Equal(t, http.StatusUnauthorized, ask(h, r).Code)
		assert.Equal(t, uint64(1), w.Refusals.Counts().Authentications[refusals.Key{Listener: refusals.API, Reason: why}], why)
	}
	r := bearer("member:s")
	require.Equal(t, http.StatusForbidden, ask(h, r).Code)
	assert.Zero(t, w.Refusals.Counts().Authorizations[refusals.API])
	r.Method = http.MethodPost
	require.Equal(t, http.StatusForbidden, ask(h, r).Code)
	assert.Equal(t, uint64(1), w.Refusals.Counts().Authorizations[refusals.API])
	w.Insecure = true
	r = get("http://localhost/")
	r.Header.Set("Origin", "http://evil.example")
	require.Equal(t, http.StatusForbidden, ask(h, r).Code)
	assert.Equal(t, uint64(1), w.Refusals.Counts().Authentications[refusals.Key{Listener: refusals.API, Reason: refusals.ForeignPage}])
}
