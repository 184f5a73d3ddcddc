package door

import (
	"slices"
	"strings"
	"sync"

	"berth/api"
	"berth/raftstore/state"
)

// Uses remembers in memory when the tokens of a zone were last used at one node. It has at most as
// many of them as the zone, and a call costs no log entry. A nil one remembers nothing. Its methods may
// be called concurrently.
type Uses struct {
	mu   sync.Mutex // guards the map
	last map[api.TokenID]api.Instant
}

// NewUses returns an empty memory.
func NewUses() *Uses { return &Uses{last: map[api.TokenID]api.Instant{}} }

// Note notes that a token of the zone was used.
func (u *Uses) Note(id api.TokenID, at api.Instant) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[id] = max(at, u.last[id])
}

// Due returns the uses whose record in v is missing, or older by api.TokenUseEvery, sorted by id. It
// forgets tokens that there are no more.
func (u *Uses) Due(v *state.State) []api.TokenUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []api.TokenUse
	for id, at := range u.last {
		t, ok := v.Token(id)
		switch {
		case !ok:
			delete(u.last, id)
		case t.Used == 0 || at >= t.Used.Add(api.TokenUseEvery):
			out = append(out, api.TokenUse{ID: id, At: at})
		}
	}
	slices.SortFunc(out, func(a, b api.TokenUse) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}
