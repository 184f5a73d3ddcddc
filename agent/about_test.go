package agent

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
)

// late is a zone whose clock is behind by a span, and which answers after another one.
type late struct {
	behind, way time.Duration
	heads       []http.Header
}

func (z *late) RoundTrip(r *http.Request) (*http.Response, error) {
	z.heads = append(z.heads, r.Header)
	await.Sleep(z.way)
	a, err := answer(http.StatusOK, api.AgentAck{})
	if err == nil {
		a.Header.Set(api.HeaderTime, strconv.FormatInt(time.Now().Add(-z.behind).UnixMilli(), 10))
	}
	await.Sleep(z.way)
	return a, err
}

// TestAnAgentTellsOfItself: each call has its release, and from the second one on how far its clock is from the zone's.
func TestAnAgentTellsOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &late{behind: 1500 * time.Millisecond, way: 10 * time.Millisecond}
		l := newLink([]string{"a:1"}, z).of(&Config{Version: "v1", Home: "here", Now: time.Now})
		for range 2 {
			require.NoError(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)))
		}
		require.Len(t, z.heads, 2)
		assert.Equal(t, "v1", z.heads[0].Get(api.HeaderVersion))
		assert.Equal(t, "here", z.heads[0].Get(api.HeaderHome))
		assert.Empty(t, z.heads[0].Get(api.HeaderSkew))
		assert.Equal(t, "1500 10", z.heads[1].Get(api.HeaderSkew))
		s, known := l.about.skew()
		assert.True(t, known)
		assert.True(t, s.IsFar())
	})
}

// TestAnAgentThatTellsNothing of itself measures nothing, and has no such headers; a zone of an earlier release tells no time.
func TestAnAgentThatTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &late{}
		for _, c := range []Config{{}, {Now: time.Now}} {
			l := newLink([]string{"a:1"}, z).of(&c)
			for range 2 {
				require.NoError(t, l.postTo(t.Context(), api.PathAgentReport, api.AgentReport{}, new(api.AgentAck)))
			}
			_, known := l.about.skew()
			assert.Equal(t, c.Now != nil, known)
		}
		for n, h := range z.heads {
			assert.NotContains(t, h, http.CanonicalHeaderKey(api.HeaderVersion))
			assert.NotContains(t, h, http.CanonicalHeaderKey(api.HeaderHome))
			assert.Equal(t, n == 3, h.Get(api.HeaderSkew) != "")
		}
		a := about{now: time.Now}
		a.read(http.Header{}, a.began())
		_, known := a.skew()
		assert.False(t, known)
	})
}
