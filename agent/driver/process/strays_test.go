package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestAnInstanceOfAnotherFolderRunsOnce: an agent that joined again into a new folder, or one whose folder was emptied, is told to start
// what runs still. What it had started of that is ended first, also what left its session; others go on.
func TestAnInstanceOfAnotherFolderRunsOnce(t *testing.T) {
	for name, again := range map[string]func(t *testing.T, dir string) string{
		"a new folder": func(t *testing.T, _ string) string { return t.TempDir() },
		"the same path": func(t *testing.T, dir string) string {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, e := range entries {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conf := Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}
			first, err := Open(t.Context(), conf)
			require.NoError(t, err)
			w, other := shellWork("setsid /bin/sleep 1000 & exec /bin/sleep 1000"), sleeper()
			require.NoError(t, first.Start(t.Context(), "h", w))
			require.NoError(t, first.Start(t.Context(), "h", other))
			until(t, "they run", func() bool { return living(t, w.Instance) == 2 && living(t, other.Instance) == 1 })
			require.NoError(t, first.Close(), "instances outlive their agent")

			next := again(t, dir)
			t.Cleanup(func() { sweep(t, dir); sweep(t, next) })
			second := open(t, next, "")
			assert.Equal(t, 2, living(t, w.Instance), "nobody has asked for it yet")
			once := sleeper()
			once.Instance = w.Instance
			require.NoError(t, second.Start(t.Context(), "h", once))
			assert.Equal(t, 1, living(t, w.Instance))
			assert.True(t, carries(t, second.pid(w.Instance), w.Instance))
			assert.Equal(t, 1, living(t, other.Instance))
			require.NoError(t, second.Start(t.Context(), "h", other))
			assert.Equal(t, 1, living(t, other.Instance))
			for _, id := range []api.InstanceID{w.Instance, other.Instance} {
				require.NoError(t, second.Stop(t.Context(), id))
				assert.Zero(t, living(t, id))
			}
		})
	}
}

// TestAStrayIsStopped: an agent that joined again is told to stop what it does not know.
func TestAStrayIsStopped(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	w, other := sleeper(), sleeper()
	require.NoError(t, first.Start(t.Context(), "h", w))
	require.NoError(t, first.Start(t.Context(), "h", other))
	require.NoError(t, first.Close())
	t.Cleanup(func() { sweep(t, dir) })
	second := open(t, t.TempDir(), "")
	assert.True(t, second.HasStray(w.Instance))
	require.NoError(t, second.Stop(t.Context(), w.Instance))
	assert.Zero(t, living(t, w.Instance))
	assert.False(t, second.HasStray(w.Instance))
	assert.Equal(t, 1, living(t, other.Instance))
}

// TestOwnInstancesAreNoStrays: those that a driver finds again are its own.
func TestOwnInstancesAreNoStrays(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	w := sleeper()
	require.NoError(t, first.Start(t.Context(), "h", w))
	require.NoError(t, first.Close())
	t.Cleanup(func() { sweep(t, dir) })
	second := open(t, dir, "")
	assert.NotContains(t, second.strays, w.Instance)
	require.NoError(t, second.Start(t.Context(), "h", w))
	assert.Equal(t, 1, living(t, w.Instance))
}
