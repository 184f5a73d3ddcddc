package raftstore

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	rpcTimeout  = 5 * time.Second // one call between nodes; a snapshot gets this for each 256 KiB
	connPoolMax = 3               // idle connections kept to each other node

	// rpcsInFlight of 1 keeps Raft from sending the next message before the last was
	// answered. With more, its sender and its reader wait for each other for ever when
	// a follower refuses a message at the wrong moment (hashicorp/raft 1.8.0,
	// pipelineReplicate): the follower hears heartbeats and gets no entries, and the
	// node cannot be shut down. Entries are batches already and one is in flight at a
	// time, so there is little to gain.
	rpcsInFlight = 1
)

// streamLayer gives Raft the Stream under the advertised address, and remembers
// the open connections: the transport leaves them behind when it is closed.
type streamLayer struct {
	stream    Stream
	advertise addr

	mu     sync.Mutex // guards the fields below
	open   map[*trackedConn]struct{}
	closed bool
}

var _ raft.StreamLayer = (*streamLayer)(nil)

// addr is an advertised host:port. The host may be a name, so it is never
// resolved here.
type addr string

// Network implements net.Addr.
func (addr) Network() string { return "tcp" }

// String implements net.Addr.
func (a addr) String() string { return string(a) }

func newTransport(cfg Config, l hclog.Logger, p *progress) *transport {
	return &transport{progress: p, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: &streamLayer{
			stream: cfg.Stream, advertise: addr(cfg.Advertise), open: map[*trackedConn]struct{}{},
		},
		MaxPool:                 connPoolMax,
		MaxRPCsInFlight:         rpcsInFlight,
		Timeout:                 rpcTimeout,
		Logger:                  l.Named("net"),
		MsgpackUseNewTimeFormat: true, // no older node ever spoke here
	})}
}

// Addr implements net.Listener; it is what the other nodes are told.
func (s *streamLayer) Addr() net.Addr { return s.advertise }

// Accept implements net.Listener.
func (s *streamLayer) Accept() (net.Conn, error) {
	c, err := s.stream.Accept()
	if err != nil {
		return nil, err
	}
	return s.trackConn(c)
}

// Dial implements raft.StreamLayer.
func (s *streamLayer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c, err := s.stream.Dial(string(to), timeout)
	if err != nil {
		return nil, fmt.Errorf("dialling node %s: %w", to, err)
	}
	return s.trackConn(c)
}

func (s *streamLayer) trackConn(c net.Conn) (net.Conn, error) {
	t := &trackedConn{Conn: c, layer: s}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.open[t] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	return t, nil
}

// Close implements net.Listener; it closes every connection as well.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := make([]*trackedConn, 0, len(s.open))
	for c := range s.open {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	err := s.stream.Close()
	for _, c := range conns {
		_ = c.Close() // the listener's error says more
	}
	return err
}

// trackedConn is a connection that its layer can close.
type trackedConn struct {
	net.Conn
	layer *streamLayer
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.open, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}
