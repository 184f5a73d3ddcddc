package raftstore

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"

	"berth/api"
)

// fate is the outcome of a change that was not acknowledged.
type fate uint8

const (
	// unknown: the change may be in a log, and may be committed now or later.
	unknown fate = iota
	// refused: the change is in no log and never will be.
	refused
)

// fateOf returns the outcome of a change that got an error of Raft. index is the one that the
// future reports: an entry with an index was written, or may have been, so only one without
// can be refused. The outcome is unknown for errors that are not listed, which is never
// wrong.
func fateOf(err error, index uint64) fate {
	if index != 0 {
		return unknown
	}
	for _, known := range []error{
		raft.ErrNotLeader,
		raft.ErrLeadershipTransferInProgress,
		raft.ErrEnqueueTimeout,
		raft.ErrRaftShutdown, // without an index it never left the caller
		raft.ErrNotVoter,
		raft.ErrLeader,
		raft.ErrUnsupportedProtocol,
		raft.ErrCantBootstrap,
		raft.ErrNothingNewToSnapshot,
		raft.ErrIncompatibleLogStore,
	} {
		if errors.Is(err, known) {
			return refused
		}
	}
	return unknown
}

// Messages of the refusals.
const (
	msgNotLeader = "this node is not the leader of its zone; nothing was changed"
	msgBusy      = "the zone did not take up the change in time; nothing was changed"
	msgUnknown   = "the zone did not confirm the change in time; it may still happen, so repeat the same request"
	msgClosed    = "this node is shutting down; nothing was changed"
	msgFull      = "too many changes are waiting on this node; nothing was changed"
	msgLate      = "the zone did not answer in time"
)

// failureOf turns the error of a change into one that crosses doors:
// CodeUnavailable when nothing was changed, CodeTimeout when that is not known.
func failureOf(op string, err error, index uint64) error {
	if fateOf(err, index) == unknown {
		return api.Wrap(api.CodeTimeout, op, msgUnknown, err)
	}
	return unwrittenError(op, err)
}

// unwrittenError returns the error of a call of which nothing was written.
func unwrittenError(op string, err error) error {
	msg := msgBusy
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		msg = msgNotLeader
	case errors.Is(err, raft.ErrRaftShutdown):
		msg = msgClosed
	}
	return api.Wrap(api.CodeUnavailable, op, msg, err)
}

// readFailure is failureOf for calls that change nothing: they can only be
// unavailable or late.
func readFailure(op string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return api.Wrap(api.CodeTimeout, op, msgLate, err)
	}
	msg := "the zone has no confirmed leader just now"
	if errors.Is(err, raft.ErrNotLeader) {
		msg = "this node is not the leader of its zone"
	}
	return api.Wrap(api.CodeUnavailable, op, msg, err)
}

func notLeader(op string) error {
	return api.Wrap(api.CodeUnavailable, op, msgNotLeader, raft.ErrNotLeader)
}

func closedError(op string) error {
	return api.Wrap(api.CodeUnavailable, op, msgClosed, raft.ErrRaftShutdown)
}
