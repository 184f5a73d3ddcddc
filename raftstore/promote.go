package raftstore

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"

	"berth/api"
)

// promoteLag is how many entries a node may be behind when it gets a vote. It receives as
// many in one or two messages.
const promoteLag = 4 * appendMax

// progress is the last index of the other nodes, from their answers to the leader, including
// those to heartbeats. Raft knows it too, but does not show it.
type progress struct {
	mu      sync.Mutex // guards the fields below
	last    map[raft.ServerID]uint64
	changed chan struct{} // closed at the next answer
}

func newProgress() *progress {
	return &progress{last: map[raft.ServerID]uint64{}, changed: make(chan struct{})}
}

func (p *progress) noteIndex(id raft.ServerID, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[id] = last
	close(p.changed)
	p.changed = make(chan struct{})
}

// forgetNode makes of returns false until the node has answered again.
func (p *progress) forgetNode(id raft.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, id)
}

// indexOf returns the last index that a node has reported, if any, and a channel that is
// closed at the next answer.
func (p *progress) indexOf(id raft.ServerID) (last uint64, told bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, told = p.last[id]
	return last, told, p.changed
}

// promoteMember makes a node receive the log without a vote, and returns when it has
// caught up with what is in the log of the leader.
func (s *Store) promoteMember(ctx context.Context, id api.NodeID, addr string, may func() error) error {
	if m, known := s.findMember(id); !known || m.Addr != addr {
		if err := s.addMember(ctx, id, addr, may, s.raft.AddNonvoter); err != nil {
			return err
		}
	}
	s.progress.forgetNode(raft.ServerID(id))
	target := s.raft.LastIndex()
	for {
		last, told, changed := s.progress.indexOf(raft.ServerID(id))
		if told && last >= target && last+promoteLag >= s.raft.LastIndex() {
			return nil
		}
		if !s.IsLeader() {
			return notLeader("raftstore.AddVoter")
		}
		if err := s.checkCatchingUp(id, addr); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.closing:
			return closedError("raftstore.AddVoter")
		case <-ctx.Done():
			return api.Wrap(api.CodeTimeout, "raftstore.AddVoter", "the new node has not caught up yet; it stays without a vote until the request is repeated", ctx.Err())
		}
	}
}

// checkCatchingUp returns an error for a node that was removed or replaced since it was added without a vote.
func (s *Store) checkCatchingUp(id api.NodeID, addr string) error {
	if m, known := s.findMember(id); !known || m.Addr != addr {
		return api.Errorf(api.CodeConflict, "node %s was removed or replaced while it caught up", id)
	}
	return nil
}
