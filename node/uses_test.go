package node

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/raftstore/command"
	"berth/raftstore/state"
)

// TestUsesOfTokens: a use at any node is on record, and not again within an hour.
func TestUsesOfTokens(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		zone := threeNodes(t, "u")
		leader, follower := zone[0], zone[1]
		require.False(t, follower.Leads())
		leader.propose(command.TokenPut{Stamp: leader.zone.Stamp(), Token: api.Token{
			ID: "0123456789abcdef", Hash: []byte("none"), User: "ada", Project: "web", Roles: []api.UserRole{api.RoleReader}, Expires: api.Forever,
		}})
		lastUse := func(r *running) api.Instant {
			var last api.Instant
			for _, one := range r.view().Tokens() {
				if one.User != "ada" {
					last = max(last, one.Used)
				}
			}
			return last
		}
		follower.until("it is as far as the leader, to which it would pass the call otherwise", func(v *state.State) bool {
			return v.Index() >= leader.view().Index()
		})
		status, _ := follower.answers(call{method: http.MethodGet, path: "/servers", token: leader.home.token})
		require.Equal(t, http.StatusOK, status)
		require.Len(t, follower.uses.Due(follower.view()), 1)
		require.NoError(t, follower.recordUses(t.Context()))
		assert.Zero(t, lastUse(leader), "the leader has been told, and nothing is logged yet")
		before := leader.view().Index()
		require.NoError(t, leader.recordUses(t.Context()))
		assert.WithinDuration(t, time.Now(), lastUse(leader).Time(), time.Minute)
		assert.Greater(t, leader.view().Index(), before)

		status, _ = leader.answers(call{method: http.MethodGet, path: "/servers", token: leader.home.token})
		require.Equal(t, http.StatusOK, status)
		before = leader.view().Index()
		require.NoError(t, leader.recordUses(t.Context()))
		assert.Empty(t, leader.uses.Due(leader.view()))
		for _, one := range leader.view().Tokens() {
			assert.Equal(t, one.User == "ada", one.Used == 0, "%s", one.User)
		}
		assert.Equal(t, before, leader.view().Index(), "a call costs no entry")
	})
}
