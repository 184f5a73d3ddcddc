package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api/rest"
)

// TestLogLevelOfANode is shown and changed by its admin listener, without a token.
func TestLogLevelOfANode(t *testing.T) {
	level := "info"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	run := func(args ...string) result {
		return berth(t.Context(), nil, "", append([]string{"operator", "log-level", "--admin-addr", addr}, args...)...)
	}
	assert.Equal(t, "info\n", run().out)
	assert.Equal(t, "debug\n", run("debug").out)
	assert.JSONEq(t, `{"level":"debug"}`, run("-o", "json").out)
	assert.Equal(t, exitUsage, run("loud").exit)
	refused := run("error")
	assert.Equal(t, 6, refused.exit)
	assert.Contains(t, refused.errOut, "not from here")
	s.Close()
	assert.Contains(t, run().errOut, "--admin-addr")
}
