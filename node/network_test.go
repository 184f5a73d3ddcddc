package node

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConnectionsAreKept makes so many calls at the same time, twice: the second time only
// those above the limit need a connection of their own.
func TestConnectionsAreKept(t *testing.T) {
	for calls, more := range map[int]int64{1: 0, keptConnsMax: 0, keptConnsMax + 1: 1} {
		virtually(t, func(t *world) {
			var here sync.WaitGroup // until all calls have arrived
			ln, err := t.net.Listen(t.Context(), "127.0.0.1:0")
			require.NoError(t, err)
			srv, ended := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				here.Done()
				here.Wait()
			})}, make(chan error, 1)
			go func() { ended <- srv.Serve(ln) }()
			var dialled atomic.Int64
			rt := newTransport(func(ctx context.Context, _, addr string) (net.Conn, error) {
				dialled.Add(1)
				return t.net.Dial(ctx, addr)
			})
			callAll := func() int64 {
				before := dialled.Load()
				here.Add(calls)
				var wg sync.WaitGroup
				for range calls {
					wg.Go(func() {
						r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+ln.Addr().String(), nil)
						if assert.NoError(t, err) {
							res, err := rt.RoundTrip(r)
							if assert.NoError(t, err) {
								assert.NoError(t, res.Body.Close())
							}
						}
					})
				}
				wg.Wait()
				return dialled.Load() - before
			}
			require.EqualValues(t, calls, callAll(), "of %d", calls)
			assert.Equal(t, more, callAll(), "of %d again", calls)
			rt.CloseIdleConnections()
			require.NoError(t, srv.Close())
			require.ErrorIs(t, <-ended, http.ErrServerClosed)
		})
	}
}
