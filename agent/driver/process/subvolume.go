package process

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/api"
)

// Requests to btrfs, from linux/btrfs.h. A system that numbers them in another way refuses them,
// and volumes are then folders.
const (
	subvolumeCreate = 0x5000940e // BTRFS_IOC_SUBVOL_CREATE
	quotaLimit      = 0x8030942b // BTRFS_IOC_QGROUP_LIMIT
	limitReferenced = 1          // BTRFS_QGROUP_LIMIT_MAX_RFER: all that the subvolume refers to
)

// newSubvolume is struct btrfs_ioctl_vol_args.
type newSubvolume struct {
	_    int64
	name [4088]byte // ends with a zero byte
}

// subvolumeLimit is struct btrfs_ioctl_qgroup_limit_args.
type subvolumeLimit struct {
	_             uint64 // which quota group; 0: that of the subvolume to which the request is sent
	flags         uint64 // what is set; nothing changes if it is 0
	maxReferenced uint64 // bytes
	_             [3]uint64
}

func sendRequest[T any](to *os.File, request uintptr, arg *T) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, to.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
		return errno
	}
	return nil
}

// checkSizes returns the reason why volumes beside a file cannot be held to their size, nil if they
// can. It changes nothing: quotas cost time, so that it is the operator who turns them on.
func checkSizes(beside *os.File) error {
	var of unix.Statfs_t
	if err := unix.Fstatfs(int(beside.Fd()), &of); err != nil {
		return fmt.Errorf("the file system is not known: %w", err)
	}
	if uint32(of.Type) != unix.BTRFS_SUPER_MAGIC {
		return errors.New("the folder is not on btrfs")
	}
	if err := sendRequest(beside, quotaLimit, &subvolumeLimit{}); err != nil {
		return fmt.Errorf("quotas of btrfs are off, or not permitted: %w", err)
	}
	return nil
}

// describeVolumes describes what a volume is here.
func (d *Driver) describeVolumes() string {
	if d.unbounded != nil {
		return "volumes are folders without a limit of size: " + d.unbounded.Error()
	}
	return "volumes are btrfs subvolumes held to their size"
}

// BoundsVolumes reports whether the driver holds the volumes that it makes to their size. The
// result is the same in each call.
func (d *Driver) BoundsVolumes() bool { return d.unbounded == nil }

// boundVolume puts a subvolume that is held to the volume's size in place of its work folder,
// which is empty. Once it returns, no loss of power takes the limit away.
func (d *Driver) boundVolume(w api.Workload) error {
	var size int64 // GiB: a volume has one class
	for _, n := range w.Resources {
		size += n
	}
	if size < 1 || size > api.VolumeMaxGB {
		return fmt.Errorf("a volume must have 1 to %d GiB, not %d", api.VolumeMaxGB, size)
	}
	work := string(w.Instance) + "/" + workFolder
	if err := d.root.Remove(work); err != nil {
		return err
	}
	folder, err := d.root.Open(string(w.Instance))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // nothing was written through it
	sub := newSubvolume{}
	copy(sub.name[:], workFolder)
	if err = sendRequest(folder, subvolumeCreate, &sub); err != nil {
		return fmt.Errorf("making a subvolume: %w", err)
	}
	if err = d.root.Chmod(work, 0o700); err != nil {
		return err
	}
	made, err := d.root.Open(work)
	if err != nil {
		return err
	}
	defer func() { _ = made.Close() }() // nothing was written through it
	limit := subvolumeLimit{flags: limitReferenced, maxReferenced: uint64(size) << 30}
	if err = sendRequest(made, quotaLimit, &limit); err != nil {
		return fmt.Errorf("holding a subvolume to its size: %w", err)
	}
	// The record is synced by itself, and could outlive a limit that is not on disk yet.
	return unix.Syncfs(int(made.Fd()))
}
