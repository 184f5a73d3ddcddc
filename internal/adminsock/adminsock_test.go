package adminsock

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheSocketIsItsOwners, replaces one that was left, is found in a folder with a long name, and is gone at its end.
func TestTheSocketIsItsOwners(t *testing.T) {
	for _, name := range []string{"d", strings.Repeat("long", 40)} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, Name), nil, 0o644), "left")
		ln, err := Listen(dir)
		require.NoError(t, err)
		about, err := os.Stat(filepath.Join(dir, Name))
		require.NoError(t, err)
		assert.Equal(t, fs.ModeSocket|0o600, about.Mode())

		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		a, err := (&http.Client{Transport: Transport(dir)}).Get("http://node/")
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		assert.Equal(t, http.StatusTeapot, a.StatusCode)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		assert.NoFileExists(t, filepath.Join(dir, Name))
	}
}
