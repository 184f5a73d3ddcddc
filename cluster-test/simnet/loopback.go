package simnet

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Loopback is a network as the processes of one machine have it that listen on loopback: each listens on any
// loopback address, or on all of them.
type Loopback struct{ *Network }

// The addresses of a machine that have names.
const (
	loopbackAddress = "127.0.0.1" // of localhost, and of all who dial
	everyAddress    = "0.0.0.0"
)

// Listen is Host.Listen of the host that the address names. It refuses addresses that are not on loopback.
func (l Loopback) Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() && !ip.IsUnspecified() {
		return nil, fmt.Errorf("%q is no loopback address", addr)
	}
	return l.Host(host).Listen(ctx, addr)
}

// Dial is Host.Dial of the machine.
func (l Loopback) Dial(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, opError("dial", err)
	}
	if host == "localhost" {
		host = loopbackAddress
	}
	from := l.Host(loopbackAddress)
	c, err := from.Dial(ctx, net.JoinHostPort(host, port))
	if errors.Is(err, ErrRefused) {
		return from.Dial(ctx, net.JoinHostPort(everyAddress, port))
	}
	return c, err
}
