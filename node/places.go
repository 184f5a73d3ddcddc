package node

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of connections. Of each listener's places one remote address gets at most half,
// unless the operator says otherwise (Options.ConnsPerAddress).
const (
	ConnsMax      = 4096             // open connections of one listener, and what Options.ConnsPerAddress may be at most
	adminConnsMax = 256              // of the admin listener
	enrolConnsMax = 32               // of zones that are not linked; they do not count against ConnsMax
	enrolLife     = 30 * time.Second // of such a connection
	strangerIdle  = 5 * time.Second  // between two requests of a connection on which nobody has shown a token
)

// places are the places for connections of one listener. Its methods may be called
// concurrently.
type places struct {
	all, each int // limits of all connections, and of those of one address

	mu    sync.Mutex // guards the fields below
	taken int
	by    map[string]int // by address, as sharer gives it; none is 0
}

// newPlaces returns places of which one address gets at most each, or half of them if each is 0.
func newPlaces(all, each int) *places {
	if each == 0 {
		each = all / 2
	}
	return &places{all: all, each: min(each, all), by: map[string]int{}}
}

// take takes a place for a connection, if its address may have one more. The caller calls leave once.
func (p *places) take(c net.Conn) (leave func(), ok bool) {
	from := sharer(c.RemoteAddr())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.by[from] >= p.each {
		return nil, false
	}
	p.taken++
	p.by[from]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.by[from]--; p.by[from] == 0 {
			delete(p.by, from)
		}
	}, true
}

// sharer returns the part of an address whose connections share places: the IPv4 address, or
// the first 64 bits of an IPv6 address, which one machine may have all of.
func sharer(a net.Addr) string {
	if a == nil {
		return ""
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		host, _, err := net.SplitHostPort(a.String())
		if err != nil {
			return a.String()
		}
		return host
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// placed is a listener with places: a connection without one is hung up on.
type placed struct {
	net.Listener
	places *places
	knows  bool // everybody who connects: nobody has to show a token
}

// Accept implements net.Listener.
func (l placed) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.places.take(c); ok {
			out := &counted{Conn: c, release: sync.OnceFunc(leave)}
			out.known.Store(l.knows)
			return out, nil
		}
		_ = c.Close() // the caller will try again
	}
}

// counted is a connection that frees its place when it is closed.
type counted struct {
	net.Conn
	release func()
	known   atomic.Bool // somebody has shown a token
	cut     *time.Timer // hangs up on a stranger; used by the server of the connection alone
}

// Close closes the connection and frees its place.
func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}

// countedOf returns the connection with a place below TLS, nil if there is none.
func countedOf(c net.Conn) *counted {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	out, _ := c.(*counted)
	return out
}

type countedKey struct{}

// noteKnown notes that the caller of a request has shown a token: his connection may wait
// longer for the next one.
func noteKnown(r *http.Request) {
	if c, ok := r.Context().Value(countedKey{}).(*counted); ok {
		c.known.Store(true)
	}
}

// withCounted lets noteKnown find the connection of a request.
func withCounted(ctx context.Context, c net.Conn) context.Context {
	if p := countedOf(c); p != nil {
		return context.WithValue(ctx, countedKey{}, p)
	}
	return ctx
}

// cutStrangers hangs up on an idle connection on which nobody has shown a token. It is the
// hook of an http.Server, which calls it once at a time for each connection.
func cutStrangers(c net.Conn, s http.ConnState) {
	p := countedOf(c)
	if p == nil {
		return
	}
	if p.cut != nil {
		p.cut.Stop()
	}
	if s == http.StateIdle && !p.known.Load() {
		p.cut = time.AfterFunc(strangerIdle, func() { _ = p.Close() }) // the server notices
	}
}

// addressOf returns where a request to this node came from, "" if another node of the zone
// has passed it on. Connections from it share places.
func addressOf(r *http.Request) string {
	if r.Header.Get(headerDoor) != "" {
		return ""
	}
	return sharer(remote(r.RemoteAddr))
}

// remote is an address as net/http spells it.
type remote string

// Network implements net.Addr.
func (remote) Network() string { return "tcp" }

// String implements net.Addr.
func (r remote) String() string { return string(r) }
