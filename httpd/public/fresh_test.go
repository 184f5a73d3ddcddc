package public

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
)

func TestReadsSayHowFreshTheyAre(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"", "?read=local", "?read=linearizable"} {
		rec := w.do(call{method: http.MethodGet, target: "/servers" + kind, token: member})
		assert.Equal(t, http.StatusOK, rec.Code, kind)
	}
	assert.Empty(t, w.forwarded)
	w.refused(t, call{method: http.MethodGet, target: "/servers?read=fast", token: member}, api.CodeInvalid, "read must be")
	w.refused(t, call{method: http.MethodDelete, target: "/servers/x?read=linearizable", token: member}, api.CodeInvalid, "read must be")

	w.follower = true
	w.do(call{method: http.MethodGet, target: "/servers?read=local", token: member})
	assert.Empty(t, w.forwarded, "a follower answers from its replica")
	w.do(call{method: http.MethodGet, target: "/servers?read=linearizable", token: member})
	assert.Len(t, w.forwarded, 1, "the leader alone can tell")
}
