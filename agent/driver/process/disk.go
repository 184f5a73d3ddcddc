package process

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
)

// Limits of Config.DiskEvery.
const (
	DiskDefault = 10 * time.Second
	DiskLeast   = time.Second
	DiskMost    = time.Hour
)

// Limits of the work folder of an instance with DISK_GB, which bound the cost of a look at it. An
// instance that exceeds them is ended as one that exceeds its DISK_GB.
const (
	namesMax = 1 << 20 // of files and folders
	depthMax = 256     // of folders in each other; each level keeps a file open meanwhile
)

// A walk rests for walkRest after each walkBatch names, so that walks take no more than a small
// part of a processor.
const (
	walkBatch = 1 << 10
	walkRest  = 20 * time.Millisecond
)

// blockBytes is the unit of the blocks that the kernel says a file has.
const blockBytes = 512

// excess is why an instance has more on disk than it may.
type excess string

func (e excess) Error() string { return string(e) }

// runDiskLooks ends the instances that have more on disk than they may, until the driver is closed.
func (d *Driver) runDiskLooks() {
	t := time.NewTicker(d.conf.DiskEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.lookAtDisks()
		case <-d.closed:
			return
		}
	}
}

// lookAtDisks looks at the work folder of each instance once.
func (d *Driver) lookAtDisks() {
	w := walk{rest: d.restFromWalk}
	for _, i := range d.listCommands() {
		d.mu.Lock()
		r := i.record
		d.mu.Unlock()
		if r.Status != api.StatusActive || r.DiskGB == 0 {
			continue
		}
		var over excess
		switch err := d.measureWork(&w, r); {
		case errors.Is(err, errClosed):
			return
		case errors.As(err, &over):
			d.endInstanceWith(i, string(over))
		case err != nil:
			d.conf.Log.Warn("folder of an instance cannot be measured", "instance", r.Instance, "err", err)
		}
	}
}

// restFromWalk waits for walkRest. It returns errClosed if the driver is closed meanwhile.
func (d *Driver) restFromWalk() error {
	t := time.NewTimer(walkRest)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-d.closed:
		return errClosed
	}
}

// endInstanceWith kills an instance whose end has a fault that the agent knows better than its
// process.
func (d *Driver) endInstanceWith(i *instance, fault string) {
	d.mu.Lock()
	i.verdict = fault
	r := i.record
	d.mu.Unlock()
	d.conf.Log.Warn("ending an instance", "instance", r.Instance, "fault", fault)
	d.killRest(r)
}

// measureWork returns an excess if the work folder of an instance has more than it may, and any
// other error if that is not known.
func (d *Driver) measureWork(w *walk, r record) error {
	folder, err := d.root.Open(string(r.Instance))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // nothing was written through it
	w.begin(min(r.DiskGB, math.MaxInt64>>30)<<30, namesMax)
	if err = w.enterFolder(folder, workFolder, 1); err != nil {
		return err
	}
	if w.bytes > w.bytesMax {
		return excess(fmt.Sprintf("its folder holds more than its DISK_GB of %d", r.DiskGB))
	}
	return nil
}

// walk adds up what is in folders. It follows no link, opens nothing but folders, and counts what
// has several names once.
type walk struct {
	bytesMax int64
	namesMax int
	rest     func() error // called after each walkBatch names
	since    int          // names since the last rest

	bytes int64 // that files have on disk: a hole takes none
	names int
	seen  map[inode]struct{}
}

type inode struct{ dev, ino uint64 }

func (w *walk) begin(bytesMax int64, namesMax int) {
	w.bytesMax, w.namesMax, w.bytes, w.names, w.seen = bytesMax, namesMax, 0, 0, map[inode]struct{}{}
}

// enterFolder adds what is in a folder. It returns an excess if that is more than can be counted,
// and nil, with w.bytes above w.bytesMax, as soon as that is so.
func (w *walk) enterFolder(in *os.File, name string, depth int) error {
	dir, err := openIn(in, name, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP): // it was replaced meanwhile
		return nil
	case errors.Is(err, unix.EACCES):
		return excess("a folder in its folder cannot be read, so that nobody knows what it holds")
	case err != nil:
		return err
	}
	defer func() { _ = dir.Close() }() // nothing was written through it
	if depth > depthMax {
		return excess(fmt.Sprintf("the folders in its folder are more than %d deep", depthMax))
	}
	for w.bytes <= w.bytesMax {
		names, err := dir.Readdirnames(walkBatch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := w.addName(dir, name, depth); err != nil || w.bytes > w.bytesMax {
				return err
			}
		}
	}
	return nil
}

// addName adds what has a name in a folder.
func (w *walk) addName(dir *os.File, name string, depth int) error {
	if w.names++; w.names > w.namesMax {
		return excess(fmt.Sprintf("its folder holds more than %d files and folders", w.namesMax))
	}
	if w.since++; w.since >= walkBatch {
		w.since = 0
		if err := w.rest(); err != nil {
			return err
		}
	}
	var s unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	at := inode{dev: s.Dev, ino: s.Ino}
	if _, again := w.seen[at]; again {
		return nil
	}
	w.seen[at] = struct{}{}
	w.bytes += s.Blocks * blockBytes
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return w.enterFolder(dir, name, depth+1)
}
