package rogue

import (
	"net"
	"net/http"
	"sync"

	"berth/api"
	"berth/internal/codec"
	"berth/node"
)

// lies answer calls to a zone in its place, over its own authenticated connections. Gossip and
// what the zone itself calls go on as ever.
type lies struct {
	mu     sync.Mutex // guards the fields below
	server *http.Server
	conns  *handed
	honest map[net.Conn]struct{} // connections that the zone itself answers
}

func newLies() *lies { return &lies{honest: map[net.Conn]struct{}{}} }

// tap is the tap of a zone that lies.
func (l *lies) tap(at node.Crossing, c net.Conn) net.Conn {
	if at.Dialled || at.ALPN != api.ALPNHTTP {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		own := &watched{Conn: c, l: l}
		l.honest[own] = struct{}{}
		return own
	}
	l.conns.give(c)
	near, far := net.Pipe()
	_ = far.Close() // the zone finds that nobody says anything
	return near
}

// start answers all calls with h from now on, also on connections that are open.
func (l *lies) start(h http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = &handed{conns: make(chan net.Conn, 1024), done: make(chan struct{})}
	l.server = &http.Server{Handler: h} //nolint:gosec // it is the one that others need protection from
	for c := range l.honest {
		_ = c.(*watched).Conn.Close() // it is dialled again
	}
	go func(s *http.Server, ln net.Listener) { _ = s.Serve(ln) }(l.server, l.conns)
}

// stop lets the zone answer again.
func (l *lies) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return
	}
	_ = l.server.Close() // and with it the connections
	l.conns, l.server = nil, nil
}

// watched is a connection that the zone answers.
type watched struct {
	net.Conn
	l *lies
}

// Close implements net.Conn.
func (w *watched) Close() error {
	w.l.mu.Lock()
	delete(w.l.honest, w)
	w.l.mu.Unlock()
	return w.Conn.Close()
}

// handed is a listener of connections that were accepted already.
type handed struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (h *handed) give(c net.Conn) {
	select {
	case h.conns <- c:
	default:
		_ = c.Close() // too many at once
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return &net.TCPAddr{} }

// answer writes an answer of a zone.
func answer(w http.ResponseWriter, status int, v any) {
	b, _ := codec.Marshal(v) // our own types can be encoded
	w.Header().Set("Content-Type", api.MediaCBOR)
	w.Header().Set(api.HeaderForm, api.FormNewest.String())
	w.WriteHeader(status)
	_, _ = w.Write(b) // fails only if the caller is gone
}
