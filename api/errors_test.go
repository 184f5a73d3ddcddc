package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// statuses is the contract of docs/http.md.
var statuses = map[api.Code]int{
	api.CodeInvalid: 400, api.CodeUnauthenticated: 401, api.CodeForbidden: 403, api.CodeOverQuota: 403, api.CodeNotFound: 404, api.CodeMethod: 405, api.CodeSlow: 408,
	api.CodeConflict: 409, api.CodeStale: 409, api.CodeNoCapacity: 409, api.CodeTooLarge: 413, api.CodeMediaType: 415,
	api.CodeContended: 409, api.CodePaused: 409, api.CodeUnreached: 503, api.CodePlanRefused: 422, api.CodeOverloaded: 429, api.CodeInternal: 500, api.CodeUnavailable: 503, api.CodeTimeout: 504,
}

func TestReasonCode(t *testing.T) {
	for reason, want := range map[string]api.Code{
		"": api.CodeNoCapacity, "no_capacity: 1 of 2": api.CodeNoCapacity, "contended: repeat": api.CodeContended,
		"its plan was lost: select again": api.CodeNoCapacity, "plan_refused: select again": api.CodePlanRefused,
	} {
		assert.Equal(t, want, api.ReasonCode(reason), reason)
	}
}

func TestStatuses(t *testing.T) {
	for code, want := range statuses {
		assert.Equal(t, want, code.HTTPStatus(), code)
		assert.NotEmpty(t, http.StatusText(want))
	}
	assert.Equal(t, 500, api.Code("new").HTTPStatus())
	assert.Equal(t, 500, api.Code("").HTTPStatus())
}

func TestCodesAndSentences(t *testing.T) {
	cause := errors.New("dialing 10.0.0.7")
	inside := api.MessageOf(cause)
	for _, c := range []struct {
		name string
		err  error
		code api.Code
		says string
		log  string
	}{
		{"none", nil, "", inside, ""},
		{"a foreign one", cause, api.CodeInternal, inside, "dialing 10.0.0.7"},
		{"one with a sentence", api.Errorf(api.CodeInvalid, "%d is too many", 5), api.CodeInvalid, "5 is too many", "5 is too many"},
		{
			"one with a cause", api.Wrap(api.CodeUnavailable, "zone.Boot", "try again", cause), api.CodeUnavailable,
			"try again", "zone.Boot: try again: dialing 10.0.0.7",
		},
		{
			"one that was wrapped", fmt.Errorf("booting: %w", api.Errorf(api.CodeConflict, "taken")), api.CodeConflict,
			"taken", "booting: taken",
		},
		{
			"the first of two", api.Wrap(api.CodeTimeout, "", "late", api.Errorf(api.CodeConflict, "taken")), api.CodeTimeout,
			"late", "late: taken",
		},
		{"one without a sentence", api.Wrap(api.CodeInternal, "node.Join", "", cause), api.CodeInternal, inside, "node.Join: internal: dialing 10.0.0.7"},
		{"a bug with a sentence", api.Errorf(api.CodeInternal, "host h-7"), api.CodeInternal, inside, "host h-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.code, api.CodeOf(c.err))
			assert.Equal(t, c.says, api.MessageOf(c.err))
			assert.NotContains(t, api.MessageOf(c.err), "10.0.0.7")
			if c.err != nil {
				assert.Equal(t, c.log, c.err.Error())
			}
		})
	}
	require.ErrorIs(t, api.Wrap(api.CodeInternal, "a", "b", cause), cause)
}

func TestTheShapeOfARefusal(t *testing.T) {
	b, err := json.Marshal(api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeNotFound, Message: "no such server", RequestID: "req-1"}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"error":{"code":"not_found","message":"no such server","request_id":"req-1"}}`, string(b))
}
