package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/cli"
	"berth/node"
)

// keptAgent returns the directory of an agent whose settings are as after a first start.
func keptAgent(t *testing.T, dev devZone, flags string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "agent")
	_, err := node.JoinAgent(t.Context(), node.JoinOptions{Dir: dir, Token: dev.joinToken(t), Plain: true, Now: readClock})
	require.NoError(t, err)
	require.NoError(t, startsAgent(t, dir, flags))
	return dir
}

// startsAgent does what an agent does with its flags before it serves.
func startsAgent(t *testing.T, dir, flags string) error {
	t.Helper()
	_, _, err := agentStart(t, dir, flags)
	return err
}

func agentStart(t *testing.T, dir, flags string) (a *agentFlags, log string, err error) {
	t.Helper()
	a = &agentFlags{}
	c := a.newCommand(&env{})
	require.NoError(t, c.ParseFlags(append([]string{"--dir", dir}, splitFlags(flags)...)))
	if err = a.useRemembered(c); err != nil {
		return a, "", err
	}
	home, _, err := a.joinOrOpenHome(t.Context())
	require.NoError(t, err)
	var b bytes.Buffer
	err = a.remember(c, home, slog.New(slog.NewTextHandler(&b, nil)))
	return a, b.String(), err
}

// splitFlags splits at blanks; ” is an empty value.
func splitFlags(line string) []string {
	out := strings.Fields(line)
	for i, f := range out {
		out[i] = strings.ReplaceAll(f, "''", "")
	}
	return out
}

// TestAnAgentKeepsItsSettings: what is not given is as before, what names hosts cannot change, and
// nothing else changes without a line in the log.
func TestAnAgentKeepsItsSettings(t *testing.T) {
	dir := keptAgent(t, newDevZone(t), "--driver fake --hosts 3 --prefix rack1 --pool reservable --trait CUSTOM_A --trait CUSTOM_B --attribute price=3 --users 200000-200009")
	a, log, err := agentStart(t, dir, "")
	require.NoError(t, err)
	assert.Empty(t, log)
	assert.Equal(t, []any{"fake", 3, "rack1", "reservable", []string{"CUSTOM_A", "CUSTOM_B"}, []string{"price=3"}, "200000-200009"},
		[]any{a.driver, a.hosts, a.prefix, a.pool, a.traits, a.attributes, a.users})

	for _, flags := range []string{"--driver process", "--hosts 4", "--hosts 1", "--prefix host", "--name h1"} {
		before, err := os.ReadFile(filepath.Join(dir, "agent.json"))
		require.NoError(t, err)
		err = startsAgent(t, dir, flags)
		require.ErrorContains(t, err, strings.Fields(flags)[0]+" was ", flags)
		require.ErrorContains(t, err, "Leave "+strings.Fields(flags)[0]+" out", flags)
		after, err := os.ReadFile(filepath.Join(dir, "agent.json"))
		require.NoError(t, err)
		assert.Equal(t, string(before), string(after), flags)
	}
	require.NoError(t, startsAgent(t, dir, "--driver fake --hosts 3"), "the same as before")

	_, log, err = agentStart(t, dir, "--pool shared --trait '' --user nobody")
	require.NoError(t, err)
	for _, flag := range []string{"pool", "trait", "user", "users"} {
		assert.Contains(t, log, "flag="+flag+" ")
	}
	assert.NotContains(t, log, "flag=attribute")
	require.NoError(t, node.KeepAddresses(dir, []string{"n1:1"}), "and addresses are kept apart from settings")
	a, log, err = agentStart(t, dir, "")
	require.NoError(t, err)
	assert.Empty(t, log)
	assert.Equal(t, []any{"shared", "nobody", "", []string{"price=3"}}, []any{a.pool, a.user, a.users, a.attributes})
	assert.Empty(t, a.traits)
}

// TestATokenOfAnotherZoneIsNotIgnored, while one that was used up is.
func TestATokenOfAnotherZoneIsNotIgnored(t *testing.T) {
	mine, other := newDevZone(t), newDevZone(t)
	dir := keptAgent(t, mine, "--driver fake")
	for _, c := range []struct {
		token string
		exit  int
	}{{other.joinToken(t), 4}, {"berth-join-x", 0}} {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(c.token), 0o600))
		a := &agentFlags{dir: dir, join: file}
		_, _, err := a.joinOrOpenHome(t.Context())
		if c.exit == 0 {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "leave --join-file out")
		assert.Equal(t, c.exit, cli.ReportError(&bytes.Buffer{}, err))
	}
	a := &agentFlags{dir: dir, join: "/gone/since"}
	_, _, err := a.joinOrOpenHome(t.Context())
	require.NoError(t, err)
}

// devZone is a running zone of one node.
type devZone struct{ n *node.Node }

func newDevZone(t *testing.T) devZone {
	t.Helper()
	const own = "127.0.0.1:0"
	dir := filepath.Join(t.TempDir(), "n1")
	_, err := node.Init(node.InitOptions{Dir: dir, Name: "west", Now: readClock(), Placement: node.Placement{Listen: node.Addresses{API: own, Gateway: own, Node: own, Agent: own, Admin: own}}})
	require.NoError(t, err)
	n, err := node.Open(node.Options{Dir: dir, Version: "v1", Log: slog.New(slog.DiscardHandler), Now: readClock, Plain: true})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-done)
	})
	require.NoError(t, n.Ready(ctx))
	return devZone{n}
}

func (z devZone) joinToken(t *testing.T) string {
	t.Helper()
	text, err := z.n.Federation().JoinToken(t.Context(), api.JoinAgent, api.NewUUID(), time.Minute)
	require.NoError(t, err)
	return text
}
