package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/api"
)

// openSmall opens a driver that keeps the least output, and looks at disks as often as it can.
func openSmall(t *testing.T, dir string) *Driver {
	t.Helper()
	d, err := Open(t.Context(), Config{
		Dir: dir, Grace: 300 * time.Millisecond, OutputMax: OutputLeast, DiskEvery: DiskLeast, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

func freshSmall(t *testing.T) (*Driver, string) {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	return openSmall(t, dir), dir
}

// sizeOf returns the size of a file of an instance, 0 if it is not there.
func sizeOf(dir string, id api.InstanceID, name string) int64 {
	info, err := os.Lstat(filepath.Join(dir, string(id), name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// writesALot writes 4 MiB of lines to both outputs, and a last one when these have been trimmed.
const writesALot = `/usr/bin/seq -f 'line %.0f' 400000; /usr/bin/seq -f 'line %.0f' 400000 >&2; /bin/sleep 0.3; echo last; echo last >&2; `

// untilTrimmed waits until the outputs of an instance are within their limit and have their end.
func untilTrimmed(t *testing.T, dir string, id api.InstanceID) {
	t.Helper()
	for _, name := range []string{stdoutFile, stderrFile} {
		path := filepath.Join(dir, string(id), name)
		until(t, "its output is trimmed", func() bool {
			rest, err := os.ReadFile(path)
			earlier, _ := os.ReadFile(path + earlierPart)
			return err == nil && strings.HasSuffix(string(earlier)+string(rest), "last\n") && len(rest) <= OutputLeast/2
		})
		earlier, err := os.ReadFile(path + earlierPart)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(earlier), OutputLeast)
		assert.GreaterOrEqual(t, strings.Count(string(earlier), "\nline "), 10_000)
	}
}

// TestOutputIsCapped while an instance runs, after it has ended, and by the next driver.
func TestOutputIsCapped(t *testing.T) {
	d, dir := freshSmall(t)
	runs, ends := shellWork(writesALot+"exec /bin/sleep 1000"), shellWork(writesALot)
	later := shellWork("while [ ! -e go ]; do /bin/sleep 0.01; done; " + writesALot + "exec /bin/sleep 1000")
	for _, w := range []api.Workload{runs, ends, later} {
		require.NoError(t, d.Start(t.Context(), "h", w))
	}
	untilTrimmed(t, dir, runs.Instance)
	untilEnded(t, d, ends.Instance)
	untilTrimmed(t, dir, ends.Instance)

	require.NoError(t, d.Close())
	d = openSmall(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, string(later.Instance), workFolder, "go"), nil, 0o600))
	untilTrimmed(t, dir, later.Instance)
	require.NoError(t, d.Stop(t.Context(), runs.Instance))
	assert.NoDirExists(t, filepath.Join(dir, string(runs.Instance)))
}

// TestTrims: what is within the limit is left alone, and of what is beyond it the newest half is
// kept. A writer continues at the end, whatever it has made of its file.
func TestTrims(t *testing.T) {
	const half = OutputLeast / 2
	d, dir := freshSmall(t)
	require.NoError(t, d.Close()) // only this test trims
	d.root, _ = os.OpenRoot(dir)
	t.Cleanup(func() { assert.NoError(t, d.root.Close()) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "i"), 0o700))
	f, err := os.OpenFile(filepath.Join(dir, "i", stdoutFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer f.Close()
	put := func(text string) {
		_, err := f.WriteString(text)
		require.NoError(t, err)
	}
	trim := func() {
		_, err := d.trimOutput("i", stdoutFile, false)
		require.NoError(t, err)
	}
	check := func(what string, now int64, earlier string) {
		t.Helper()
		assert.Equal(t, now, sizeOf(dir, "i", stdoutFile), what)
		b, _ := os.ReadFile(filepath.Join(dir, "i", stdoutFile+earlierPart))
		assert.Equal(t, string(b), earlier, "%s: %d bytes of the earlier part", what, len(b))
	}
	put(strings.Repeat("a", half))
	trim()
	check("at the limit", half, "")
	put("b")
	trim()
	check("beyond it", 0, strings.Repeat("a", half-1)+"b")
	put(strings.Repeat("c", 3*half))
	put("d")
	trim()
	check("far beyond it", 0, strings.Repeat("c", half-1)+"d")
	put("e")
	trim()
	check("the earlier part stays", 1, strings.Repeat("c", half-1)+"d")

	require.NoError(t, f.Truncate(1<<40))
	put("f")
	trim()
	check("a hole", 0, strings.Repeat("\x00", half-1)+"f")
	assert.LessOrEqual(t, blocksOf(t, dir, "i", stdoutFile+earlierPart), int64(4096), "it takes no room in the copy")
	require.NoError(t, f.Truncate(1<<40))
	trim()
	check("nothing but a hole", 0, strings.Repeat("\x00", half))
	assert.Zero(t, blocksOf(t, dir, "i", stdoutFile+earlierPart))
	put("g")
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 2*half+4096))
	trim()
	check("reserved blocks", 0, "g")
	info, err := f.Stat()
	require.NoError(t, err)
	var s unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &s))
	assert.Zero(t, s.Blocks, "%v", info)

	require.NoError(t, os.Remove(filepath.Join(dir, "i", stdoutFile+earlierPart)))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "i", stdoutFile+earlierPart), 0o700))
	put(strings.Repeat("h", half+1))
	_, err = d.trimOutput("i", stdoutFile, false)
	require.Error(t, err)
	assert.Zero(t, sizeOf(dir, "i", stdoutFile), "without an earlier part it is emptied all the same")
}

// blocksOf returns the bytes that a file of an instance has on disk.
func blocksOf(t *testing.T, dir string, id api.InstanceID, name string) int64 {
	t.Helper()
	var s unix.Stat_t
	require.NoError(t, unix.Lstat(filepath.Join(dir, string(id), name), &s))
	return s.Blocks * blockBytes
}

// TestTrimsRest: a file that was trimmed a moment ago is left alone, unless it takes far more than may be kept; then it is emptied, and
// nothing is copied.
func TestTrimsRest(t *testing.T) {
	d, dir := freshSmall(t)
	require.NoError(t, d.Close()) // only this test trims
	d.root, _ = os.OpenRoot(dir)
	t.Cleanup(func() { assert.NoError(t, d.root.Close()) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "i"), 0o700))
	i := endedInstance(record{Instance: "i"})
	d.all = map[api.InstanceID]*instance{"i": i}
	path := filepath.Join(dir, "i", stdoutFile)
	put := func(n int) { require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a", n)), 0o600)) }
	put(OutputLeast)
	d.trimAll()
	assert.Zero(t, sizeOf(dir, "i", stdoutFile))
	put(OutputLeast)
	for range trimRests - 1 {
		d.trimAll()
		require.EqualValues(t, OutputLeast, sizeOf(dir, "i", stdoutFile), "it is left alone")
	}
	d.trimAll()
	assert.Zero(t, sizeOf(dir, "i", stdoutFile))
	assert.EqualValues(t, OutputLeast/2, sizeOf(dir, "i", stdoutFile+earlierPart))
	put(trimBurst*OutputLeast + 4096)
	d.trimAll()
	assert.Zero(t, sizeOf(dir, "i", stdoutFile))
	assert.Zero(t, sizeOf(dir, "i", stdoutFile+earlierPart), "nothing was copied")
}

// TestLimitsOfCaps: what they may be.
func TestLimitsOfCaps(t *testing.T) {
	for _, c := range []struct {
		output int64
		every  time.Duration
		ok     bool
	}{
		{0, 0, true},
		{OutputLeast, DiskLeast, true},
		{OutputMost, DiskMost, true},
		{OutputLeast - 1, 0, false},
		{OutputMost + 1, 0, false},
		{-1, 0, false},
		{0, DiskLeast - 1, false},
		{0, DiskMost + 1, false},
		{0, -1, false},
	} {
		d, err := Open(t.Context(), Config{Dir: t.TempDir(), OutputMax: c.output, DiskEvery: c.every, Log: slog.New(slog.DiscardHandler)})
		if c.ok {
			require.NoError(t, err)
			require.NoError(t, d.Close())
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), "%v", c)
	}
}
