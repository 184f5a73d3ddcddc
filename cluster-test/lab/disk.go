package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/await"
)

// DiskBytes is the size of a disk unless the options say otherwise.
const DiskBytes = 128 << 20

// Limits of disks.
const (
	loopTries   = 50 // to get a free loop device
	loopControl = "/dev/loop-control"
	loopMajor   = 7 // of device numbers
	bitFlipsMax = 8 // of one Damage
)

// Requests to a file system, from linux/fs.h and ext4.h.
const (
	fsShutdown   = 0x8004587d // FS_IOC_SHUTDOWN
	fsFreeze     = 0xc0045877 // FIFREEZE
	fsThaw       = 0xc0045878 // FITHAW
	noLogFlush   = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written
	ballastName  = "ballast"
	ballastChunk = 1 << 20
)

// disk is a file used as a disk: an ext4 file system on a loop device. The device is
// released when it is unmounted and closed, even if this process is killed.
type disk struct {
	image, dir string
	loop       *os.File

	mu      sync.Mutex // guards what follows
	mounted bool
	frozen  bool
}

// newDisk makes a disk of so many bytes and mounts it at dir.
func newDisk(image, dir string, size int64) (*disk, error) {
	f, err := os.OpenFile(image, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the image: %w", err)
	}
	defer func() { _ = f.Close() }() // the loop device has its own
	if err = f.Truncate(size); err != nil {
		return nil, fmt.Errorf("making the image: %w", err)
	}
	// A small journal; no room reserved for root, as whom tests run.
	mkfs := exec.CommandContext(context.Background(), "mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-J", "size=4",
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image)
	if out, failed := mkfs.CombinedOutput(); failed != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w\n%s", failed, out)
	}
	d := &disk{image: image, dir: dir}
	if d.loop, err = attachLoop(f); err != nil {
		return nil, err
	}
	if err := d.mount(); err != nil {
		return nil, errors.Join(err, d.loop.Close())
	}
	return d, nil
}

// attachLoop returns a loop device of a file, which is released with its last user.
func attachLoop(f *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("asking for a loop device: %w", err)
	}
	defer func() { _ = control.Close() }() // nothing was written
	for range loopTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("asking for a loop device: %w", err)
		}
		loop, err := openLoop(n)
		if err != nil {
			return nil, err
		}
		conf := unix.LoopConfig{Fd: uint32(f.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &conf)
		if err == nil {
			return loop, nil
		}
		_ = loop.Close() // another process has it
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("setting up a loop device: %w", err)
		}
	}
	return nil, errors.New("every free loop device was taken by somebody else")
}

// openLoop opens a loop device, and creates its node if the system does not.
func openLoop(n int) (*os.File, error) {
	path := "/dev/loop" + strconv.Itoa(n)
	err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("naming a loop device: %w", err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func (d *disk) mount() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := unix.Mount(d.loop.Name(), d.dir, "ext4", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", d.image, err)
	}
	d.mounted = true
	return nil
}

// unmount waits until the disk is unused, and unmounts it.
func (d *disk) unmount() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mounted {
		return nil
	}
	err := await.Wait(context.Background(), func(context.Context) error {
		if err := unix.Unmount(d.dir, 0); !errors.Is(err, unix.EINVAL) { // it is unmounted already
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("unmounting %s: %w", d.dir, err)
	}
	d.mounted, d.frozen = false, false
	return nil
}

// close removes the disk and leaves its image.
func (d *disk) close() error {
	if err := d.unmount(); err != nil {
		return err
	}
	return d.loop.Close()
}

// requestOf sends a request to the file system as a whole.
func (d *disk) requestOf(what uintptr, arg uint32) error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only asked
	return ioctl(f.Fd(), what, uintptr(unsafe.Pointer(&arg)))
}

func (d *disk) shutdown() error {
	if err := d.thaw(); err != nil {
		return err
	}
	if err := d.requestOf(fsShutdown, noLogFlush); err != nil {
		return fmt.Errorf("cutting the power of %s: %w", d.dir, err)
	}
	return nil
}

func (d *disk) freeze() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		return nil
	}
	if err := d.requestOf(fsFreeze, 0); err != nil {
		return fmt.Errorf("freezing %s: %w", d.dir, err)
	}
	d.frozen = true
	return nil
}

func (d *disk) thaw() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.frozen {
		return nil
	}
	if err := d.requestOf(fsThaw, 0); err != nil {
		return fmt.Errorf("thawing %s: %w", d.dir, err)
	}
	d.frozen = false
	return nil
}

// fillUp writes until nothing more fits.
func (d *disk) fillUp() error {
	f, err := os.OpenFile(filepath.Join(d.dir, ballastName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	for size := ballastChunk; size > 0 && err == nil; {
		if _, err = f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size, err = size/4, nil
		}
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("filling the disk: %w", err)
	}
	return nil
}

func (d *disk) space() error {
	if err := os.Remove(filepath.Join(d.dir, ballastName)); err != nil {
		return fmt.Errorf("emptying the disk: %w", err)
	}
	return nil
}

// Damage flips 1 to 8 bits of a file or, once in four times, truncates it, and returns a
// description. The file must not be open or empty.
func Damage(path string, dice *rand.Rand) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("damaging: %w", err)
	}
	if len(b) == 0 {
		return "", fmt.Errorf("damaging %s: it is empty", path)
	}
	what := ""
	if dice.IntN(4) == 0 {
		at := dice.IntN(len(b))
		what = fmt.Sprintf("%s: cut from %d to %d bytes", path, len(b), at)
		b = b[:at]
	} else {
		what = path + ": bits flipped:"
		flipped := map[[2]int]bool{} // a bit that is flipped twice is as it was
		for range 1 + dice.IntN(bitFlipsMax) {
			at, bit := dice.IntN(len(b)), dice.IntN(8)
			if flipped[[2]int{at, bit}] {
				continue
			}
			flipped[[2]int{at, bit}] = true
			b[at] ^= 1 << bit
			what += fmt.Sprintf(" %d.%d", at, bit)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return "", fmt.Errorf("damaging: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("damaging: %w", err)
	}
	return what, nil
}
