// Package simnet is a network in memory. Its one job is to carry bytes between
// named hosts in a bubble of testing/synctest, and to break as networks do: links
// that are cut in one direction or both, links that are slow, hosts that die, freeze
// or vanish. It must never touch a socket, wait on anything but channels, conditions
// and timers, or know what the bytes mean.
//
// It behaves like TCP: a cut link loses nothing, but holds back all bytes until it is
// mended; an end that was closed by the death of its host resets the other end as soon as
// the network allows.
package simnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// Limits of a network.
const (
	bufferMax  = 256 << 10 // bytes in transit in one direction of a connection
	backlogMax = 256       // connections that wait to be accepted
	portMin    = 20000     // the first port for listeners on port 0
)

// Errors of dialling and of connections, wrapped in a net.OpError.
var (
	ErrRefused = errors.New("connection refused") // no listener at this address
	ErrReset   = errors.New("connection reset")   // the other end died
	ErrDown    = errors.New("host is down")       // this host has crashed
	ErrInUse   = errors.New("address in use")     // there is a listener at this address
)

// Network connects hosts. Use New. Its methods and those of everything made from
// it may be called from several goroutines.
type Network struct {
	mu    sync.Mutex // guards everything below and all that hosts and connections keep
	dice  *rand.Rand
	hosts map[string]*Host
	paths map[way]*path
	wake  *sync.Cond // a path was mended, or a host came or went
	bytes uint64
}

// way is one direction between two hosts.
type way struct{ from, to string }

// path is the state of one direction between two hosts.
type path struct {
	cut   bool
	shut  bool // dials are refused
	delay time.Duration
	pipes map[*pipe]struct{}
}

// New returns a network without hosts. The seed draws the jitter of slow links.
func New(seed uint64) *Network {
	n := &Network{dice: rand.New(rand.NewPCG(seed, 1)), hosts: map[string]*Host{}, paths: map[way]*path{}}
	n.wake = sync.NewCond(&n.mu)
	return n
}

// Host returns the host with a name, which is created and up on the first call. A name that
// is an IP address is used in the addresses of its connections.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, up: true, listeners: map[string]*listener{}, conns: map[*conn]struct{}{}, next: portMin}
		n.hosts[name] = h
	}
	return h
}

// Bytes returns the number of bytes sent so far.
func (n *Network) Bytes() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

// Cut cuts the link between two hosts in both directions.
func (n *Network) Cut(a, b string) {
	n.CutOneWay(a, b)
	n.CutOneWay(b, a)
}

// CutOneWay holds back everything that one host sends to the other, even on open
// connections. As with TCP, dialling then works in neither direction.
func (n *Network) CutOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pathOf(from, to).cut = true
}

// Refuse breaks every connection between two hosts and refuses each dial at once, like a
// firewall that rejects.
func (n *Network) Refuse(a, b string) {
	n.mu.Lock()
	n.pathOf(a, b).shut, n.pathOf(b, a).shut = true, true
	n.mu.Unlock()
	n.Host(a).Reset(b)
}

// Isolate cuts one host off from all others.
func (n *Network) Isolate(name string, others ...string) {
	for _, o := range others {
		if o != name {
			n.Cut(name, o)
		}
	}
}

// Ring leaves each of the hosts, in their order, only the links to its two
// neighbours.
func (n *Network) Ring(hosts ...string) {
	for i, a := range hosts {
		for j, b := range hosts {
			if apart := (j - i + len(hosts)) % len(hosts); apart > 1 && apart < len(hosts)-1 {
				n.CutOneWay(a, b)
			}
		}
	}
}

// Slow makes each direction between two hosts take about as long as delay, from
// half to one and a half of it. Zero takes no time.
func (n *Network) Slow(a, b string, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pathOf(a, b).delay, n.pathOf(b, a).delay = delay, delay
}

// Mend undoes cuts, refusals and delays between two hosts.
func (n *Network) Mend(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mendPath(n.pathOf(a, b))
	n.mendPath(n.pathOf(b, a))
}

// Heal undoes all cuts, refusals and delays, and resumes frozen and vanished hosts. Hosts
// that are down stay down.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.paths {
		n.mendPath(p)
	}
	for _, h := range n.hosts {
		h.resumeHost()
	}
}

// mendPath repairs one direction, and sends held back bytes. Needs mu.
func (n *Network) mendPath(p *path) {
	p.cut, p.shut, p.delay = false, false, 0
	for pipe := range p.pipes {
		pipe.wake.Broadcast()
	}
	n.wake.Broadcast()
}

// pathOf returns the state of one direction. Needs mu.
func (n *Network) pathOf(from, to string) *path {
	p := n.paths[way{from, to}]
	if p == nil {
		p = &path{pipes: map[*pipe]struct{}{}}
		n.paths[way{from, to}] = p
	}
	return p
}

// drawTravel draws how long one message takes. Needs mu.
func (n *Network) drawTravel(p *path) time.Duration {
	if p.delay == 0 {
		return 0
	}
	return p.delay/2 + time.Duration(n.dice.Int64N(int64(p.delay)))
}

// Host is one host of a network.
type Host struct {
	net  *Network
	name string

	// Guarded by the network.
	up        bool
	frozen    bool                 // it receives and sends nothing
	vanished  bool                 // everything sent to it or by it is lost
	listeners map[string]*listener // by port
	conns     map[*conn]struct{}
	next      int
}

// Name returns the name of the host.
func (h *Host) Name() string { return h.name }

// Crash ends every listener and connection of the host, as when a process is
// killed: the other ends are reset as soon as the network lets that through.
// Until Up, nothing can be dialled or listened on.
func (h *Host) Crash() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.up = false
	for _, l := range h.listeners {
		l.closeListener()
	}
	for c := range h.conns {
		c.closeEnd(ErrReset)
	}
	h.net.wake.Broadcast()
}

// Up lets a host that crashed take part again.
func (h *Host) Up() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.up = true
	h.net.wake.Broadcast()
}

// Freeze keeps the host from receiving and sending until Resume. Bytes sent before arrive;
// bytes that it writes or is sent in the meantime wait, and so do dials to it or from it.
func (h *Host) Freeze() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.frozen = true
}

// Vanish loses everything that the host sends or is sent, until Resume. No end of a
// connection notices; at Resume open connections are reset.
func (h *Host) Vanish() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.vanished = true
}

// Resume ends Freeze or Vanish.
func (h *Host) Resume() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.resumeHost()
}

// isAway reports whether the host can reach no other host, and none can reach it.
func (h *Host) isAway() bool { return h.frozen || h.vanished }

// resumeHost is Resume. Needs the network's mu.
func (h *Host) resumeHost() {
	if !h.isAway() {
		return
	}
	lost := h.vanished
	h.frozen, h.vanished = false, false
	for c := range h.conns {
		if lost {
			c.peer.closeEnd(ErrReset)
			c.closeEnd(ErrReset)
			continue
		}
		c.in.wake.Broadcast()
	}
	for _, path := range h.net.paths {
		for p := range path.pipes {
			if p.from == h { // of connections that it has closed, too
				p.goOn()
			}
		}
	}
	h.net.wake.Broadcast()
}

// Reset breaks every open connection between this host and another one.
func (h *Host) Reset(other string) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for c := range h.conns {
		if c.peer.host.name == other {
			c.closeEnd(ErrReset)
			c.peer.closeEnd(ErrReset)
		}
	}
}

// Listen listens on an address of this host, host:port, as long as the listener
// is open. Port 0 gets a free port.
//
// Errors: ErrInUse, ErrDown, or an address that is not of this host.
func (h *Host) Listen(_ context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != h.name {
		return nil, fmt.Errorf("%q is not an address of host %s", addr, h.name)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if !h.up {
		return nil, opError("listen", ErrDown)
	}
	if port == "0" {
		port = h.freePort()
	}
	if h.listeners[port] != nil {
		return nil, opError("listen", ErrInUse)
	}
	l := &listener{host: h, port: port, wake: sync.NewCond(&h.net.mu)}
	h.listeners[port] = l
	return l, nil
}

// freePort returns a port that was never used. Needs the network's mu.
func (h *Host) freePort() string {
	h.next++
	return strconv.Itoa(h.next)
}

// Dial connects to an address. It waits as long as ctx allows while the link is cut or one
// of its ends is frozen or has vanished, and is refused at once without a listener.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, opError("dial", err)
	}
	n := h.net
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.wake.Broadcast()
	})
	defer stop()
	n.mu.Lock()
	there, back := n.pathOf(h.name, host), n.pathOf(host, h.name)
	trip := n.drawTravel(there) + n.drawTravel(back)
	n.mu.Unlock()
	if !pause(ctx, trip) {
		return nil, opError("dial", context.Cause(ctx))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case ctx.Err() != nil:
			return nil, opError("dial", context.Cause(ctx))
		case !h.up:
			return nil, opError("dial", ErrDown)
		case there.shut || back.shut:
			return nil, opError("dial", ErrRefused)
		case !there.cut && !back.cut && !h.isAway() && !n.isAway(host):
			return h.connectTo(host, port)
		}
		n.wake.Wait()
	}
}

// isAway is Host.isAway of the host called name. Needs mu.
func (n *Network) isAway(name string) bool {
	h := n.hosts[name]
	return h != nil && h.isAway()
}

// connectTo makes a connection to a reachable listener. Needs the network's mu.
func (h *Host) connectTo(host, port string) (net.Conn, error) {
	to := h.net.hosts[host]
	if to == nil || !to.up || to.listeners[port] == nil {
		return nil, opError("dial", ErrRefused)
	}
	l := to.listeners[port]
	if len(l.backlog) >= backlogMax {
		return nil, opError("dial", ErrRefused)
	}
	near, far := h.net.connectHosts(h, to, addressOf(h.name, h.freePort()), l.Addr())
	l.backlog = append(l.backlog, far)
	l.wake.Signal()
	return near, nil
}

// pause waits for d, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// listener is an open port.
type listener struct {
	host *Host
	port string
	wake *sync.Cond

	// Guarded by the network.
	backlog []*conn
	closed  bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(l.backlog) == 0 {
		if l.closed {
			return nil, opError("accept", net.ErrClosed)
		}
		l.wake.Wait()
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed {
		return opError("close", net.ErrClosed)
	}
	l.closeListener()
	return nil
}

// closeListener ends the listener and resets connections that wait to be accepted. Needs
// the network's mu.
func (l *listener) closeListener() {
	if l.closed {
		return
	}
	l.closed = true
	delete(l.host.listeners, l.port)
	for _, c := range l.backlog {
		c.closeEnd(ErrReset)
	}
	l.backlog = nil
	l.wake.Broadcast()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addressOf(l.host.name, l.port) }

// name is the address of a host whose name is not an IP address.
type name string

// Network implements net.Addr.
func (name) Network() string { return "tcp" }

// String implements net.Addr.
func (a name) String() string { return string(a) }

func addressOf(host, port string) net.Addr {
	ip := net.ParseIP(host)
	p, err := strconv.Atoi(port)
	if ip == nil || err != nil {
		return name(net.JoinHostPort(host, port))
	}
	return &net.TCPAddr{IP: ip, Port: p}
}

func opError(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
