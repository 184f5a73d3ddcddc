package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/cli"
	"berth/identity"
	"berth/node"
)

// berth runs one command line and returns its exit code and output.
func berth(t *testing.T, args ...string) (exit int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	err := runCommand(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &o, &e)
	exit = cli.ReportError(&e, err)
	return exit, o.String(), e.String()
}

func TestProcessesHaveHelp(t *testing.T) {
	for _, c := range processCommands(&env{}) {
		exit, out, _ := berth(t, "help", c.Name())
		assert.Zero(t, exit, c.Name())
		assert.Contains(t, out, c.Long)
		assert.NotEmpty(t, c.Short, c.Name())
		assert.NotNil(t, c.Args, "%s: says which arguments it takes", c.Name())
		assert.True(t, strings.HasPrefix(c.Example, "  berth "+c.Name()), "%s: an example, indented by two", c.Name())
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if assert.Greater(t, len(words), 1, line) {
				assert.NoError(t, c.ParseFlags(words[2:]), line)
			}
		}
	}
	_, out, _ := berth(t)
	assert.Contains(t, out, "Processes:\n  agent")
}

// TestErrorsOfProcessesHaveNoHintsOfCalls: the hints for codes are about calls of a
// zone.
func TestErrorsOfProcessesHaveNoHintsOfCalls(t *testing.T) {
	const usage, notFound = 2, 3
	dir := t.TempDir()
	for line, want := range map[string]int{
		"node --dir " + dir:                      notFound,
		"node --dir " + dir + " --log-level x":   usage,
		"agent --dir " + dir:                     usage,
		"init --dir " + dir + " --name ''":       usage,
		"dev --zones " + dir + "/none.yaml":      usage,
		"demo --log-format x":                    usage,
		"node --dir x --join-file " + dir + "/t": usage,
	} {
		exit, _, errOut := berth(t, strings.Fields(line)...)
		assert.Equal(t, want, exit, line)
		assert.NotContains(t, errOut, "hint", line)
	}
	exit, _, errOut := berth(t, "node", "more")
	assert.Equal(t, usage, exit)
	assert.Contains(t, errOut, "berth node --help")
}

// TestCapsOfInstancesAreChecked before an agent uses up its token.
func TestCapsOfInstancesAreChecked(t *testing.T) {
	const other = "is not the directory of an agent"
	for flag, want := range map[string]string{
		"--output-max 1M":    other,
		"--output-max 1T":    other,
		"--output-max 0":     "--output-max must be a size",
		"--output-max 1.5M":  "--output-max must be a size",
		"--output-max 1025G": "--output-max must be a size",
		"--disk-every 1s":    other,
		"--disk-every 1h":    other,
		"--disk-every 0":     "--disk-every must be 1s to 1h",
		"--disk-every 999ms": "--disk-every must be 1s to 1h",
		"--disk-every 1h1ns": "--disk-every must be 1s to 1h",
	} {
		exit, _, errOut := berth(t, strings.Fields("agent --dir "+t.TempDir()+" "+flag)...)
		assert.Equal(t, 2, exit, flag)
		assert.Contains(t, errOut, want, flag)
	}
}

func TestAFileOfZonesThatStandsForGigabytesIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.yaml")
	require.NoError(t, os.WriteFile(path, []byte("a: &a [x, x]\nb: [*a, *a]\n"), 0o600))
	exit, _, errOut := berth(t, "dev", "--zones", path)
	assert.Equal(t, 2, exit)
	assert.Contains(t, errOut, "line 1 has an anchor or alias")
}

// TestADamagedNodeDoesNotStart runs a zone of one node until its first command is
// logged, and flips a bit in its log.
func TestADamagedNodeDoesNotStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "n1")
	const own = "127.0.78.1:0" // nobody else takes its ports while the node is down
	_, err := node.Init(node.InitOptions{
		Dir: dir, Name: "west", Node: "n1", Now: time.Now(),
		Placement: node.Placement{Listen: node.Addresses{API: own, Gateway: own, Node: own, Agent: own, Admin: own}},
	})
	require.NoError(t, err)
	n, err := node.Open(node.Options{Dir: dir, Version: "v1", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	require.NoError(t, n.Ready(ctx))
	stop()
	require.NoError(t, <-done)
	path := filepath.Join(dir, "raft", "raft.db")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(b, []byte("west"), []byte("wdst")), 0o600))
	exit, _, errOut := berth(t, "node", "--dir", dir, "--join-file", "/gone/since/the/first/start")
	assert.Equal(t, cli.ExitBroken, exit)
	assert.Contains(t, errOut, "checksum of the entry at index")
	assert.NotContains(t, errOut, "hint")
}

// TestInitWithAnAuthority: the zone has the id in its certificate, and signs with its key.
func TestInitWithAnAuthority(t *testing.T) {
	home := t.TempDir()
	ca, err := identity.NewCA("zone-of-mine", time.Now())
	require.NoError(t, err)
	der, err := ca.KeyDER()
	require.NoError(t, err)
	cert, key, dir := filepath.Join(home, "ca.pem"), filepath.Join(home, "ca-key.pem"), filepath.Join(home, "n1")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.CertDER()}), 0o644))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	for want, more := range map[string][]string{
		"both its certificate and its key": {"--ca-cert", cert}, "no such file": {"--ca-cert", cert, "--ca-key", home + "/none"}, "must have certificates alone": {"--ca-cert", key, "--ca-key", key},
		"--from-backup": {"--ca-cert", cert, "--ca-key", key, "--from-backup", "b", "--kek", "k"},
	} {
		exit, _, errOut := berth(t, append([]string{"init", "--dir", dir, "--name", "west"}, more...)...)
		assert.Equal(t, 2, exit, errOut)
		assert.Contains(t, errOut, want)
		assert.NoDirExists(t, dir)
	}
	exit, _, errOut := berth(t, "init", "--dir", dir, "--name", "west", "--ca-cert", cert, "--ca-key", key)
	require.Zero(t, exit, errOut)
	own, err := identity.LoadDir(dir, identity.RoleNode)
	require.NoError(t, err)
	assert.Equal(t, ca.CertDER(), own.CA.Raw)
	assert.EqualValues(t, "zone-of-mine", own.Subject.Zone)
}

// TestOwnCertificateInSettings: a file that names certificates that cannot be used is refused, with a sentence about them.
func TestOwnCertificateInSettings(t *testing.T) {
	for text, want := range map[string]string{
		"dir: /d\napi-cert: /nowhere/c.pem":                          "needs both --api-cert and --api-key",
		"dir: /d\napi-cert: /nowhere/c.pem\napi-key: /nowhere/k.pem": "open /nowhere/c.pem: no such file",
	} {
		exit, _, errOut := berth(t, "config", "check", writeSettings(t, text))
		assert.Equal(t, 2, exit)
		assert.Contains(t, errOut, want)
	}
}
