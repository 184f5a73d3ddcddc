package raftstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
)

// Member is one node of the zone as Raft knows it.
type Member struct {
	ID     api.NodeID `json:"id"`
	Addr   string     `json:"addr"` // host:port that the other nodes dial
	Voter  bool       `json:"voter"`
	Leader bool       `json:"leader,omitempty"` // as far as this node knows
}

// Members returns the members in order of their ids, as this node knows them. The
// newest change among them may not be committed yet.
func (s *Store) Members() []Member {
	leader, _ := s.Leader()
	return membersOf(s.raft.GetConfiguration().Configuration(), leader)
}

// membersOf returns the members of a configuration in order of their ids.
func membersOf(c raft.Configuration, leader api.NodeID) []Member {
	members := make([]Member, 0, len(c.Servers))
	for _, m := range c.Servers {
		id := api.NodeID(m.ID)
		members = append(members, Member{
			ID: id, Addr: string(m.Address), Voter: m.Suffrage == raft.Voter, Leader: id == leader && leader != "",
		})
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members
}

// HasMember reports whether a node is in the newest set of members that this node knows,
// which may not be committed yet.
func (s *Store) HasMember(id api.NodeID) bool {
	_, known := s.findMember(id)
	return known
}

func (s *Store) findMember(id api.NodeID) (Member, bool) {
	members := s.Members()
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return members[i], true
}

// AddVoter makes a node a voter, or gives a voter a new address. A node that is no
// voter receives the log without a vote first, until it has caught up, for as long
// as ctx allows: the zone may need a voter to commit.
//
// A change of members is made by the leader, one after the other, and is repeatable.
// Errors: CodeInvalid, CodeNotFound and CodeConflict for a change that cannot be,
// CodeUnavailable and CodeTimeout as for Propose; CodeTimeout also when the node has
// not caught up, and stays without a vote.
func (s *Store) AddVoter(ctx context.Context, id api.NodeID, addr string) error {
	return s.Admit(ctx, id, addr, func() error { return nil })
}

// Admit is AddVoter for a node that may cease to be welcome at any time. It asks may before each of its changes, after
// which nobody else changes the members before it: no node of the zone, as far as this one has applied such a change
// since it loaded a snapshot, and in any case not this one. A node that was removed while it caught up is not added again.
func (s *Store) Admit(ctx context.Context, id api.NodeID, addr string, may func() error) error {
	if err := s.checkMember(id, addr); err != nil {
		return err
	}
	if !s.IsLeader() {
		return notLeader("raftstore.AddVoter")
	}
	if m, known := s.findMember(id); !known || !m.Voter {
		if err := s.promoteMember(ctx, id, addr, may); err != nil {
			return err
		}
		welcome := may
		may = func() error {
			if err := s.checkCatchingUp(id, addr); err != nil {
				return err
			}
			return welcome()
		}
	}
	return s.addMember(ctx, id, addr, may, s.raft.AddVoter)
}

// AddNonvoter makes a node receive the log without a vote, or gives a member a new
// address; a voter stays one. Errors as for AddVoter.
func (s *Store) AddNonvoter(ctx context.Context, id api.NodeID, addr string) error {
	return s.addMember(ctx, id, addr, func() error { return nil }, s.raft.AddNonvoter)
}

type addFunc = func(raft.ServerID, raft.ServerAddress, uint64, time.Duration) raft.IndexFuture

// checkMember checks what a node that is to be a member is called.
func (s *Store) checkMember(id api.NodeID, addr string) error {
	if err := api.CheckName("node id", string(id)); err != nil {
		return err
	}
	if err := checkAddr(addr); err != nil {
		return err
	}
	if _, known := s.findMember(id); !known && len(s.Members()) >= membersMax {
		return api.Errorf(api.CodeConflict, "a zone has at most %d nodes", membersMax)
	}
	return nil
}

func (s *Store) addMember(ctx context.Context, id api.NodeID, addr string, may func() error, add addFunc) error {
	return s.changeMembers(ctx, func() error {
		if err := s.checkMember(id, addr); err != nil {
			return err
		}
		return may()
	}, func(last uint64) raft.IndexFuture {
		return add(raft.ServerID(id), raft.ServerAddress(addr), last, s.cfg.Timeout)
	})
}

// Remove ends the membership of a node. It keeps running, follows nobody, and must
// be stopped; its id and its data directory must not be used again. A leader may
// remove itself. Errors as for AddVoter; CodeNotFound for a node that is no member.
func (s *Store) Remove(ctx context.Context, id api.NodeID) error {
	return s.changeMembers(ctx, func() error {
		if _, known := s.findMember(id); !known {
			return api.Errorf(api.CodeNotFound, "the zone has no node %s", id)
		}
		return nil
	}, func(last uint64) raft.IndexFuture {
		return s.raft.RemoveServer(raft.ServerID(id), last, s.cfg.Timeout)
	})
}

// changeMembers makes a change that may allows. No other change comes between the two: this node makes one at a time, and
// Raft refuses the change if another leader has made one since the one that call is told of, 0 if that is not known.
func (s *Store) changeMembers(ctx context.Context, may func() error, call func(last uint64) raft.IndexFuture) error {
	const op = "raftstore.Members"
	if !s.IsLeader() {
		return notLeader(op)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.awaitCall(ctx, func() error {
		select {
		case s.changing <- struct{}{}:
			defer func() { <-s.changing }() // a call that nobody waits for any more may still reach Raft
		case <-ctx.Done():
			return ctx.Err()
		}
		last := s.fsm.members.Load()
		if err := may(); err != nil {
			return err
		}
		future := call(last)
		err := changeFailure(op, future.Error(), future.Index())
		if err != nil && s.fsm.members.Load() != last {
			err = api.Wrap(api.CodeUnavailable, op, "another change of the members came first; try again", err)
		}
		return err
	})
	if _, told := errors.AsType[*api.Error](err); err == nil || told {
		return err
	}
	return failureOf(op, err, 0)
}

// changeFailure is failureOf for a change of members, where an error that Raft has no
// name for and no index to is its refusal to write a configuration that cannot be.
func changeFailure(op string, err error, index uint64) error {
	switch {
	case err == nil:
		return nil
	case index == 0 && fateOf(err, 0) == unknown:
		return api.Wrap(api.CodeConflict, op, "the zone cannot have these members", err)
	default:
		return failureOf(op, err, index)
	}
}

// Transfer hands the leadership to another voter, or to the one that is furthest
// along when to is empty, and returns when this node no longer leads. Meanwhile
// proposals are refused. To hand it to the leader itself does nothing. Errors:
// CodeNotFound and CodeConflict when to cannot lead, CodeUnavailable when it did
// not happen, CodeTimeout when that is not known.
func (s *Store) Transfer(ctx context.Context, to api.NodeID) error {
	const op = "raftstore.Transfer"
	if !s.IsLeader() {
		return notLeader(op)
	}
	call := s.raft.LeadershipTransfer
	if to != "" {
		m, known := s.findMember(to)
		switch {
		case !known:
			return api.Errorf(api.CodeNotFound, "the zone has no node %s", to)
		case !m.Voter:
			return api.Errorf(api.CodeConflict, "node %s has no vote and cannot lead", to)
		case m.ID == s.cfg.ID:
			return nil
		}
		call = func() raft.Future {
			return s.raft.LeadershipTransferToServer(raft.ServerID(m.ID), raft.ServerAddress(m.Addr))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.awaitCall(ctx, func() error { return call().Error() })
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return api.Wrap(api.CodeTimeout, op, "the leadership was not handed over in time; it may still be", err)
	default:
		return api.Wrap(api.CodeUnavailable, op, "the leadership was not handed over", err)
	}
}
