package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/internal/adminsock"
	"berth/internal/await"
	"berth/node"
	"berth/raftstore/command"
)

// readReport returns the files of a report by their names.
func readReport(t *testing.T, path string) map[string][]byte {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "its owner alone reads it")
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		body, err := io.ReadAll(r)
		require.NoError(t, err)
		name, ok := strings.CutPrefix(h.Name, "berth-debug/")
		require.True(t, ok, h.Name)
		files[name] = body
		if zip, err := gzip.NewReader(bytes.NewReader(body)); err == nil { // a profile
			body, err = io.ReadAll(zip)
			require.NoError(t, err)
			files[name+" unzipped"] = body
		}
	}
}

// forms returns the forms in which a secret may be written.
func forms(secret []byte) [][]byte {
	out := [][]byte{secret, []byte(hex.EncodeToString(secret)), []byte(strings.ToUpper(hex.EncodeToString(secret)))}
	for skip := range 3 { // wherever it begins in a longer text
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(append(make([]byte, skip), secret...))
			out = append(out, []byte(text[4:len(text)-2]))
		}
	}
	return out
}

// secretsOf returns what must be in no report of a node: its keys, as they are on its disk.
func secretsOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "raft.db" {
			return err
		}
		b, err := os.ReadFile(path)
		for err == nil {
			var block *pem.Block
			if block, b = pem.Decode(b); block == nil {
				break
			}
			if strings.Contains(block.Type, "PRIVATE") {
				out["private key in "+d.Name()] = block.Bytes[len(block.Bytes)-32:]
			}
		}
		return err
	}))
	require.NotEmpty(t, out, "a node has private keys")
	keks, err := node.ReadKEKs(filepath.Join(dir, "kek"), nil)
	require.NoError(t, err)
	for _, k := range keks {
		out["key-encryption key"] = k[:]
	}
	require.Contains(t, out, "key-encryption key")
	return out
}

// TestAReportHasNoSecret: of a node with every kind of secret, and with links to zones whose gateways have names.
func TestAReportHasNoSecret(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "n1"), filepath.Join(t.TempDir(), "report.tar.gz")
	planKey := []byte("a plan key with 32 bytes exactly")
	token, err := node.Init(node.InitOptions{
		Dir: dir, Name: "west", Node: "n1", Now: time.Now(), PlanKey: planKey,
		Placement: node.Placement{Listen: node.Addresses{API: "127.0.0.1:0", Gateway: "127.0.0.1:0", Node: "127.0.0.1:0", Agent: "127.0.0.1:0", Admin: "127.0.0.1:0"}},
	})
	require.NoError(t, err)
	n, err := node.Open(node.Options{Dir: dir, Version: "v1", Log: slog.New(slog.DiscardHandler), Now: time.Now, PlanKey: planKey})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		stop()
		assert.NoError(t, <-done)
	}()
	await.Until(t, "the node is ready", n.Ready)
	_, err = n.Store().Propose(ctx, command.LinkPut{Stamp: command.Stamp{At: api.InstantOf(time.Now())}, Link: api.Link{
		ID: "l-1", Name: "downtown", Role: api.LinkChild, Zone: "z-1", Endpoints: []string{"gateway-of-others.example:7601"}, CA: []byte{1}, Scale: 1, State: api.LinkActive,
	}})
	require.NoError(t, err)
	env := map[string]string{"BERTH_ADDR": "https://" + n.Addresses().API, "BERTH_TOKEN": token, "BERTH_CACERT": filepath.Join(dir, "ca.pem")}
	const checkToken, checkHost = "the-token-of-the-service", "leases-of-others.example"
	tokenFile := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(tokenFile, []byte(checkToken), 0o600))
	r := berth(t.Context(), env, "", "operator", "config", "set", "--lease-check-url", "https://"+checkHost, "--lease-check-token-file", tokenFile)
	require.Zero(t, r.exit, r.errOut)

	r = berth(t.Context(), env, "", "operator", "debug", "--out", file, "--dir", dir, "-o", "json")
	require.Zero(t, r.exit, r.errOut)
	files := readReport(t, file)
	for _, name := range []string{
		"manifest.json", "zone.json", "members.json", "links.json", "config.json", "node.json", "ready.json", "state.json", "metrics.txt", "goroutines.txt", "heap.pprof unzipped",
	} {
		assert.NotEmpty(t, files[name], name)
	}
	assert.Contains(t, string(files["links.json"]), `"downtown"`)
	assert.Contains(t, string(files["config.json"]), `"lease_check": true`)
	assert.Contains(t, string(files["metrics.txt"]), "berth_leader 1")
	assert.Contains(t, string(files["goroutines.txt"]), "goroutine 1 [")

	secrets := secretsOf(t, dir)
	secrets["token"], secrets["secret of the token"], secrets["plan key"], secrets["token of the service"] = []byte(token), []byte(token[len(token)-20:]), planKey, []byte(checkToken)
	secrets["gateway of another zone"], secrets["host of the service"] = []byte("gateway-of-others"), []byte(checkHost)
	for what, secret := range secrets {
		for name, body := range files {
			for _, form := range forms(secret) {
				assert.False(t, bytes.Contains(body, form), "%s is in %s as %q", what, name, form)
			}
		}
	}
	for _, secret := range secrets { // else the look above proves nothing
		hidden := base64.StdEncoding.EncodeToString(slices.Concat([]byte("before "), secret, []byte(" and after")))
		assert.True(t, slices.ContainsFunc(forms(secret), func(f []byte) bool { return bytes.Contains([]byte(hidden), f) }))
	}

	r = berth(t.Context(), env, "", "operator", "debug", "--out", file, "--dir", dir)
	assert.Equal(t, exitConflict, r.exit, "it overwrites nothing")
	assert.Equal(t, files["zone.json"], readReport(t, file)["zone.json"])
}

// TestAReportOfHalfANode: what cannot be had is noted, what is too large is refused, and nothing at all makes no file.
func TestAReportOfHalfANode(t *testing.T) {
	asked := map[string]string{}
	dir := t.TempDir()
	ln, err := adminsock.Listen(dir)
	require.NoError(t, err)
	admin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path] = r.URL.RawQuery
		switch r.URL.Path {
		case "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("not ready"))
		case "/metrics":
			_, _ = w.Write(make([]byte, DebugPartMax))
		case "/state":
			_, _ = w.Write(make([]byte, DebugPartMax+1))
		case "/debug/pprof/profile":
			_, _ = w.Write([]byte("profiled"))
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	require.NoError(t, admin.Listener.Close())
	admin.Listener = ln
	admin.Start()
	defer admin.Close()
	environ := map[string]string{"BERTH_ADDR": "http://127.0.0.1:1", "BERTH_TOKEN": "none"}
	file := filepath.Join(dir, "a")
	run := func(args ...string) result {
		return berth(t.Context(), environ, "", append([]string{"operator", "debug"}, args...)...)
	}
	for _, cpu := range []string{"999ms", "61s", "1500ms", "-1s"} {
		r := run("--out", file, "--cpu", cpu)
		assert.Equal(t, exitUsage, r.exit, cpu)
		assert.NoFileExists(t, file)
	}
	var f debugFlags
	for _, cpu := range []time.Duration{DebugCPUMin, DebugCPUMax} {
		f.dir, f.cpu = dir, cpu
		require.NoError(t, f.check())
	}
	manifest := map[string]debugFile{}
	out, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, out.Chmod(0o600))
	parts := slices.DeleteFunc(f.parts(nil), func(p debugPart) bool {
		return slices.Contains([]string{"zone.json", "members.json", "links.json", "config.json"}, p.name)
	})
	m, err := gatherReport(t.Context(), &env{errOut: io.Discard, now: time.Now, version: "dev"}, parts, out)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	for _, f := range m.Files {
		manifest[f.Name] = f
	}
	files := readReport(t, file)
	assert.Equal(t, "not ready", string(files["ready.json"]), "that is an answer, too")
	assert.Len(t, files["metrics.txt"], DebugPartMax)
	assert.NotContains(t, files, "state.json")
	assert.Contains(t, manifest["state.json"].Error, "64 MiB")
	assert.Contains(t, manifest["heap.pprof"].Error, "500")
	assert.Equal(t, "profiled", string(files["cpu.pprof"]))
	assert.Equal(t, "seconds=60", asked["/debug/pprof/profile"])
	var said debugManifest
	require.NoError(t, json.Unmarshal(files["manifest.json"], &said))
	assert.Equal(t, m.Files, said.Files)
}
