package native

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

func TestCapacityRefusals(t *testing.T) {
	w := newWorld(t)
	for target, says := range map[string]string{
		"/capacity?at=tomorrow":                  "at must be a time such as",
		"/capacity?at=2029-12-31T23:59:59Z":      "at must be from now on, which is 2030-01-01T00:00:00.000Z, and at most 3650 days ahead",
		"/capacity?at=1969-12-31T00:00:00Z":      "at must be from now on",
		"/capacity?at=1970-01-01T00:00:00Z":      "at must be from now on",
		"/capacity?at=2039-12-30T00:00:00.001Z":  "at most 3650 days ahead",
		"/capacity?until=2030-01-01T00:00:00Z":   "unknown query parameter",
		"/capacity?zone=east&zone=west":          "twice",
		"/capacity?at=9999-12-31T23:59:59-23:59": "at most",
	} {
		w.refused(t, call{method: http.MethodGet, target: target, token: admin}, api.CodeInvalid, says)
	}
	w.refused(t, call{method: http.MethodGet, target: "/capacity?zone=up", token: admin}, api.CodeNotFound, `no zone "up"`)
	w.answered(t, call{method: http.MethodGet, target: "/capacity?at=2039-12-30T00:00:00Z", token: admin}, http.StatusOK, nil)
}

// The sums name no host or provider.
func TestCapacityNamesNoHost(t *testing.T) {
	w := newWorld(t)
	rec := w.answered(t, call{method: http.MethodGet, target: "/capacity", token: admin}, http.StatusOK, nil)
	assert.NotContains(t, rec.Body.String(), "host")
	assert.Contains(t, rec.Body.String(), `"name":"east"`)
}
