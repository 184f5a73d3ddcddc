package placement

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/openstack"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

const theProvider = "11111111-0000-4000-8000-000000000000"

// ask makes one call at the newest microversion, as the admin.
func (w *talk) ask(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, Mount+path, strings.NewReader(body))
	r.Header.Set(headerVersion, "placement latest")
	r.Header.Set("X-Auth-Token", "admin:s")
	if body != "" {
		r.Header.Set("Content-Type", openstack.MediaJSON)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

func TestATokenComesInEveryWay(t *testing.T) {
	w := newTalk(t)
	for name, set := range map[string]func(*http.Request){
		"header":          func(r *http.Request) { r.Header.Set("X-Auth-Token", "admin:s") },
		"bearer":          func(r *http.Request) { r.Header.Set("Authorization", "Bearer admin:s") },
		"any user's word": func(r *http.Request) { r.SetBasicAuth("whoever", "admin:s") },
	} {
		r := httptest.NewRequest(http.MethodGet, Mount+"/resource_providers", nil)
		set(r)
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		assert.Equal(t, http.StatusOK, rec.Code, name)
	}
	r := httptest.NewRequest(http.MethodGet, Mount+"/resource_providers", nil)
	r.SetBasicAuth("admin:s", "wrong")
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	assert.Equal(t, http.StatusUnauthorized, rec.Code)
	assert.NotEmpty(t, rec.Header().Get("WWW-Authenticate"))
}

// rival is a store in which another writer is faster some times.
type rival struct {
	*memstore.Store
	tb    testing.TB
	times int
}

func (s *rival) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	if c, ok := cmds[len(cmds)-1].(command.ProviderSet); ok && s.times > 0 { // behind the note for the audit log
		s.times--
		c.Generation = nil
		s.Must(s.tb, c)
	}
	return s.Store.Propose(ctx, cmds...)
}

func (s *rival) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

func TestACallWithoutAGenerationIsRepeated(t *testing.T) {
	for _, c := range []struct{ times, status int }{
		{0, http.StatusCreated},
		{1, http.StatusConflict}, // what it wanted is there now
	} {
		w := newTalk(t)
		w.Serve(&rival{w.Store, t, c.times})
		require.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", `{"name":"a","uuid":"`+theProvider+`"}`).Code)
		rec := w.ask(http.MethodPost, "/resource_providers/"+theProvider+"/inventories", `{"resource_class":"VCPU","total":8}`)
		assert.Equal(t, c.status, rec.Code, rec.Body)
	}
}

// busy is a store in which another writer moves the generation on some times.
type busy struct {
	*memstore.Store
	tb    testing.TB
	times int
}

func (s *busy) Propose(ctx context.Context, cmds ...command.Command) ([]state.Result, error) {
	if c, ok := cmds[len(cmds)-1].(command.ProviderSet); ok && s.times > 0 { // behind the note for the audit log
		s.times--
		s.Must(s.tb, command.ProviderSet{Stamp: c.Stamp, ID: c.ID, Aggregates: &[]string{}, Bump: true})
	}
	return s.Store.Propose(ctx, cmds...)
}

func (s *busy) ProposeEach(ctx context.Context, lists [][]command.Command) []state.Answer {
	return memstore.Each(ctx, s.Propose, lists)
}

func TestRepeatsAreBounded(t *testing.T) {
	for _, c := range []struct {
		times  int
		status int
	}{{9, http.StatusCreated}, {10, http.StatusConflict}} {
		w := newTalk(t)
		s := &busy{w.Store, t, c.times}
		w.Serve(s)
		require.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", `{"name":"a","uuid":"`+theProvider+`"}`).Code)
		rec := w.ask(http.MethodPost, "/resource_providers/"+theProvider+"/inventories", `{"resource_class":"VCPU","total":8}`)
		assert.Equal(t, c.status, rec.Code, rec.Body)
		assert.Zero(t, s.times)
		if c.status == http.StatusConflict {
			assert.Contains(t, rec.Body.String(), codeConcurrent)
		}
	}
	w := newTalk(t)
	require.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", `{"name":"a","uuid":"`+theProvider+`"}`).Code)
	w.Serve(&busy{w.Store, t, 1})
	rec := w.ask(http.MethodPut, "/resource_providers/"+theProvider+"/inventories", `{"resource_provider_generation":0,"inventories":{}}`)
	assert.Equal(t, http.StatusConflict, rec.Code, "a caller's own generation is not replaced by another")
}

func TestABodyHasALimit(t *testing.T) {
	w := newTalk(t)
	sized := func(n int) string {
		return `{"name":"a"` + strings.Repeat(" ", n-12) + `}`
	}
	rec := w.ask(http.MethodPost, "/resource_providers", sized(api.BodyMaxBytes+1))
	assert.Equal(t, http.StatusRequestEntityTooLarge, rec.Code)
	assert.Contains(t, rec.Body.String(), `"errors":[{"status":413,"title":"Request Entity Too Large"`)
	assert.Equal(t, http.StatusOK, w.ask(http.MethodPost, "/resource_providers", sized(api.BodyMaxBytes)).Code)
}

func TestTheZonesOwnRefusalsKeepTheirStatus(t *testing.T) {
	for code, status := range map[api.Code]int{
		api.CodeOverloaded: http.StatusTooManyRequests, api.CodeUnavailable: http.StatusServiceUnavailable,
		api.CodeTimeout: http.StatusGatewayTimeout, api.CodeInternal: http.StatusInternalServerError,
	} {
		w := newTalk(t)
		w.Store.Fail(api.Errorf(code, "not now"))
		rec := w.ask(http.MethodPut, "/traits/CUSTOM_A", "")
		assert.Equal(t, status, rec.Code)
		assert.Contains(t, rec.Body.String(), `"code":"`+codeUndefined+`"`)
		assert.Equal(t, code == api.CodeOverloaded || code == api.CodeUnavailable, rec.Header().Get("Retry-After") != "")
		assert.Equal(t, code != api.CodeInternal, strings.Contains(rec.Body.String(), "not now"))
	}
}

func TestAFollowerPassesOnWhatWrites(t *testing.T) {
	w := newTalk(t)
	w.Follower = true
	w.Forward = func(rw http.ResponseWriter, r *http.Request) {
		assert.Empty(t, rw.Header().Get(headerVersion), "two nodes would say it")
		for name, v := range map[string]string{
			headerVersion: "placement 1.39", "Vary": "openstack-api-version", headerRequestID: "req-1",
			"Location": "https://10.0.0.7:1234" + r.URL.Path + "/" + theProvider,
		} {
			rw.Header().Add(name, v)
		}
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, "the leader's")
	}
	rec := w.ask(http.MethodPost, "/resource_providers", `{"name":"a"}`)
	assert.Equal(t, http.StatusCreated, rec.Code)
	assert.Equal(t, "the leader's", rec.Body.String())
	assert.Equal(t, "http://example.com/placement/resource_providers/"+theProvider, rec.Header().Get("Location"), "as the caller names this server")
	assert.Equal(t, []string{"placement 1.39"}, rec.Header().Values(headerVersion))

	assert.Equal(t, http.StatusCreated, w.ask(http.MethodGet, "/resource_providers", "").Code, "a read is fresh")
	assert.Equal(t, http.StatusOK, w.ask(http.MethodGet, "/resource_providers?read=local", "").Code, "this one is answered here")
	assert.Equal(t, http.StatusBadRequest, w.ask(http.MethodGet, "/resource_providers?read=local&more=1", "").Code)
	assert.Equal(t, http.StatusMethodNotAllowed, w.ask(http.MethodPatch, "/resource_providers", "{}").Code)
}

func TestAFollowerWithoutALeaderSaysSoInThisShape(t *testing.T) {
	for _, code := range []api.Code{api.CodeUnavailable, api.CodeTimeout} {
		w := newTalk(t)
		w.Follower = true
		w.Forward = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "7")
			rw.WriteHeader(code.HTTPStatus())
			_, _ = io.WriteString(rw, `{"x":1}`)
		}
		rec := w.ask(http.MethodPut, "/traits/CUSTOM_A", "")
		assert.Equal(t, code.HTTPStatus(), rec.Code)
		assert.Contains(t, rec.Body.String(), `{"errors":[{"status":`)
		assert.NotContains(t, rec.Body.String(), `"x"`)
		assert.Equal(t, []string{openstack.MediaJSON}, rec.Header().Values("Content-Type"))
		assert.Equal(t, "placement 1.39", rec.Header().Get(headerVersion))
		assert.NotEmpty(t, rec.Header().Get(headerRequestID))
		assert.Contains(t, rec.Body.String(), `"request_id":"`+rec.Header().Get(headerRequestID)+`"`)
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	w := newTalk(t)
	w.Follower = true
	w.Forward = func(http.ResponseWriter, *http.Request) { panic("host h-7") }
	rec := w.ask(http.MethodPut, "/traits/CUSTOM_A", "")
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.NotContains(t, rec.Body.String(), "h-7")
	assert.Contains(t, rec.Body.String(), `"errors"`)
}

func TestAReadSaysHowFreshItIsBesideTheQuery(t *testing.T) {
	w := newTalk(t)
	assert.Equal(t, http.StatusOK, w.ask(http.MethodGet, "/resource_providers?read=local&name=a", "").Code)
	assert.Equal(t, http.StatusOK, w.ask(http.MethodGet, "/resource_providers?read=linearizable&name=a", "").Code)
	assert.Equal(t, http.StatusBadRequest, w.ask(http.MethodGet, "/resource_providers?read=other", "").Code)
	w.Follower = true
	passed := false
	w.Forward = func(http.ResponseWriter, *http.Request) { passed = true }
	w.ask(http.MethodGet, "/resource_providers?read=linearizable", "")
	assert.True(t, passed)
}

func TestAQueryNamesABoundedNumberOfTraits(t *testing.T) {
	w := newTalk(t)
	names := func(n int) string { return strings.TrimSuffix(strings.Repeat("A,", n), ",") }
	assert.Equal(t, http.StatusOK, w.ask(http.MethodGet, "/traits?name=in:"+names(traitsQueryMax), "").Code)
	assert.Equal(t, http.StatusBadRequest, w.ask(http.MethodGet, "/traits?name=in:"+names(traitsQueryMax+1), "").Code)
}

func FuzzReadBody(f *testing.F) {
	for _, s := range []string{`{}`, `{"name":"a"}`, `{"name":1}`, `[]`, `{"resource_provider_generation":1e0,"inventories":{"VCPU":{"total":1}}}`, `null`, `{"name":"a","name":"b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, s := range []*openstack.Schema{createChildSchema, inventoriesSchema, traitsSchema, aggregatesSchema, uuidsSchema, reshaperSchema(versionMax), consumerSchema(0, false)} {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
			if _, err := openstack.ReadBody(r, s); err != nil {
				require.NotEqual(t, api.CodeInternal, api.CodeOf(err), "%q: %v", body, err)
			}
		}
	})
}
