package traffic

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/measure"
)

// TestCallsAreMeasured: by the pattern of their route, never by what the caller sent, and by the status that was answered.
func TestCallsAreMeasured(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	m := New(func() time.Time { return now }, func(r *http.Request) bool { return r.Header.Get("Passed") != "" })
	mux := http.NewServeMux()
	mux.Handle("/servers/{id}", Name("/servers/{id}")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now = now.Add(3 * time.Second)
		switch r.PathValue("id") {
		case "gone":
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusOK) // it is too late
		case "hinted":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
		case "text":
			_, err := w.Write([]byte("a"))
			assert.NoError(t, err)
			assert.NoError(t, http.NewResponseController(w).Flush(), "it reaches the connection")
		case "broken":
			panic(http.ErrAbortHandler)
		}
	})))
	h := m.Watch("api")(mux)
	for _, c := range []struct{ method, path, passed, want string }{
		{"GET", "/servers/a", "", "api GET /servers/{id} 200"},
		{"GET", "/servers/b", "", "api GET /servers/{id} 200"},
		{"POST", "/servers/gone", "", "api POST /servers/{id} 404"},
		{"PUT", "/servers/hinted", "", "api PUT /servers/{id} 202"},
		{"GET", "/servers/text", "yes", "node GET /servers/{id} 200"},
		{"DELETE", "/servers/broken", "", "api DELETE /servers/{id} aborted"},
		{"BREW", "/servers/a", "", "api other /servers/{id} 200"},
		{"GET", "/nowhere/0815", "", "api other unmatched 404"},
		{"BREW", "/nowhere", "", "api other unmatched 404"},
	} {
		_, before := m.Read()
		func() {
			defer func() {
				if p := recover(); p != nil {
					require.True(t, errors.Is(p.(error), http.ErrAbortHandler), "it goes on: %v", p)
				}
			}()
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Header.Set("Passed", c.passed)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		_, after := m.Read()
		for a, n := range after {
			if n > before[a] {
				assert.Equal(t, c.want, a.Listener+" "+a.Method+" "+a.Path+" "+a.Status)
			}
		}
	}
	took, answers := m.Read()
	assert.Equal(t, uint64(2), answers[Answer{Route{"api", "GET", "/servers/{id}"}, "200"}])
	d := took[Route{"api", "GET", "/servers/{id}"}]
	assert.Equal(t, uint64(2), d.Count)
	assert.InDelta(t, 6, d.Sum, 0)
	assert.Equal(t, []uint64{0, 2}, []uint64{d.Below[2.5], d.Below[5]})
	assert.Len(t, took, 7)
}

// TestWithoutAMeter: nothing is measured, and nothing else changes.
func TestWithoutAMeter(t *testing.T) {
	t.Parallel()
	var m *Meter
	rec := httptest.NewRecorder()
	m.Watch("api")(Name("/a")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))).
		ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/a", nil))
	assert.Equal(t, http.StatusTeapot, rec.Code)
	assert.IsType(t, map[Route]measure.Distribution{}, func() map[Route]measure.Distribution {
		took, _ := New(time.Now, nil).Read()
		return took
	}())
}
