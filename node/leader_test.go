package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

func TestRequestsUnderWayHearOfANewLeader(t *testing.T) {
	virtually(t, func(t *world) {
		nodes := threeNodes(t, "root")
		leader, follower := nodes[0], nodes[1]
		heard := make(chan struct{})
		stop := follower.onLeaderChange(func() { close(heard) })
		defer stop()
		require.NoError(t, leader.stop())
		await.Received(t, "what is called when the leader changes", heard)
	})
}
