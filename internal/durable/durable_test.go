package durable

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "term")
	// A crash left the next content behind, longer and open to others.
	require.NoError(t, os.WriteFile(path+nextSuffix, []byte("from before the crash"), 0o644))
	for _, mode := range []os.FileMode{0o600, 0o644, 0o600} {
		content := []byte(mode.String())
		require.NoError(t, ReplaceFile(path, mode, content))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, got)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode())
		assert.NoFileExists(t, path+nextSuffix)
	}
}

func TestReplaceFileThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "term")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "full"), 0o700)) // no file takes its place
	require.ErrorContains(t, ReplaceFile(path, 0o600, []byte("x")), path)
	assert.NoFileExists(t, path+nextSuffix, "nothing is left behind")
	require.ErrorIs(t, ReplaceFile(filepath.Join(dir, "gone", "term"), 0o600, nil), os.ErrNotExist)
}
