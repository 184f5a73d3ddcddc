package raftstore

import (
	"errors"
	"os"
	"path/filepath"
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

// Stored is what the log and the snapshots of a node take on its disk.
type Stored struct {
	LogBytes      int64
	SnapshotBytes int64     // 0 without one
	Newest        time.Time // when the newest snapshot was written; the zero time without one
}

// Stored reads the sizes of the files, and reports whether there are any: a store in memory has none.
func (s *Store) Stored() (Stored, bool) {
	if s.cfg.Memory != nil {
		return Stored{}, false
	}
	log, err := os.Stat(filepath.Join(s.cfg.Dir, logFile))
	if err != nil {
		return Stored{}, false
	}
	out := Stored{LogBytes: log.Size()}
	files, err := os.ReadDir(filepath.Join(s.cfg.Dir, snapshotDir))
	if err != nil {
		return Stored{}, false
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !strings.HasSuffix(f.Name(), snapshotSuffix) {
			continue // one that was removed meanwhile, or is being written
		}
		out.SnapshotBytes += info.Size()
		if info.ModTime().After(out.Newest) {
			out.Newest = info.ModTime()
		}
	}
	return out, true
}

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
