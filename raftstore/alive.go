package raftstore

import (
	"context"
	"errors"
)

// Alive returns nil once the main loop of Raft has answered a question, whichever part this node has and whether or not the
// zone has a leader. It returns the error of ctx if the loop does not before ctx ends.
func (s *Store) Alive(ctx context.Context) error {
	err := s.awaitCall(ctx, func() error {
		_ = s.raft.VerifyLeader().Error() // a refusal is an answer too
		return nil
	})
	if errors.Is(err, errClosing) {
		return nil
	}
	return err
}
