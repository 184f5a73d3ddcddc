package raftstore

import (
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/measure"
)

// Measures is what a store has measured since it was opened. Times are in seconds.
type Measures struct {
	Commands *measure.Histogram      // of one entry, proposed here
	Commit   *measure.Histogram      // from handing an entry to Raft to having its results, if it has any
	Failed   *measure.Counts[string] // entries without results, by why: see the constants
	Write    *measure.Histogram      // one write to the log, synced
	Apply    *measure.Histogram      // applying a batch of entries
}

// Why an entry proposed here has no results.
const (
	FailedLeadership = "leadership" // this node does not lead any more, or is handing the lead over
	FailedOther      = "other"
)

func newMeasures() Measures {
	return Measures{
		Commands: measure.NewSizes(), Commit: measure.NewSeconds(), Failed: measure.NewCounts[string](), Write: measure.NewSeconds(), Apply: measure.NewSeconds(),
	}
}

// noteEntry counts an entry that was proposed here.
func (m *Measures) noteEntry(commands int, took time.Duration, err error) {
	m.Commands.Note(float64(commands))
	switch {
	case err == nil:
		m.Commit.NoteTime(took)
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		m.Failed.Add(FailedLeadership)
	default:
		m.Failed.Add(FailedOther)
	}
}

// Measures returns what was measured.
func (s *Store) Measures() Measures { return s.measures }

// Waiting returns how many proposals wait for an entry.
func (s *Store) Waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waiting)
}

// Role returns the role of this node in Raft: "leader", "follower", "candidate" or "shutdown".
func (s *Store) Role() string { return strings.ToLower(s.raft.State().String()) }

// Lag returns how many entries that this node knows to be committed it has not applied.
func (s *Store) Lag() uint64 {
	applied, commit := s.raft.AppliedIndex(), s.raft.CommitIndex()
	return max(commit, applied) - applied
}
