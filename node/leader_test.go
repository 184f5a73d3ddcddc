package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRequestsUnderWayHearOfANewLeader(t *testing.T) {
	nodes := threeNodes(t, "root")
	leader, follower := nodes[0], nodes[1]
	heard := make(chan struct{})
	stop := follower.onLeaderChange(func() { close(heard) })
	defer stop()
	require.NoError(t, leader.stop())
	select {
	case <-heard:
	case <-time.After(patience):
		require.Fail(t, "nobody was told")
	}
}
