package sysinfo

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disk returns the size in bytes of the file system that holds dir, and how much of it this process may still write.
func Disk(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err = unix.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("reading the disk below %s: %w", dir, err)
	}
	return int64(fs.Bavail * uint64(fs.Frsize)), int64(fs.Blocks * uint64(fs.Frsize)), nil
}
