package raftstore

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
)

// silentBeats is how many heartbeat timeouts a member may leave the leader without an answer before
// it counts as silent: a restart of its process takes less.
const silentBeats = 4

// peerWatch logs, once each, that a member of the zone no longer answers the heartbeats of this
// leader, and that it answers again. Only a leader sends heartbeats, so only one node logs. Its
// methods may be called concurrently.
type peerWatch struct {
	log   *slog.Logger
	now   func() time.Time
	after time.Duration // of heartbeats without an answer

	mu      sync.Mutex // guards what follows
	failing map[raft.ServerID]*outage
}

// outage is a row of heartbeats without an answer.
type outage struct {
	since  time.Time
	logged bool
}

func newPeerWatch(cfg Config) *peerWatch {
	return &peerWatch{log: cfg.Log, now: cfg.Now, after: silentBeats * cfg.Timing.Heartbeat, failing: map[raft.ServerID]*outage{}}
}

// note takes one observation. It is a raft.FilterFn, because Raft calls that at once and drops none;
// nothing is passed on.
func (w *peerWatch) note(o *raft.Observation) bool {
	switch e := o.Data.(type) {
	case raft.FailedHeartbeatObservation:
		w.noteFailure(e.PeerID)
	case raft.ResumedHeartbeatObservation:
		w.noteAnswer(e.PeerID)
	case raft.PeerObservation: // it joins, or is no member any more
		w.forgetPeers(e.Peer.ID)
	case raft.RaftState:
		if e != raft.Leader {
			w.forgetPeers()
		}
	}
	return false
}

func (w *peerWatch) noteFailure(id raft.ServerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing[id] == nil {
		w.failing[id] = &outage{since: w.now()}
	}
	if f := w.failing[id]; !f.logged && w.now().Sub(f.since) >= w.after {
		f.logged = true
		w.log.Warn("member is silent", "member", string(id), "since", f.since.UTC())
	}
}

func (w *peerWatch) noteAnswer(id raft.ServerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.failing[id]; f != nil && f.logged {
		w.log.Info("member is heard again", "member", string(id), "silent_since", f.since.UTC())
	}
	delete(w.failing, id)
}

// forgetPeers forgets some members, or all: they are not this node's to watch.
func (w *peerWatch) forgetPeers(some ...raft.ServerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(some) == 0 {
		clear(w.failing)
	}
	for _, id := range some {
		delete(w.failing, id)
	}
}

// silent returns the members that count as silent, in order.
func (w *peerWatch) silent() (out []api.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, f := range w.failing {
		if f.logged {
			out = append(out, api.NodeID(id))
		}
	}
	slices.Sort(out)
	return out
}

// Silent returns the members that do not answer the heartbeats of this node, in order. It is empty on
// a node that does not lead: it sends none.
func (s *Store) Silent() []api.NodeID { return s.peers.silent() }
