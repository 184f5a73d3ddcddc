package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
	"berth/internal/adminsock"
)

// TestLogLevelOfANode is shown and changed by the socket in its folder, without a token.
func TestLogLevelOfANode(t *testing.T) {
	level := "info"
	dir := t.TempDir()
	ln, err := adminsock.Listen(dir)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/log-level", r.URL.Path)
		if r.Method == http.MethodPut {
			var b rest.LogLevel
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&b))
			if b.Level == "error" {
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"error":{"code":"forbidden","message":"not from here"}}`))
				return
			}
			level = b.Level
		}
		assert.NoError(t, json.NewEncoder(w).Encode(rest.LogLevel{Level: level}))
	}))
	require.NoError(t, s.Listener.Close())
	s.Listener = ln
	s.Start()
	defer s.Close()
	run := func(args ...string) result {
		return berth(t.Context(), nil, "", append([]string{"operator", "log-level", "--dir", dir}, args...)...)
	}
	assert.Equal(t, "info\n", run().out)
	assert.Equal(t, "debug\n", run("debug").out)
	assert.JSONEq(t, `{"level":"debug"}`, run("-o", "json").out)
	assert.Equal(t, exitUsage, run("loud").exit)
	refused := run("error")
	assert.Equal(t, 6, refused.exit)
	assert.Contains(t, refused.errOut, "not from here")
	s.Close()
	assert.Contains(t, run().errOut, "--dir")
}
