package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/internal/sdnotify"
)

// manager is a service manager with a real socket.
type manager struct {
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &manager{c, path}
}

// next returns the next datagram that has a text in it.
func (m *manager) next(t *testing.T, want string) string {
	t.Helper()
	b := make([]byte, 4096)
	require.NoError(t, m.conn.SetReadDeadline(time.Now().Add(await.Limit)))
	for {
		n, err := m.conn.Read(b)
		require.NoError(t, err, want)
		if strings.Contains(string(b[:n]), want) {
			return string(b[:n])
		}
	}
}

// TestTheWatchdogIsFedByAProcessThatWorks, and by no other.
func TestTheWatchdogIsFedByAProcessThatWorks(t *testing.T) {
	m := newManager(t)
	env := map[string]string{"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "60000"}
	to, err := sdnotify.New(func(k string) string { return env[k] }, 1)
	require.NoError(t, err)
	var (
		stuck  atomic.Bool
		asked  atomic.Int64
		log    bytes.Buffer
		status atomic.Pointer[string]
	)
	first, second := "waits", "leads"
	status.Store(&first)
	s := &supervised{to, slog.New(slog.NewTextHandler(&log, nil)), func(ctx context.Context) error {
		asked.Add(1)
		if stuck.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, func() string { return *status.Load() }}
	end, ended := make(chan struct{}), make(chan error, 1)
	broken := errors.New("broken")
	go func() {
		ended <- s.run(t.Context(), func() error {
			<-end
			return broken
		})
	}()
	assert.Equal(t, "READY=1\nSTATUS=waits\n", m.next(t, ""))
	m.next(t, "WATCHDOG=1")
	m.next(t, "WATCHDOG=1")
	status.Store(&second)
	assert.Equal(t, "STATUS=leads\n", m.next(t, "STATUS"))

	stuck.Store(true)
	before := asked.Load()
	await.True(t, "it is asked twice", func() bool { return asked.Load() > before+1 })
	b := make([]byte, 4096)
	for { // what was sent before
		require.NoError(t, m.conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
		if _, err := m.conn.Read(b); err != nil {
			break
		}
	}
	before = asked.Load()
	await.True(t, "it is asked again and again", func() bool { return asked.Load() > before+3 })
	require.NoError(t, m.conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = m.conn.Read(b)
	require.Error(t, err, "a process that is stuck feeds nobody")
	stuck.Store(false)
	m.next(t, "WATCHDOG=1")
	close(end)
	m.next(t, "STOPPING=1")
	require.ErrorIs(t, <-ended, broken)
	assert.Contains(t, log.String(), "its watchdog is not fed")
}

// TestAnswers: what returns is an answer, and what does not is none.
func TestAnswers(t *testing.T) {
	require.NoError(t, answers(func() {})(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hang := make(chan struct{})
	defer close(hang)
	require.ErrorIs(t, answers(func() { <-hang })(ctx), context.Canceled)
}
