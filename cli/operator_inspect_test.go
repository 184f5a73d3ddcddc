package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/node"
)

// runSaved runs a zone of one node with one flavor, saves a snapshot, and stops it.
func runSaved(t *testing.T) (dir, file string) {
	t.Helper()
	dir, file = filepath.Join(t.TempDir(), "n1"), filepath.Join(t.TempDir(), "zone.snapshot")
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
	env := map[string]string{"BERTH_ADDR": "https://" + n.Addresses().API, "BERTH_TOKEN": token, "BERTH_CACERT": filepath.Join(dir, "ca.pem")}
	for _, args := range [][]string{{"flavor", "create", "small", "--vcpus", "1"}, {"operator", "snapshot", "save", file}} {
		r := berth(t.Context(), env, "", args...)
		require.Zero(t, r.exit, r.errOut)
	}
	stop()
	require.NoError(t, <-done)
	return dir, file
}

// TestInspect: without its key a snapshot shows its size, with it what is in it; a changed one and another key are refused.
func TestInspect(t *testing.T) {
	inspect := func(args ...string) result {
		return berth(t.Context(), nil, "", append([]string{"operator", "snapshot", "inspect"}, args...)...)
	}
	dir, file := runSaved(t)
	kek := filepath.Join(dir, "kek")

	r := inspect(file)
	require.Zero(t, r.exit, r.errOut)
	assert.Regexp(t, `(?m)^SEALED +yes$`, r.out)
	assert.NotContains(t, r.out, "ZONE")
	assert.Contains(t, r.errOut, "--kek FILE")

	r = inspect(file, "--kek", kek)
	require.Zero(t, r.exit, r.errOut)
	assert.Regexp(t, `(?m)^ZONE +west$`, r.out)
	assert.Regexp(t, `(?m)^flavors +1$`, r.out)

	r = inspect(file, "--kek", kek, "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	var got struct {
		Bytes   int64
		Content int64 `json:"content_bytes"`
		backupContent
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &got))
	assert.Equal(t, "west", got.Zone)
	assert.NotEmpty(t, got.ZoneID)
	assert.Positive(t, got.Index)
	assert.Positive(t, got.Term)
	assert.Positive(t, got.At)
	assert.Equal(t, map[string]int{"audit": got.Records["audit"], "flavors": 1, "nodes": 1, "tokens": 1}, got.Records)
	assert.Equal(t, got.Bytes-got.Content, int64(8+24+16))

	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, b, 0o600))
	r = inspect(bad, "--kek", kek)
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "was changed or cut since")
	other, _ := runSaved(t)
	r = inspect(file, "--kek", filepath.Join(other, "kek"))
	assert.Equal(t, exitUsage, r.exit)
	assert.Contains(t, r.errOut, "none of these key-encryption keys")
	r = inspect(file, "--kek", file)
	assert.Contains(t, r.errOut, "give the file kek of a node")
	r = inspect(filepath.Join(dir, "none"))
	assert.Equal(t, exitUsage, r.exit)
}
