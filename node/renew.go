package node

import (
	"context"
	"fmt"
	"net/http"

	"berth/api"
	"berth/federation"
	"berth/httpd/refusals"
	"berth/httpd/wire"
	"berth/identity"
	"berth/internal/codec"
)

// pathRenew is where nodes ask the leader for new certificates.
const pathRenew = "/node/renew"

// renewal asks for new certificates. That of the connection identifies the node.
type renewal struct {
	CSR   []byte   `cbor:"1,keyasint"` // in DER, for the key of all three
	Names []string `cbor:"2,keyasint"` // in the certificate of the public API

	Renamed bool `cbor:"3,keyasint,omitempty"` // these differ from those that it has
}

// renewCertificates renews this node's certificates when they are due, until ctx ends.
func (n *Node) renewCertificates(ctx context.Context) {
	n.wallet.RenewWhenDue(ctx, identity.Renewal{
		Ask: n.askCertificates, Issuer: n.issuer, Misnamed: n.isMisnamed, Now: n.now, Log: n.log,
		Renewed: func(ctx context.Context) {
			n.toNodes.CloseIdleConnections()
			n.peers.CloseIdle()
			_ = n.announceOnce(ctx) // otherwise announceSelf will
		},
	})
}

// apiHosts returns the names that the certificate of the public API should have.
func (n *Node) apiHosts() []string {
	if hosts := n.rec.apiHosts(); hosts != nil {
		return hosts
	}
	return identity.APIHosts(n.apiCredentials().Cert.Leaf)
}

// isMisnamed reports whether that certificate has other names, because the operator has changed them or
// the addresses of the node, and is old enough to be renewed for that.
func (n *Node) isMisnamed() bool {
	c := n.apiCredentials()
	return n.now().Sub(identity.IssuedAt(c.Cert.Leaf)) > identity.RenamableAge && c.Cert.Leaf.NotAfter.Before(c.CA.NotAfter) &&
		!sameHosts(n.apiHosts(), identity.APIHosts(c.Cert.Leaf))
}

// askCertificates has the zone issue new certificates to this node, by role.
func (n *Node) askCertificates(ctx context.Context, csr []byte) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	ask := renewal{csr, n.apiHosts(), n.isMisnamed()}
	if n.leading.Load() {
		own := n.nodeCredentials()
		return n.federation.RenewNode(ctx, n.rec.Node, federation.Shown{Issued: identity.IssuedAt(own.Cert.Leaf), Authority: identity.PinOf(own.CA.Raw), Renamed: ask.Renamed}, ask.CSR, ask.Names)
	}
	_, addr := n.store.Leader()
	if addr == "" {
		return nil, errNotLeader
	}
	b, err := n.askNode(ctx, addr, pathRenew, ask)
	if err != nil {
		return nil, err
	}
	var certs map[string][]byte
	if err = codec.Unmarshal(b, &certs); err != nil {
		return nil, fmt.Errorf("reading new certificates: %w", err)
	}
	return certs, nil
}

// handleRenewal is the leader's side.
func (n *Node) handleRenewal(w http.ResponseWriter, r *http.Request) {
	who, _ := peerOf(r.Context()) // onlyMembers has checked it
	var ask renewal
	err := wire.ReadCBOR(r, api.BodyMaxBytes, &ask)
	var certs map[string][]byte
	switch {
	case err != nil:
	case !n.leading.Load():
		err = errNotLeader // it will ask another: only its own certificate identifies it
	default:
		certs, err = n.federation.RenewNode(r.Context(), api.NodeID(who.ID), federation.Shown{Issued: who.issued, Authority: who.pin, Renamed: ask.Renamed}, ask.CSR, ask.Names)
	}
	if err != nil {
		if api.CodeOf(err) == api.CodeForbidden {
			n.refusals.NoteAuthorization(refusals.Node)
		}
		wire.Refuse(w, r, err)
		return
	}
	wire.CBOR(w, r, http.StatusOK, certs)
}

// renewAgent issues a new certificate to an agent of the zone, for the agents' handler.
func (n *Node) renewAgent(ctx context.Context, id api.AgentID, q *api.AgentRenew) (*api.AgentRenewed, error) {
	who, _ := peerOf(ctx) // agentOf has checked it
	der, err := n.federation.RenewAgent(ctx, id, federation.Shown{Issued: who.issued, Authority: who.pin}, q.CSR)
	if err != nil {
		return nil, err
	}
	return &api.AgentRenewed{Term: n.store.Term(), Certificate: der}, nil
}

// trustAgent tells an agent which authorities to trust, for the agents' handler.
func (n *Node) trustAgent(ctx context.Context, id api.AgentID, q *api.AgentTrust) (*api.AgentTrusted, error) {
	who, _ := peerOf(ctx) // agentOf has checked it
	a, err := n.federation.AgentTrust(ctx, id, federation.Shown{Issued: who.issued, Authority: who.pin}, q)
	if err != nil {
		return nil, err
	}
	a.Term = n.store.Term()
	return a, nil
}
