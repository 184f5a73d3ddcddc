package raftstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestAHandoverThatNeverEndsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		h := handover{limit: handoverMax, fail: func(err error) { failed = err }}
		h.noteError(raft.ErrLeadershipTransferInProgress)
		time.Sleep(handoverMax - time.Second)
		h.noteError(raft.ErrLeadershipTransferInProgress)
		h.noteError(nil) // it was only slow
		time.Sleep(handoverMax)
		synctest.Wait()
		require.NoError(t, failed)

		h.noteError(raft.ErrLeadershipTransferInProgress)
		h.noteError(raft.ErrLeadershipTransferInProgress)
		time.Sleep(handoverMax / 2)
		h.noteError(errors.Join(errors.New("applying"), raft.ErrLeadershipTransferInProgress))
		time.Sleep(handoverMax/2 + time.Second)
		synctest.Wait()
		require.ErrorContains(t, failed, "handing over its lead")
		h.noteError(nil)
	})
}
