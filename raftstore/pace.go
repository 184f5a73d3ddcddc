package raftstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/api"
)

// When a leader hands over because its disk is slow. Raft's leader writes an entry itself before it sends it, so that
// its disk sets the pace of the zone, though a majority of others would do.
const (
	paceSpan  = 4 * time.Second       // what is looked at of the past
	paceLeast = 2 * time.Second       // of it that must have been slow
	paceKept  = 64                    // newest writes of a node that are kept
	slowLeast = 50 * time.Millisecond // a write that is quicker is no trouble
	slowTimes = 4                     // times as long as on another node
	slowPause = 30 * time.Second      // after a handover, whether it worked or not
)

// paces are how long the latest writes of the log took: on this node, and on those that follow it, with the way there
// and back. It is safe for concurrent use.
type paces struct {
	now func() time.Time

	mu     sync.Mutex // guards what follows
	own    pace
	others map[raft.ServerID]*pace
}

// pace is the latest writes of one node, by their ends.
type pace []paced

// paced is one write.
type paced struct {
	end  time.Time
	took time.Duration
}

func newPaces(now func() time.Time) *paces {
	return &paces{now: now, others: map[raft.ServerID]*pace{}}
}

// noteOwn records a write of this node that ends now.
func (p *paces) noteOwn(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own.add(p.now(), took)
}

// noteOther records that another node has written entries, and answers now.
func (p *paces) noteOther(id raft.ServerID, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.others[id] == nil {
		p.others[id] = new(pace)
	}
	p.others[id].add(p.now(), took)
}

// betterOf returns the one of some nodes that has written several times as fast as this one for the last seconds, the
// fastest of them, with how long three quarters of the writes took at the least here and at the most there; "" if there is none.
func (p *paces) betterOf(ids []raft.ServerID) (best raft.ServerID, own, other time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.own.forget(now)
	if len(p.own) < 2 || now.Sub(p.own[0].end)+p.own[0].took < paceLeast {
		return "", 0, 0
	}
	if own = p.own.quartile(1); own < slowLeast {
		return "", 0, 0
	}
	for _, id := range ids {
		of := p.others[id]
		if of == nil {
			continue
		}
		if of.forget(now); len(*of) < 2 {
			continue
		}
		if took := of.quartile(3); took*slowTimes <= own && (best == "" || took < other) {
			best, other = id, took
		}
	}
	return best, own, other
}

func (w *pace) add(end time.Time, took time.Duration) {
	*w = append(*w, paced{end, took})
	if len(*w) > paceKept {
		*w = slices.Delete(*w, 0, len(*w)-paceKept)
	}
}

// forget drops what ended longer than paceSpan ago.
func (w *pace) forget(now time.Time) {
	*w = slices.DeleteFunc(*w, func(one paced) bool { return now.Sub(one.end) > paceSpan })
}

// quartile returns the time that n quarters of the writes took at the most. There must be one.
func (w pace) quartile(n int) time.Duration {
	var all []time.Duration
	for _, one := range w {
		all = append(all, one.took)
	}
	slices.Sort(all)
	return all[(len(all)-1)*n/4]
}

// watchPace hands the leadership over while the disk of this node holds the zone back, until ctx ends.
func (s *Store) watchPace(ctx context.Context) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	var again time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now := s.cfg.Now()
		if !s.IsLeader() || now.Before(again) {
			continue
		}
		var voters []raft.ServerID
		for _, m := range s.Members() {
			if m.Voter && m.ID != s.cfg.ID {
				voters = append(voters, raft.ServerID(m.ID))
			}
		}
		to, own, other := s.paces.betterOf(voters)
		if to == "" {
			continue
		}
		again = now.Add(slowPause)
		s.cfg.Log.WarnContext(ctx, "the disk of this node holds the zone back; another node is to lead",
			"node", s.cfg.ID, "write", own, "to", to, "its_write", other)
		if err := s.Transfer(ctx, api.NodeID(to)); err != nil {
			s.cfg.Log.WarnContext(ctx, "the leadership was not handed over", "node", s.cfg.ID, "to", to, "error", err)
		}
	}
}
