package traffic

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
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
					require.ErrorIs(t, p.(error), http.ErrAbortHandler, "it goes on: %v", p)
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

// TestAnswersAreLogged: at level debug, one line each, with the route as its pattern and without anything that the caller sent.
func TestAnswersAreLogged(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	level := new(slog.LevelVar)
	var out bytes.Buffer
	m := New(func() time.Time { return now }, nil).WithLog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
	h := m.Watch("api")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderRequestID, "req-1")
		if r.URL.Path == "/nowhere" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		Name("/servers/{id}")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			NoteProject(r.Context(), "web")
			now = now.Add(time.Second)
			w.WriteHeader(http.StatusAccepted)
		})).ServeHTTP(w, r)
	}))
	call := func(path string) string {
		out.Reset()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("a body"))
		r.Header.Set("Authorization", "Bearer berth_id_secret")
		h.ServeHTTP(httptest.NewRecorder(), r)
		return out.String()
	}
	assert.Empty(t, call("/servers/4711?name=x"), "not at level info")
	level.Set(slog.LevelDebug)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(call("/servers/4711?name=x")), &line))
	delete(line, "time")
	assert.Equal(t, map[string]any{
		"level": "DEBUG", "msg": "call answered", "listener": "api", "method": "POST", "route": "/servers/{id}", "code": "202",
		"duration": float64(time.Second), "request_id": "req-1", "project": "web",
	}, line)
	text := call("/nowhere")
	assert.Contains(t, text, `"route":"unmatched","code":"404"`)
	assert.NotContains(t, text, "nowhere")
	NoteProject(t.Context(), "web") // without a meter
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
