package process

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/api"
)

// Limits of a range of users. Below UserMin systems have users of their own.
const (
	UserMin  = 1 << 16
	UsersMax = 1 << 16 // how many a range may have
)

// volumeDepthMax is how deep the folders of a volume may be that is given to another user: each
// level keeps a file open meanwhile.
const volumeDepthMax = 256

// UserRange has the numbers of users, and of the groups that have the same, of which each
// instance gets one for itself. Nothing else of the machine may use them.
type UserRange struct{ First, Last uint32 }

// ParseUsers reads a range as FIRST-LAST.
func ParseUsers(text string) (*UserRange, error) {
	first, last, _ := strings.Cut(text, "-")
	a, err := strconv.ParseUint(first, 10, 32)
	b, lastErr := strconv.ParseUint(last, 10, 32)
	if errors.Join(err, lastErr) != nil {
		return nil, api.Errorf(api.CodeInvalid, "a range of users is FIRST-LAST, as in 200000-209999, not %q", text)
	}
	r := &UserRange{First: uint32(a), Last: uint32(b)}
	return r, r.Check()
}

// Check returns the reason why a range cannot be used, or nil.
func (r UserRange) Check() error {
	switch {
	case r.First < UserMin || r.Last > math.MaxInt32:
		return api.Errorf(api.CodeInvalid, "a range of users must be within %d-%d, not %d-%d", UserMin, math.MaxInt32, r.First, r.Last)
	case r.Last < r.First || r.Last-r.First >= UsersMax:
		return api.Errorf(api.CodeInvalid, "a range of users must have 1 to %d of them, in their order, not %d-%d", UsersMax, r.First, r.Last)
	}
	return nil
}

// only returns a user if it is of the range, and 0 otherwise.
func (r UserRange) only(uid uint32) uint32 {
	if uid < r.First || uid > r.Last {
		return 0
	}
	return uid
}

// keeper returns who has a volume that is not attached: the user of all instances, if they share
// one, and root if each has its own.
func (d *Driver) keeper() *Identity {
	if d.conf.Users != nil {
		return &Identity{}
	}
	return d.conf.User
}

// chooseUser returns the user of an instance that starts, nil for the agent's own. One of the
// range is noted in the instance's record, and is not given to another while there is anything
// of the instance: a process or a file.
func (d *Driver) chooseUser(i *instance) (*Identity, error) {
	r := d.conf.Users
	if r == nil {
		return d.conf.User, nil
	}
	running, err := usersRunning()
	if err != nil {
		return nil, fmt.Errorf("looking for a user for the instance: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := running
	for id, uid := range d.lent {
		taken[uid] = taken[uid] || id != i.Instance // an aborted start of its own has left nothing
	}
	for _, other := range d.all {
		taken[other.UID] = true
	}
	for n := range r.Last - r.First + 1 {
		uid := r.after(d.last, n)
		if taken[uid] {
			continue
		}
		if err := d.withdrawVolumes(uid); err != nil {
			return nil, err
		}
		d.lent[i.Instance], i.UID = uid, uid
		d.noteUser(uid)
		return &Identity{UID: uid, GID: uid}, nil
	}
	return nil, fmt.Errorf("all %d users that the agent has for instances are taken: %d-%d", r.Last-r.First+1, r.First, r.Last)
}

// after returns the user that comes n after the one after another, which may be none, in turn.
func (r UserRange) after(last, n uint32) uint32 {
	if r.only(last) == 0 {
		return r.First + n
	}
	return r.First + uint32((uint64(last-r.First)+1+uint64(n))%uint64(r.Last-r.First+1)) //nolint:gosec // below the size of the range
}

// lastUserFile has the user that was given last, so that the next agent does not give it again first.
const lastUserFile = ".user"

// noteUser notes the user that was given last. The driver is locked.
func (d *Driver) noteUser(uid uint32) {
	d.last = uid
	if err := d.root.WriteFile(lastUserFile, strconv.AppendUint(nil, uint64(uid), 10), 0o600); err != nil {
		d.conf.Log.Warn("the user that was given last cannot be noted", "err", err)
	}
}

// readLastUser returns what noteUser has noted, 0 for nothing.
func (d *Driver) readLastUser() uint32 {
	text, err := d.root.ReadFile(lastUserFile)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// returnUser gives back the user of an instance that has not started and has left nothing.
func (d *Driver) returnUser(id api.InstanceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lent, id)
}

// withdrawVolumes takes from a user the volumes that the last instance with it has left attached.
// The driver is locked.
func (d *Driver) withdrawVolumes(uid uint32) error {
	for id, v := range d.all {
		if v.Volume && d.ownerOfWork(id) == uid {
			if err := d.root.Chown(string(id)+"/"+workFolder, 0, 0); err != nil {
				return fmt.Errorf("taking volume %s from an instance that is gone: %w", id, err)
			}
		}
	}
	return nil
}

// ownerOfWork returns whose the work folder of an instance or a volume is; root's if there is none.
// A command cannot change that.
func (d *Driver) ownerOfWork(id api.InstanceID) uint32 {
	info, err := d.root.Lstat(string(id) + "/" + workFolder)
	if err != nil {
		return 0
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return s.Uid
}

// takeVolume takes a volume from an instance with a user of its own. What the instance has open
// there stays open.
func (d *Driver) takeVolume(r record, vol api.InstanceID) error {
	if r.UID == 0 || d.ownerOfWork(vol) != r.UID {
		return nil
	}
	return d.root.Chown(string(vol)+"/"+workFolder, 0, 0)
}

// giveVolume makes the user of an instance the owner of a volume and of all that is in it, if
// that is nobody else's too: a file with more than one name stays whose it is unless that is a user
// of the range. The volume's folder comes last, so that what was not completed is repeated.
func (d *Driver) giveVolume(r record, vol api.InstanceID) error {
	if r.UID == 0 || d.ownerOfWork(vol) == r.UID {
		return nil
	}
	work, err := d.root.Open(string(vol) + "/" + workFolder)
	if err != nil {
		return err
	}
	defer func() { _ = work.Close() }()     // nothing was written through it
	if err = work.Chown(0, 0); err == nil { // nobody who has lost it changes it meanwhile by its path
		err = d.giveFolder(work, r.UID, 1)
	}
	if err == nil {
		err = work.Chown(int(r.UID), int(r.UID))
	}
	if err != nil {
		return fmt.Errorf("giving volume %s to the instance's user: %w", vol, err)
	}
	return nil
}

// giveFolder gives what is in a folder to a user. It follows no links.
func (d *Driver) giveFolder(dir *os.File, uid uint32, depth int) error {
	if depth > volumeDepthMax {
		return fmt.Errorf("its folders are more than %d deep", volumeDepthMax)
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.giveEntry(dir, name, uid, depth); err != nil && !errors.Is(err, unix.ENOENT) { // who has it open may remove it
			return err
		}
	}
	return nil
}

func (d *Driver) giveEntry(dir *os.File, name string, uid uint32, depth int) error {
	at, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }() // nothing was written through it
	var s unix.Stat_t
	if err := unix.Fstat(at, &s); err != nil {
		return err
	}
	folder := s.Mode&unix.S_IFMT == unix.S_IFDIR
	if folder {
		inside, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(inside), name)
		if err := errors.Join(d.giveFolder(f, uid, depth+1), f.Close()); err != nil {
			return err
		}
	}
	if !folder && s.Nlink > 1 && (d.conf.Users == nil || d.conf.Users.only(s.Uid) == 0) {
		return nil
	}
	return unix.Fchownat(at, "", int(uid), int(uid), unix.AT_EMPTY_PATH)
}

// usersRunning returns the users that processes of this machine run as, or may.
func usersRunning() (map[uint32]bool, error) {
	all, err := listPIDs()
	if err != nil {
		return nil, err
	}
	out := map[uint32]bool{}
	for _, pid := range all {
		if s, err := readStat(pid); err != nil || s.isOver() {
			continue
		}
		for _, uid := range usersOf(pid) {
			out[uid] = true
		}
	}
	return out, nil
}

// hasUser reports whether a process runs as a user, or may.
func hasUser(pid int, uid uint32) bool {
	for _, u := range usersOf(pid) {
		if u == uid {
			return true
		}
	}
	return false
}

// usersOf returns the real, effective, saved and file system user of a process; none if it is gone.
func usersOf(pid int) (out []uint32) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		rest, found := bytes.CutPrefix(line, []byte("Uid:"))
		if !found {
			continue
		}
		for _, f := range bytes.Fields(rest) {
			if n, err := strconv.ParseUint(string(f), 10, 32); err == nil {
				out = append(out, uint32(n))
			}
		}
	}
	return out
}
