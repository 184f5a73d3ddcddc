// Package sysinfo reads the processors, memory, disk and boot id of a Linux machine, and
// what this process has used of them. It has no state, and every function may be called from several goroutines.
package sysinfo

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Size is what a machine has, with a disk.
type Size struct{ CPUs, MemoryMB, DiskGB int64 }

// SizeOf returns the size of this machine with the disk that holds dir: CPUs, MemoryMB and DiskGB together.
func SizeOf(dir string) (s Size, err error) {
	s.CPUs = CPUs()
	if s.MemoryMB, err = MemoryMB(); err != nil {
		return Size{}, err
	}
	if s.DiskGB, err = DiskGB(dir); err != nil {
		return Size{}, err
	}
	return s, nil
}

// CPUs returns the number of processors that this process may use, at least 1.
func CPUs() int64 { return int64(runtime.NumCPU()) }

// MemoryMB returns the machine's memory in mebibytes, rounded down, from MemTotal of
// /proc/meminfo.
func MemoryMB() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("reading the machine's memory: %w", err)
	}
	return memoryMB(text)
}

func memoryMB(meminfo []byte) (int64, error) {
	for line := range bytes.Lines(meminfo) {
		rest, ok := strings.CutPrefix(string(line), "MemTotal:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) != 2 || fields[1] != "kB" {
			break
		}
		kib, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || kib < 0 {
			break
		}
		return kib / 1024, nil
	}
	return 0, fmt.Errorf("reading the machine's memory: no MemTotal in kB among %d bytes", len(meminfo))
}

// DiskGB returns the size in gibibytes, rounded down, of the file system that
// holds dir.
func DiskGB(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("reading the disk below %s: %w", dir, err)
	}
	return int64(fs.Blocks * uint64(fs.Frsize) >> 30), nil
}

// BootID returns the kernel's random name for this boot of the machine. Process
// ids and start times of two boots must not be compared.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// ProcessTime returns what this process has used of its processors since it began, in user
// and system mode.
func ProcessTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// MachineTime returns how long the processors of the machine, all together, have worked and
// have been idle since it started, from /proc/stat.
func MachineTime() (busy, idle time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the machine's processor time: %w", err)
	}
	return machineTime(text)
}

// statTick is the unit of /proc/stat.
const statTick = 10 * time.Millisecond

// statColumns are the columns of /proc/stat that are counted: user, nice, system, idle,
// iowait, irq, softirq and steal. Those behind are in user already.
const statColumns = 8

func machineTime(stat []byte) (busy, idle time.Duration, err error) {
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < statColumns+1 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("reading the machine's processor time: no line of all processors in %d bytes", len(stat))
	}
	for i, field := range fields[1 : statColumns+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil || ticks < 0 {
			return 0, 0, fmt.Errorf("reading the machine's processor time: column %d is %q", i+1, field)
		}
		if i == 3 || i == 4 { // idle, and idle while a disk works
			idle += time.Duration(ticks) * statTick
		} else {
			busy += time.Duration(ticks) * statTick
		}
	}
	return busy, idle, nil
}
