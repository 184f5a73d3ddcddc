package node

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/zone"
)

// Outages that a node logs, once when they begin and once when they end. Those of members are logged
// by raftstore, of children by zone/saga, and of hosts by zone/fleet.
const (
	leaderlessAfter = 5 * time.Second // an election takes far less
	leaderlessBeats = 10              // heartbeat timeouts, if that is more
	outageEvery     = zone.LinkFresh / 4
)

// logStart logs, once, what this process is and where it is reached.
func (n *Node) logStart(ctx context.Context) {
	l := &n.listeners
	n.log.InfoContext(ctx, "node started", "version", n.opts.Version, "dir", n.dir, "api", l.api.Addr(), "gateway", l.gateway.Addr(),
		"nodes", l.node.Addr(), "agents", l.agent.Addr(), "admin", l.admin.Addr())
}

// leaderWatch notices that the zone has had no leader for leaderlessAfter. One goroutine uses it.
type leaderWatch struct{ missed bool }

// note takes whether a leader is known, and for how long none was.
func (w *leaderWatch) note(ctx context.Context, n *Node, known bool, cut time.Duration) {
	switch {
	case !known && !w.missed && cut >= max(leaderlessAfter, leaderlessBeats*n.opts.Timing.Heartbeat) && !n.removed.Load():
		w.missed = true
		attrs := []any{"for", cut.Round(time.Millisecond)}
		if nodes := n.dials.describe(); nodes != "" {
			attrs = append(attrs, "unreached", nodes, "hint", "if they have all moved, start each node with --peer NODE=HOST:PORT for the others")
		}
		n.log.WarnContext(ctx, "the zone has no leader", attrs...)
	case known && w.missed:
		w.missed = false
		n.log.InfoContext(ctx, "the zone has a leader again")
	}
}

// watchParents logs on the leader when a parent falls silent and when it is heard again. A parent that has
// not been heard since this node leads counts from then.
func (n *Node) watchParents(ctx context.Context) {
	w := parentWatch{began: n.now(), silent: map[api.LinkID]time.Time{}}
	for ctx.Err() == nil {
		backoff.Sleep(ctx, outageEvery)
		if ctx.Err() == nil {
			w.look(ctx, n, n.view().Links(), n.pools)
		}
	}
}

// parentWatch remembers which parents are silent. One goroutine uses it.
type parentWatch struct {
	began  time.Time
	silent map[api.LinkID]time.Time // since when
}

func (w *parentWatch) look(ctx context.Context, n *Node, links []*api.Link, digests zone.Digests) {
	now, known := n.now(), map[api.LinkID]bool{}
	for _, l := range links {
		if l.Role != api.LinkParent {
			continue
		}
		known[l.ID] = true
		_, age, heard := digests.Digest(l.Zone)
		if !heard {
			age = now.Sub(later(w.began, l.Created.Time()))
		}
		since, was := w.silent[l.ID]
		switch {
		case !was && age > zone.LinkFresh:
			w.silent[l.ID] = now.Add(-age)
			n.log.WarnContext(ctx, "parent is silent", "link", l.Name, "since", now.Add(-age).UTC())
		case was && heard && age <= zone.LinkFresh/2:
			delete(w.silent, l.ID)
			n.log.InfoContext(ctx, "parent is heard again", "link", l.Name, "silent_since", since.UTC())
		}
	}
	for id := range w.silent {
		if !known[id] {
			delete(w.silent, id)
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
