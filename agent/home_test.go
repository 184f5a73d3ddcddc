package agent

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/agent/driver/fake"
	"berth/api"
)

// elsewhere is a zone that hears the agent from another home, or refuses it for another reason.
type elsewhere struct {
	moved bool
	calls int
	homes []string
}

func (z *elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	z.calls++
	z.homes = append(z.homes, r.Header.Get(api.HeaderHome))
	a, err := answer(http.StatusConflict, api.ErrorBody{Error: api.ErrorDetail{Code: api.CodeConflict, Message: "it runs already"}})
	if err == nil && z.moved {
		a.Header.Set(api.HeaderHome, "other")
	}
	return a, err
}

// TestACopyEnds: an agent that the zone hears from another home ends with what the zone says, though not before the zone would have
// forgotten where the agent was before its machine was restarted; after any other refusal it goes on.
func TestACopyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &elsewhere{moved: true}
		c := config(nil, fake.New(fake.Options{}), 1)
		c.Transport, c.Home = z, "copy"
		a, err := New(c)
		require.NoError(t, err)
		began := time.Now()
		assert.ErrorContains(t, a.Run(t.Context()), "it runs already")
		assert.GreaterOrEqual(t, time.Since(began), elsewhereMax)
		assert.Less(t, time.Since(began), elsewhereMax+retryLast)
		assert.Subset(t, []string{"copy"}, z.homes)
		require.NoError(t, a.Close())

		again, err := New(c)
		require.NoError(t, err)
		again.registered, again.end = true, func(error) {}
		assert.True(t, again.isElsewhere(time.Now()), "one that has served its hosts ends at once")
		require.NoError(t, again.Close())

		z = &elsewhere{}
		c.Transport = z
		end := run(t, c)
		settle()
		assert.Greater(t, z.calls, 2)
		end()
	})
}
