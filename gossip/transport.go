package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of a pool's connections.
const (
	connsMax     = 128             // of all kinds and both directions
	streamsInMax = 16              // streams from peers at once
	peersMax     = membersMax      // peers with packets under way
	packetsIn    = 64              // packets read and not yet taken by memberlist
	greetTimeout = 3 * time.Second // for one endpoint: dial, TLS and hellos
)

var (
	errUnreachable = errors.New("gossip: no endpoint leads to the member")
	errClosed      = errors.New("gossip: the pool is closed")
	errNoName      = errors.New("gossip: members are addressed by name")
)

// transport carries memberlist's packets and streams over connections that were
// dialled or accepted. Nothing that it hands to memberlist, errors included,
// names an endpoint.
type transport struct {
	pool, self string
	dial       Dialer
	addresses  *addressBook
	known      func(name string) bool // whether it is a member
	now        func() time.Time
	count      *counters
	begin      func(time.Duration) (context.Context, context.CancelFunc) // of work that ends with the transport
	stop       func()                                                    // ends that work

	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{} // closed by Shutdown
	work    sync.WaitGroup

	mu        sync.Mutex // guards what follows
	closed    bool
	conns     map[net.Conn]struct{} // all that are open
	streamsIn int
	peers     map[string]*peer
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(ctx context.Context, cfg *Config, b *addressBook, known func(string) bool, count *counters) *transport {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &transport{
		pool: cfg.Name, self: cfg.Self, dial: cfg.Dial, addresses: b, known: known, now: cfg.Now, count: count,
		begin: func(d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, d)
		},
		stop:    stop,
		packets: make(chan *memberlist.Packet, packetsIn), streams: make(chan net.Conn), done: make(chan struct{}),
		conns: map[net.Conn]struct{}{}, peers: map[string]*peer{},
	}
}

// FinalAdvertiseAddr returns the synthetic address, whatever is configured.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return ipOf(t.self), portOfAll, nil
}

// PacketCh returns the packets of all peers. It is never closed.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh returns the streams that peers have opened. It is never closed.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo fails, because an address without a name cannot be dialled. memberlist passes
// names.
func (t *transport) WriteTo([]byte, string) (time.Time, error) { return time.Time{}, errNoName }

// DialTimeout fails like WriteTo.
func (t *transport) DialTimeout(string, time.Duration) (net.Conn, error) { return nil, errNoName }

// WriteToAddress queues a packet for a member and never blocks. As with UDP it
// is lost without an error if the member cannot be reached: an error here would
// keep memberlist from suspecting it.
func (t *transport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	if len(b) > frameMaxBytes {
		return time.Time{}, errFrameSize
	}
	if err := checkName(to.Name); err != nil {
		return time.Time{}, errNoName
	}
	p, err := t.peerNamed(to.Name)
	if err != nil {
		return time.Time{}, err
	}
	if p == nil || !p.queuePacket(slices.Clone(b)) { // memberlist may reuse b
		t.count.dropped.Add(1)
	}
	return t.now(), nil
}

// DialAddressTimeout opens a stream to a member.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if checkName(to.Name) != nil {
		return nil, errNoName
	}
	ctx, cancel := t.begin(timeout)
	defer cancel()
	conn, err := t.reachMember(ctx, to.Name, kindStream)
	if err != nil {
		return nil, err
	}
	return &stream{
		conn: conn, local: address(t.self), remote: address(to.Name),
		release: func() { t.unregisterConn(conn) },
	}, nil
}

// Shutdown closes every connection and returns when everything that the transport has
// started has stopped. Later calls wait too.
func (t *transport) Shutdown() error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.done)
	}
	var open []net.Conn
	for c := range t.conns {
		open = append(open, c)
	}
	t.mu.Unlock()
	t.stop()
	for _, c := range open {
		_ = c.Close() // closing is all that is left to do with it
	}
	t.work.Wait()
	return nil
}

// registerConn registers an open connection, so that Shutdown closes it; if there is no
// room it closes it at once and returns false.
func (t *transport) registerConn(conn net.Conn) bool {
	t.mu.Lock()
	ok := !t.closed && len(t.conns) < connsMax
	if ok {
		t.conns[conn] = struct{}{}
	}
	t.mu.Unlock()
	if !ok {
		t.count.refused.Add(1)
		_ = conn.Close() // refused
	}
	return ok
}

// unregisterConn undoes registerConn.
func (t *transport) unregisterConn(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, conn)
}

// dropConn closes a connection that registerConn has registered.
func (t *transport) dropConn(conn net.Conn) {
	_ = conn.Close() // nothing more is expected of it
	t.unregisterConn(conn)
}

// greetEndpoint dials an endpoint and exchanges hellos. The returned connection is
// registered; name is the answering member. The address book records the outcome.
func (t *transport) greetEndpoint(ctx context.Context, endpoint string, kind Kind) (_ net.Conn, name string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, greetTimeout)
	defer cancel()
	conn, err := t.dial(ctx, endpoint)
	if err != nil {
		t.addresses.noteFailure(endpoint)
		return nil, "", fmt.Errorf("dialling: %w", err)
	}
	if !t.registerConn(conn) {
		return nil, "", errClosed
	}
	unbind := context.AfterFunc(ctx, func() { _ = conn.Close() }) // wakes reads and writes
	answer, err := t.exchangeHellos(conn, kind)
	if !unbind() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		t.dropConn(conn)
		t.addresses.noteFailure(endpoint)
		return nil, "", err
	}
	t.addresses.noteAnswer(endpoint, answer.Name)
	return conn, answer.Name, nil
}

// exchangeHellos sends a hello and reads the answer.
func (t *transport) exchangeHellos(conn net.Conn, kind Kind) (Hello, error) {
	deadline := t.now().Add(greetTimeout)
	mine := Hello{Version: helloVersion, Pool: t.pool, Name: t.self, Kind: kind}
	if err := writeHello(conn, mine, deadline); err != nil {
		return Hello{}, err
	}
	answer, err := ReadHello(conn, deadline)
	if err == nil && (answer.Pool != t.pool || answer.Kind != kind) {
		err = errRefused
	}
	return answer, err
}

// reachMember returns a registered connection to the member called name, trying each
// endpoint that may lead to it. Other members that answer are recorded.
func (t *transport) reachMember(ctx context.Context, name string, kind Kind) (net.Conn, error) {
	for _, endpoint := range t.addresses.endpointsOf(name) {
		conn, got, err := t.greetEndpoint(ctx, endpoint, kind)
		switch {
		case err == nil && got == name:
			return conn, nil
		case err == nil:
			t.dropConn(conn)
		case ctx.Err() != nil:
			return nil, errUnreachable
		}
	}
	return nil, errUnreachable
}

// acceptHello answers the hello of an accepted connection and takes it over.
func (t *transport) acceptHello(h Hello, conn net.Conn) {
	if !t.registerConn(conn) {
		return
	}
	mine := Hello{Version: helloVersion, Pool: t.pool, Name: t.self, Kind: h.Kind}
	err := writeHello(conn, mine, t.now().Add(HelloTimeout))
	switch {
	case err != nil || h.Name == t.self: // gone, or this node itself, which now knows
		t.dropConn(conn)
	case h.Kind == KindPacket:
		t.adoptConn(h.Name, conn)
	default:
		t.deliverStream(h.Name, conn)
	}
}

// deliverStream passes an accepted stream to memberlist.
func (t *transport) deliverStream(name string, conn net.Conn) {
	t.mu.Lock()
	ok := t.streamsIn < streamsInMax
	if ok {
		t.streamsIn++
	}
	t.mu.Unlock()
	if !ok {
		t.count.refused.Add(1)
		t.dropConn(conn)
		return
	}
	s := &stream{conn: conn, local: address(t.self), remote: address(name), release: func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.conns, conn)
		t.streamsIn--
	}}
	select {
	case t.streams <- s:
	case <-t.done:
		_ = s.Close() // nobody will read it
	}
}
