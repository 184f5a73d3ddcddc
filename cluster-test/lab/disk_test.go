package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/internal/await"
	"berth/internal/dice"
)

// machine returns a machine with a disk of its own.
func machine(t *testing.T, bytes int64) *Machine {
	t.Helper()
	Need(t)
	w := New(t, Options{Machines: Namespaces, DiskBytes: bytes})
	m, err := w.Machine("m")
	require.NoError(t, err)
	return m
}

// write writes a file, and makes it and its name durable if it is told to.
func write(t *testing.T, path string, durable bool) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	_, err = f.Write(make([]byte, 1000))
	require.NoError(t, err)
	if durable {
		require.NoError(t, f.Sync())
		dir, err := os.Open(filepath.Dir(path))
		require.NoError(t, err)
		require.NoError(t, dir.Sync())
		require.NoError(t, dir.Close())
	}
	require.NoError(t, f.Close())
}

func TestPowerCutLosesWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	m := machine(t, 0)
	const rounds = 5
	lost := 0
	for i := range rounds {
		synced, loose := filepath.Join(m.Dir, fmt.Sprint("synced-", i)), filepath.Join(m.Dir, fmt.Sprint("loose-", i))
		write(t, synced, true)
		write(t, loose, false)
		began := time.Now()
		require.NoError(t, m.PowerCut())
		cut := time.Now()
		_, err := os.Create(filepath.Join(m.Dir, "afterwards"))
		require.ErrorIs(t, err, unix.EIO)
		require.NoError(t, m.Remount())
		t.Logf("cut in %s, mounted again in %s", cut.Sub(began), time.Since(cut))
		b, err := os.ReadFile(synced)
		require.NoError(t, err, "what was synced is there")
		assert.Len(t, b, 1000)
		if b, err := os.ReadFile(loose); err != nil || len(b) == 0 {
			lost++
		}
	}
	// The kernel may write a file by itself, but hardly each of them within a moment.
	assert.Positive(t, lost, "what was not synced is gone")
}

func TestFrozenDiskHangsWrites(t *testing.T) {
	t.Parallel()
	m := machine(t, 0)
	path := filepath.Join(m.Dir, "file")
	write(t, path, true)
	require.NoError(t, m.Hang())
	wrote, thread := make(chan error, 1), make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		wrote <- os.WriteFile(path, []byte("late"), 0o600)
	}()
	stat := fmt.Sprintf("/proc/self/task/%d/stat", <-thread)
	await.Until(t, "the writer hangs in the kernel", func(context.Context) error {
		now, err := os.ReadFile(stat)
		if err == nil && strings.Contains(string(now), ") D ") {
			return nil
		}
		return OrElse(err, "it is %s", now)
	})
	select {
	case err := <-wrote:
		require.Fail(t, "a write to a disk that hangs must wait", "%v", err)
	default:
	}
	require.NoError(t, m.Unhang())
	require.NoError(t, <-wrote)
	require.NoError(t, m.Unhang(), "once more does nothing")
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	m := machine(t, 24<<20)
	for range 2 {
		require.NoError(t, m.Fill())
		require.ErrorIs(t, os.WriteFile(filepath.Join(m.Dir, "more"), make([]byte, 8192), 0o600), unix.ENOSPC)
		require.NoError(t, m.Space())
		require.NoError(t, os.WriteFile(filepath.Join(m.Dir, "more"), make([]byte, 8<<20), 0o600))
		require.NoError(t, os.Remove(filepath.Join(m.Dir, "more")))
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	kinds := map[bool]int{}
	draws := dice.Rand(t)
	for range 80 { // of 80 tries, both kinds come but once in ten billion runs
		write(t, path, false)
		said, err := Damage(path, draws)
		require.NoError(t, err)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		whole := len(b) == 1000
		kinds[whole]++
		if whole && !assert.NotEqual(t, make([]byte, 1000), b, said) {
			return
		}
	}
	assert.Positive(t, kinds[true], "bits were flipped")
	assert.Positive(t, kinds[false], "ends were cut off")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := Damage(path, draws)
	require.Error(t, err, "nothing to damage")
}

func TestDisklessMachine(t *testing.T) {
	t.Parallel()
	w := New(t, Options{})
	m, err := w.Machine("m")
	require.NoError(t, err)
	for what, f := range map[string]func() error{
		"cut": m.PowerCut, "mount": m.Remount, "hang": m.Hang, "go on": m.Unhang, "fill": m.Fill, "empty": m.Space,
	} {
		require.ErrorIs(t, f(), ErrNoDisk, what)
	}
	require.ErrorIs(t, w.Cut(m, w.Clients), ErrNoWire)
}
