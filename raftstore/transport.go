package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/api"
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

// transport is the transport of Raft. It records the progress of the other nodes, speaks to
// the node that is meant and to no other at its address, and answers itself what Raft
// would do harm with.
type transport struct {
	*raft.NetworkTransport
	progress *progress
	paces    *paces
	mine     entries
	newest   api.Form      // that this node reads
	fail     func(error)   // ends the process
	calls    chan raft.RPC // of other nodes, for Raft
	closing  context.CancelFunc
	passing  sync.WaitGroup
}

// entries are the log of this node, as far as its transport must know.
type entries interface {
	// holdsUpTo reports whether the log, or the snapshot that it follows, has that entry.
	holdsUpTo(end position) bool
	// term returns the newest term that this node has heard of.
	term() uint64
}

var (
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

func newTransport(cfg Config, l hclog.Logger, p *progress, paces *paces, mine entries, fail func(error)) *transport {
	ctx, closing := context.WithCancel(context.Background())
	t := &transport{
		progress: p, paces: paces, mine: mine, newest: cfg.Form, fail: fail, calls: make(chan raft.RPC), closing: closing,
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: &streamLayer{
				stream: cfg.Stream, advertise: addr(cfg.Advertise), open: map[*trackedConn]struct{}{},
			},
			MaxPool:                 connPoolMax,
			MaxRPCsInFlight:         rpcsInFlight,
			Timeout:                 rpcTimeout,
			Logger:                  l.Named("net"),
			MsgpackUseNewTimeFormat: true, // no older node ever spoke here
		}),
	}
	t.passing.Go(func() { t.passCalls(ctx) })
	return t
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.closing()
	err := t.NetworkTransport.Close()
	t.passing.Wait()
	return err
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.calls }

// passCalls passes the calls of other nodes to Raft until ctx ends: one when the one before
// has been answered, as Raft takes them, so that what the log holds is known.
func (t *transport) passCalls(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-t.NetworkTransport.Consumer():
			if t.answerLateSnapshot(c) || t.answerNewerForm(c) {
				continue
			}
			caller, answer := c.RespChan, make(chan raft.RPCResponse, 1)
			c.RespChan = answer
			select {
			case <-ctx.Done():
				return
			case t.calls <- c:
			}
			select {
			case <-ctx.Done():
				return
			case a := <-answer:
				caller <- a // it has room for one
			}
		}
	}
}

// answerLateSnapshot answers a call to install a snapshot whose last entry this node holds
// already, and reports whether it was one. The call waited in a connection that its sender
// has given up, on a machine that stood still for example. Raft would take the node back to
// that snapshot and delete what is behind it, acknowledged entries and changes of the members
// included (hashicorp/raft 1.8.0, installSnapshot). The entries behind it are kept: rule 6 of
// figure 13 in "In Search of an Understandable Consensus Algorithm".
func (t *transport) answerLateSnapshot(c raft.RPC) bool {
	req, ok := c.Command.(*raft.InstallSnapshotRequest)
	if !ok || req.Term < t.mine.term() || !t.mine.holdsUpTo(position{req.LastLogIndex, req.LastLogTerm}) {
		return false
	}
	_, _ = io.Copy(io.Discard, c.Reader) // the next call follows it; if it is cut off, so is the connection
	c.Respond(&raft.InstallSnapshotResponse{
		RPCHeader: raft.RPCHeader{ProtocolVersion: req.ProtocolVersion}, Term: req.Term, Success: true,
	}, nil)
	return true
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(
	id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	began := t.paces.now()
	err := t.NetworkTransport.AppendEntries(id, placeOf(id, target), args, resp)
	if err == nil && resp.Success {
		t.progress.noteIndex(id, resp.LastLog)
		if len(args.Entries) > 0 {
			t.paces.noteOther(id, t.paces.now().Sub(began))
		}
	}
	return err
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	return t.NetworkTransport.AppendEntriesPipeline(id, placeOf(id, target))
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(
	id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	return t.NetworkTransport.RequestVote(id, placeOf(id, target), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(
	id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	return t.NetworkTransport.RequestPreVote(id, placeOf(id, target), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(
	id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, placeOf(id, target), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(
	id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse,
) error {
	return t.NetworkTransport.TimeoutNow(id, placeOf(id, target), args, resp)
}

// placeOf is a node with its address. Connections are pooled under it: Raft gives a
// connection to whatever is at an address, and a node that has taken the place of a removed
// one would get its messages and vote in its name.
func placeOf(id raft.ServerID, at raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(at))
}

// splitPlace takes apart what placeOf makes. An address has no "@".
func splitPlace(p raft.ServerAddress) (id api.NodeID, at string) {
	cut := strings.LastIndexByte(string(p), '@')
	return api.NodeID(p[:max(cut, 0)]), string(p[cut+1:])
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
	id, at := splitPlace(to)
	c, err := s.stream.Dial(id, at, timeout)
	if err != nil {
		return nil, fmt.Errorf("dialling node %s at %s: %w", id, at, err)
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
