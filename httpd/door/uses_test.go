package door

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/raftstore/command"
)

// TestUsesOfTokens: calls with valid tokens are noted, and due once in an hour.
func TestUsesOfTokens(t *testing.T) {
	w := newWorld(t)
	w.Uses = NewUses()
	h := w.Authenticate(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, token := range []string{"member:s", "member:s", "member:wrong", "late:s", "nobody:s", ""} {
		ask(h, bearer(token))
	}
	at := api.InstantOf(epoch)
	assert.Equal(t, []api.TokenUse{{ID: "member", At: at}}, w.Uses.Due(w.Zone.View()))

	w.store.Must(t, command.TokensUsed{Stamp: w.Zone.Stamp(), Used: w.Uses.Due(w.Zone.View())})
	used, _ := w.Zone.View().Token("member")
	at = used.Used
	w.Uses.Note("member", at.Add(api.TokenUseEvery)-1)
	assert.Empty(t, w.Uses.Due(w.Zone.View()), "its record is young")
	w.Uses.Note("member", at.Add(api.TokenUseEvery))
	w.Uses.Note("member", at)
	assert.Equal(t, []api.TokenUse{{ID: "member", At: at.Add(api.TokenUseEvery)}}, w.Uses.Due(w.Zone.View()), "the latest one counts")

	w.store.Must(t, command.TokenDelete{Stamp: w.Zone.Stamp(), ID: "member"})
	assert.Empty(t, w.Uses.Due(w.Zone.View()))
	assert.Empty(t, w.Uses.last, "it is forgotten with its token")
}
