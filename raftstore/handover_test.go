package raftstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
)

func TestAHandoverThatNeverEndsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		h := handover{limit: handoverMax, fail: func(err error) { failed = err }}
		h.noteError(raft.ErrLeadershipTransferInProgress)
		await.Sleep(handoverMax - time.Second)
		h.noteError(raft.ErrLeadershipTransferInProgress)
		h.noteError(nil) // it was only slow
		await.Sleep(handoverMax)
		synctest.Wait()
		require.NoError(t, failed)

		h.noteError(raft.ErrLeadershipTransferInProgress)
		h.noteError(raft.ErrLeadershipTransferInProgress)
		await.Sleep(handoverMax / 2)
		h.noteError(errors.Join(errors.New("applying"), raft.ErrLeadershipTransferInProgress))
		await.Sleep(handoverMax/2 + time.Second)
		synctest.Wait()
		require.ErrorContains(t, failed, "handing over its lead")
		h.noteError(nil)
	})
}

// TestAHandoverEndsWithTheLead has a leader that is handing over its lead lose it, and
// be asked for nothing after: its process goes on.
func TestAHandoverEndsWithTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := newNetwork()
		nodes := trio(t, over, nil)
		old, next := nodes[0], nodes[1]
		over.cut(next.cfg.Advertise, true)
		old.must(put("a", "1")) // which next lacks
		handed := make(chan error, 1)
		go func() { handed <- old.Transfer(t.Context(), next.ID()) }()
		synctest.Wait()
		_, err := old.Propose(t.Context(), put("a", "2"))
		require.ErrorIs(t, err, raft.ErrLeadershipTransferInProgress)
		over.cut(old.cfg.Advertise, true)
		over.cut(next.cfg.Advertise, false)
		leaderOf(t, others(nodes, old)...)
		<-handed // Raft calls a lost lead a success
		await.Sleep(2 * handoverMax)
		select {
		case <-old.failed:
			require.NoError(t, old.failure)
		default:
		}
		over.cut(old.cfg.Advertise, false)
		leaderOf(t, nodes...).must(put("a", "3"))
		old.sees("a", "3")
	})
}
