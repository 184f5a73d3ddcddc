package openstack

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
)

func TestMicroversions(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	for text, want := range map[string]string{
		"":                                 "1.2", // whoever asks for none
		"reservation latest":               "1.5",
		"reservation\t1.4":                 "1.4",
		" RESERVATION  1.4 ":               "1.4",
		"compute 2.1,reservation 1.3":      "1.3",
		"reservation 1.3, compute 2.1":     "1.3",
		"reservation 1.3, reservation 1.4": "1.4",
		"compute 2.1":                      "1.2",
		"reservation":                      "1.2",
	} {
		r := newRequest(http.MethodGet, "", "/leases")
		r.Header.Set(headerVersion, text)
		rec := w.serve(r)
		assert.Equal(t, "reservation "+want, rec.Header().Get(headerVersion), "%q", text)
		assert.Equal(t, "openstack-api-version", rec.Header().Get("Vary"))
	}
	r := newRequest(http.MethodGet, "", "/leases")
	r.Header[headerVersion] = []string{"reservation 1.3", "compute 2.1"}
	assert.Equal(t, "reservation 1.3", w.serve(r).Header().Get(headerVersion), "of several headers")
}

func TestMicroversionsThatThereAreNot(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	for text, status := range map[string]int{
		"1.1": 406, "1.6": 406, "2.2": 406, "0.2": 406, "1.-1": 406, "1.99999999999999999999": 406,
		"1": 400, "a.b": 400, "1.2.3": 400, "LATEST": 400, "1.2 x": 400,
	} {
		rec := w.call(http.MethodGet, text, "/leases", "")
		p := refused(t, rec)
		assert.Equal(t, status, rec.Code, text)
		assert.Equal(t, status, p.Status, text)
		assert.Empty(t, rec.Header().Get(headerVersion), text)
		if status == http.StatusNotAcceptable {
			assert.Equal(t, []string{"1.2", "1.5"}, []string{p.MinVersion, p.MaxVersion}, text)
		} else {
			assert.Contains(t, p.Detail, "two numbers such as 1.10", text)
			assert.Empty(t, p.MinVersion, text)
		}
	}
}

func TestARefusalHasTheShapeOfItsService(t *testing.T) {
	one := func(err error) func(*Dialect) []Call {
		return func(*Dialect) []Call {
			return []Call{{Method: http.MethodGet, Path: "/leases", Until: 5, Do: func(http.ResponseWriter, *http.Request) error { return err }}}
		}
	}
	exists := api.Errorf(api.CodeExists, "there is <one>")
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{exists, http.StatusConflict, "lease.duplicate"},
		{WithCode("lease.mine", exists), http.StatusConflict, "lease.mine"},
		{WithStatus(http.StatusTeapot, WithCode("lease.mine", exists)), http.StatusTeapot, "lease.mine"},
		{api.Errorf(api.CodeNotFound, "no"), http.StatusNotFound, "lease.undefined"},
	} {
		rec := newWorld(t, leases, one(c.err)).call(http.MethodGet, "1.5", "/leases", "")
		p := refused(t, rec)
		assert.Equal(t, c.status, rec.Code)
		assert.Equal(t, Problem{
			Status: c.status, Title: http.StatusText(c.status), Code: c.code, Detail: api.MessageOf(c.err),
			RequestID: rec.Header().Get(headerRequestID),
		}, p)
		assert.Equal(t, string(api.CodeOf(c.err)), rec.Header().Get(api.HeaderCode))
	}
	other := leases
	other.Shape = func(p Problem, minor int) any { return map[string]any{"fault": p.Detail, "at": minor} }
	w := newWorld(t, other, one(exists))
	assert.JSONEq(t, `{"fault": "there is <one>", "at": 3}`, w.call(http.MethodGet, "1.3", "/leases", "").Body.String())
	r := newRequest(http.MethodGet, "1.3", "/leases")
	r.Header.Set("Accept", "text/html")
	assert.Contains(t, w.serve(r).Body.String(), "there is &lt;one&gt;")
	r.Header.Set("Accept", "text/plain")
	assert.Equal(t, "409 Conflict\n\nthere is <one>\n", w.serve(r).Body.String())
}

func TestWhichOfTheOffersIsPreferred(t *testing.T) {
	for accept, want := range map[string]string{
		"": MediaJSON, "*/*": MediaJSON, MediaJSON: MediaJSON, "application/*": MediaJSON, "text/html": mediaHTML, "text/*": mediaHTML,
		"text/html,application/json":                   mediaHTML, // the first of the offers
		"text/html;q=0.5,application/json":             MediaJSON,
		"*/*;q=0.5,text/html;q=0.1":                    MediaJSON, // the most exact range decides
		"application/json;q=0":                         "",
		"application/json;q=0,*/*":                     mediaHTML,
		"application/json;charset=utf-8":               "", // it is narrowed
		"application/json;q=0.5;ext=1,text/html;q=0.1": MediaJSON,
		"text/plain":                                   "", "application/xml, text/plain": "",
		"junk": mediaHTML, "text/html,junk": mediaHTML, // it cannot be read
		"TEXT/HTML": mediaHTML, ", ,text/html": mediaHTML,
	} {
		assert.Equal(t, want, bestOffer([]string{accept}, mediaHTML, MediaJSON), "%q", accept)
	}
	assert.Equal(t, mediaHTML, bestOffer([]string{"application/json;q=0.5", "text/html"}, mediaHTML, MediaJSON), "of several headers")
}

func TestAFollowerPassesACallOn(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	w.follower = true
	w.forward = func(rw http.ResponseWriter, _ *http.Request) {
		assert.Empty(t, rw.Header().Get(headerVersion), "two nodes would name it")
		for name, v := range map[string]string{headerVersion: "reservation 1.5", headerRequestID: "req-1", "Location": "https://10.0.0.7:1234/reservation/leases/a"} {
			rw.Header().Add(name, v)
		}
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, "the leader's")
	}
	rec := w.call(http.MethodPut, "1.5", "/leases/a", "")
	assert.Equal(t, http.StatusCreated, rec.Code)
	assert.Equal(t, "the leader's", rec.Body.String())
	assert.Equal(t, "http://example.com/reservation/leases/a", rec.Header().Get("Location"), "as the caller names this server")

	for _, code := range []api.Code{api.CodeUnavailable, api.CodeTimeout} {
		w.forward = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "7")
			rw.WriteHeader(code.HTTPStatus())
			_, _ = io.WriteString(rw, `{"x":1}`)
		}
		rec := w.call(http.MethodPut, "1.5", "/leases/a", "")
		assert.Equal(t, code.HTTPStatus(), rec.Code)
		assert.Equal(t, rec.Header().Get(headerRequestID), refused(t, rec).RequestID, "this node says it, in its shape")
		assert.Equal(t, "reservation 1.5", rec.Header().Get(headerVersion))
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	w := newWorld(t, leases, func(*Dialect) []Call {
		return []Call{{Method: http.MethodGet, Path: "/leases", Until: 5, Do: func(http.ResponseWriter, *http.Request) error { panic("host h-7") }}}
	})
	rec := w.call(http.MethodGet, "1.5", "/leases", "")
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.NotContains(t, rec.Body.String(), "h-7")
}

func TestTheAnswerNamesThisServerAsTheCallerDoes(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Host = "zone.example:7700"
	rec := httptest.NewRecorder()
	New(leases, door.Config{}).Locate(rec, r, "/leases/a")
	assert.Equal(t, "http://zone.example:7700/reservation/leases/a", rec.Header().Get("Location"))
	r.TLS = &tls.ConnectionState{}
	assert.Equal(t, "https://zone.example:7700", baseURL(r))
}

func TestABodyWithoutATypeIsRefused(t *testing.T) {
	w := newWorld(t, leases, someCalls)
	r := newRequest(http.MethodPut, "1.5", "/leases/a")
	r.ContentLength = -1 // chunked
	rec := w.serve(r)
	require.Equal(t, http.StatusBadRequest, rec.Code)
	assert.Contains(t, refused(t, rec).Detail, "content-type header required")
}

// A service that speaks JSON alone takes bodies of no type, refuses other types as
// invalid, and answers in JSON.
func TestALaxService(t *testing.T) {
	lax := leases
	lax.Lax, lax.Closed, lax.Suffix = true, true, ".json"
	lax.Shape = func(p Problem, _ int) any { return map[string]any{"sentence": p.Detail, "route": p.AtRoute} }
	w := newWorld(t, lax, func(*Dialect) []Call {
		echo := func(rw http.ResponseWriter, r *http.Request) error {
			v, err := ReadFields(r)
			if err != nil {
				return err
			}
			return Answer(rw, http.StatusOK, map[string]any{"read": v, "id": r.PathValue("id")})
		}
		return []Call{
			{Method: http.MethodGet, Path: "/", Until: 5, Do: says("versions")},
			{Method: http.MethodPut, Path: "/leases/{id}", Since: 2, Until: 5, Takes: true, Gives: true, Do: echo},
		}
	})
	for _, c := range []struct {
		path, kind, body string
		status           int
		want             string
	}{
		{"/leases/a", "", `{"n": 1}`, http.StatusOK, `{"read": {"n": 1}, "id": "a"}`},
		{"/leases/a.json", MediaJSON, `{}`, http.StatusOK, `{"read": {}, "id": "a"}`},
		{"/leases/a", "", "", http.StatusOK, `{"read": {}, "id": "a"}`},
		{"/leases/a", "text/html", `{}`, http.StatusBadRequest, `{"sentence": "Content type text/html is not supported, use application/json", "route": true}`},
		{"/leases/a", "", `[]`, http.StatusBadRequest, `{"sentence": "Malformed JSON: the body must be an object", "route": false}`},
		{"/leases/.json", "", ``, http.StatusOK, `{"read": {}, "id": ".json"}`},
		{"/leases/", "", ``, http.StatusNotFound, `{"sentence": "The resource could not be found: there is no /leases/", "route": true}`},
	} {
		r := newRequest(http.MethodPut, "1.5", c.path)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
		r.Header.Set("Accept", "text/html")
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		rec := w.serve(r)
		assert.Equal(t, c.status, rec.Code, c.path)
		assert.JSONEq(t, c.want, rec.Body.String(), c.path)
	}
	for path, status := range map[string]int{"/": http.StatusUnauthorized, "": http.StatusUnauthorized, "/leases/a": http.StatusUnauthorized} {
		closed := New(lax, door.Config{Zone: w.dialect.Zone, Now: w.dialect.Now, Log: w.dialect.Log, Tokens: nobodys{}, Leader: func() bool { return true }})
		rec := httptest.NewRecorder()
		closed.Handler(nil).ServeHTTP(rec, newRequest(http.MethodGet, "", path))
		assert.Equal(t, status, rec.Code, path)
	}
}

// nobodys reads no token.
type nobodys struct{}

func (nobodys) Parse(string) (api.TokenID, []byte, error) {
	return "", nil, api.Errorf(api.CodeUnauthenticated, "malformed")
}

func (nobodys) Check(_, _ []byte) bool { return false }
