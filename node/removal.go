package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/internal/backoff"
	"berth/raftstore"
)

// removalPoll is between two looks of a node that knows no leader at whether it was removed.
const removalPoll = time.Second

// watchRemoval finds out whether this node was removed from its zone while it runs, until ctx
// ends. Nobody sends it anything then, so that to itself it is a node without a leader: it asks.
// A node that hears of a leader again is a member.
func (n *Node) watchRemoval(ctx context.Context) {
	for ctx.Err() == nil {
		backoff.Sleep(ctx, removalPoll)
		if n.led() {
			n.removed.Store(false)
			continue
		}
		if n.askWhetherRemoved(ctx) && !n.removed.Swap(true) {
			n.log.ErrorContext(ctx, "this node was removed from the zone and answers nobody; stop it and delete its directory")
		}
	}
}

// askWhetherRemoved reports whether a leader of the zone says that this node is no member. It asks
// all members that it knows, as one that announces itself.
func (n *Node) askWhetherRemoved(ctx context.Context) bool {
	return slices.ContainsFunc(n.store.Members(), func(m raftstore.Member) bool {
		return m.ID != n.rec.Node && errors.Is(n.announceTo(ctx, m.Addr), errRemoved)
	})
}
