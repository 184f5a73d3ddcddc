package raftstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
)

func TestTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, newNetwork(), nil)
		term := nodes[0].Term()
		require.NoError(t, nodes[0].Transfer(t.Context(), "n1"), "to itself does nothing")
		assert.Equal(t, api.CodeNotFound, api.CodeOf(nodes[0].Transfer(t.Context(), "nobody")))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(nodes[1].Transfer(t.Context(), "n1")))
		require.NoError(t, nodes[0].Transfer(t.Context(), "n3"))
		nodes[2].leads().must(put("a", "1"))
		assert.Greater(t, nodes[2].Term(), term)
		require.NoError(t, nodes[2].Transfer(t.Context(), ""))
		leaderOf(t, nodes[:2]...).must(put("a", "2"))
	})
}

func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		lead, ctx := nodes[0], t.Context()
		late := over.join(t, "n4")
		require.NoError(t, lead.AddNonvoter(ctx, "n4", "n4:1"))
		late.catchUp(lead)
		assert.Equal(t, Member{ID: "n4", Addr: "n4:1"}, late.Members()[3])
		assert.Equal(t, api.CodeConflict, api.CodeOf(lead.Transfer(ctx, "n4")), "no vote")
		require.NoError(t, lead.AddVoter(ctx, "n4", "n4:1"))
		require.NoError(t, lead.AddVoter(ctx, "n4", "n4:1"), "again")

		assert.Equal(t, api.CodeInvalid, api.CodeOf(lead.AddVoter(ctx, "a b", "h:1")))
		assert.Equal(t, api.CodeInvalid, api.CodeOf(lead.AddVoter(ctx, "n5", "h")))
		assert.Equal(t, api.CodeConflict, api.CodeOf(lead.AddVoter(ctx, "n5", "n4:1")), "address in use")
		assert.Equal(t, api.CodeNotFound, api.CodeOf(lead.Remove(ctx, "n5")))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(late.AddVoter(ctx, "n5", "h:1")))

		require.NoError(t, lead.Remove(ctx, "n4"))
		require.NoError(t, lead.Remove(ctx, "n1"), "a leader may remove itself")
		next := leaderOf(t, nodes[1:]...)
		assert.Len(t, next.Members(), 2)
		next.must(put("a", "1"))
		assert.False(t, lead.IsLeader())
	})
}

// TestVoterMustCatchUp adds a node that nobody can reach: it gets no vote, so the
// zone never needs it. Once it is there, the same request gives it one.
func TestVoterMustCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		lead := nodes[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := lead.AddVoter(ctx, "n4", "n4:1")
		assert.Equal(t, api.CodeTimeout, api.CodeOf(err))
		assert.Equal(t, Member{ID: "n4", Addr: "n4:1"}, lead.Members()[3])
		for i := range 2 * promoteLag {
			lead.must(put(fmt.Sprint("k", i), "x"))
		}
		late := over.join(t, "n4")
		require.NoError(t, lead.AddVoter(t.Context(), "n4", "n4:1"))
		assert.True(t, lead.Members()[3].Voter)
		assert.GreaterOrEqual(t, late.raft.LastIndex()+promoteLag+1, lead.raft.LastIndex())
		late.sees(fmt.Sprint("k", 2*promoteLag-1), "x")
	})
}

// TestARemovedNodeIsNotAddedAgain: it is removed while it catches up, or between the question whether it may be added and the
// change, by this leader or by one in between; and it is not replaced by the address that it had before.
func TestARemovedNodeIsNotAddedAgain(t *testing.T) {
	welcome := func() error { return nil }
	t.Run("while it catches up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			over := newNetwork()
			lead := trio(t, over, nil)[0]
			done := make(chan error, 1)
			go func() { done <- lead.Admit(t.Context(), "n4", "n4:1", welcome) }()
			await.Sleep(time.Second)
			require.True(t, lead.HasMember("n4"))
			require.NoError(t, lead.Remove(t.Context(), "n4"))
			require.NoError(t, lead.AddNonvoter(t.Context(), "n4", "other:1")) // another node of its name
			over.join(t, "other").catchUp(lead)
			assert.Equal(t, api.CodeConflict, api.CodeOf(<-done))
			assert.Equal(t, Member{ID: "n4", Addr: "other:1"}, lead.Members()[3])
		})
	})
	t.Run("while a removal waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			over := newNetwork()
			lead := trio(t, over, nil)[0]
			over.join(t, "n4")
			require.NoError(t, lead.AddVoter(t.Context(), "n4", "n4:1"))
			removed := make(chan error, 1)
			may := func() error {
				go func() { removed <- lead.Remove(t.Context(), "n4") }()
				await.Sleep(time.Second)
				return nil
			}
			require.NoError(t, lead.Admit(t.Context(), "n4", "n4:1", may))
			require.NoError(t, <-removed)
			assert.False(t, lead.HasMember("n4"), "it was asked for later")
		})
	})
	t.Run("by a leader in between", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			over := newNetwork()
			nodes := trio(t, over, nil)
			lead, other := nodes[0], nodes[1]
			over.join(t, "n4")
			require.NoError(t, lead.AddVoter(t.Context(), "n4", "n4:1"))
			err := lead.Admit(t.Context(), "n4", "n4:1", func() error {
				require.NoError(t, lead.Transfer(t.Context(), other.ID()))
				other.leads()
				require.NoError(t, other.Remove(t.Context(), "n4"))
				require.NoError(t, other.Transfer(t.Context(), lead.ID()))
				lead.leads()
				return nil
			})
			assert.Equal(t, api.CodeUnavailable, api.CodeOf(err), "%v", err)
			assert.False(t, lead.HasMember("n4"))
		})
	})
	t.Run("when it is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lead := trio(t, newNetwork(), nil)[0]
			err := lead.Admit(t.Context(), "n4", "n4:1", func() error { return api.Errorf(api.CodeForbidden, "no") })
			assert.Equal(t, api.CodeForbidden, api.CodeOf(err))
			assert.False(t, lead.HasMember("n4"))
		})
	})
}

func TestMembersLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		n := trio(t, over, nil)[0]
		for i := 4; i <= membersMax; i++ {
			require.NoError(t, n.AddNonvoter(t.Context(), api.NodeID(fmt.Sprint("n", i)), fmt.Sprintf("h%d:1", i)))
		}
		assert.Equal(t, api.CodeConflict, api.CodeOf(n.AddNonvoter(t.Context(), "more", "more:1")))
		assert.NoError(t, n.AddNonvoter(t.Context(), "n4", "moved:1"), "a member may move")
	})
}

// TestRemovedNodeIsHarmless leaves a removed node running: it must not disturb the
// zone, and still shows what it had.
func TestRemovedNodeIsHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := trio(t, newNetwork(), nil)
		require.NoError(t, nodes[0].Remove(t.Context(), "n3"))
		term := nodes[0].Term()
		for range 100 {
			nodes[0].must(put("a", "1"))
			await.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, term, nodes[0].Term())
		assert.True(t, nodes[0].IsLeader())
		assert.Equal(t, "n3", addrOf(nodes[2].View(), "mark"))
		_, err := nodes[2].Propose(t.Context(), put("a", "2"))
		assert.Equal(t, api.CodeUnavailable, api.CodeOf(err))
	})
}
