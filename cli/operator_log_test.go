package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/await"
	"berth/node"
	"berth/raftstore"
	"berth/raftstore/command"
)

// stoppedNode makes a zone of one node, runs it until its first command is logged,
// and stops it. While it runs, during is called.
func stoppedNode(t *testing.T, during func(dir string)) (dir, token string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "n1")
	token, err := node.Init(node.InitOptions{
		Dir: dir, Name: "west", Node: "n1", Now: time.Now(),
		Placement: node.Placement{Listen: node.Addresses{API: "127.0.0.1:0", Gateway: "127.0.0.1:0", Node: "127.0.0.1:0", Agent: "127.0.0.1:0", Admin: "127.0.0.1:0"}},
	})
	require.NoError(t, err)
	n, err := node.Open(node.Options{Dir: dir, Version: "v1", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	await.Until(t, "the node is ready", n.Ready)
	during(dir)
	stop()
	require.NoError(t, <-done)
	return dir, token
}

func TestOperatorLog(t *testing.T) {
	log := func(args ...string) result {
		return berth(t.Context(), nil, "", append([]string{"operator", "log", "--dir"}, args...)...)
	}
	dir, token := stoppedNode(t, func(dir string) {
		r := log(dir)
		assert.Equal(t, exitConflict, r.exit)
		assert.Contains(t, r.errOut, "another process uses the data directory")
		assert.Contains(t, r.errOut, "hint: stop the node first")
	})

	r := log(dir)
	require.Zero(t, r.exit, r.errOut)
	assert.Regexp(t, `(?m)^INDEX +TERM +KIND +COMMANDS +BYTES +TIME$`, r.out)
	assert.Regexp(t, `(?m)^1 +1 +configuration +n1=127\.0\.0\.1:\d+ +\d+ +-$`, r.out)
	assert.Regexp(t, `(?m)^\d+ +\d+ +command +Init +\d+ +20\d\d-`, r.out)
	assert.Contains(t, r.errOut, "node n1: term ")

	r = log(dir, "--from", "2", "--limit", "1", "--no-headers")
	require.Zero(t, r.exit, r.errOut)
	assert.Len(t, strings.Split(strings.TrimSpace(r.out), "\n"), 1, r.out)
	r = log(dir, "--to", "1", "--no-headers")
	assert.Len(t, strings.Split(strings.TrimSpace(r.out), "\n"), 1, r.out)

	r = log(dir, "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	first := firstCommandIn(t, r.out)
	assert.Equal(t, "Init", first.Command)
	assert.Equal(t, "west", first.Fields["name"])
	assert.Regexp(t, `^\(\d+ bytes\)$`, first.Fields["ca_key"])
	assert.Regexp(t, `^\(\d+ bytes\)$`, first.Fields["admin"].(map[string]any)["hash"])
	assert.Regexp(t, `^20\d\d-`, first.Fields["at"])
	assert.NotContains(t, r.out, token)

	r = log(dir, "--from", "4711")
	require.Zero(t, r.exit, r.errOut)
	assert.Contains(t, r.errOut, "there are no entries from 4711 on")

	r = log(t.TempDir())
	assert.Equal(t, exitNotFound, r.exit)
	assert.Contains(t, r.errOut, "hint: give the data directory of a node")
	r = log(dir, "--linearizable")
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "leave out --linearizable")
	assert.Equal(t, exitUsage, log(dir, "-o", "yaml").exit)
	assert.Equal(t, exitUsage, log(dir, "--from", "3", "--to", "2").exit)
	assert.Equal(t, exitUsage, berth(t.Context(), nil, "", "operator", "log").exit)

	damage(t, filepath.Join(dir, raftFolder, "raft.db"), "west")
	r = log(dir)
	assert.Equal(t, ExitBroken, r.exit)
	assert.Contains(t, r.errOut, "checksum of the entry at index")
	assert.Contains(t, r.errOut, "berth operator remove n1")
	assert.NotContains(t, r.errOut, "hint")
}

// alone is a stream to nobody.
type alone struct{ net.Listener }

func (alone) Dial(_ api.NodeID, addr string, _ time.Duration) (net.Conn, error) {
	return nil, errors.New("nobody is at " + addr)
}

func TestLogOfANodeThatNeverVoted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "raft")
	s, err := raftstore.Open(raftstore.Config{
		ID: "n1", Dir: dir, Advertise: "h:1", Stream: alone{l}, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	r := berth(t.Context(), nil, "", "operator", "log", "--dir", filepath.Dir(dir))
	require.Zero(t, r.exit, r.errOut)
	assert.Equal(t, "node n1: term 0, it has not voted, no entries\n", r.errOut)
}

func firstCommandIn(t *testing.T, out string) commandLine {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var line entryLine
		err := d.Decode(&line)
		require.NotErrorIs(t, err, io.EOF, "no line has a command")
		require.NoError(t, err)
		if len(line.Commands) > 0 {
			return line.Commands[0]
		}
	}
}

// damage flips a bit wherever a file holds what.
func damage(t *testing.T, path, what string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), what)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(b), what, "w"+string(what[1]^1)+what[2:])), 0o600))
}

func TestLogShowsNoBytes(t *testing.T) {
	secret := []byte("secret-secret")
	fields := jsonValue(reflect.ValueOf(command.LinkPut{
		Stamp: command.Stamp{At: 1}, Hash: secret, Link: api.Link{Name: "a", CA: secret, Endpoints: []string{"h:1"}},
	}))
	b, err := json.Marshal(fields)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "secret")
	assert.Contains(t, string(b), `"(13 bytes)"`)
	assert.Contains(t, string(b), `"gateways":["h:1"]`)
	assert.Equal(t, "Prune, NodePut x2", commandNames([]command.Command{command.Prune{}, command.NodePut{}, command.NodePut{}}))
	assert.Equal(t, "n1=h:1, n2=h:2 (no vote)", membersText([]raftstore.Member{{ID: "n1", Addr: "h:1", Voter: true}, {ID: "n2", Addr: "h:2"}}))
}

// TestOperatorRecover refuses what needs no recovery, and says why. How a zone is recovered is shown with processes.
func TestOperatorRecover(t *testing.T) {
	recoverZone := func(args ...string) result {
		return berth(t.Context(), nil, "", append([]string{"operator", "recover"}, args...)...)
	}
	dir, _ := stoppedNode(t, func(dir string) {
		r := recoverZone("--dir", dir, "--yes")
		assert.Equal(t, exitConflict, r.exit)
		assert.Contains(t, r.errOut, "hint: stop the node first")
	})
	r := recoverZone("--dir", dir, "--yes")
	assert.Equal(t, exitConflict, r.exit)
	assert.Contains(t, r.errOut, "MEMBER")
	assert.Contains(t, r.errOut, "goes on")
	assert.Contains(t, r.errOut, "is the only voter of its zone already; start it")
	assert.Equal(t, exitNotFound, recoverZone("--dir", t.TempDir(), "--yes").exit)
	assert.Equal(t, exitUsage, recoverZone("--yes").exit)
	assert.Equal(t, exitUsage, recoverZone("--dir", dir, "--context", "x").exit)
	assert.Equal(t, exitUsage, recoverZone("--dir", dir, "-o", "xml").exit)
}
