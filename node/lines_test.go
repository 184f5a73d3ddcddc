package node

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// journal is the log of a node.
type journal struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(b)
}

// line is what these tests read of a line.
type line struct {
	Message string        `json:"msg"`
	Request api.RequestID `json:"request_id"`
	Zone    string        `json:"zone"`
	Path    string        `json:"path"`
}

// linesOf returns the lines with the id of a call, or about its path.
func (j *journal) linesOf(tb testing.TB, id api.RequestID, path string) (out []line) {
	tb.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for d := json.NewDecoder(bytes.NewReader(j.all.Bytes())); d.More(); {
		var l line
		require.NoError(tb, d.Decode(&l))
		if l.Request == id || l.Path == path {
			out = append(out, l)
		}
	}
	return out
}

// TestEachLineOfACallHasItsID: what a node logs about a call has the id that its caller has sent, whatever part of the
// node logs it, and a refused call is one line.
func TestEachLineOfACallHasItsID(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		h, j := newZone(t, "a"), &journal{}
		h.opts.Log = slog.New(slog.NewJSONHandler(j, nil))
		r := h.run()
		r.offers("small")
		plan := base64.StdEncoding.EncodeToString([]byte("no plan of ours"))
		for n, c := range []struct {
			call
			status int
			want   string
		}{
			{call{method: http.MethodGet, path: "/flavors", token: "berth_no_token"}, http.StatusUnauthorized, "authentication refused"},
			{call{method: http.MethodPost, path: "/servers", token: h.token, body: fmt.Sprintf(
				`{"server": {"name": "a", "flavorRef": "small", "blob": %q, "reservation_id": "r-1", "return_reservation_id": true}}`, plan,
			)}, api.CodePlanRefused.HTTPStatus(), "call refused"},
		} {
			id := api.RequestID(fmt.Sprint("mine-", n))
			c.header = map[string]string{api.HeaderRequestID: string(id)}
			status, said := r.answers(c.call)
			assert.Equal(t, c.status, status, said)
			assert.Equal(t, []line{{c.want, id, "a", c.path}}, j.linesOf(t, id, c.path), said)
		}
	})
}
