package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat has the fields of /proc/<pid>/stat.
type stat struct {
	state   byte // 'Z' is a zombie: it has ended and has not been waited for
	group   int
	session int
	start   uint64 // clock ticks since boot; with the pid it names one process of one boot
	memory  uint64 // size of its address space in bytes; 0 for a thread of the kernel
	exit    int    // wait status, only of a zombie that we may inspect

	// Addresses of its program and of its environment, only of a process that we may
	// inspect. While it executes a new program the kernel sets code last.
	code, envStart, envEnd uint64
}

// isOver reports whether the process has ended, though its number is still taken.
func (s stat) isOver() bool { return s.state == 'Z' || s.state == 'X' }

// readStat returns an error if there is no such process.
func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat reads proc(5)'s fields. The second, the program's name, may contain anything,
// so the third follows the last parenthesis.
func parseStat(text []byte) (stat, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const first = 3 // fields[0] is field 3
	if len(fields) <= 22-first {
		return stat{}, fmt.Errorf("reading a process's state: %d fields", len(fields))
	}
	s := stat{state: fields[0][0]}
	var err error
	number := func(field int) uint64 {
		if field-first >= len(fields) {
			return 0
		}
		n, e := strconv.ParseUint(string(fields[field-first]), 10, 64)
		if e != nil {
			err = fmt.Errorf("reading field %d of a process's state: %w", field, e)
		}
		return n
	}
	s.group, s.session = int(number(5)), int(number(6))
	s.start, s.memory = number(22), number(23)
	s.code, s.envStart, s.envEnd = number(26), number(50), number(51)
	s.exit = int(number(52))
	return s, err
}

// listPIDs returns the numbers of all processes, in order.
func listPIDs() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
}

// hasMark reports whether the initial environment of the process has this variable. It is
// false for a process that we may not inspect, and not sure for one that is executing a
// new program: during that time the kernel shows none.
func hasMark(pid int, variable string) (yes, sure bool) {
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			return false, true
		}
		for v := range bytes.SplitSeq(text, []byte{0}) {
			if isMark(string(v), variable) {
				return true, true
			}
		}
		if len(text) > 0 {
			return false, true
		}
		s, err := readStat(pid)
		switch {
		case err != nil, s.isOver(), s.memory == 0:
			return false, true
		case s.code == 0:
			return false, false
		case s.envStart == s.envEnd: // it has no environment
			return false, true
		}
		// It has executed the new program since.
	}
}

// isMark reports whether a variable is one, or that with a secret that is not known.
func isMark(v, variable string) bool {
	return v == variable || !strings.Contains(variable, markSecret) && strings.HasPrefix(v, variable+markSecret)
}

// openPidfd returns a descriptor that always refers to the same process. It needs Linux
// 5.10.
func openPidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// awaitExit returns nil when the process of pidfd has ended, and an error when
// pidfd was closed first.
func awaitExit(pidfd *os.File) error {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool { return hasEnded(int(fd), 0) })
}

// hasEnded reports whether the process of fd ends within a time in milliseconds.
func hasEnded(fd, wait int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, wait)
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// signalPidfd sends a signal to the process of pidfd and to no other.
func signalPidfd(pidfd *os.File, sig unix.Signal) error {
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	return sent
}

// exitOf returns the wait status of a process that was not our child and has
// ended: from its pidfd if the kernel supports it (Linux 6.15), or from its zombie.
func exitOf(pidfd *os.File, pid int) (unix.WaitStatus, bool) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	conn, err := pidfd.SyscallConn()
	if err != nil {
		return 0, false
	}
	var asked error
	if err := conn.Control(func(fd uintptr) { asked = unix.IoctlPidfdInfo(int(fd), &info) }); err != nil {
		return 0, false
	}
	if asked == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0 {
		return unix.WaitStatus(info.Exit_code), true
	}
	if s, err := readStat(pid); err == nil && s.isOver() {
		return unix.WaitStatus(s.exit), true
	}
	return 0, false
}
