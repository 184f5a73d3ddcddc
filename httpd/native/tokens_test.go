package native

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/raftstore/command"
)

// TestOnesOwnTokens: a user sees and ends the tokens of the same user and project, and nobody
// else's are there.
func TestOnesOwnTokens(t *testing.T) {
	w := newWorld(t)
	put := func(id api.TokenID, user api.UserID, project api.ProjectID) {
		w.store.Must(t, command.TokenPut{Stamp: w.zone.Stamp(), Token: api.Token{
			ID: id, Hash: []byte("s"), User: user, Project: project, Roles: []api.UserRole{api.RoleReader}, Expires: api.Forever,
		}})
	}
	put("mine", "member", "p1")
	put("elsewhere", "member", "p2")
	put("hers", "other", "p1")
	w.store.Must(t, command.TokensUsed{Stamp: w.zone.Stamp(), Used: []api.TokenUse{{ID: "mine", At: 1000}}})
	var got struct{ Tokens []rest.Token }
	w.answered(t, call{method: "GET", target: "/tokens", token: member}, 200, &got)
	require.Len(t, got.Tokens, 2)
	assert.Equal(t, api.TokenID("member"), got.Tokens[0].ID)
	assert.Zero(t, got.Tokens[0].Used)
	assert.Equal(t, api.TokenID("mine"), got.Tokens[1].ID)
	assert.Equal(t, api.Instant(1000), got.Tokens[1].Used)

	for _, id := range []string{"elsewhere", "hers", "admin", "nothing"} {
		w.refused(t, call{method: "DELETE", target: "/tokens/" + id, token: member}, api.CodeNotFound, "no token")
	}
	w.answered(t, call{method: "DELETE", target: "/tokens/mine", token: member}, 204, nil)
	w.refused(t, call{method: "GET", target: "/servers", token: "mine:s"}, api.CodeUnauthenticated, "")
	w.answered(t, call{method: "DELETE", target: "/tokens/member", token: member}, 204, nil)
	w.refused(t, call{method: "GET", target: "/tokens", token: member}, api.CodeUnauthenticated, "")
}

// TestTokensExpire unless somebody says that one does not.
func TestTokensExpire(t *testing.T) {
	for body, want := range map[string]time.Duration{
		``:                       api.TokenTTLDefault,
		`,"ttl":"1h"`:            time.Hour,
		`,"never_expires":true`:  -1,
		`,"never_expires":false`: api.TokenTTLDefault,
	} {
		w := newWorld(t)
		w.answered(t, call{method: "POST", target: "/operator/tokens", token: admin, body: `{"user_id":"u","project_id":"p","roles":["reader"]` + body + `}`}, 201, nil)
		made := w.auth.token
		if want < 0 {
			assert.Equal(t, api.Forever, made.Expires)
			continue
		}
		assert.Equal(t, made.Created.Add(want), made.Expires, body)
	}
	w := newWorld(t)
	for body, says := range map[string]string{`"ttl":"-1h"`: "never_expires", `"ttl":"1h","never_expires":true`: "or never_expires"} {
		w.refused(t, call{method: "POST", target: "/operator/tokens", token: admin, body: `{"user_id":"u","project_id":"p","roles":["reader"],` + body + `}`}, api.CodeInvalid, says)
	}
}
