package gossip

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
)

// Two pools over TLS on sockets: what the tests in virtual time leave out.
func TestPoolOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	certs := server.TLS.Certificates
	tune := Tuning{
		ProbeInterval: 100 * time.Millisecond, ProbeTimeout: 50 * time.Millisecond, GossipInterval: 10 * time.Millisecond,
		PushPullInterval: 100 * time.Millisecond, RejoinMin: 10 * time.Millisecond, DigestInterval: 10 * time.Millisecond,
	}
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	listeners := make([]net.Listener, 2)
	for i := range listeners {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certs, NextProtos: []string{api.ALPNGossip}, MinVersion: tls.VersionTLS13})
		require.NoError(t, err)
		listeners[i] = l
	}
	all := func() []string { return []string{listeners[0].Addr().String(), listeners[1].Addr().String()} }
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{api.ALPNGossip}, MinVersion: tls.VersionTLS13}}
	pools := make([]*Pool, len(listeners))
	for i, l := range listeners {
		own := digestOf(api.ZoneID([]string{"z1", "z2"}[i]), 1)
		p, err := New(Config{
			Name: "link", Self: SyntheticName("link", l.Addr().String()), Endpoints: all, Tuning: tune,
			Dial:   func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) },
			Digest: func() *api.Digest { return own }, Logger: testLogger(), Now: time.Now,
		})
		require.NoError(t, err)
		pools[i] = p
		work.Go(func() { assert.NoError(t, p.Run(ctx)) })
		work.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				work.Go(func() {
					h, err := ReadHello(conn, time.Now().Add(HelloTimeout))
					if err != nil {
						_ = conn.Close()
						return
					}
					p.Accept(h, conn)
				})
			}
		})
	}
	for _, p := range pools {
		await.True(t, "each pool has both members and both digests", func() bool { return alive(p) == 2 && len(p.Digests()) == 2 })
	}
	stop()
	for _, l := range listeners {
		require.NoError(t, l.Close())
	}
	work.Wait()
}
