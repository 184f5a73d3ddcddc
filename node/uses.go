package node

import (
	"context"
	"net/http"
	"time"

	"berth/api"
	"berth/httpd/wire"
	"berth/internal/backoff"
	"berth/zone/intake"
)

// Uses of tokens.
const (
	pathUses  = "/node/token-uses"
	usesEvery = 10 * time.Minute // between two looks at what is to be recorded
)

// reportUses has the zone record when tokens were last used at this node: the leader logs what it
// knows, and all others tell the leader.
func (n *Node) reportUses(ctx context.Context) {
	for backoff.Sleep(ctx, usesEvery) {
		if err := n.recordUses(ctx); err != nil {
			n.log.DebugContext(ctx, "uses of tokens are recorded later", "error", err)
		}
	}
}

// recordUses records once what is due.
func (n *Node) recordUses(ctx context.Context) error {
	due := n.uses.Due(n.view())
	if len(due) == 0 || n.zone.Form() < api.FormFifth {
		return nil
	}
	if !n.leading.Load() {
		return n.tellUses(ctx, due)
	}
	return intake.RecordUses(ctx, n.zone, due)
}

// tellUses tells the leader what is due.
func (n *Node) tellUses(ctx context.Context, due []api.TokenUse) error {
	_, addr := n.store.Leader()
	if addr == "" {
		return errNotLeader
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	_, err := n.askNode(ctx, addr, pathUses, due)
	return err
}

// handleUses is the leader's side: it remembers them with its own, and logs them when they are due.
func (n *Node) handleUses(w http.ResponseWriter, r *http.Request) {
	var told []api.TokenUse
	if err := wire.ReadCBOR(r, api.BodyMaxBytes, &told); err != nil {
		wire.Refuse(w, r, err)
		return
	}
	v := n.view()
	for _, u := range told {
		if _, ok := v.Token(u.ID); ok {
			n.uses.Note(u.ID, u.At)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
