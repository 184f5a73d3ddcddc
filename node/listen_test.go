package node

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/identity"
)

// TestListenersRefuseStrangers tries every inner listener with bytes that are no
// TLS, without a certificate, with another protocol, and with certificates of
// other roles and zones. Each is hung up on, and the listener serves on.
func TestListenersRefuseStrangers(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		r, other := newZone(t, "a").run(), newZone(t, "b").run()
		node, gateway := r.joined("node-2").credentials(), r.certified(identity.RoleGateway, "node-2")
		agent, public := r.certified(identity.RoleAgent, "agent-1"), r.apiCredentials()
		a := r.Addresses()
		for name, l := range map[string]struct {
			addr       string
			as         identity.Role // of the listener
			alpn       string
			good       *identity.Credentials
			strangers  []*identity.Credentials
			wrongALPNs []string
		}{
			"node": {
				a.Node, identity.RoleNode, api.ALPNHTTP, node,
				[]*identity.Credentials{agent, gateway, public, other.nodeCredentials(), r.certified(identity.RoleNode, "node-1"), r.certified(identity.RoleNode, "node-2"), r.certified(identity.RoleNode, "node-3")},
				[]string{api.ALPNEnrol, "h2"},
			},
			"agent": {
				a.Agent, identity.RoleNode, api.ALPNHTTP, agent,
				[]*identity.Credentials{node, gateway, public, other.certified(identity.RoleAgent, "agent-1")},
				[]string{api.ALPNRaft, api.ALPNGossip, api.ALPNEnrol},
			},
			"gateway": {
				a.Gateway, identity.RoleGateway, api.ALPNEnrol, gateway,
				[]*identity.Credentials{node, agent, public, other.nodeCredentials()},
				[]string{api.ALPNRaft, "h2"},
			},
		} {
			serves := func() {
				t.Helper()
				status, said := over(t, r.dialAs(l.good, l.as, l.alpn), l.addr, http.MethodGet, "/nothing", nil, nil)
				assert.Equal(t, http.StatusNotFound, status, "%s: %s", name, said)
			}
			serves()
			dialled(t, l.addr, func(c net.Conn) net.Conn {
				_, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
				require.NoError(t, err)
				return c
			})
			dialled(t, l.addr, as(r.dialAs(nil, l.as, l.alpn)))
			for _, c := range l.strangers {
				dialled(t, l.addr, as(r.dialAs(c, l.as, l.alpn)))
			}
			for _, alpn := range l.wrongALPNs {
				dialled(t, l.addr, as(r.dialAs(l.good, l.as, alpn)))
			}
			none := r.dialAs(l.good, l.as, l.alpn)
			none.NextProtos = nil
			none.VerifyConnection = nil
			dialled(t, l.addr, as(none))
			serves()
		}
		dialled(t, a.Gateway, as(r.dialAs(other.gatewayCredentials(), identity.RoleGateway, api.ALPNHTTP)))
		dialled(t, a.Gateway, as(r.dialAs(other.gatewayCredentials(), identity.RoleGateway, api.ALPNGossip))) // it is not linked
	})
}

// dialled opens a connection, says what say says, and is hung up on.
func dialled(t *world, addr string, say func(net.Conn) net.Conn) {
	t.Helper()
	c, err := t.net.Dial(t.Context(), addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // the other end has closed it
	hangsUp(t, say(c))
}

// as starts TLS. Whether it is refused shows only when something is read.
func as(conf *tls.Config) func(net.Conn) net.Conn {
	if c, _ := conf.GetClientCertificate(nil); c == nil {
		conf.GetClientCertificate = nil
	}
	return func(c net.Conn) net.Conn { return tls.Client(c, conf) }
}

// TestAGateHasSoManyPlaces: at the limit all are served, the next one is hung up
// on, and a place that gets free is given away again.
func TestAGateHasSoManyPlaces(t *testing.T) {
	t.Parallel()
	virtually(t, func(t *world) {
		const places = 3
		h := newZone(t, "a")
		creds, err := openWallet(h.opts.Dir)
		require.NoError(t, err)
		get := func() *identity.Credentials { return creds.Get(identity.RoleNode) }
		ln, err := t.net.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		g := newGate(ln, identity.ServerTLS(get, []string{api.ALPNHTTP},
			identity.AdmitOwn(creds.Pins, identity.RoleNode), time.Now), 0, quiet)
		require.Equal(t, ConnsMax, g.places.all)
		g.places = newPlaces(places, places)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); g.acceptConns(ctx) }()

		conf := identity.ClientTLS(get, api.ALPNHTTP, creds.Pins, identity.Subject{Zone: creds.Get(identity.RoleNode).Subject.Zone, Role: identity.RoleNode}, time.Now)
		enters := func() (inside net.Conn) {
			c, err := dialTLS(t.net, conf)(t.Context(), "tcp", ln.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			inside, err = g.roomFor(api.ALPNHTTP).Accept()
			require.NoError(t, err)
			assert.Equal(t, creds.Get(identity.RoleNode).Subject, inside.(*conn).peer.Subject)
			return inside
		}
		var inside []net.Conn
		for range places {
			inside = append(inside, enters())
		}
		dialled(t, ln.Addr().String(), func(c net.Conn) net.Conn { return c })
		dialled(t, ln.Addr().String(), as(conf))
		require.NoError(t, inside[0].Close())
		inside[0] = enters()
		dialled(t, ln.Addr().String(), func(c net.Conn) net.Conn { return c })
		for _, c := range inside {
			require.NoError(t, c.Close())
		}
		assert.Zero(t, g.places.inUse())
		cancel()
		<-gone
		_, err = g.roomFor(api.ALPNHTTP).Accept()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}
