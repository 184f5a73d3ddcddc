package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/client"
)

// TestNamesOfProviders: a few are asked for one by one, many all at once; one that is gone has no name, and a refusal is an error.
func TestNamesOfProviders(t *testing.T) {
	var calls []string
	refuses := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case refuses:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/placement/resource_providers":
			fmt.Fprint(w, `{"resource_providers": [{"uuid": "p1", "name": "one"}, {"uuid": "p99", "name": "another"}]}`)
		case r.URL.Path == "/placement/resource_providers/p1":
			fmt.Fprint(w, `{"uuid": "p1", "name": "one"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"errors": [{"status": 404, "title": "Not Found", "detail": "none"}]}`)
		}
	}))
	defer server.Close()
	c, err := client.New(client.Config{Addr: server.URL})
	require.NoError(t, err)
	got, err := c.ProviderNames(t.Context(), "p2", "", "p1", "p1")
	require.NoError(t, err)
	assert.Equal(t, map[api.ProviderID]string{"p1": "one", "p2": ""}, got)
	require.Len(t, calls, 2)

	for extra, want := range []int{32, 1} {
		calls = nil
		var ids []api.ProviderID
		for n := range 32 + extra {
			ids = append(ids, api.ProviderID(fmt.Sprintf("p%d", n+1)))
		}
		got, err = c.ProviderNames(t.Context(), ids...)
		require.NoError(t, err)
		assert.Equal(t, "one", got["p1"])
		assert.Contains(t, got, api.ProviderID("p2"))
		assert.Len(t, calls, want, "%d names", len(ids))
	}
	refuses = true
	_, err = c.ProviderNames(t.Context(), "p1")
	assert.Equal(t, api.CodeForbidden, api.CodeOf(err))
}
