package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"berth/api"
	"berth/httpd/refusals"
	"berth/identity"
	"berth/internal/backoff"
)

// Limits of the listeners between processes.
const (
	handshakeTimeout = 5 * time.Second
	headerTimeout    = 5 * time.Second
	readTimeout      = 30 * time.Second // of a whole request; backups ask for more
	idleTimeout      = 90 * time.Second
	headerMaxBytes   = 16 << 10
)

// peer identifies the other end of an authenticated connection.
type peer struct {
	identity.Subject
	pin    identity.Pin // of the authority at the end of its chain
	issued time.Time    // its certificate
	key    []byte       // SHA-256 of the public key of its certificate
	shown  identity.Pin // of the authority of the certificate that it was shown
}

// conn is an authenticated connection. It hides the TLS type from net/http,
// which would refuse protocols that it does not know.
type conn struct {
	net.Conn
	peer peer
}

type peerKey struct{}

// peerOf returns the peer of the connection that a request arrived over.
func peerOf(ctx context.Context) (peer, bool) {
	p, ok := ctx.Value(peerKey{}).(peer)
	return p, ok
}

// gate accepts connections of one listener, authenticates them, and deals them
// out by protocol.
type gate struct {
	ln     net.Listener
	conf   *tls.Config
	log    *slog.Logger
	rooms  map[string]*room
	places *places
	apart  *places                                // of those that enrol
	tap    func(alpn string, c net.Conn) net.Conn // nil for none
	// check refuses a peer that was authenticated, when it arrives and at any time after;
	// nil refuses none. Peers that enrol are not checked.
	check func(p peer) error
	shows func() *identity.Credentials // to peers
	// name and refusals are under what refusals of peers are counted; lost is the reason of check.
	name     refusals.Listener
	refusals *refusals.Counter
	lost     refusals.Reason
	tells    bool // the handler of HTTP tells a peer that check refuses, before its connection is closed

	mu   sync.Mutex // guards open
	open map[*admitted]struct{}
}

// newGate returns a gate with one room per protocol of conf. each is how many connections
// one address may have; see newPlaces.
func newGate(ln net.Listener, conf *tls.Config, each int, log *slog.Logger) *gate {
	g := &gate{
		ln: ln, conf: conf, log: log, rooms: map[string]*room{},
		places: newPlaces(ConnsMax, each), apart: newPlaces(enrolConnsMax, 0), open: map[*admitted]struct{}{},
	}
	for _, p := range conf.NextProtos {
		g.rooms[p] = newRoom(ln.Addr())
	}
	return g
}

// roomFor returns the listener of one protocol.
func (g *gate) roomFor(alpn string) *room { return g.rooms[alpn] }

// acceptConns accepts until ctx ends; then every room is closed.
func (g *gate) acceptConns(ctx context.Context) {
	var wg sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = g.ln.Close() }) // ends Accept
	defer stop()
	for {
		c, err := g.ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				break
			}
			g.log.WarnContext(ctx, "accepting failed", "error", err)
			backoff.Sleep(ctx, headerTimeout/100)
			continue
		}
		leave, ok := g.places.take(c)
		if !ok {
			_ = c.Close() // too many: the caller will try again
			continue
		}
		wg.Go(func() { g.admitConn(ctx, c, leave) })
	}
	wg.Wait()
	for _, r := range g.rooms {
		_ = r.Close() // never fails
	}
}

// admitConn completes the handshake, which authenticates the peer and selects the
// protocol, and passes the connection to its room. leave frees its place.
func (g *gate) admitConn(ctx context.Context, raw net.Conn, leave func()) {
	c := &admitted{}
	place := leave
	c.release = sync.OnceFunc(func() {
		g.forgetConn(c)
		place()
	})
	t := tls.Server(raw, g.conf)
	hs, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := t.HandshakeContext(hs); err != nil {
		g.noteRefusal(ctx, raw, refusals.Handshake, err)
		_ = raw.Close() // refused
		c.release()
		return
	}
	cs := t.ConnectionState()
	who, err := identity.Peer(cs)
	r := g.rooms[cs.NegotiatedProtocol]
	if err != nil || r == nil {
		g.noteRefusal(ctx, raw, refusals.Handshake, err)
		_ = t.Close() // refused
		c.release()
		return
	}
	if cs.NegotiatedProtocol == api.ALPNEnrol { // by anybody's authority
		apart, err := g.setApart(raw)
		if err != nil {
			g.noteRefusal(ctx, raw, refusals.Crowded, err)
			_ = t.Close() // refused
			c.release()
			return
		}
		place()
		place = apart
	}
	ca := cs.PeerCertificates[len(cs.PeerCertificates)-1]
	leaf := cs.PeerCertificates[0]
	c.Conn, c.peer = t, peer{Subject: who, pin: identity.PinOf(ca.Raw), issued: identity.IssuedAt(leaf)}
	c.peer.key, _ = identity.KeyHash(leaf.PublicKey) // of a certificate that was read
	if g.shows != nil {
		c.peer.shown = identity.PinOf(g.shows().CA.Raw)
	}
	c.http, c.enrols = cs.NegotiatedProtocol == api.ALPNHTTP, cs.NegotiatedProtocol == api.ALPNEnrol
	if g.tap != nil {
		c.Conn = g.tap(cs.NegotiatedProtocol, c.Conn)
	}
	g.keepConn(c) // before the check: a peer that is refused later is found among the open ones
	if err := g.checkConn(c); err != nil {
		g.noteRefusal(ctx, raw, g.lost, err)
		if !g.tells || !c.http { // else its handler refuses all, and closeRefused closes it
			_ = c.Close() // refused
			return
		}
	}
	if !r.handConn(ctx, &conn{Conn: c, peer: c.peer}) {
		_ = c.Close() // the room is closed
	}
}

// setApart takes one of the few places of those that enrol, for a short while.
func (g *gate) setApart(raw net.Conn) (release func(), err error) {
	leave, ok := g.apart.take(raw)
	if !ok {
		return nil, errors.New("too many zones enrol at once")
	}
	cut := time.AfterFunc(enrolLife, func() { _ = raw.Close() }) // the room's server notices
	return sync.OnceFunc(func() {
		cut.Stop()
		leave()
	}), nil
}

// noteRefusal counts and logs a peer that was not let in.
func (g *gate) noteRefusal(ctx context.Context, raw net.Conn, why refusals.Reason, err error) {
	g.refusals.NoteAuthentication(ctx, g.name, why, "address", raw.RemoteAddr(), "error", err)
}

func (g *gate) checkConn(c *admitted) error {
	if g.check == nil || c.enrols {
		return nil
	}
	return g.check(c.peer)
}

func (g *gate) keepConn(c *admitted) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[c] = struct{}{}
}

// forgetConn frees the place of a connection.
func (g *gate) forgetConn(c *admitted) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
}

// closeRefused closes the open connections of peers that would be refused now. One with HTTP is
// closed at the leavePolls-th call: the peer has the answer to what it has asked for by then, which
// may be its own end. Its handler refuses what it asks for meanwhile. One goroutine at a time.
func (g *gate) closeRefused() {
	g.mu.Lock()
	open := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, c := range open {
		err := g.checkConn(c)
		if err == nil {
			continue
		}
		if c.refused++; c.http && c.refused < leavePolls {
			continue
		}
		g.log.Info("a peer's connection was closed", "error", err)
		_ = c.Close() // whatever it was doing
	}
}

// admitted is a connection of a peer, which frees its place when it is closed.
type admitted struct {
	net.Conn
	peer    peer
	http    bool
	enrols  bool
	refused int // times that closeRefused has found it so
	release func()
}

// Close closes the connection and frees its place.
func (c *admitted) Close() error {
	c.release()
	return c.Conn.Close()
}

// room is a net.Listener of authenticated connections.
type room struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newRoom(a net.Addr) *room {
	return &room{addr: a, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (r *room) handConn(ctx context.Context, c net.Conn) bool {
	select {
	case r.conns <- c:
		return true
	case <-r.done:
	case <-ctx.Done():
	}
	return false
}

// Accept implements net.Listener.
func (r *room) Accept() (net.Conn, error) {
	select {
	case c := <-r.conns:
		return c, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (r *room) Close() error {
	r.once.Do(func() { close(r.done) })
	return nil
}

// Addr implements net.Listener.
func (r *room) Addr() net.Addr { return r.addr }

// serveHTTP serves HTTP on a listener until ctx ends, and then waits for requests in
// flight, at most a few seconds. Each call has an account of begin.
func serveHTTP(ctx context.Context, ln net.Listener, h http.Handler, begin accounts, log *slog.Logger) error {
	s := &http.Server{
		Handler: withPace(h, begin), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerMaxBytes,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if pc, ok := c.(*conn); ok {
				return context.WithValue(ctx, peerKey{}, pc.peer)
			}
			return withCounted(ctx, c)
		},
		ConnState: cutStrangers,
		HTTP2:     &http.HTTP2Config{WriteByteTimeout: stallMax, MaxReceiveBufferPerConnection: bodyBuffer, MaxReceiveBufferPerStream: bodyBuffer},
	}
	shutdown := func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close() // only long polls are still open
		}
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		shutdown()
	})
	err := s.Serve(ln)
	if stop() { // the listener was closed before ctx ended
		shutdown()
	} else {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// shutdownGrace bounds how long requests in flight may take when a node stops.
const shutdownGrace = 2 * time.Second

// raftStream carries Raft over the node listener.
type raftStream struct {
	*room
	dialTo func(api.NodeID) dialer
}

// Dial implements raftstore.Stream.
func (s raftStream) Dial(id api.NodeID, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dialTo(id)(ctx, "tcp", addr)
}

// Accept drops the identity of the peer: on this listener it can only be a node of the
// zone.
func (s raftStream) Accept() (net.Conn, error) { return s.room.Accept() }

// gatewayTLS and nodeTLS are the admission policies of the two inner listeners.
func (n *Node) gatewayTLS() *tls.Config {
	return identity.ServerTLS(n.gatewayCredentials, []string{api.ALPNHTTP, api.ALPNGossip, api.ALPNEnrol},
		identity.AdmitLinked(n.pinsOf), n.now)
}

func (n *Node) nodeTLS() *tls.Config {
	return identity.ServerTLS(n.nodeCredentials, []string{api.ALPNRaft, api.ALPNHTTP, api.ALPNGossip},
		identity.AdmitOwn(n.wallet.Pins, identity.RoleNode), n.now)
}

func (n *Node) agentTLS() *tls.Config {
	return identity.ServerTLS(n.nodeCredentials, []string{api.ALPNHTTP},
		identity.AdmitOwn(n.wallet.Pins, identity.RoleAgent), n.now)
}

// toNode is the TLS configuration for dialling another node of this zone: id, or any for "".
func (n *Node) toNode(alpn string, id api.NodeID) *tls.Config {
	return identity.ClientTLS(n.nodeCredentials, alpn, n.wallet.Pins,
		identity.Subject{Zone: n.rec.Zone, Role: identity.RoleNode, ID: string(id)}, n.now)
}

// toZone is the TLS configuration for dialling a gateway of a linked zone.
func (n *Node) toZone(l *api.Link, alpn string) *tls.Config {
	return identity.ClientTLS(n.gatewayCredentials, alpn, func() []identity.Pin { return n.pinsOf(l.Zone) },
		identity.Subject{Zone: l.Zone, Role: identity.RoleGateway}, n.now)
}

func (n *Node) nodeCredentials() *identity.Credentials    { return n.wallet.Get(identity.RoleNode) }
func (n *Node) gatewayCredentials() *identity.Credentials { return n.wallet.Get(identity.RoleGateway) }
func (n *Node) apiCredentials() *identity.Credentials     { return n.wallet.Get(identity.RoleAPI) }
