package node

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
		var here sync.WaitGroup // until all calls have arrived
		srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			here.Done()
			here.Wait()
		}))
		var dialled atomic.Int64
		rt := newTransport(func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled.Add(1)
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		})
		callAll := func() int64 {
			before := dialled.Load()
			here.Add(calls)
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(srv.URL, "http:", "https:", 1), nil)
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
		srv.Close()
	}
}
