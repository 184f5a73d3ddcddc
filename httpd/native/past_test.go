package native

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth/api"
	"berth/internal/memstore"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// tokensAlone returns the state of the zone when it had tokens, and nothing else.
func tokensAlone(tb testing.TB) *state.State {
	tb.Helper()
	s := memstore.New()
	s.Must(tb, command.Init{Zone: "zone-root", Name: "root"}, command.TokenPut{Token: api.Token{
		ID: "admin", Hash: []byte("s"), User: "admin", Project: "p1", Roles: []api.UserRole{api.RoleAdmin}, Expires: api.Forever,
	}})
	return s.View()
}

// TestNoWriteIsAnsweredFromThePast makes every write at a node that led once and
// does not know yet that it leads no more. Nothing of the zone is in its view: "not
// found" would be untrue.
func TestNoWriteIsAnsweredFromThePast(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		if !r.leader || method == http.MethodGet {
			return
		}
		w := r.of(t)
		w.serve(memstore.NewPast(w.store, tokensAlone(t), true))
		c := call{method: method, target: r.target, token: admin, body: r.body}
		if rec := w.do(c); len(w.auth.did) > 0 { // the node does it, and confirms it
			assert.Equal(t, r.status, rec.Code)
			return
		}
		w.refused(t, c, api.CodeUnavailable, "another node leads")
	})
}

// TestAWriteIsDoneByALeaderThatLagged: it leads again, and has only to catch up.
func TestAWriteIsDoneByALeaderThatLagged(t *testing.T) {
	eachRoute(t, func(t *testing.T, method string, r row) {
		t.Helper()
		if !r.leader || method == http.MethodGet {
			return
		}
		w := r.of(t)
		w.serve(memstore.NewPast(w.store, tokensAlone(t), false))
		w.answered(t, call{method: method, target: r.target, token: admin, body: r.body}, r.status, nil)
	})
}

func TestATokenIsNotRefusedFromThePast(t *testing.T) {
	for deposed, want := range map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK} {
		w := newWorld(t)
		w.serve(memstore.NewPast(w.store, tokensAlone(t), deposed))
		assert.Equal(t, want, w.do(call{method: http.MethodGet, target: "/flavors", token: member}).Code)
	}
}

// TestARefusalOfFormAsksNobody: a body that is too large is one wherever it is read.
func TestARefusalOfFormAsksNobody(t *testing.T) {
	w := newWorld(t)
	past := memstore.NewPast(w.store, tokensAlone(t), false)
	w.serve(past)
	body := make([]byte, api.BodyMaxBytes+1)
	w.refused(t, call{method: http.MethodPost, target: "/flavors", token: admin, body: string(body)}, api.CodeTooLarge, "")
	assert.False(t, past.Asked())
}
