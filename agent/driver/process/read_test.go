package process

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"berth/api"
)

// piece reads an output of an instance on the host h.
func piece(t *testing.T, d *Driver, q api.OutputQuestion) *api.OutputAnswer {
	t.Helper()
	a, err := d.ReadOutput(t.Context(), "h", &q)
	require.NoError(t, err)
	require.True(t, q.Accepts(a), "%d+%d of %d", a.Offset, len(a.Data), a.Total)
	return a
}

// newest returns the newest bytes of an output.
func newest(t *testing.T, d *Driver, id api.InstanceID, s api.OutputStream) string {
	t.Helper()
	return string(piece(t, d, api.OutputQuestion{Instance: id, Stream: s, Limit: 100, Last: true}).Data)
}

// TestOutputOfAProcess: both outputs, while it runs and after it has ended; no others, and none after it is gone.
func TestOutputOfAProcess(t *testing.T) {
	d := fresh(t)
	w := shellWork("echo out; echo err >&2; while [ ! -e go ]; do /bin/sleep 0.01; done; echo more")
	require.NoError(t, d.Start(t.Context(), "h", w))
	until(t, "it has printed", func() bool { return newest(t, d, w.Instance, api.Stderr) == "err\n" })
	assert.Equal(t, "out\n", newest(t, d, w.Instance, api.Stdout))
	require.NoError(t, os.WriteFile(filepath.Join(d.conf.Dir, string(w.Instance), workFolder, "go"), nil, 0o600))
	untilEnded(t, d, w.Instance)
	assert.Equal(t, "out\nmore\n", newest(t, d, w.Instance, api.Stdout))
	a := piece(t, d, api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, After: 2, Limit: 3})
	assert.Equal(t, &api.OutputAnswer{Offset: 2, Total: 9, Data: []byte("t\nm")}, a)
	a = piece(t, d, api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, After: 10, Limit: 3})
	assert.Equal(t, &api.OutputAnswer{Offset: 9, Total: 9, Data: []byte{}}, a, "beyond the end")

	for _, host := range []api.HostID{"h", "other"} {
		for _, id := range []api.InstanceID{"none", "..", w.Instance} {
			if host == "h" && id == w.Instance {
				continue
			}
			got, err := d.ReadOutput(t.Context(), host, &api.OutputQuestion{Instance: id, Stream: api.Stdout, Limit: 1})
			require.NoError(t, err)
			assert.Equal(t, &api.OutputAnswer{Lack: api.OutputUnstarted}, got)
		}
	}
	require.NoError(t, d.Stop(t.Context(), w.Instance))
	got, err := d.ReadOutput(t.Context(), "h", &api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, api.OutputUnstarted, got.Lack)
}

// TestNoOtherFileIsRead: what a command has put in place of its output is refused, whatever it is.
func TestNoOtherFileIsRead(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	d, w := fresh(t), sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	for name, put := range map[string]func(at string) error{
		"a link":            func(at string) error { return os.Symlink(secret, at) },
		"another name":      func(at string) error { return os.Link(secret, at) },
		"a pipe":            func(at string) error { return unix.Mkfifo(at, 0o600) },
		"a folder":          func(at string) error { return os.Mkdir(at, 0o700) },
		"a link to nothing": func(at string) error { return os.Symlink(secret+"-none", at) },
	} {
		for _, end := range []string{"", earlierPart, beginPart} {
			at := filepath.Join(d.conf.Dir, string(w.Instance), stdoutFile+end)
			require.NoError(t, os.RemoveAll(at))
			require.NoError(t, put(at))
			got, err := d.ReadOutput(t.Context(), "h", &api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, Limit: 100})
			assert.Error(t, err, "%s as %s: %v", name, stdoutFile+end, got)
			require.NoError(t, os.RemoveAll(at))
		}
	}
	other := filepath.Join(d.conf.Dir, "other")
	require.NoError(t, os.Rename(filepath.Join(d.conf.Dir, string(w.Instance)), other))
	require.NoError(t, os.Symlink("other", filepath.Join(d.conf.Dir, string(w.Instance))))
	_, err := d.ReadOutput(t.Context(), "h", &api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, Limit: 100})
	require.Error(t, err, "a link in place of its folder")
	require.NoError(t, os.Remove(filepath.Join(d.conf.Dir, string(w.Instance))))
	require.NoError(t, os.Rename(other, filepath.Join(d.conf.Dir, string(w.Instance))))
}

// TestReadingWaitsForTrims, and not for longer than its context.
func TestReadingWaitsForTrims(t *testing.T) {
	d, w := fresh(t), sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	i := d.all[w.Instance]
	i.folder.Lock()
	ctx, cancel := context.WithTimeout(t.Context(), 3*folderEvery)
	defer cancel()
	_, err := d.ReadOutput(ctx, "h", &api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, Limit: 1})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	time.AfterFunc(3*folderEvery, i.folder.Unlock)
	piece(t, d, api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, Limit: 1})
}

// TestOffsetsOutliveTrims: whatever is printed and trimmed, each byte that is returned is the one that was printed at that offset, and
// what is missing was trimmed.
func TestOffsetsOutliveTrims(t *testing.T) {
	const half, steps = OutputLeast / 2, 6
	var all []byte // that may be printed: no two places look alike
	for len(all) < 3*half*steps {
		all = append(strconv.AppendInt(all, int64(len(all)), 36), ' ')
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "berth-output-")
		require.NoError(t, err)
		defer func() { require.NoError(t, os.RemoveAll(dir)) }()
		d := &Driver{conf: Config{Dir: dir, OutputMax: OutputLeast}, all: map[api.InstanceID]*instance{"i": {record: record{Instance: "i", Host: "h"}}}}
		d.root, err = os.OpenRoot(dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, d.root.Close()) }()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "i"), 0o700))
		f, err := os.OpenFile(filepath.Join(dir, "i", stdoutFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		printed, kept := 0, uint64(0)
		for range rapid.IntRange(1, steps).Draw(t, "steps") {
			n := rapid.SampledFrom([]int{0, 1, 100, half - 1, half, half + 1, 3 * half}).Draw(t, "bytes")
			_, err = f.Write(all[printed : printed+n])
			require.NoError(t, err)
			printed += n
			if rapid.Bool().Draw(t, "trim") {
				was := sizeOf(dir, "i", stdoutFile)
				_, err := d.trimOutput("i", stdoutFile, false)
				require.NoError(t, err)
				if sizeOf(dir, "i", stdoutFile) < was {
					kept = uint64(printed - half)
				}
			}
			total := uint64(printed)
			q := api.OutputQuestion{
				Instance: "i", Stream: api.Stdout, Last: rapid.Bool().Draw(t, "last"), After: rapid.Uint64Range(0, total+10).Draw(t, "after"),
				Limit: rapid.SampledFrom([]int{1, 1000, api.OutputMaxBytes}).Draw(t, "limit"),
			}
			a, err := d.ReadOutput(context.Background(), "h", &q)
			require.NoError(t, err)
			require.True(t, q.Accepts(a))
			require.Equal(t, total, a.Total)
			require.True(t, bytes.Equal(all[a.Offset:a.Offset+uint64(len(a.Data))], a.Data), "%d+%d of %d", a.Offset, len(a.Data), a.Total)
			want := min(max(q.After, kept), total)
			if q.Last {
				want = max(kept, total-min(total, uint64(q.Limit)))
			}
			require.Equal(t, want, a.Offset)
			require.Len(t, a.Data, int(min(uint64(q.Limit), total-want)))
		}
	})
}
