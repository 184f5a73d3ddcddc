package client

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

// TestCallsAreNamedWithoutIDs: a call is measured under its route, whatever the ids in it are.
func TestCallsAreNamedWithoutIDs(t *testing.T) {
	for path, want := range map[string]string{
		"/zones/select":            "POST /zones/select",
		"/zones/holds":             "POST /zones/holds",
		"/zones/holds/many":        "POST /zones/holds/many",
		"/zones/holds/h-1":         "POST /zones/holds/{id}",
		"/zones/holds/h-1/commit":  "POST /zones/holds/{id}/commit",
		"/zones/changes?after=815": "POST /zones/changes",
		"/servers":                 "POST /servers",
		"/servers/i%2F1":           "POST /servers/{id}",
	} {
		q := question{method: "POST", path: path}
		assert.Equal(t, want, q.name())
	}
	assert.Equal(t, api.Code(""), outcomeOf(nil))
	assert.Equal(t, api.CodeTimeout, outcomeOf(api.Errorf(api.CodeTimeout, "late")))
}
