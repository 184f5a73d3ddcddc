package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServeLeavesNoConnection: connections end with a server, also if its listener was
// closed before it was told to end.
func TestServeLeavesNoConnection(t *testing.T) {
	for name, end := range map[string]func(cancel func(), ln net.Listener){
		"told":             func(cancel func(), _ net.Listener) { cancel() },
		"without listener": func(_ func(), ln net.Listener) { _ = ln.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var lc net.ListenConfig
			ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- serveHTTP(ctx, ln, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), slog.New(slog.DiscardHandler))
			}()
			var d net.Dialer
			c, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
			require.NoError(t, err)
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			_, err = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			require.NoError(t, err)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())

			end(cancel, ln)
			require.NoError(t, <-ended)
			_, err = c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "it is closed")
			require.NoError(t, c.Close())
		})
	}
}
