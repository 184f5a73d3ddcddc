package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/api/client"
	"berth/identity"
	"berth/internal/adminsock"
)

// Network listens and dials for a node. Its methods may be called concurrently.
type Network interface {
	// Listen opens a listener; a port of 0 takes a free one.
	Listen(ctx context.Context, addr string) (net.Listener, error)
	// Dial connects to host:port, and gives up when ctx ends.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// tcp is the network of this machine.
type tcp struct{}

// Listen implements Network.
func (tcp) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

// Dial implements Network.
func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: handshakeTimeout}
	return d.DialContext(ctx, "tcp", addr)
}

// ListenLocal opens the socket for the operator in a data folder. Networks of tests have none.
func (tcp) ListenLocal(dir string) (net.Listener, error) { return adminsock.Listen(dir) }

func networkOr(n Network) Network {
	if n == nil {
		return tcp{}
	}
	return n
}

// dialer is the dial function of http.Transport and gossip.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialTLS returns a dialer for one TLS configuration. The configuration checks the
// identity of the peer: an address proves nothing.
func dialTLS(network Network, conf *tls.Config) dialer {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		raw, err := network.Dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		c := tls.Client(raw, conf)
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		if err := c.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the handshake's error is more useful
			return nil, err
		}
		return c, nil
	}
}

// keptConnsMax is how many unused connections to one address are kept, for idleTimeout: as
// many as calls may be under way at once, or each call above that number would need a new
// handshake, which costs more than most calls. A leader has up to 64 boots and 32 decisions under way.
const keptConnsMax = 128

// newTransport returns a transport for the calls to other nodes, or to one linked zone.
func newTransport(dial dialer) *http.Transport {
	return &http.Transport{DialTLSContext: dial, MaxIdleConnsPerHost: keptConnsMax, IdleConnTimeout: idleTimeout}
}

// Crossing describes a connection with another zone to a Tap.
type Crossing struct {
	ALPN    string   // the protocol
	Dialled bool     // by this zone; otherwise accepted
	Chain   [][]byte // certificates that this zone has presented, DER, the leaf first
}

// Tap intercepts connections with other zones: it gets the plaintext of a connection,
// and returns the connection to use in its place.
type Tap func(at Crossing, c net.Conn) net.Conn

// tapConn lets the tap, if there is one, see a connection with another zone.
func (n *Node) tapConn(alpn string, dialled bool, c net.Conn) net.Conn {
	if n.opts.Tap == nil {
		return c
	}
	return n.opts.Tap(Crossing{alpn, dialled, n.gatewayCredentials().Cert.Certificate}, c)
}

// dialNode returns a dialer to other nodes of this zone, whichever is at an address.
func (n *Node) dialNode(alpn string) dialer { return n.dialPeer(n.toNode(alpn, "")) }

// dialMember returns dialers to one node of this zone each. A node that has taken the address
// of a removed one is not spoken to in its place.
func (n *Node) dialMember(alpn string) func(api.NodeID) dialer {
	return func(id api.NodeID) dialer {
		dial := n.dialPeer(n.toNode(alpn, id))
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialFirst(ctx, dial, network, n.opts.Peers[id], addr)
			n.dials.note(id, addr, err)
			return c, err
		}
	}
}

// dialFirst dials an address, "" for none, and then another one if that leads nowhere.
func dialFirst(ctx context.Context, dial dialer, network, first, then string) (net.Conn, error) {
	if first == "" || first == then {
		return dial(ctx, network, then)
	}
	try, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		try, cancel = context.WithTimeout(ctx, time.Until(end)/2)
	}
	defer cancel()
	if c, err := dial(try, network, first); err == nil {
		return c, nil
	}
	return dial(ctx, network, then)
}

// dials remembers which nodes of the zone the last dial did not reach. Its methods may be called concurrently.
type dials struct {
	mu      sync.Mutex
	unheard map[api.NodeID]string // addresses
}

func (d *dials) note(id api.NodeID, addr string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.unheard, id)
		return
	}
	if d.unheard == nil {
		d.unheard = map[api.NodeID]string{}
	}
	d.unheard[id] = addr
}

// describe returns the nodes that were not reached, with their addresses; "" for none.
func (d *dials) describe() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, id := range slices.Sorted(maps.Keys(d.unheard)) {
		all = append(all, fmt.Sprintf("%s at %s", id, d.unheard[id]))
	}
	return strings.Join(all, ", ")
}

// dialPeer returns a dialer whose connections are closed when the authority of the peer is trusted no
// more.
func (n *Node) dialPeer(conf *tls.Config) dialer {
	dial := dialTLS(n.net, conf)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return n.dialled.keep(c)
	}
}

// dialZone returns a dialer to the gateways of a linked zone.
func (n *Node) dialZone(l *api.Link, alpn string) dialer {
	return n.outwardDialer(n.dialPeer(n.toZone(l, alpn)), alpn)
}

// outwardDialer returns a dialer to gateways of other zones.
func (n *Node) outwardDialer(dial dialer, alpn string) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return n.tapConn(alpn, true, c), nil
	}
}

// sendEnrolment asks the zone that a link token names to be this zone's parent.
func (n *Node) sendEnrolment(ctx context.Context, t identity.JoinToken, e *api.Enrolment) (*api.Enrolment, error) {
	want := identity.Subject{Zone: t.Zone, Role: identity.RoleGateway}
	rt := &http.Transport{
		DialTLSContext: n.outwardDialer(dialTLS(n.net, identity.ClientTLS(n.gatewayCredentials, api.ALPNEnrol, t.Pins, want, n.now)), api.ALPNEnrol),
	}
	defer rt.CloseIdleConnections()
	return client.Enrol(ctx, rt, n.now, t.Addresses, e)
}

// takeHello passes the report of a linked zone to the rules of the federation, with the authority
// of its certificate.
func (n *Node) takeHello(ctx context.Context, l *api.Link, h *api.Hello) error {
	who, _ := peerOf(ctx) // peerZone has checked it
	return n.federation.Hello(ctx, l, who.pin, h)
}

// takeEnrolment passes an enrolment to the rules of the federation, with the sender's
// identity by its certificate.
func (n *Node) takeEnrolment(ctx context.Context, e *api.Enrolment) (*api.Enrolment, error) {
	who, _ := peerOf(ctx) // without a peer it is no zone, and refused
	return n.federation.Enrol(ctx, who.Zone, who.pin, e)
}
