package gossip

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of what goes to and from one peer.
const (
	queueMax     = 64               // packets waiting for one peer; more are dropped
	packetConns  = 2                // packet connections with one peer: one dialled by each end
	redialAfter  = time.Second      // between attempts to reach one peer for packets
	writeTimeout = 5 * time.Second  // for one packet
	idleTimeout  = 5 * time.Minute  // without a packet, after which a connection is given up
	dialTimeout  = 2 * greetTimeout // for one attempt to reach a peer
)

// peer is the queue of packets for one member, and the connections that send them: a
// free connection takes the next packet.
type peer struct {
	name  string
	queue chan []byte

	// The transport's mutex guards what follows.
	conns   []net.Conn // oldest first; at most packetConns
	dialing bool
	cut     bool      // the last attempt to reach it failed
	retry   time.Time // no new attempt before
}

// queuePacket queues a packet; false if the queue is full.
func (p *peer) queuePacket(b []byte) bool {
	select {
	case p.queue <- b:
		return true
	default:
		return false
	}
}

// drainQueue empties the queue of a peer that cannot be reached.
func (p *peer) drainQueue() (lost uint64) {
	for {
		select {
		case <-p.queue:
			lost++
		default:
			return lost
		}
	}
}

// peerNamed returns the peer for packets to name, and starts an attempt to reach it if
// there is no connection. It returns nil if packets cannot be sent there now: the name
// may come from a peer's message, and only members are dialled.
func (t *transport) peerNamed(name string) (*peer, error) {
	member := t.known(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	p := t.peers[name]
	if p == nil && member {
		p = t.entryOf(name)
	}
	if p == nil || len(p.conns) > 0 || p.dialing {
		return p, nil
	}
	if !member || t.now().Before(p.retry) {
		return nil, nil // no peer and no error: the packet is lost, as with UDP
	}
	p.dialing = true
	t.work.Go(func() { t.connectTo(p) })
	return p, nil
}

// entryOf returns the peer's entry, made if there is room or an idle one to give
// up for it; nil otherwise. The caller holds mu.
func (t *transport) entryOf(name string) *peer {
	if p := t.peers[name]; p != nil {
		return p
	}
	if len(t.peers) >= peersMax {
		for other, p := range t.peers {
			if len(p.conns) == 0 && !p.dialing {
				delete(t.peers, other)
			}
		}
	}
	if len(t.peers) >= peersMax {
		return nil
	}
	p := &peer{name: name, queue: make(chan []byte, queueMax)}
	t.peers[name] = p
	return p
}

// connectTo tries once to reach p.
func (t *transport) connectTo(p *peer) {
	ctx, cancel := t.begin(dialTimeout)
	defer cancel()
	conn, err := t.reachMember(ctx, p.name, KindPacket)
	t.mu.Lock()
	p.dialing = false
	failed := err != nil && len(p.conns) == 0 // it may have dialled us meanwhile
	if failed {
		p.cut, p.retry = true, t.now().Add(redialAfter)
	}
	t.mu.Unlock()
	if err == nil {
		t.adoptConn(p.name, conn)
	} else if failed {
		t.count.dropped.Add(p.drainQueue())
	}
}

// adoptConn starts using a registered packet connection, and closes the oldest one
// beyond packetConns.
func (t *transport) adoptConn(name string, conn net.Conn) {
	t.mu.Lock()
	p := t.entryOf(name)
	if t.closed || p == nil {
		t.mu.Unlock()
		t.count.refused.Add(1)
		t.dropConn(conn)
		return
	}
	p.cut = false
	p.conns = append(p.conns, conn)
	var old net.Conn
	if len(p.conns) > packetConns {
		old = p.conns[0]
		p.conns = slices.Delete(p.conns, 0, 1)
	}
	t.work.Go(func() { t.carryPackets(p, conn) })
	t.mu.Unlock()
	if old != nil {
		t.dropConn(old)
	}
}

// carryPackets moves packets both ways until the connection breaks or is closed.
func (t *transport) carryPackets(p *peer, conn net.Conn) {
	broken := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		t.writePackets(p, conn, broken)
		_ = conn.Close() // wakes the reader
	})
	t.readPackets(p.name, conn)
	close(broken)
	t.dropConn(conn)
	writer.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(c net.Conn) bool { return c == conn })
}

// writePackets sends the packets queued for p.
func (t *transport) writePackets(p *peer, conn net.Conn, broken <-chan struct{}) {
	for {
		var b []byte
		select {
		case b = <-p.queue:
		case <-broken:
			return
		}
		err := conn.SetWriteDeadline(t.now().Add(writeTimeout))
		if err == nil {
			err = writeFrame(conn, b, frameMaxBytes)
		}
		if err != nil {
			t.count.dropped.Add(1)
			return
		}
	}
}

// readPackets passes the peer's packets to memberlist. It skips packets that no member
// sends; a frame out of bounds ends the connection.
func (t *transport) readPackets(name string, conn net.Conn) {
	for {
		err := conn.SetReadDeadline(t.now().Add(idleTimeout))
		var b []byte
		if err == nil {
			b, err = readFrame(conn, frameMaxBytes)
		}
		if errors.Is(err, errFrameSize) {
			t.count.garbage.Add(1)
		}
		if err != nil {
			return
		}
		if checkPacket(b) != nil {
			t.count.garbage.Add(1)
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: b, From: address(name), Timestamp: t.now()}:
		case <-t.done:
			return
		}
	}
}

// closePacketConns closes the packet connections with a member that has left: a hanging
// one would swallow packets after the member has returned. It does not block.
func (t *transport) closePacketConns(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[name]
	if t.closed || p == nil || len(p.conns) == 0 {
		return
	}
	open := slices.Clone(p.conns)
	t.work.Go(func() { // closing TLS waits for a write
		for _, c := range open {
			_ = c.Close() // its reader does the rest
		}
	})
}

// isLinked reports whether there is a packet connection with a member.
func (t *transport) isLinked(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[name]
	return p != nil && len(p.conns) > 0
}

// isCutOff reports whether the last attempt to reach a member failed.
func (t *transport) isCutOff(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[name]
	return p != nil && p.cut
}
