package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Folders of worlds and of binaries are named after their process, so that leftovers of a
// killed process can be distinguished from folders in use.
const (
	dirPrefix = "berth-lab-"
	keptName  = "KEPT" // a file in a folder that must stay
)

// newDir makes a folder of this process.
func newDir() (string, error) {
	if err := sweep(); err != nil {
		return "", fmt.Errorf("clearing what earlier runs left: %w", err)
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("making a folder: %w", err)
	}
	return dir, nil
}

// keepLogs copies logs into dir, and marks it for sweep to leave alone.
func keepLogs(dir, logs string) error {
	return errors.Join(
		os.CopyFS(filepath.Join(dir, "logs"), os.DirFS(logs)),
		os.WriteFile(filepath.Join(dir, keptName), nil, 0o600))
}

// sweep is clear, once in the life of this process.
var sweep = sync.OnceValue(clearAll)

// clearAll unmounts and removes the leftovers of worlds whose process was killed. Their
// namespaces ended with them.
func clearAll() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		n, err := strconv.Atoi(pid)
		if err != nil || !errors.Is(unix.Kill(n, 0), unix.ESRCH) {
			continue // not ours, or in use
		}
		errs = append(errs, killInstances(dir), unmountUnder(dir))
		if _, err := os.Stat(filepath.Join(dir, keptName)); err != nil {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// unmountUnder unmounts all disks below dir, including those that hang.
func unmountUnder(dir string) error {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], dir+string(filepath.Separator)) {
			continue
		}
		d := &disk{dir: fields[1], mounted: true}
		_ = d.requestOf(fsThaw, 0) // most do not hang
		errs = append(errs, d.unmount())
	}
	return errors.Join(errs...)
}
