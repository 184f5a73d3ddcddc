package process

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
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
	running := d.findProcesses()
	for _, i := range d.listCommands() {
		d.mu.Lock()
		r := i.record
		d.mu.Unlock()
		if r.Status != api.StatusActive || r.DiskGB == 0 {
			continue
		}
		var over excess
		switch err := d.measureWork(&w, r, running[r.Instance]); {
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

// findProcesses returns the processes of each instance, as far as its user, its control group or a mark tells.
func (d *Driver) findProcesses() map[api.InstanceID][]int {
	d.mu.Lock()
	users := map[uint32]api.InstanceID{}
	out := map[api.InstanceID][]int{}
	for id, i := range d.all {
		if i.UID != 0 {
			users[i.UID] = id
		}
		out[id] = nil
	}
	d.mu.Unlock()
	pids, _ := listPIDs() // without them, nothing is added
	for _, pid := range pids {
		id := api.InstanceID("")
		for _, uid := range usersOf(pid) {
			if of, known := users[uid]; known {
				id = of
			}
		}
		if owner, marked, ok := readMark(pid); id == "" && ok && owner == d.groups.owner {
			id = marked
		}
		if id != "" {
			out[id] = append(out[id], pid)
		}
	}
	for id := range out {
		out[id] = append(out[id], d.groups.processesIn(id)...)
		slices.Sort(out[id])
		out[id] = slices.Compact(out[id])
	}
	return out
}

// measureWork returns an excess if an instance has more on disk than it may, in its folder or in files of its processes that have no
// name any more, and any other error if that is not known.
func (d *Driver) measureWork(w *walk, r record, pids []int) error {
	folder, err := d.root.Open(string(r.Instance))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // nothing was written through it
	w.begin(min(r.DiskGB, math.MaxInt64>>30)<<30, namesMax)
	for _, name := range []string{workFolder, privateFolder} {
		if err = w.enterFolder(folder, name, 1); err != nil {
			return err
		}
	}
	owner, others := d.ownerOfFiles(r), d.conf.Dir+"/"
	for _, pid := range pids {
		if err := w.addNameless(pid, owner, func(path string) bool { // a volume has a limit of its own
			return strings.HasPrefix(path, others) && !strings.HasPrefix(path, others+string(r.Instance)+"/")
		}); err != nil {
			return err
		}
	}
	if w.bytes > w.bytesMax {
		return excess(fmt.Sprintf("its folder holds more than its DISK_GB of %d", r.DiskGB))
	}
	return nil
}

// ownerOfFiles returns the user whose files are those of an instance.
func (d *Driver) ownerOfFiles(r record) uint32 {
	switch {
	case r.UID != 0:
		return r.UID
	case d.conf.User != nil:
		return d.conf.User.UID
	}
	return uint32(os.Geteuid()) //nolint:gosec // a number of a user
}

// inMemory are the kinds of file systems whose files take memory and no disk.
var inMemory = []int64{unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC}

// addNameless adds the files of a user that a process has open or mapped, and that have no name any more. It skips those that had one
// which skip reports.
func (w *walk) addNameless(pid int, owner uint32, skip func(path string) bool) error {
	for _, kind := range []string{"fd", "map_files"} {
		in := fmt.Sprintf("/proc/%d/%s", pid, kind)
		dir, err := os.Open(in)
		if err != nil {
			continue // it has ended, or cannot be looked at
		}
		for err == nil && w.bytes <= w.bytesMax {
			var names []string
			names, err = dir.Readdirnames(walkBatch)
			for _, name := range names {
				if stop := w.addOpen(in+"/"+name, owner, skip); stop != nil {
					return errors.Join(stop, dir.Close())
				}
			}
		}
		_ = dir.Close() // nothing was written through it
	}
	return nil
}

// addOpen adds an open file, if it has no name.
func (w *walk) addOpen(path string, owner uint32, skip func(path string) bool) error {
	if err := w.restAfterBatch(); err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 0 || s.Uid != owner {
		return nil //nolint:nilerr // it was closed
	}
	var on unix.Statfs_t
	if err := unix.Statfs(path, &on); err != nil || slices.Contains(inMemory, int64(on.Type)) {
		return nil //nolint:nilerr // the same
	}
	at := inode{dev: s.Dev, ino: s.Ino}
	if name, err := os.Readlink(path); err != nil || w.hasSeen(at) || skip(name) {
		return nil //nolint:nilerr // the same
	}
	w.bytes += s.Blocks * blockBytes
	return nil
}

// restAfterBatch counts a name, and rests after each walkBatch of them.
func (w *walk) restAfterBatch() error {
	if w.since++; w.since < walkBatch {
		return nil
	}
	w.since = 0
	return w.rest()
}

// hasSeen reports whether a file was counted before, and notes it.
func (w *walk) hasSeen(at inode) bool {
	_, again := w.seen[at]
	w.seen[at] = struct{}{}
	return again
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
	if err := w.restAfterBatch(); err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	if w.hasSeen(inode{dev: s.Dev, ino: s.Ino}) {
		return nil
	}
	w.bytes += s.Blocks * blockBytes
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return w.enterFolder(dir, name, depth+1)
}
