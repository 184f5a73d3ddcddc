package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func volume(id api.InstanceID) api.Workload {
	return api.Workload{Instance: id, Name: "data", Volume: "standard", Resources: api.Resources{api.DiskGB: 1}}
}

// TestVolumesKeepWhatIsInThem: a command writes to a volume, and what it wrote is there for the next
// one, after a restart of the agent too, until the volume is deleted.
func TestVolumesKeepWhatIsInThem(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	script := `while [ ! -d "$BERTH_VOLUMES/vol-1" ]; do /bin/sleep 0.01; done; cd "$BERTH_VOLUMES/vol-1"; echo "$1" >>log; /bin/cat log; `
	first, next := shellWork(script+`while :; do /bin/sleep 1; done`), shellWork(script+`while :; do /bin/sleep 1; done`)
	first.Command, next.Command = append(first.Command, "sh", "one"), append(next.Command, "sh", "two")
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	require.NoError(t, d.Start(t.Context(), "h", first))
	require.NoError(t, d.Attach(t.Context(), first.Instance, []api.InstanceID{"vol-1"}))
	awaitOutput(t, d, first.Instance, "one\n")
	require.NoError(t, d.Stop(t.Context(), first.Instance))

	require.NoError(t, d.Close())
	d = open(t, dir, "")
	require.NoError(t, d.Start(t.Context(), "h", next))
	require.NoError(t, d.Attach(t.Context(), next.Instance, []api.InstanceID{"vol-1"}))
	awaitOutput(t, d, next.Instance, "one\ntwo\n")
	require.NoError(t, d.Attach(t.Context(), next.Instance, nil))
	_, err := os.Lstat(filepath.Join(dir, string(next.Instance), volumeFolder, "vol-1"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, d.Stop(t.Context(), "vol-1"))
	_, err = os.Lstat(filepath.Join(dir, "vol-1"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, d.Close())
}

// TestWhatACommandLeavesAmongVolumes is not attached, nor in the way.
func TestWhatACommandLeavesAmongVolumes(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	w := sleeper()
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	require.NoError(t, d.Start(t.Context(), "h", w))
	among := filepath.Join(dir, string(w.Instance), volumeFolder)
	require.NoError(t, os.MkdirAll(filepath.Join(among, "vol-9", "x"), 0o700))
	require.NoError(t, os.Symlink("/", filepath.Join(among, "root")))
	require.NoError(t, d.Attach(t.Context(), w.Instance, []api.InstanceID{"vol-1"}))
	assert.Equal(t, []api.InstanceID{"vol-1"}, state(t, d, w.Instance).Volumes)
	require.NoError(t, os.RemoveAll(among)) // as an agent of an earlier build leaves it
	require.NoError(t, d.Attach(t.Context(), w.Instance, []api.InstanceID{"vol-1"}))
	assert.Equal(t, []api.InstanceID{"vol-1"}, state(t, d, w.Instance).Volumes)
	require.NoError(t, d.Kill(t.Context(), w.Instance))
	require.NoError(t, d.Close())
}
