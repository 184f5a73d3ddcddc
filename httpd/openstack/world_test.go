package openstack

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/door"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/zone"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// leases is an API that exists in these tests alone, with the microversions 1.2 to 1.5.
var leases = Service{
	Name: "reservation", Mount: "/reservation", Major: 1, Oldest: 2, Newest: 5,
	Codes: map[api.Code]string{api.CodeExists: "lease.duplicate"}, Code: "lease.undefined",
}

// world is one node that speaks leases, to anybody.
type world struct {
	http.Handler
	dialect  *Dialect
	follower bool
	forward  http.HandlerFunc
}

// newWorld returns a world with the calls that calls makes of its dialect.
func newWorld(tb testing.TB, s Service, calls func(d *Dialect) []Call) *world {
	tb.Helper()
	store, log, now := memstore.New(), slog.New(slog.DiscardHandler), func() time.Time { return epoch }
	z := zone.New(zone.Config{Store: store, Now: now, Log: log})
	store.Must(tb, command.Init{Stamp: z.Stamp(), Zone: "zone-root", Name: "root"})
	w := &world{}
	w.dialect = New(s, door.Config{
		Zone: z, Now: now, Log: log, Insecure: true,
		Leader:  func() bool { return !w.follower },
		Forward: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.forward(rw, r) }),
	})
	w.Handler = w.dialect.Handler(calls(w.dialect))
	return w
}

// newRequest returns a request at a microversion, "" for none, and a path as it is once
// it is unescaped.
func newRequest(method, version, path string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path = leases.Mount + path
	if version != "" {
		r.Header.Set(headerVersion, "reservation "+version)
	}
	return r
}

func (w *world) serve(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

func (w *world) call(method, version, path, body string) *httptest.ResponseRecorder {
	r := newRequest(method, version, path)
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", MediaJSON)
	}
	return w.serve(r)
}

// refused returns the refusal that an answer is.
func refused(tb testing.TB, rec *httptest.ResponseRecorder) Problem {
	tb.Helper()
	var body struct {
		Errors []Problem `json:"errors"`
	}
	require.NoError(tb, json.Unmarshal(rec.Body.Bytes(), &body), rec.Body.String())
	require.Len(tb, body.Errors, 1)
	return body.Errors[0]
}

// says answers with a text, to tell calls apart.
func says(text string) door.Handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, text)
		return err
	}
}
