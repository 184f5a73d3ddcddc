package agent

import (
	"bytes"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
)

// refusing is a zone that refuses all calls, and notes their ids.
type refusing struct {
	mu  sync.Mutex // guards ids
	ids []string
}

// RoundTrip implements http.RoundTripper.
func (z *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ids = append(z.ids, r.Header.Get(api.HeaderRequestID))
	return answer(http.StatusConflict, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeConflict, Message: "no"}})
}

// TestACallHasAnID: each call of the zone has an id of its own, with which the agent logs what became of it.
func TestACallHasAnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &refusing{}
		c := config(newZone(), fake.New(fake.Options{}), 1)
		c.Transport = z
		var log bytes.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		end := run(t, c)
		settle()
		end()
		require.Greater(t, len(z.ids), 1)
		seen := map[string]bool{}
		for _, id := range z.ids {
			assert.True(t, api.ValidName(id), id)
			assert.False(t, seen[id], "%s twice", id)
			seen[id] = true
			assert.Len(t, regexp.MustCompile(`level=DEBUG .* request_id=`+id+"\n").FindAllString(log.String(), -1), 1, "%s in %s", id, &log)
		}
	})
}
