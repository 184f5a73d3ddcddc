package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/identity"
	"berth/internal/backoff"
)

// Times of the change of an authority.
const (
	trustEvery = time.Second     // between looks at which authorities the zone trusts
	idleEvery  = 5 * time.Second // after which kept connections are made anew while an authority changes
)

// followAuthorities keeps on the disk of this node which authorities its zone trusts, until ctx ends: it
// must admit the others also before it has read its log again.
func (n *Node) followAuthorities(ctx context.Context) {
	for rested := 0; ctx.Err() == nil; backoff.Sleep(ctx, trustEvery) {
		v := n.view()
		if v.Zone == "" || !n.isCurrent() {
			continue // its view may be older than its disk
		}
		var ders [][]byte
		for _, a := range v.Authorities() {
			ders = append(ders, a.Cert)
		}
		if rested++; v.Change != nil && time.Duration(rested)*trustEvery >= idleEvery {
			rested = 0
			n.toNodes.CloseIdleConnections()
			n.peers.CloseIdle()
		}
		if slices.EqualFunc(ders, n.wallet.Trusted(), bytes.Equal) {
			continue
		}
		if err := n.wallet.Trust(ders); err != nil {
			n.log.ErrorContext(ctx, "the authorities of the zone could not be stored; it will be tried again", "error", err)
			continue
		}
		n.log.InfoContext(ctx, "the authorities of the zone changed", "trusted", len(ders), "newest", n.wallet.Newest())
		_ = n.announceOnce(ctx) // otherwise announceSelf will
	}
}

// isCurrent reports whether the view of this node holds all that was agreed on before it started.
func (n *Node) isCurrent() bool { return n.leading.Load() || n.store.CaughtUp() }

// issuer returns the authority of the zone that issues, "" while this node does not know.
func (n *Node) issuer() api.Fingerprint {
	v := n.view()
	if v.Zone == "" || !n.isCurrent() {
		return ""
	}
	return api.FingerprintOf(v.CA)
}

// pinsOf returns the pins of a linked zone, none for another.
func (n *Node) pinsOf(z api.ZoneID) []identity.Pin {
	l, ok := n.store.View().LinkByZone(z)
	if !ok {
		return nil
	}
	return identity.PinsOf(l.Pins())
}

// checkAuthority refuses a peer of an authority that is trusted no more: of this zone, or of a linked one.
func (n *Node) checkAuthority(p peer) error {
	pins := n.wallet.Pins()
	if p.Zone != n.rec.Zone {
		pins = n.pinsOf(p.Zone)
	}
	if slices.Contains(pins, p.pin) {
		return nil
	}
	return api.Errorf(api.CodeForbidden, "%s is of an authority that is not trusted any more", p.Subject)
}

// checkNode decides whether a node may speak to this one.
func (n *Node) checkNode(p peer) error {
	if err := n.checkAuthority(p); err != nil {
		return err
	}
	if p.ID == string(n.rec.Node) { // a node does not call itself: somebody has its certificate, or one in its name
		return api.Errorf(api.CodeForbidden, "%s is this node itself", p.Subject)
	}
	return n.checkMember(api.NodeID(p.ID), p.issued, p.key)
}

// checkAgentPeer decides whether an agent may speak to this node.
func (n *Node) checkAgentPeer(p peer) error {
	if err := n.checkAuthority(p); err != nil {
		return err
	}
	return n.checkAgent(api.AgentID(p.ID), p.issued)
}

// moved has the linked zones that have shown a certificate of the second authority of their link.
type moved struct {
	mu sync.Mutex // guards to
	to map[api.ZoneID]identity.Pin
}

// note notes the authority that a peer has shown.
func (m *moved) note(z api.ZoneID, pin identity.Pin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to == nil {
		m.to = map[api.ZoneID]identity.Pin{}
	}
	m.to[z] = pin
}

func (m *moved) has(z api.ZoneID, pin identity.Pin) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.to[z] == pin
}

// isOutdated reports whether a connection is to end with its next answer: this node has a certificate of
// another authority since, or its peer is to get one, or has one. When the old authority is
// dropped, connections of it are closed at once.
func (n *Node) isOutdated(p peer) bool {
	if p.shown != identity.PinOf(n.nodeCredentials().CA.Raw) {
		return true
	}
	v := n.view()
	if p.Zone == n.rec.Zone {
		return v.CAPhase() == api.CAUsed && p.pin != identity.PinOf(v.CA)
	}
	l, ok := v.LinkByZone(p.Zone)
	if !ok || l.NextCA == nil {
		return false
	}
	next := identity.PinOf(l.NextCA)
	if p.pin == next {
		n.moved.note(p.Zone, next)
		return false
	}
	return n.moved.has(p.Zone, next)
}

// endOutdated ends connections that are outdated with their next answer, so that nothing is under way
// on them when an authority is dropped.
func (n *Node) endOutdated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := peerOf(r.Context()); ok && n.isOutdated(p) {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// dialledConns are the open connections to peers that this node has dialled.
type dialledConns struct {
	mu   sync.Mutex // guards open
	open map[*dialledConn]struct{}
}

type dialledConn struct {
	net.Conn
	of   *dialledConns
	peer peer
}

// keep keeps a connection of dialTLS until it is closed.
func (d *dialledConns) keep(c net.Conn) (net.Conn, error) {
	t, ok := c.(*tls.Conn)
	if !ok {
		return nil, fmt.Errorf("keeping a connection of type %T", c)
	}
	cs := t.ConnectionState()
	who, err := identity.Peer(cs)
	if err != nil {
		return nil, err
	}
	kept := &dialledConn{Conn: c, of: d, peer: peer{Subject: who, pin: identity.PinOf(cs.PeerCertificates[len(cs.PeerCertificates)-1].Raw)}}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[*dialledConn]struct{}{}
	}
	d.open[kept] = struct{}{}
	return kept, nil
}

// Close closes the connection and forgets it.
func (c *dialledConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// closeRefused closes the connections of peers that check refuses.
func (d *dialledConns) closeRefused(check func(peer) error) {
	d.mu.Lock()
	var refused []*dialledConn
	for c := range d.open {
		if check(c.peer) != nil {
			refused = append(refused, c)
		}
	}
	d.mu.Unlock()
	for _, c := range refused {
		_ = c.Close() // whatever it was doing
	}
}
