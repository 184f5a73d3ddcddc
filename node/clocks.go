package node

import (
	"context"
	"time"

	"berth/api"
	"berth/internal/backoff"
	"berth/internal/skew"
)

// watchClocks has the clock of each linked zone measured, until ctx ends: a call that is short measures better than one that waits.
func (n *Node) watchClocks(ctx context.Context) {
	far := map[api.LinkID]bool{}
	for ctx.Err() == nil {
		for _, l := range n.view().Links() {
			n.measureClock(ctx, l, far)
		}
		backoff.Sleep(ctx, skew.Window)
	}
}

// measureClock measures the clock of a linked zone, and logs once that it is far off. It notes that in far.
func (n *Node) measureClock(ctx context.Context, l *api.Link, far map[api.LinkID]bool) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if _, err := n.peers.Info(ctx, l); err != nil {
		return // that it does not answer is told elsewhere
	}
	s, known := n.peers.Skew(l)
	if now := known && s.IsFar(); now != far[l.ID] {
		if far[l.ID] = now; now {
			n.log.WarnContext(ctx, "the clock of a linked zone differs from that of this node: check the time synchronisation of both", "link", l.Name, "ahead", s.Ahead.Round(time.Millisecond))
		}
	}
}
