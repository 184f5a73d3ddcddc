package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/api"
)

// overOne is the fault of an instance that has more than 1 GiB.
const overOne = "its folder holds more than its DISK_GB of 1"

// reserves reserves more than 1 GiB in a folder of its own that nobody may read.
const reserves = `mkdir -p in/side; /usr/bin/fallocate -l 1073745920 in/side/f; chmod 0 in/side; echo done; `

func withDisk(w api.Workload, gb int64) api.Workload {
	w.Resources = api.Resources{api.DiskGB: gb}
	return w
}

// TestDiskIsEnforced: an instance with more in its folder than its DISK_GB is ended with a fault
// that says so, and that stays; by the driver that began it and by the next. One that has room for
// it, or no DISK_GB, runs on.
func TestDiskIsEnforced(t *testing.T) {
	d, dir := freshSmall(t)
	over := withDisk(shellWork(reserves+"exec /bin/sleep 1000"), 1)
	roomy := withDisk(shellWork(reserves+"exec /bin/sleep 1000"), 2)
	free := shellWork(reserves + "exec /bin/sleep 1000")
	later := withDisk(shellWork("while [ ! -e go ]; do /bin/sleep 0.01; done; "+reserves+"exec /bin/sleep 1000"), 1)
	for _, w := range []api.Workload{roomy, free, later, over} {
		require.NoError(t, d.Start(t.Context(), "h", w))
	}
	s := untilEnded(t, d, over.Instance)
	assert.Equal(t, []any{api.StatusError, overOne}, []any{s.Status, s.Fault})
	assert.Zero(t, living(t, over.Instance))

	require.NoError(t, d.Close())
	d = openSmall(t, dir)
	assert.Equal(t, overOne, state(t, d, over.Instance).Fault)
	require.NoError(t, os.WriteFile(filepath.Join(dir, string(later.Instance), workFolder, "go"), nil, 0o600))
	assert.Equal(t, overOne, untilEnded(t, d, later.Instance).Fault)
	for _, w := range []api.Workload{roomy, free} {
		awaitOutput(t, d, w.Instance, "done\n")
		d.lookAtDisks()
		assert.Equal(t, api.StatusActive, state(t, d, w.Instance).Status)
	}
}

// TestDiskOfAnotherUser: the agent counts what only another user may read.
func TestDiskOfAnotherUser(t *testing.T) {
	d, _ := apart(t)
	w := withDisk(shellWork(reserves+"exec /bin/sleep 1000"), 1)
	require.NoError(t, d.Start(t.Context(), "h", w))
	awaitOutput(t, d, w.Instance, "done\n")
	d.lookAtDisks()
	assert.Equal(t, overOne, untilEnded(t, d, w.Instance).Fault)
}

// walkOf walks a folder with limits.
func walkOf(t *testing.T, path string, bytes int64, names int) (*walk, error) {
	t.Helper()
	parent, err := os.Open(filepath.Dir(path))
	require.NoError(t, err)
	defer parent.Close()
	w := &walk{rest: func() error { return nil }}
	w.begin(bytes, names)
	return w, w.enterFolder(parent, filepath.Base(path), 1)
}

const enough = 1 << 40

// TestWhatAWalkCounts: blocks on disk, once each, and nothing outside the folder.
func TestWhatAWalkCounts(t *testing.T) {
	dir := t.TempDir()
	work := filepath.Join(dir, workFolder)
	require.NoError(t, os.Mkdir(work, 0o700))
	put := func(path string, n int) { require.NoError(t, os.WriteFile(path, make([]byte, n), 0o600)) }
	put(filepath.Join(dir, "outside"), 1<<20)
	put(filepath.Join(work, "data"), 8192)
	require.NoError(t, os.Symlink("/", filepath.Join(work, "root")))
	require.NoError(t, os.Symlink("..", filepath.Join(work, "up"))) // a long target would need a block of the disk
	require.NoError(t, os.Symlink(filepath.Join("..", "outside"), filepath.Join(work, "file")))
	require.NoError(t, unix.Mkfifo(filepath.Join(work, "fifo"), 0o600))
	for n := range 8 {
		require.NoError(t, os.Link(filepath.Join(work, "data"), filepath.Join(work, strconv.Itoa(n))))
	}
	put(filepath.Join(work, "hole"), 0)
	require.NoError(t, os.Truncate(filepath.Join(work, "hole"), enough))

	w, err := walkOf(t, work, enough, enough)
	require.NoError(t, err)
	assert.Equal(t, int64(8192), w.bytes)
	assert.Equal(t, 14, w.names)
	_, err = walkOf(t, work, enough, 14)
	require.NoError(t, err)
	_, err = walkOf(t, work, enough, 13)
	require.EqualError(t, err, "its folder holds more than 13 files and folders")
	w, err = walkOf(t, filepath.Join(work, "up"), enough, enough)
	require.NoError(t, err)
	assert.Zero(t, w.names, "a folder that has become a link is not entered")
	w, err = walkOf(t, filepath.Join(work, "fifo"), enough, enough)
	require.NoError(t, err)
	assert.Zero(t, w.names)
}

// TestAWalkIsBounded in bytes, depth and names, and rests.
func TestAWalkIsBounded(t *testing.T) {
	work := filepath.Join(t.TempDir(), workFolder)
	deep := filepath.Join(work, strings.Repeat("a/", depthMax-1))
	require.NoError(t, os.MkdirAll(deep, 0o700))
	_, err := walkOf(t, work, enough, enough)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(deep, "a"), 0o700))
	_, err = walkOf(t, work, enough, enough)
	require.EqualError(t, err, "the folders in its folder are more than 256 deep")

	many := filepath.Join(t.TempDir(), workFolder)
	require.NoError(t, os.Mkdir(many, 0o700))
	for n := range 2*walkBatch + 1 {
		require.NoError(t, os.WriteFile(filepath.Join(many, strconv.Itoa(n)), make([]byte, 4096), 0o600))
	}
	parent, err := os.Open(filepath.Dir(many))
	require.NoError(t, err)
	defer parent.Close()
	rests := 0
	w := &walk{rest: func() error { rests++; return nil }}
	w.begin(enough, enough)
	require.NoError(t, w.enterFolder(parent, workFolder, 1))
	assert.Equal(t, 2, rests)
	all := w.bytes
	w, err = walkOf(t, many, all, enough)
	require.NoError(t, err)
	assert.LessOrEqual(t, w.bytes, w.bytesMax, "at the limit")
	w, err = walkOf(t, many, 4096, enough)
	require.NoError(t, err)
	assert.Equal(t, 2, w.names, "it goes no further than it must")
	w = &walk{rest: func() error { return errClosed }}
	w.begin(enough, enough)
	require.ErrorIs(t, w.enterFolder(parent, workFolder, 1), errClosed)
}

// TestWhatCannotBeCountedIsAnExcess for an agent that is not root.
func TestWhatCannotBeCountedIsAnExcess(t *testing.T) {
	needRoot(t)
	work := filepath.Join(passableDir(t), workFolder)
	require.NoError(t, os.MkdirAll(filepath.Join(work, "closed"), 0o700))
	require.NoError(t, os.Chmod(work, 0o755)) //nolint:gosec // a folder
	parent, err := os.Open(filepath.Dir(work))
	require.NoError(t, err)
	defer parent.Close()
	w := &walk{rest: func() error { return nil }}
	w.begin(enough, enough)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
		_ = unix.Setfsuid(int(nobody.UID))
		done <- w.enterFolder(parent, workFolder, 1)
	}()
	require.EqualError(t, <-done, "a folder in its folder cannot be read, so that nobody knows what it holds")
}
