package node

import (
	"context"
	"net/http"
	"time"

	"berth/api"
	"berth/httpd/refusals"
	"berth/httpd/wire"
	"berth/identity"
	"berth/internal/backoff"
)

const (
	membersPoll = 100 * time.Millisecond // between two looks for connections of nodes that are no members
	leavePolls  = 10                     // looks after which such a connection is closed, answered or not
)

// clockSlack is by how much the clocks of two leaders of a zone may differ where times of
// theirs are compared.
const clockSlack = 10 * time.Second

// checkMember decides whether the holder of a node certificate may speak to this node:
// it must be a member by the newest configuration that this node has, or be joining. A
// certificate alone is not enough: a removed node keeps its own, which is not that of a new node with its id. One that
// is joining has the key, of which key is the SHA-256, with which its join token was used: others may have a certificate in its name.
//
// A node may be behind, and its zone be led by a node that it has never heard of. It accepts
// one whose certificate is younger than all it knows; that of a node whose removal it knows is
// older. While it knows a leader, only the leader itself: it has yet to say who the members are.
func (n *Node) checkMember(id api.NodeID, issued time.Time, key []byte) error {
	v := n.view()
	if api.InstantOf(issued.Add(clockSlack)) < v.MemberSince(id) {
		return api.Errorf(api.CodeForbidden, "the certificate is that of an earlier node %q", string(id))
	}
	if n.store.HasMember(id) || v.AdmittedWith(id, key) {
		return nil
	}
	leader, _ := n.store.Leader()
	if !n.leading.Load() && (leader == "" || leader == id) && issued.Add(clockSlack).After(n.store.KnownUntil()) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "node %q is no member of the zone, or its join is too long ago", string(id))
}

// checkAgent decides whether the holder of an agent certificate may speak to this node: not with
// one that was issued before its agent was revoked.
func (n *Node) checkAgent(id api.AgentID, issued time.Time) error {
	if a, ok := n.view().Agent(id); ok && a.Refuses(api.InstantOf(issued)) {
		return api.Errorf(api.CodeForbidden, "agent %q was revoked; it may join with a new token", string(id))
	}
	return nil
}

// onlyMembers refuses the requests of a node that is a member no more.
func (n *Node) onlyMembers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := peerOf(r.Context())
		if err := n.checkNode(p); err != nil {
			n.refusals.NoteAuthorization(refusals.Node)
			if n.leading.Load() { // others may not have heard of it yet
				w.Header().Set(headerRemoved, p.ID)
			}
			wire.Refuse(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// agentOf returns the agent that makes a request, for the agents' handler.
func (n *Node) agentOf(r *http.Request) (api.AgentID, bool) {
	p, ok := peerOf(r.Context())
	return api.AgentID(p.ID), ok && p.Role == identity.RoleAgent && n.checkAgentPeer(p) == nil
}

// closeLeavers closes the connections of nodes that stop being members, of agents that are revoked,
// and of all whose authority is dropped, until ctx ends.
func (n *Node) closeLeavers(ctx context.Context, others ...*gate) {
	for ctx.Err() == nil {
		n.nodeGate.closeRefused()
		for _, g := range others {
			g.closeRefused()
		}
		n.dialled.closeRefused(n.checkAuthority)
		backoff.Sleep(ctx, membersPoll)
	}
}
