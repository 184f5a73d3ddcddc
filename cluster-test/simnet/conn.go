package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe is one direction of a connection.
type pipe struct {
	net      *Network
	from, to *Host
	path     *path
	wake     *sync.Cond // on the network's mu

	// Guarded by the network.
	queue  []segment
	size   int   // bytes in queue
	end    error // io.EOF or ErrReset, once the writer has closed; it comes after queue
	endAt  time.Time
	last   time.Time // when the newest segment arrives; none overtakes another
	gone   bool      // the reader has closed
	alarm  *time.Timer
	writes deadline
	reads  deadline
}

// segment is some bytes in transit.
type segment struct {
	bytes []byte
	at    time.Time // when they arrive; zero while the host that wrote them is frozen
}

// hasLeft reports whether the bytes are in transit.
func (s *segment) hasLeft() bool { return !s.at.IsZero() }

// deadline is when waiting ends.
type deadline struct {
	at    time.Time // zero for never
	timer *time.Timer
}

func (d *deadline) hasPassed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set arms the deadline. Needs the network's mu.
func (d *deadline) set(p *pipe, at time.Time) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if !at.IsZero() {
		d.timer = time.AfterFunc(max(time.Until(at), 0), p.wakeWaiters)
	}
	p.wake.Broadcast()
}

// wakeWaiters wakes the waiters on the pipe.
func (p *pipe) wakeWaiters() {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	p.wake.Broadcast()
}

// conn is one end of a connection.
type conn struct {
	host          *Host
	peer          *conn
	local, remote net.Addr
	in, out       *pipe
	closed        error // net.ErrClosed or ErrReset; guarded by the network
}

var _ net.Conn = (*conn)(nil)

// connectHosts makes both ends of a connection. Needs mu.
func (n *Network) connectHosts(a, b *Host, at, bt net.Addr) (near, far *conn) {
	there, back := n.newPipe(a, b), n.newPipe(b, a)
	near = &conn{host: a, local: at, remote: bt, in: back, out: there}
	far = &conn{host: b, local: bt, remote: at, in: there, out: back}
	near.peer, far.peer = far, near
	a.conns[near], b.conns[far] = struct{}{}, struct{}{}
	return near, far
}

func (n *Network) newPipe(from, to *Host) *pipe {
	p := &pipe{net: n, from: from, to: to, path: n.pathOf(from.name, to.name), wake: sync.NewCond(&n.mu)}
	p.path.pipes[p] = struct{}{}
	return p
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	p := c.in
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	for {
		switch {
		case c.closed != nil:
			return 0, opError("read", c.closed)
		case p.reads.hasPassed():
			return 0, opError("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		}
		if n, err, ok := p.takeArrived(b); ok {
			return n, err
		}
		p.wake.Wait()
	}
}

// takeArrived moves what has arrived to b, and reports whether that was anything: bytes
// or the end. Needs the network's mu.
func (p *pipe) takeArrived(b []byte) (n int, err error, ok bool) {
	if p.path.cut || p.to.isAway() || p.from.vanished {
		return 0, nil, false
	}
	now := time.Now()
	for len(p.queue) > 0 && n < len(b) && p.queue[0].hasLeft() && !p.queue[0].at.After(now) {
		k := copy(b[n:], p.queue[0].bytes)
		n += k
		if p.queue[0].bytes = p.queue[0].bytes[k:]; len(p.queue[0].bytes) == 0 {
			p.queue = p.queue[1:]
		}
	}
	if n > 0 {
		p.size -= n
		p.wake.Broadcast() // there is room
		return n, nil, true
	}
	due := p.endAt
	switch {
	case len(p.queue) > 0 && p.queue[0].hasLeft():
		due = p.queue[0].at
	case len(p.queue) > 0 || p.end == nil || p.from.frozen:
		return 0, nil, false
	}
	if due.After(now) {
		p.wakeReaderIn(due.Sub(now))
		return 0, nil, false
	}
	if p.end == io.EOF { //nolint:errorlint // set by close and never wrapped
		return 0, io.EOF, true
	}
	return 0, opError("read", p.end), true
}

// wakeReaderIn rouses the reader when the next bytes have arrived.
func (p *pipe) wakeReaderIn(in time.Duration) {
	if p.alarm == nil {
		p.alarm = time.AfterFunc(in, p.wakeWaiters)
		return
	}
	p.alarm.Reset(in)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (written int, err error) {
	p := c.out
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	for {
		switch {
		case c.closed != nil:
			return written, opError("write", c.closed)
		case p.writes.hasPassed():
			return written, opError("write", os.ErrDeadlineExceeded)
		case p.gone && !p.path.cut && !c.in.path.cut && !p.from.isAway() && !p.to.isAway():
			return written, opError("write", ErrReset)
		case len(b) == 0:
			return written, nil
		}
		room := min(bufferMax-p.size, len(b))
		if room <= 0 {
			p.wake.Wait()
			continue
		}
		p.sendBytes(b[:room])
		written, b = written+room, b[room:]
	}
}

// sendBytes sends a copy of b. Needs the network's mu.
func (p *pipe) sendBytes(b []byte) {
	p.net.bytes += uint64(len(b))
	p.size += len(b)
	s := segment{bytes: append([]byte(nil), b...)}
	if !p.from.frozen {
		s.at = p.drawArrival()
	}
	p.queue = append(p.queue, s)
	p.wake.Broadcast()
}

// goOn sends the bytes that were written while the host was frozen. Needs the network's
// mu.
func (p *pipe) goOn() {
	for i := range p.queue {
		if s := &p.queue[i]; !s.hasLeft() {
			s.at = p.notBefore(time.Now())
		}
	}
	p.endAt = p.notBefore(p.endAt)
	p.wake.Broadcast()
}

// drawArrival draws the time of arrival of bytes sent now. Needs the network's mu.
func (p *pipe) drawArrival() time.Time {
	return p.notBefore(time.Now().Add(p.net.drawTravel(p.path)))
}

// notBefore returns a time of arrival that is not before an earlier one.
func (p *pipe) notBefore(at time.Time) time.Time {
	if at.Before(p.last) {
		at = p.last
	}
	p.last = at
	return at
}

// Close implements net.Conn. Bytes written before still arrive.
func (c *conn) Close() error {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed != nil {
		return opError("close", net.ErrClosed)
	}
	c.closeEnd(io.EOF)
	return nil
}

// closeEnd ends this end of the connection; the other one reads the bytes in transit and
// then end. Needs the network's mu.
func (c *conn) closeEnd(end error) {
	if c.closed != nil {
		return
	}
	c.closed = net.ErrClosed
	if end == ErrReset { //nolint:errorlint // a value of ours, never wrapped
		c.closed = ErrReset
	}
	c.out.end, c.out.endAt = end, c.out.drawArrival()
	c.in.gone, c.in.queue, c.in.size = true, nil, 0
	for _, d := range []*deadline{&c.out.writes, &c.in.reads} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
	c.in.wake.Broadcast()
	c.out.wake.Broadcast()
	delete(c.host.conns, c)
	if c.peer.closed != nil {
		c.retireConn()
	}
}

// retireConn removes a connection whose ends are both closed. Needs the network's mu.
func (c *conn) retireConn() {
	for _, p := range []*pipe{c.in, c.out} {
		delete(p.path.pipes, p)
		if p.alarm != nil {
			p.alarm.Stop()
		}
	}
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(c.in, &c.in.reads, t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(c.out, &c.out.writes, t) }

func (c *conn) setDeadline(p *pipe, d *deadline, t time.Time) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if c.closed != nil {
		return opError("set", net.ErrClosed)
	}
	d.set(p, t)
	return nil
}
