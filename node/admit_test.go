package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
)

// TestUnknownJoinsLeaveTheLogAlone: whoever reaches the public API can make tokens
// that look right. What they call changes nothing, and keeps out nobody who was given
// a token.
func TestUnknownJoinsLeaveTheLogAlone(t *testing.T) {
	t.Parallel()
	r := newZone(t, "a").run()
	good := r.joinToken(api.JoinAgent, "agent-1")
	spent := r.joinToken(api.JoinAgent, "agent-0")
	_, err := JoinAgent(t.Context(), JoinOptions{Dir: t.TempDir(), Token: spent, Plain: true, Now: time.Now})
	require.NoError(t, err)
	csr := certificateRequest(t)
	before := r.view().Index()
	for n := range 1000 {
		token := spent
		switch n % 4 {
		case 0: // the id of a good one, and another secret
			token = altered(t, strangersToken(t, r, api.JoinAgent), func(j *identity.JoinToken) {
				known, err := identity.ParseJoinToken(good)
				require.NoError(t, err)
				j.ID = known.ID
			})
		case 1:
			token = altered(t, good, func(j *identity.JoinToken) { j.Kind = api.JoinNode })
		case 2:
			token = strangersToken(t, r, api.JoinAgent)
		}
		_, err := r.Join(t.Context(), &api.JoinBody{Token: token, CSR: csr})
		require.Error(t, err)
		require.Contains(t, []api.Code{api.CodeUnauthenticated, api.CodeOverloaded}, api.CodeOf(err), "%v", err)
	}
	const own = 10 // entries that the zone may have written for itself meanwhile
	assert.Less(t, r.view().Index()-before, uint64(own))
	_, err = JoinAgent(t.Context(), JoinOptions{Dir: t.TempDir(), Token: good, Plain: true, Now: time.Now})
	require.NoError(t, err, "strangers cannot keep out who has a token")
}

// strangersToken returns a join token that the zone has never made.
func strangersToken(t *testing.T, r *running, kind api.JoinKind) string {
	t.Helper()
	j, err := identity.NewJoinToken(kind, r.rec.Zone, []string{r.Addresses().API}, identity.PinOf(r.view().CA))
	require.NoError(t, err)
	text, err := j.Text()
	require.NoError(t, err)
	return text.Reveal()
}

func certificateRequest(t *testing.T) []byte {
	t.Helper()
	key, err := identity.NewKey()
	require.NoError(t, err)
	csr, err := identity.CSR(key)
	require.NoError(t, err)
	return csr
}

func TestConfirmsAreBounded(t *testing.T) {
	t.Parallel()
	var c confirms
	at := time.Unix(1_900_000_000, 0)
	for range confirmsAtOnce {
		require.True(t, c.begin(at))
	}
	require.False(t, c.begin(at), "one more at once")
	for range confirmsAtOnce {
		c.end()
	}
	for range confirmsPerSecond - confirmsAtOnce {
		require.True(t, c.begin(at))
		c.end()
	}
	require.False(t, c.begin(at.Add(time.Second-1)), "one more in a second")
	require.True(t, c.begin(at.Add(time.Second)))
	c.end()
	assert.True(t, c.begin(at.Add(-time.Hour)), "a clock that was set back keeps nobody out")
}
