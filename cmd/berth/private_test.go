package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFilesOfSecretsArePrivate: a key or a token that others can read is refused before it is
// used, and the same file is read once it is private.
func TestFilesOfSecretsArePrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("k", 40)+"\n"), 0o600))
	for mode, private := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o666: false} {
		require.NoError(t, os.Chmod(path, mode))
		key, err := planKey(path)
		token, failed := readSecret(path)
		if private {
			require.NoError(t, err)
			require.NoError(t, failed)
			assert.Equal(t, strings.Repeat("k", 40), string(key))
			assert.Equal(t, strings.Repeat("k", 40), token)
			continue
		}
		for _, err := range []error{err, failed} {
			require.ErrorContains(t, err, "chmod 600", "%o", mode)
		}
	}
	for _, line := range []string{"init --name z --plan-key-file", "node --plan-key-file", "node --join-file", "agent --join-file"} {
		require.NoError(t, os.Chmod(path, 0o644))
		exit, _, errOut := berth(t, append(strings.Fields(line), path, "--dir", filepath.Join(dir, "home"))...)
		assert.Equal(t, 2, exit, line)
		assert.Contains(t, errOut, "chmod 600", line)
		assert.NoDirExists(t, filepath.Join(dir, "home"), line)
	}
}
