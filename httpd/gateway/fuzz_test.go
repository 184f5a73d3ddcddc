package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/codec"
)

// answerBytesMax is the size of the largest answer of a gateway to a body of a few kilobytes: a plan
// and the weights of its slots.
const answerBytesMax = api.BlobMaxBytes + api.BodyMaxBytes

// FuzzBodies sends arbitrary bodies to every call, as the linked parent, as the linked child and as a
// zone that is neither. Each is answered or refused with a code and a sentence: nothing panics,
// nothing is an internal error, and no answer has a canary or is larger than a plan.
func FuzzBodies(f *testing.F) {
	var calls []string
	for key := range rows {
		calls = append(calls, key)
	}
	slices.Sort(calls)
	at := func(key string) byte { return byte(slices.Index(calls, key)) } //nolint:gosec // there are fewer than 256 calls
	w := newWorld(f)
	for _, key := range calls {
		var body []byte
		if rows[key].body != nil {
			body = encode(f, rows[key].body)
		}
		f.Add(at(key), byte(0), body)
		f.Add(at(key), byte(1), body)
	}
	rich := request(2)
	rich.Groups[0].Hints = api.Hints{Query: `["=","$free_vcpus",4]`, DifferentHost: []api.InstanceID{"i"}, Near: "10.0.0.0/8", SameHost: []api.InstanceID{"j"}}
	rich.Groups[0].Traits.Required = []string{"CUSTOM_FAST"}
	rich.Rules = []api.Rule{{ID: "g", Policy: api.AntiAffinity, Max: 1, Groups: []int{0}}}
	rich.Zones = api.ZoneRule{MinZones: 1, Allowed: []string{"mid", "east"}}
	f.Add(at("POST /zones/select"), byte(0), encode(f, rich))
	held := w.plan(f, 2)
	f.Add(at("POST /zones/holds"), byte(0), encode(f, held))
	f.Add(at("POST /servers"), byte(0), encode(f, held))
	f.Add(at("POST /zones/holds/many"), byte(0), encode(f, api.Holds{Items: []api.HoldRequest{held, held}}))
	f.Add(at("POST /zones/decisions"), byte(0), encode(f, api.Decisions{Holds: []api.HoldDecision{{ID: held.ID, Decision: api.DecisionCommit}}}))
	f.Fuzz(func(t *testing.T, which, who byte, body []byte) {
		if len(body) > 1<<14 {
			return
		}
		key := calls[int(which)%len(calls)]
		method, _, _ := strings.Cut(key, " ")
		peer := []api.ZoneID{"zone-up", "zone-east", "zone-else"}[who%3]
		w := newWorld(t)
		c := call{method: method, target: rows[key].target, peer: peer, body: body, head: map[string]string{api.HeaderDeadline: "500"}}
		if method == http.MethodGet {
			c.body = nil
		}
		rec := w.do(t, c)
		assert.LessOrEqual(t, rec.Body.Len(), answerBytesMax)
		if rec.Code < http.StatusBadRequest {
			return
		}
		var b api.ErrorBody
		require.NoError(t, codec.Unmarshal(rec.Body.Bytes(), &b), "%s: %q", key, rec.Body)
		assert.NotEqual(t, api.CodeInternal, b.Error.Code, "%s: %s", key, b.Error.Message)
		assert.Equal(t, b.Error.Code.HTTPStatus(), rec.Code)
	})
}

// FuzzEnrol sends arbitrary bodies to the call of a zone that is not linked.
func FuzzEnrol(f *testing.F) {
	f.Add(encode(f, api.Enrolment{}))
	f.Add(encode(f, api.Enrolment{Link: "l", Zone: "zone-new", Name: "new", Endpoints: []string{"https://10.0.0.1:1"}, CA: []byte{1}}))
	w := newWorldAt(f, func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) })
	f.Fuzz(func(t *testing.T, body []byte) {
		rec := w.do(t, call{method: http.MethodPost, target: "/links/enrol", body: body})
		assert.NotEqual(t, http.StatusInternalServerError, rec.Code, "%s", rec.Body)
		assert.LessOrEqual(t, rec.Body.Len(), api.BodyMaxBytes)
	})
}
