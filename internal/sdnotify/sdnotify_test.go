package sdnotify

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func notifier(t *testing.T, env map[string]string) (*Notifier, error) {
	t.Helper()
	return New(func(k string) string { return env[k] }, 4711)
}

// TestNotify sends each message to a real socket, by a path and by an abstract name.
func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@berth-test-%d", time.Now().UnixNano())} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		require.NoError(t, err)
		n, err := notifier(t, map[string]string{envSocket: name})
		require.NoError(t, err)
		read := func() string {
			b := make([]byte, 4096)
			got, err := c.Read(b)
			require.NoError(t, err)
			return string(b[:got])
		}
		require.NoError(t, n.Ready("leads\nREADY=0"))
		assert.Equal(t, "READY=1\nSTATUS=leads READY=0\n", read(), "a status has one line")
		require.NoError(t, n.Alive())
		assert.Equal(t, "WATCHDOG=1\n", read())
		require.NoError(t, n.Stopping())
		assert.Equal(t, "STOPPING=1\n", read())
		require.NoError(t, n.Reloading())
		assert.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\n$`, read())
		for length, want := range map[int]int{statusMax: statusMax, statusMax + 1: statusMax} {
			require.NoError(t, n.Status(strings.Repeat("x", length)))
			assert.Len(t, read(), len("STATUS=\n")+want)
		}
		require.NoError(t, c.Close())
		require.Error(t, n.Alive(), "nobody listens")
	}
}

// TestEnvironment: who is told, and how often.
func TestEnvironment(t *testing.T) {
	n, err := notifier(t, nil)
	require.NoError(t, err)
	require.Nil(t, n)
	require.NoError(t, n.Alive(), "a process without a manager tells nobody")
	assert.Zero(t, n.Watchdog())
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
		bad       bool
	}{
		{"30000000", "", 30 * time.Second, false},
		{"30000000", "4711", 30 * time.Second, false},
		{"30000000", "1", 0, false},
		{"", "4711", 0, false},
		{"1", "", time.Microsecond, false},
		{"0", "", 0, true},
		{"-1", "", 0, true},
		{"soon", "", 0, true},
		{"9223372036854775807", "", 0, true},
	} {
		n, err := notifier(t, map[string]string{envSocket: "/run/x", envInterval: c.usec, envPID: c.pid})
		assert.Equal(t, c.bad, err != nil, c)
		if err == nil {
			assert.Equal(t, c.want, n.Watchdog(), c)
		}
	}
	for _, bad := range []string{"x", "@", "/", "vsock:2:1234"} {
		_, err := notifier(t, map[string]string{envSocket: bad})
		require.Error(t, err, bad)
	}
}
