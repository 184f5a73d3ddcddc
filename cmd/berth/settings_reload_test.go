package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/node"
)

// lines is a log that several goroutines use.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// reloading is a process that could read its configuration file again.
func reloading(t *testing.T, k processKind, text string, args ...string) (r *reload, path string, log *lines, taken *[]string) {
	t.Helper()
	path = writeSettings(t, text)
	log, taken = &lines{}, &[]string{}
	logs := &logFlags{format: "text"}
	e := &env{errOut: log}
	c := k.command(e)
	config := &configFlag{path: path}
	require.NoError(t, c.ParseFlags(append(args, "--config", path)))
	require.NoError(t, config.readFile(c, e, k.known))
	logs.level = flagText(c, "log-level")
	l, err := logs.newLogger(e)
	require.NoError(t, err)
	r = newReload(c, e, k, config, logs, l, &supervised{log: l, state: func() string { return "" }}, func(fresh *cobra.Command) error {
		if k.name == "node" {
			*taken = append(*taken, flagText(fresh, "backup-keep")+" "+flagText(fresh, "rate"))
		}
		return nil
	})
	return r, path, log, taken
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestReload takes over what can be, names what needs a restart, and nothing of a file with a mistake.
func TestReload(t *testing.T) {
	r, path, log, taken := reloading(t, processKinds()[0], "dir: /d\nlog-level: info\nhost: 10.0.0.5", "--backup-keep", "3")
	rewrite(t, path, "dir: /d\nlog-level: error\nhost: 10.0.0.6\nbackup-keep: 9\nrate: {writes: 7}\nconns-per-address: 5")
	r.readAgain()
	out := log.take()
	for _, want := range []string{
		"setting has changed\" setting=log-level before=info now=error", "setting has changed\" setting=rate before=\"\" now=\"writes=7\"",
		"needs a restart\" setting=host before=10.0.0.5 then=10.0.0.6", "needs a restart\" setting=conns-per-address before=0 then=5", "read again", "different=4",
	} {
		assert.Contains(t, out, want, "whatever the level is now")
	}
	assert.NotContains(t, out, "backup-keep", "the flag beats the file here too")
	assert.Equal(t, []string{"3 [writes=7]"}, *taken)
	assert.Equal(t, slog.LevelError, r.logs.now.Level())

	r.readAgain()
	out = log.take()
	assert.NotContains(t, out, "setting has changed", "it has been taken over")
	assert.Contains(t, out, "setting=host", "it has not")

	for _, bad := range []string{"dir: /d\nlog-level: loud", "dir: [", "dir: /d\nbackup-keep: 0\nlog-level: debug"} {
		rewrite(t, path, bad)
		r.readAgain()
		out = log.take()
		assert.Contains(t, out, "level=ERROR", bad)
		assert.Contains(t, out, "nothing has changed", bad)
		assert.Contains(t, out, path, bad)
		assert.Equal(t, slog.LevelError, r.logs.now.Level())
	}
	require.NoError(t, os.Remove(path))
	r.readAgain()
	assert.Contains(t, log.take(), "cannot be read")
	assert.Len(t, *taken, 2)

	rewrite(t, path, "dir: /d")
	r.readAgain()
	assert.Equal(t, slog.LevelInfo, r.logs.now.Level(), "the default again")
	assert.NotContains(t, log.take(), "setting=host", "what is kept stays as it is")
}

// TestReloadOfAnAgent, and of a process that has no file.
func TestReloadOfAnAgent(t *testing.T) {
	r, path, log, _ := reloading(t, processKinds()[1], "dir: /d\ntrait: [CUSTOM_A]")
	rewrite(t, path, "dir: /d\ntrait: [CUSTOM_A, CUSTOM_B]\nlog-level: debug")
	r.readAgain()
	assert.Contains(t, log.take(), "needs a restart\" setting=trait before=CUSTOM_A then=CUSTOM_A,CUSTOM_B")
	assert.Equal(t, slog.LevelDebug, r.logs.now.Level())
	r.config.path = ""
	r.readAgain()
	assert.Contains(t, log.take(), "without --config")
}

// TestSIGHUPOfANode runs a node with a file: the signal does not end it, and its schedule of backups begins.
func TestSIGHUPOfANode(t *testing.T) {
	home := t.TempDir()
	dir, backups := filepath.Join(home, "n1"), filepath.Join(home, "backups")
	const own = "127.0.79.1:0"
	_, err := node.Init(node.InitOptions{
		Dir: dir, Name: "west", Node: "n1", Now: time.Now(),
		Placement: node.Placement{Listen: node.Addresses{API: own, Gateway: own, Node: own, Agent: own, Admin: own}},
	})
	require.NoError(t, err)
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "600000000")
	path := writeSettings(t, "dir: "+dir)
	ctx, stop := context.WithCancel(t.Context())
	var log lines
	ended := make(chan error, 1)
	go func() {
		ended <- runCommand(ctx, []string{"node", "--config", path}, os.Getenv, strings.NewReader(""), io.Discard, &log)
	}()
	m.next(t, "READY=1\nSTATUS=n1 of zone west ")
	rewrite(t, path, "dir: "+dir+"\nbackup-dir: "+backups+"\nlog-level: debug")
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	m.next(t, "RELOADING=1\nMONOTONIC_USEC=")
	m.next(t, "READY=1")
	await.True(t, "there is a backup", func() bool {
		found, err := filepath.Glob(backups + "/west-*.backup")
		return err == nil && len(found) == 1
	})
	text := log.take()
	assert.Contains(t, text, "setting=backup-dir")
	assert.Contains(t, text, "setting=log-level")

	exit, out, errOut := berth(t, "operator", "log-level", "warn", "--dir", dir)
	require.Zero(t, exit, errOut)
	assert.Equal(t, "warn\n", out)
	stop()
	m.next(t, "STOPPING=1")
	require.NoError(t, <-ended)
}
