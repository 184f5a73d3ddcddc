package node

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft" //nolint:depguard // a test writes a message of Raft by hand
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/raftstore/state"
)

// TestANodeThatIsBehindFollowsANewcomer: a node that was away knows nothing of the one that
// leads since, and catches up with it all the same. It accepts no older certificate meanwhile.
func TestANodeThatIsBehindFollowsANewcomer(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		nodes := threeNodes(t, "a")
		first, behind := nodes[0], nodes[2]
		behind.until("all are known", func(v *state.State) bool { return len(v.Nodes()) == 3 })
		require.NoError(t, behind.stop())
		newcomer := first.adopt("node-4")
		require.NoError(t, first.RemoveMember(t.Context(), "node-2"))
		require.NoError(t, nodes[1].stop())
		require.NoError(t, first.Transfer(t.Context(), "node-4"))
		newcomer.becomesReady()
		newcomer.offers("f")

		alone, err := behind.home.open()
		require.NoError(t, err)
		known := alone.store.KnownUntil()
		require.NoError(t, alone.checkMember("node-4", time.Now(), nil), "no leader is known")
		require.Error(t, alone.checkMember("node-9", known.Add(-clockSlack), nil), "it would know of that one")
		require.NoError(t, alone.store.Close())
		require.NoError(t, alone.closeOpened())

		late := behind.home.start()
		late.until("the log of the newcomer", func(v *state.State) bool {
			_, ok := v.Flavor("f")
			return ok
		})
		require.True(t, late.store.HasMember("node-4"))
		await.True(t, "it is removed, however young its certificate, while a leader is known", func() bool { return late.checkMember("node-2", time.Now(), nil) != nil })
	})
}

// raftByHand carries messages of Raft that a test writes.
type raftByHand struct{ raftStream }

// Dial implements raft.StreamLayer.
func (s raftByHand) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return s.raftStream.Dial("node-2", string(to), timeout)
}

// TestANewNodeHearsItsLeaderOut: a node that has just joined knows its leader before it has got the
// members from it, and its first snapshot may take long.
func TestANewNodeHearsItsLeaderOut(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		first := newZone(t, "a").run()
		joining, err := first.joined("node-2").open()
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var accepting sync.WaitGroup
		accepting.Go(func() { joining.nodeGate.acceptConns(ctx) })
		defer func() {
			require.NoError(t, joining.store.Close())
			require.NoError(t, joining.closeOpened()) // ends acceptConns
			stop()
			accepting.Wait()
		}()
		room := newRoom(first.listeners.node.Addr()) // nobody calls it
		byHand := raft.NewNetworkTransport(raftByHand{raftStream{room, first.dialMember(api.ALPNRaft)}}, 1, await.Limit, io.Discard)
		defer func() { require.NoError(t, byHand.Close()) }()

		to := joining.listeners.node.Addr().String()
		behind := raft.AppendEntriesRequest{ // what it lacks is in a snapshot
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("node-1"), Addr: []byte(first.rec.Advertise.Node)},
			Term:      9, PrevLogEntry: 1000, PrevLogTerm: 9,
		}
		var answer raft.AppendEntriesResponse
		require.NoError(t, byHand.AppendEntries("node-2", raft.ServerAddress(to), &behind, &answer))
		require.False(t, answer.Success)
		leader, _ := joining.store.Leader()
		require.Equal(t, api.NodeID("node-1"), leader)
		require.False(t, joining.store.HasMember("node-1"), "it has no member yet")

		require.NoError(t, joining.checkMember("node-1", time.Now(), nil))
		require.Error(t, joining.checkMember("node-3", time.Now(), nil), "another may be let in when the leader says so")
	})
}

// TestRaftReachesTheNodeThatIsMeant: what is for one node does not reach another one that has
// taken its address, which would vote in its name.
func TestRaftReachesTheNodeThatIsMeant(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		stream := raftStream{dialTo: r.dialMember(api.ALPNRaft)}
		at := r.listeners.node.Addr().String()
		c, err := stream.Dial("node-1", at, await.Limit)
		require.NoError(t, err)
		_ = c.Close() // the node does not speak to itself
		_, err = stream.Dial("node-2", at, await.Limit)
		require.ErrorContains(t, err, "expected")
	})
}

// TestKnownUntil is not later than now, and not earlier than what was done last.
func TestKnownUntil(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r := newZone(t, "a").run()
		before := api.InstantOf(time.Now())
		r.offers("f")
		known := r.store.KnownUntil()
		assert.GreaterOrEqual(t, api.InstantOf(known), before)
		assert.False(t, known.After(time.Now()))
		require.NoError(t, r.stop())
		again, err := r.home.open()
		require.NoError(t, err)
		assert.False(t, again.store.KnownUntil().Before(known.Truncate(time.Millisecond)), "the log says so before anything of it is applied")
		require.NoError(t, again.store.Close())
		require.NoError(t, again.closeOpened())
	})
}
