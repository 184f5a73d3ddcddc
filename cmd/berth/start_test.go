package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cli"
	"berth/internal/await"
)

// asBerth is set in the environment of a copy of this test program that is to be berth.
const asBerth = "BERTH_TEST_AS_BERTH"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) == "" {
		os.Exit(m.Run())
	}
	err := runCommand(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	os.Exit(cli.ReportError(os.Stderr, err))
}

// blocksOf returns the shell scripts of one section of a document.
func blocksOf(t *testing.T, path, section string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found)
	after, _, _ = strings.Cut(after, "\n## ")
	var out []string
	for {
		_, rest, found := strings.Cut(after, "```sh\n")
		if !found {
			return out
		}
		var block string
		block, after, found = strings.Cut(rest, "```\n")
		require.True(t, found)
		out = append(out, block)
	}
}

// startDev runs "berth dev" until the test ends, and returns the address and the token of
// its root zone.
func startDev(t *testing.T) (addr, token string) {
	t.Helper()
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready.json")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- runCommand(ctx, []string{"dev", "--data-dir", filepath.Join(dir, "data"), "--ready-file", ready}, os.Getenv, strings.NewReader(""), io.Discard, io.Discard)
	}()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	var told struct {
		Zones []struct{ API, Token string }
	}
	await.True(t, "berth dev is ready", func() bool {
		b, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(b, &told) == nil && len(told.Zones) > 0
	})
	return told.Zones[0].API, told.Zones[0].Token
}

// TestTheFiveMinutesOfLeases types the start of docs/leases.md.
func TestTheFiveMinutesOfLeases(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("the scripts need bash")
	}
	blocks := blocksOf(t, "../../docs/leases.md", "Five minutes")
	require.Len(t, blocks, 6)
	require.Equal(t, "berth dev\n", blocks[0])
	addr, token := startDev(t)
	bin, err := os.Executable()
	require.NoError(t, err)
	script := func(block string) (string, error) {
		c := exec.CommandContext(t.Context(), "bash", "-c", `berth() { `+asBerth+`=1 "$BIN" "$@"; }`+"\n"+block)
		c.Env = append(os.Environ(), "BIN="+bin, "BERTH_ADDR="+addr, "BERTH_TOKEN="+token)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	run := func(block string) string {
		t.Helper()
		out, err := script("set -e\n" + block)
		require.NoError(t, err, "%s\n%s", block, out)
		return out
	}
	out := run(blocks[1])
	assert.Contains(t, out, "lease lab is ACTIVE")
	assert.Contains(t, out, "25 of 25 instances")
	assert.Regexp(t, `(?m) west +(1\d|20) +active`, out)
	assert.Regexp(t, `(?m) east +\d+ +active`, out)

	boot, more, _ := strings.Cut(strings.TrimSpace(blocks[2]), "\n")
	assert.Contains(t, run(boot), "25 of 25 wanted")
	out, err = script(more)
	require.Error(t, err, "one more has no room")
	assert.Contains(t, out, "no_capacity")

	out = run(blocks[3])
	assert.Contains(t, out, "(3h)")
	assert.Regexp(t, `(?m)^lab +\.*#+`, out)
	assert.Regexp(t, `(?m)^training +\.*=+`, out)

	plan, find, _ := strings.Cut(strings.TrimSpace(blocks[4]), "\n")
	out, err = script(plan)
	require.Error(t, err, "there is no room beside the lease")
	assert.Contains(t, out, "15 of 31 hosts")
	out = run(find)
	assert.Contains(t, out, "EARLIEST")

	out = run(blocks[5])
	assert.Contains(t, out, "lease lab is deleted")
	assert.Contains(t, out, "lease training is deleted")
	assert.NotContains(t, out, "ACTIVE")
}
