package node

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"berth/api"
	"berth/httpd/refusals"
	"berth/httpd/wire"
	"berth/internal/backoff"
	"berth/raftstore"
)

// nodeRecord returns this node's record in its zone.
func (n *Node) nodeRecord() api.Node {
	a := n.rec.Advertise
	m := api.Node{
		ID: n.rec.Node, NodeAddr: a.Node, APIAddr: a.API, GatewayAddr: a.Gateway, AgentAddr: a.Agent, Version: n.opts.Version, Form: cmp.Or(n.opts.Form, api.FormNewest),
	}
	if n.view().Zone != "" && n.store.Form() >= api.FormFifth { // an earlier release cannot read it
		m.Expires, m.Trusts, m.Issuer = api.InstantOf(n.firstEnd()), n.wallet.Newest(), n.wallet.Issuer()
	}
	return m
}

// Announcements of nodes.
const (
	pathAnnounce  = "/node/announce"
	announceEvery = 500 * time.Millisecond
	announceCheck = 5 * time.Second // after which the record is compared again: what it says of certificates changes outside of the log
)

// announceSelf announces this node and its addresses to the zone whenever its record
// there is wrong: at first, and after a backup was restored. The announcement makes a
// new node a member.
func (n *Node) announceSelf(ctx context.Context) {
	for ctx.Err() == nil {
		v := n.view()
		if known, ok := v.Node(n.rec.Node); ok {
			now := n.nodeRecord()
			now.Joined, now.Since = known.Joined, known.Since
			if *known == now && !n.hasMoved() {
				wait, cancel := context.WithTimeout(ctx, announceCheck)
				_, _ = n.store.Wait(wait, v.Index()) // the loop checks again in any case
				cancel()
				continue
			}
		}
		_ = n.announceOnce(ctx) // the loop goes on until the record is right
		backoff.Sleep(ctx, announceEvery)
	}
}

// announceOnce has the zone record this node as it is now.
func (n *Node) announceOnce(ctx context.Context) (err error) {
	if n.leading.Load() {
		if n.hasMoved() {
			return n.federation.AdmitNode(ctx, n.nodeRecord())
		}
		return n.federation.RecordNode(ctx, n.nodeRecord())
	}
	for _, addr := range n.otherNodes() {
		if err = n.announceTo(ctx, addr); err == nil {
			break
		}
	}
	return err
}

// hasMoved reports whether the other nodes dial another address of this node than it advertises: it
// has changed since it was admitted.
func (n *Node) hasMoved() bool {
	return slices.ContainsFunc(n.store.Members(), func(m raftstore.Member) bool {
		return m.ID == n.rec.Node && m.Addr != n.rec.Advertise.Node
	})
}

// otherNodes returns the addresses at which a leader may be: its own if it is known, otherwise
// those of the nodes that this one has joined, and of all members.
func (n *Node) otherNodes() []string {
	if _, addr := n.store.Leader(); addr != "" {
		return []string{addr}
	}
	all := append(slices.Sorted(maps.Values(n.opts.Peers)), n.rec.Join...)
	for _, m := range n.store.Members() {
		if m.ID != n.rec.Node && !slices.Contains(all, m.Addr) {
			all = append(all, m.Addr)
		}
	}
	return all
}

func (n *Node) announceTo(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	_, err := n.askNode(ctx, addr, pathAnnounce, n.nodeRecord())
	return err
}

// handleAnnouncement is the leader's side of a join. The certificate identifies the
// node.
func (n *Node) handleAnnouncement(w http.ResponseWriter, r *http.Request) {
	who, ok := peerOf(r.Context())
	var m api.Node
	err := wire.ReadCBOR(r, api.BodyMaxBytes, &m)
	switch {
	case err != nil:
	case !ok || who.ID != string(m.ID):
		err = api.Errorf(api.CodeForbidden, "a node announces itself alone")
	case !n.leading.Load():
		err = errNotLeader // it tries the others: only its own certificate identifies it
	default:
		err = n.federation.AdmitNode(r.Context(), m)
	}
	if err != nil {
		if api.CodeOf(err) == api.CodeForbidden {
			n.refusals.NoteAuthorization(refusals.Node)
		}
		wire.Refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
