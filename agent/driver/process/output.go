package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
)

// Limits of Config.OutputMax, in bytes.
const (
	OutputLeast   = 1 << 20
	OutputDefault = 64 << 20
	OutputMost    = 1 << 40
)

// Two looks at the output of all instances begin at least trimEvery apart. A file that was trimmed is left alone for the looks of a
// second, unless it takes trimBurst times what may be kept: then it is emptied at once, and nothing of it is kept.
const (
	trimEvery = 100 * time.Millisecond
	trimRests = int(time.Second / trimEvery)
	trimBurst = 8
)

// earlierPart is what the name of a file of output ends with if it has what came before.
const earlierPart = ".1"

// runTrims holds the output of the instances to its limit until the driver is closed.
func (d *Driver) runTrims() {
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.trimAll()
		case <-d.closed:
			return
		}
	}
}

// trimAll trims the output of all instances once, also of those that have ended: what they had
// left is found in the next look after that.
func (d *Driver) trimAll() {
	for _, i := range d.listCommands() {
		if !i.folder.TryLock() { // it is being removed, which may take long
			continue
		}
		for at, name := range []string{stdoutFile, stderrFile} {
			i.rests[at] = max(0, i.rests[at]-1)
			trimmed, err := d.trimOutput(i.Instance, name, i.rests[at] > 0)
			if err != nil {
				d.conf.Log.Warn("output of an instance cannot be kept", "instance", i.Instance, "file", name, "err", err)
			}
			if trimmed {
				i.rests[at] = trimRests
			}
		}
		i.folder.Unlock()
	}
}

// listCommands returns the instances that run a command or have run one, by id.
func (d *Driver) listCommands() (out []*instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.all {
		if !i.Volume {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *instance) int { return strings.Compare(string(a.Instance), string(b.Instance)) })
	return out
}

// trimOutput empties a file of output that has more than half of what it may have. Its newest half
// becomes the earlier part, in place of the one before. The command continues to write to the
// file, at its end; what it writes between the copy and the cut is lost. A file that is not there
// is left alone. If there is no room for an earlier part, there is none, and the file is
// emptied all the same. While it rests, a file is emptied only if it takes far more than may be kept. It reports whether
// it has tried.
func (d *Driver) trimOutput(id api.InstanceID, name string, rests bool) (trimmed bool, err error) {
	half := d.conf.OutputMax / 2
	var s unix.Stat_t
	// A command may reserve blocks beyond the end, and a file system does so for it.
	if err := unix.Lstat(filepath.Join(d.conf.Dir, string(id), name), &s); err != nil || s.Size <= half && s.Blocks*blockBytes <= d.conf.OutputMax {
		return false, nil
	}
	if rests && s.Blocks*blockBytes <= trimBurst*d.conf.OutputMax {
		return false, nil
	}
	folder, err := d.root.Open(string(id))
	if err != nil {
		return false, err
	}
	defer func() { _ = folder.Close() }() // nothing was written through it
	f, err := openIn(folder, name, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	if rests {
		half = 0
	}
	seen, err := keepEarlier(folder, f, name+earlierPart, s.Size, half)
	return true, errors.Join(err, addBegin(folder, name, seen), f.Truncate(0), f.Close())
}

// keepEarlier copies the last half of a file with size bytes, and at most as much again that has
// come meanwhile, to a new one. It returns the size of the file up to where it was copied.
func keepEarlier(folder, f *os.File, name string, size, half int64) (seen int64, err error) {
	if err := unix.Unlinkat(int(folder.Fd()), name, 0); err != nil && !isNotExist(err) {
		return size, fmt.Errorf("removing the earlier part: %w", err)
	}
	to, err := openIn(folder, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return size, err
	}
	seen = max(0, size-half)
	n, err := copyData(to, f, seen, 2*half)
	seen += n
	if err = errors.Join(err, to.Close()); err != nil {
		return size, errors.Join(fmt.Errorf("keeping the earlier part: %w", err), unix.Unlinkat(int(folder.Fd()), name, 0))
	}
	return seen, nil
}

// copyData copies at most n bytes of a file from an offset on, and leaves its holes out, which take no room in the copy either. It
// returns how many bytes the copy has.
func copyData(to, from *os.File, offset, n int64) (int64, error) {
	info, err := from.Stat()
	if err != nil {
		return 0, err
	}
	end := min(info.Size(), offset+n)
	for at := offset; at < end; {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && data >= end { // the rest is a hole
			break
		}
		var hole int64
		if err == nil {
			hole, err = unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		}
		if err == nil {
			at = min(hole, end)
			_, err = io.Copy(io.NewOffsetWriter(to, data-offset), io.NewSectionReader(from, data, at-data))
		}
		if errors.Is(err, unix.ENXIO) { // it was cut
			break
		}
		if err != nil {
			return 0, err
		}
	}
	size := max(0, end-offset)
	return size, to.Truncate(size)
}

// openIn opens a name in a folder, and follows no link. A new file is for its owner only.
func openIn(folder *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(folder.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
