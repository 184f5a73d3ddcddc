package gateway

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/httpd/refusals"
)

// line is what these tests read of a line of the log.
type line struct {
	Message string        `json:"msg"`
	Request api.RequestID `json:"request_id"`
	Error   string        `json:"error"`
}

// said returns the lines since it was called last.
func (w *world) said(tb testing.TB) (out []line) {
	tb.Helper()
	for d := json.NewDecoder(&w.lines); d.More(); {
		var l line
		require.NoError(tb, d.Decode(&l))
		out = append(out, l)
	}
	w.lines.Reset()
	return out
}

// TestEachLineOfACallHasItsID: whoever calls, each line that the call makes has its id, which the answer has as well. A
// refused call makes one line.
func TestEachLineOfACallHasItsID(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		for _, peer := range []api.ZoneID{"", "zone-else", "zone-east", "zone-up"} {
			w := newWorld(t)
			rec := w.do(t, call{method: method, target: r.target, peer: peer, body: r.body, head: map[string]string{api.HeaderRequestID: "req-7"}})
			require.Equal(t, "req-7", rec.Header().Get(api.HeaderRequestID))
			lines := w.said(t)
			for _, l := range lines {
				assert.Equal(t, api.RequestID("req-7"), l.Request, "%+v", l)
			}
			if rec.Code >= http.StatusBadRequest {
				assert.Len(t, lines, 1, "of %q: %s", peer, rec.Body)
			}
		}
	})
}

// TestARefusedPlanIsOneLine: it has the reason, which the caller is not told.
func TestARefusedPlanIsOneLine(t *testing.T) {
	w := newWorld(t)
	h := w.plan(t, 1)
	w.answered(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, 200, nil)
	w.said(t)
	h.ID = "hold-2"
	assert.Equal(t, api.PlanRefusedMessage, w.refused(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: h}, api.CodePlanRefused))
	lines := w.said(t)
	require.Len(t, lines, 1)
	assert.Equal(t, "call refused", lines[0].Message)
	assert.NotEmpty(t, lines[0].Request)
	assert.Contains(t, lines[0].Error, "the plan was taken up before")
}

// TestARefusedEnrolmentIsOneLine: with a bad token, which is counted, or for another reason.
func TestARefusedEnrolmentIsOneLine(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		code api.Code
		want string
	}{{api.CodeUnauthenticated, "authentication refused"}, {api.CodeConflict, "call refused"}, {api.CodeInternal, "call refused"}} {
		w.refusal = api.Wrap(c.code, "node.enrol", "no", errAway)
		w.refused(t, call{method: "POST", target: "/links/enrol", body: api.Enrolment{}}, c.code)
		lines := w.said(t)
		require.Len(t, lines, 1)
		assert.Equal(t, c.want, lines[0].Message)
		assert.NotEmpty(t, lines[0].Request)
	}
}

// TestForbiddenChangesAreCounted, and other refusals are not: neither questions, nor what a zone may do at another time. Zones that
// are not linked have a count of their own.
func TestForbiddenChangesAreCounted(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		w := newWorld(t)
		for _, peer := range []api.ZoneID{"zone-else", "zone-east", "zone-up"} {
			w.do(t, call{method: method, target: r.target, peer: peer, body: r.body})
		}
		want := uint64(0)
		if method != http.MethodGet && (r.parent || r.child) {
			want = 1
		}
		got := w.counter.Counts()
		assert.Equal(t, want, got.Authorizations[refusals.Gateway])
		assert.Equal(t, uint64(1), got.Authentications[refusals.Key{Listener: refusals.Gateway, Reason: refusals.NotLinked}])
	})
}

// TestRefusalsDoNotFillTheLog: refusals of all kinds together have so many lines in a minute.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	w := newWorld(t)
	w.refusal = api.Errorf(api.CodeConflict, "no")
	for range refusals.LinesMax {
		w.do(t, call{method: "GET", target: "/zones/info", peer: "zone-else"})
		w.do(t, call{method: "DELETE", target: "/servers/i", peer: "zone-up"})
		w.do(t, call{method: "POST", target: "/zones/holds", peer: "zone-up", body: []byte("nonsense")})
		w.do(t, call{method: "POST", target: "/links/enrol", body: api.Enrolment{}})
	}
	assert.Len(t, w.said(t), refusals.LinesMax)
}
