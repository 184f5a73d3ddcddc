package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/api"
)

// Disks with btrfs. The image is a file with holes, and blocks that are only reserved stay holes.
const (
	imageBytes = 4 << 30
	mountTries = 20 // a free loop device may be taken by somebody else
	mib        = 1 << 20

	mountOptions = "loop,commit=1" // what was removed is cleaned once a second
)

// run returns the output of a program, or an error with it.
func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return string(out), err
}

// mountImage mounts an image until the end of the test, or until the returned function is called.
func mountImage(t *testing.T, image, dir string) (unmount func(), err error) {
	t.Helper()
	control, err := os.Open("/dev/loop-control")
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range mountTries {
		n, failed := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if failed != nil {
			return nil, failed
		}
		// Some systems do not create its node.
		_ = unix.Mknod("/dev/loop"+strconv.Itoa(n), unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n))))
		if _, err = run("mount", "-t", "btrfs", "-o", mountOptions, image, dir); err == nil {
			break
		}
	}
	mounted := err == nil
	unmount = func() {
		if !mounted {
			return
		}
		mounted = false
		if err := unix.Unmount(dir, 0); err != nil { // a process that a failed test has left is in it
			assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
		}
	}
	t.Cleanup(unmount)
	return unmount, err
}

// makeBtrfs returns the image of a new btrfs and the folder where it is mounted. It skips the test
// where there can be none, and fails it if the environment says that there must be.
func makeBtrfs(t *testing.T) (image, dir string, unmount func()) {
	t.Helper()
	dir, image = t.TempDir(), filepath.Join(t.TempDir(), "image")
	err := os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, imageBytes)
	}
	require.NoError(t, err)
	if _, err = run("mkfs.btrfs", "--quiet", image); err == nil {
		unmount, err = mountImage(t, image, dir)
	}
	if err != nil && os.Getenv("BERTH_NEED_MACHINES") != "" && os.Getenv("BERTH_CHAOS_WITHOUT") == "" {
		require.NoError(t, err, "BERTH_NEED_MACHINES is set, and there is no btrfs")
	}
	if err != nil {
		t.Skipf("needs root, btrfs-progs and loop devices: %v", err)
	}
	return image, dir, unmount
}

// Kinds of quotas, and the request that turns them on or off.
const (
	fullQuotas   = 1
	noQuotas     = 2
	simpleQuotas = 4          // since Linux 6.7
	quotaControl = 0xc0109428 // BTRFS_IOC_QUOTA_CTL
)

func setQuotas(t *testing.T, dir string, kind uint64) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	defer f.Close()
	err = sendRequest(f, quotaControl, &[2]uint64{kind})
	if kind == simpleQuotas && errors.Is(err, unix.EINVAL) {
		t.Skip("the kernel has no simple quotas")
	}
	require.NoError(t, err)
}

// reserve takes room in a volume for a file, as if so many MiB were written to it.
func reserve(t *testing.T, dir string, id api.InstanceID, name string, size int64) error {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, string(id), workFolder, name))
	require.NoError(t, err)
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), 0, 0, size*mib)
}

// limits returns the limits of the quota groups of a file system, but for that of its root, in
// bytes and in their order. It waits for the end of those whose subvolume is removed.
func limits(t *testing.T, dir string) (out []string) {
	t.Helper()
	until(t, "no quota group is left of what is removed", func() bool {
		text, err := run("btrfs", "qgroup", "show", "--raw", "-r", dir)
		out = nil
		for l := range strings.Lines(text) {
			if f := strings.Fields(l); len(f) > 3 && strings.HasPrefix(f[0], "0/") && f[0] != "0/5" {
				out = append(out, f[3])
			}
		}
		return err == nil && !strings.Contains(text, "<stale>")
	})
	return out
}

// TestWhereVolumesAreFolders: without btrfs, and the driver says so.
func TestWhereVolumesAreFolders(t *testing.T) {
	f, err := os.Open("/proc/self/stat")
	require.NoError(t, err)
	defer f.Close()
	d := Driver{unbounded: checkSizes(f)}
	assert.False(t, d.BoundsVolumes())
	assert.True(t, strings.HasSuffix(d.Describe(), "; volumes are folders without a limit of size: the folder is not on btrfs"), d.Describe())
}

// TestVolumesWithoutQuotas: they are made as folders where btrfs does not limit them, and stay
// folders when it does.
func TestVolumesWithoutQuotas(t *testing.T) {
	_, dir, _ := makeBtrfs(t)
	without := open(t, dir, "")
	require.NoError(t, without.Start(t.Context(), "h", volume("vol-1")))
	require.NoError(t, reserve(t, dir, "vol-1", "a", 1025))
	assert.False(t, without.BoundsVolumes())
	assert.Contains(t, without.Describe(), "volumes are folders without a limit of size: quotas of btrfs are off, or not permitted")
	require.NoError(t, without.Close())

	setQuotas(t, dir, fullQuotas)
	with := open(t, dir, "")
	assert.True(t, with.BoundsVolumes())
	require.NoError(t, reserve(t, dir, "vol-1", "b", 1025), "it stays a folder")
	require.NoError(t, with.Stop(t.Context(), "vol-1"))
	assert.NoDirExists(t, filepath.Join(dir, "vol-1"))
	require.NoError(t, with.Close())
}

// TestVolumesAreHeldToTheirSize fills a volume: no more goes in, not after a restart of the agent
// either, and others are unaffected. Its end gives back the room, and leaves no quota group.
func TestVolumesAreHeldToTheirSize(t *testing.T) {
	_, dir, _ := makeBtrfs(t)
	setQuotas(t, dir, fullQuotas)
	fillVolumes(t, dir)
}

// TestVolumesAreHeldWithSimpleQuotas does the same with the other kind of quotas.
func TestVolumesAreHeldWithSimpleQuotas(t *testing.T) {
	_, dir, _ := makeBtrfs(t)
	setQuotas(t, dir, simpleQuotas)
	fillVolumes(t, dir)
}

func fillVolumes(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	assert.True(t, strings.HasSuffix(d.Describe(), "; volumes are btrfs subvolumes held to their size"), d.Describe())
	other := volume("vol-2")
	other.Resources = api.Resources{"CUSTOM_FAST": 2}
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	require.NoError(t, d.Start(t.Context(), "h", other))
	assert.Equal(t, []string{"1073741824", "2147483648"}, limits(t, dir))
	info, err := os.Stat(filepath.Join(dir, "vol-1", workFolder))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.ErrorIs(t, reserve(t, dir, "vol-1", "a", 1024), unix.EDQUOT)
	require.NoError(t, reserve(t, dir, "vol-1", "a", 1000))
	require.ErrorIs(t, reserve(t, dir, "vol-1", "b", 100), unix.EDQUOT)
	require.NoError(t, reserve(t, dir, "vol-2", "b", 1100))

	require.NoError(t, d.Close())
	d = open(t, dir, "")
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")), "it is known")
	require.ErrorIs(t, reserve(t, dir, "vol-1", "b", 100), unix.EDQUOT)

	w := sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	require.NoError(t, d.Attach(t.Context(), w.Instance, []api.InstanceID{"vol-1"}))
	assert.FileExists(t, filepath.Join(dir, linkOf(w.Instance, "vol-1"), "a"))
	require.NoError(t, d.Kill(t.Context(), w.Instance))
	assert.FileExists(t, filepath.Join(dir, "vol-1", workFolder, "a"), "only its link is removed")

	require.NoError(t, d.Stop(t.Context(), "vol-1"))
	assert.NoDirExists(t, filepath.Join(dir, "vol-1"))
	assert.Equal(t, []string{"2147483648"}, limits(t, dir))
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	require.NoError(t, reserve(t, dir, "vol-1", "a", 1000), "it is made anew, and empty")
	require.NoError(t, d.Stop(t.Context(), "vol-1"))
	require.NoError(t, d.Stop(t.Context(), "vol-2"))
	assert.Empty(t, limits(t, dir))
	require.NoError(t, d.Close())
}

// TestVolumeThatWasBegun: a subvolume without a record is of a start that was aborted. It is
// removed with what is in it, and the volume is made again.
func TestVolumeThatWasBegun(t *testing.T) {
	_, dir, _ := makeBtrfs(t)
	setQuotas(t, dir, fullQuotas)
	d := open(t, dir, "")
	for _, id := range []api.InstanceID{"vol-1", "vol-2"} {
		require.NoError(t, d.Start(t.Context(), "h", volume(id)))
		require.NoError(t, reserve(t, dir, id, "a", 1))
		require.NoError(t, os.Remove(filepath.Join(dir, string(id), recordFile)))
	}
	require.NoError(t, d.Close())
	d = open(t, dir, "")
	assert.Empty(t, limits(t, dir))
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	require.ErrorIs(t, reserve(t, dir, "vol-1", "a", 1024), unix.EDQUOT)
	require.NoError(t, d.Stop(t.Context(), "vol-1"))

	setQuotas(t, dir, noQuotas)
	require.ErrorContains(t, d.Start(t.Context(), "h", volume("vol-3")), "holding a subvolume to its size")
	assert.Equal(t, api.StatusError, state(t, d, "vol-3").Status, "a driver that bounds volumes makes no other")
	require.NoError(t, d.Stop(t.Context(), "vol-3"))
	require.NoError(t, d.Close())
}

// TestSizesOfVolumes tries the smallest and the largest, and what is beyond.
func TestSizesOfVolumes(t *testing.T) {
	_, dir, _ := makeBtrfs(t)
	setQuotas(t, dir, fullQuotas)
	d := open(t, dir, "")
	for n, size := range []int64{-1, 0, 1, api.VolumeMaxGB, api.VolumeMaxGB + 1} {
		w := volume(api.InstanceID(fmt.Sprintf("vol-%d", n)))
		w.Resources = api.Resources{api.DiskGB: size}
		if err := d.Start(t.Context(), "h", w); size < 1 || size > api.VolumeMaxGB {
			require.EqualError(t, err, fmt.Sprintf("a volume must have 1 to 1048576 GiB, not %d", size))
		} else {
			require.NoError(t, err)
		}
	}
	assert.Equal(t, []string{"1073741824", "1125899906842624"}, limits(t, dir))
	require.NoError(t, d.Close())
}

// TestLimitOutlivesAPowerCut looks at the disk as it is at the moment when a volume is made: it has
// the limit.
func TestLimitOutlivesAPowerCut(t *testing.T) {
	image, dir, unmount := makeBtrfs(t)
	setQuotas(t, dir, fullQuotas)
	d := open(t, dir, "")
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	after := image + ".cut"
	_, err := run("cp", "--sparse=always", image, after)
	require.NoError(t, err)
	require.NoError(t, d.Stop(t.Context(), "vol-1"))
	require.NoError(t, d.Close())
	unmount()

	_, err = mountImage(t, after, dir)
	require.NoError(t, err)
	d = open(t, dir, "")
	assert.Equal(t, api.StatusActive, state(t, d, "vol-1").Status)
	require.ErrorIs(t, reserve(t, dir, "vol-1", "a", 1024), unix.EDQUOT)
	require.NoError(t, d.Close())
}
