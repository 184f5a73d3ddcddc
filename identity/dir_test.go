package identity

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSaveDirAndLoadDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "certs")
	a := newTestCA(t, "zone-a")
	for range 2 { // the second time replaces
		for _, role := range []Role{RoleNode, RoleGateway, RoleAgent, RoleAPI} {
			c := credentials(t, a, role, "n1")
			require.NoError(t, c.SaveDir(dir))
			again, err := LoadDir(dir, role)
			require.NoError(t, err)
			assert.Equal(t, c, again)
		}
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	modes := map[string]fs.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		modes[e.Name()] = info.Mode()
	}
	assert.Equal(t, map[string]fs.FileMode{
		"node.pem": 0o600, "gateway.pem": 0o600, "agent.pem": 0o600, "api.pem": 0o600,
	}, modes)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

func TestLoadDirRefuses(t *testing.T) {
	a := newTestCA(t, "zone-a")
	dir := t.TempDir()
	require.NoError(t, credentials(t, a, RoleNode, "n1").SaveDir(dir))
	path := filepath.Join(dir, "node.pem")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: pemCert, Bytes: a.CertDER()})
	otherDir := t.TempDir()
	require.NoError(t, credentials(t, a, RoleAgent, "n1").SaveDir(otherDir))
	agent, err := os.ReadFile(filepath.Join(otherDir, "agent.pem"))
	require.NoError(t, err)
	certs := bytes.Index(good, []byte("-----BEGIN CERTIFICATE"))
	agentCerts := bytes.Index(agent, []byte("-----BEGIN CERTIFICATE"))

	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o777} {
		require.NoError(t, os.Chmod(path, mode))
		_, err = LoadDir(dir, RoleNode)
		require.ErrorContains(t, err, "chmod 600")
	}
	require.NoError(t, os.Chmod(path, 0o600))
	for name, text := range map[string][]byte{
		"empty":                     nil,
		"no key":                    good[certs:],
		"no certificate":            good[:certs],
		"no authority":              good[:len(good)-len(public)],
		"more":                      append(bytes.Clone(good), public...),
		"more text":                 append(bytes.Clone(good), "x"...),
		"another role":              agent,
		"another key":               append(bytes.Clone(agent[:agentCerts]), good[certs:]...),
		"too long":                  append(bytes.Clone(good), bytes.Repeat([]byte("\n"), pemMaxBytes+1-len(good))...),
		"authority for certificate": append(append(bytes.Clone(good[:certs]), public...), public...),
	} {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err = LoadDir(dir, RoleNode)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), string(good[40:80]), "the key is quoted")
	}
	atLimit := append(bytes.Clone(good), bytes.Repeat([]byte("\n"), pemMaxBytes-len(good))...)
	require.NoError(t, os.WriteFile(path, atLimit, 0o600))
	_, err = LoadDir(dir, RoleNode)
	require.NoError(t, err)

	_, err = LoadDir(dir, RoleGateway)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "gateway.pem"), 0o700))
	_, err = LoadDir(dir, RoleGateway)
	require.Error(t, err)
	require.Error(t, (&Credentials{}).SaveDir(dir))
}

func TestSecretsAreNotPrinted(t *testing.T) {
	const text = "correct horse battery staple"
	c := credentials(t, newTestCA(t, "zone-a"), RoleNode, "n1")
	s := newSecret(text)
	var out bytes.Buffer
	for _, v := range []any{c, *c, s, &s, []Secret{s}, struct{ S Secret }{s}, struct{ s Secret }{s}, JoinToken{secret: s}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		b, err := json.Marshal(v)
		require.NoError(t, err)
		out.Write(b)
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "value", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "value", v)
	}
	assert.NotContains(t, out.String(), text)
	assert.NotContains(t, out.String(), fmt.Sprintf("%x", text))
	assert.NotContains(t, out.String(), "PrivateKey")
	assert.Contains(t, out.String(), "[secret]")
	assert.Contains(t, out.String(), "berth://zone-a/node/n1")
	assert.Equal(t, text, s.Reveal())
	assert.Empty(t, Secret{}.Reveal())
}
