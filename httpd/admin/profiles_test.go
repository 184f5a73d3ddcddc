package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent"
	"berth/api"
)

// gzipped is how profiles in their binary format begin.
var gzipped = []byte{0x1f, 0x8b}

func TestProfilesOfAnInstant(t *testing.T) {
	h := listener(busy(t), "n-1", true)
	assert.Equal(t, "allocs\nblock\ngoroutine\nheap\nmutex\nprofile\nthreadcreate\ntrace\n", get(t, h, "/debug/pprof/").Body.String())
	for _, name := range []string{"heap", "allocs", "goroutine", "block", "mutex", "threadcreate"} {
		rec := get(t, h, "/debug/pprof/"+name)
		require.Equal(t, http.StatusOK, rec.Code, name)
		assert.True(t, bytes.HasPrefix(rec.Body.Bytes(), gzipped), name)
	}
	dump := get(t, h, "/debug/pprof/goroutine?debug=2").Body.String()
	assert.Contains(t, dump, "TestProfilesOfAnInstant", "stacks of all goroutines")
	for path, status := range map[string]int{
		"/debug/pprof/goroutine?debug=3": http.StatusBadRequest, "/debug/pprof/goroutine?debug=x": http.StatusBadRequest,
		"/debug/pprof/cmdline": http.StatusNotFound, "/debug/pprof/none": http.StatusNotFound, "/debug/pprof": http.StatusNotFound,
	} {
		assert.Equal(t, status, get(t, h, path).Code, path)
	}
}

// TestAProfileEndsInItsTime: with another profile than that of the processor, whose reader knows no virtual time.
func TestAProfileEndsInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, query string) (took time.Duration, stopped bool, err error) {
			began := time.Now()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/pprof/profile"+query, http.NoBody)
			err = profileFor(httptest.NewRecorder(), r, func() error { return nil }, func() { stopped = true })
			return time.Since(began), stopped, err
		}
		for query, want := range map[string]time.Duration{"": ProfileDefault, "?seconds=1": time.Second, "?seconds=60": ProfileMax} {
			took, stopped, err := ask(t.Context(), query)
			require.NoError(t, err)
			assert.Equal(t, want, took, query)
			assert.True(t, stopped)
		}
		for _, query := range []string{"?seconds=0", "?seconds=61", "?seconds=-1", "?seconds=1e9"} {
			took, stopped, err := ask(t.Context(), query)
			assert.Equal(t, api.CodeInvalid, api.CodeOf(err), query)
			assert.Zero(t, took)
			assert.False(t, stopped, "it was not begun")
		}
		ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
		defer leave()
		took, stopped, err := ask(ctx, "?seconds=60")
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second, took, "its caller has gone")
		assert.True(t, stopped)
	})
}

// TestOneProfileOfAKindAtOnce: the second is refused, and has its turn later.
func TestOneProfileOfAKindAtOnce(t *testing.T) {
	h := listener(busy(t), "n-1", true)
	gone, leave := context.WithCancel(t.Context())
	leave() // so that no profile takes any time
	ask := func(name string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(gone, http.MethodGet, "/debug/pprof/"+name+"?seconds=60", http.NoBody))
		return rec
	}
	require.NoError(t, pprof.StartCPUProfile(io.Discard))
	rec := ask("profile")
	pprof.StopCPUProfile()
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.Empty(t, rec.Header().Get("Content-Disposition"))
	rec = ask("profile")
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.True(t, bytes.HasPrefix(rec.Body.Bytes(), gzipped))
	rec = ask("trace")
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.True(t, bytes.HasPrefix(rec.Body.Bytes(), []byte("go 1.")), "the format of go tool trace")
}

// TestAboutANode: it names no machine and no address.
func TestAboutANode(t *testing.T) {
	rec := get(t, listener(busy(t), "n-1", true), "/debug/node")
	require.Equal(t, http.StatusOK, rec.Code)
	var got about
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
	assert.Equal(t, runtime.Version(), got.Go)
	assert.EqualValues(t, 7, got.Log.Term)
	assert.EqualValues(t, 6, got.Log.Applied)
	assert.Equal(t, runtime.GOARCH, got.Settings["GOARCH"])
	assert.NotContains(t, got.Settings, "-ldflags")
}

func TestProfilesOfAnAgent(t *testing.T) {
	c := AgentConfig{Now: time.Now, Figures: func() agent.Figures { return agent.Figures{} }}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap"} {
		assert.Equal(t, http.StatusOK, get(t, NewAgentLocal(c), path).Code, path)
		assert.Equal(t, http.StatusNotFound, get(t, NewAgent(c), path).Code, path)
	}
}

// TestWhatTheListenerLeavesToTheSocket: whatever changes the process, measures it or says more than figures is not for every
// program of the machine.
func TestWhatTheListenerLeavesToTheSocket(t *testing.T) {
	c := configOf(busy(t), "n-1", true)
	c.Level, c.Log = new(slog.LevelVar), slog.New(slog.DiscardHandler)
	open, local := New(c), NewLocal(c)
	for _, r := range Routes() {
		assert.Equal(t, http.StatusOK, get(t, open, r.Path).Code, r.Path)
		assert.Equal(t, http.StatusOK, get(t, local, r.Path).Code, r.Path)
	}
	for _, r := range LocalRoutes() {
		path := strings.ReplaceAll(r.Path, "{profile}", "heap")
		assert.Equal(t, http.StatusNotFound, get(t, open, path).Code, path)
		assert.Equal(t, http.StatusOK, get(t, local, path).Code, path)
	}
}
