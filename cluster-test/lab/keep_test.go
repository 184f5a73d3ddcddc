package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatKilledRunsLeave makes what a run leaves behind that is killed while its
// disk hangs, and one that has failed.
func TestWhatKilledRunsLeave(t *testing.T) {
	t.Parallel()
	Need(t)
	gone := exec.CommandContext(t.Context(), "true")
	require.NoError(t, gone.Run())
	left, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, gone.Process.Pid)) //nolint:usetesting // it is called after a process
	require.NoError(t, err)
	kept, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, gone.Process.Pid)) //nolint:usetesting // it is called after a process
	require.NoError(t, err)
	require.NoError(t, keepLogs(kept, t.TempDir()))
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(kept)) })

	at := filepath.Join(left, "m")
	require.NoError(t, os.Mkdir(at, 0o700))
	d, err := newDisk(filepath.Join(left, "m.img"), at, 24<<20)
	require.NoError(t, err)
	require.NoError(t, d.freeze())
	require.NoError(t, d.loop.Close()) // as the end of the process does

	require.NoError(t, clearAll())
	assert.NoDirExists(t, left)
	assert.DirExists(t, kept)
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), left)
}
