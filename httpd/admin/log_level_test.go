package admin

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
)

// TestLogLevel: it is shown to all and changed by this machine, and each change is in the log whatever the level.
func TestLogLevel(t *testing.T) {
	var (
		b     bytes.Buffer
		level slog.LevelVar
	)
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: &level}))
	r := chi.NewRouter()
	serveLogLevel(r, &Config{Level: &level, Log: log})
	call := func(method, body string, change func(*http.Request)) *httptest.ResponseRecorder {
		q := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7604/log-level", strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		if change != nil {
			change(q)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		return w
	}
	for _, name := range rest.LogLevels {
		b.Reset()
		w := call(http.MethodPut, `{"level":"`+name+`"}`, nil)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		assert.Equal(t, name, strings.ToLower(level.Level().String()))
		assert.JSONEq(t, `{"level":"`+name+`"}`, call(http.MethodGet, "", nil).Body.String())
		assert.Contains(t, b.String(), "now="+name, "the change is in the log")
		b.Reset()
		w = call(http.MethodPut, `{"level":"error"}`, nil)
		require.Equal(t, http.StatusOK, w.Code)
		assert.Contains(t, b.String(), "now=error", "although warnings were not to be logged before or after")
		level.Set(slog.LevelError)
	}
	noType := func(q *http.Request) { q.Header.Del("Content-Type") }
	assert.Equal(t, http.StatusUnsupportedMediaType, call(http.MethodPut, `{"level":"info"}`, noType).Code)
	for _, bad := range []string{"loud", "", "INFO", "info+1"} {
		assert.Equal(t, http.StatusBadRequest, call(http.MethodPut, `{"level":"`+bad+`"}`, nil).Code, bad)
	}
	assert.Equal(t, slog.LevelError, level.Level(), "refusals change nothing")
}
