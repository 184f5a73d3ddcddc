package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// watchArg is the first argument when go test runs a test binary through this program (go test -exec).
const watchArg = "watch"

// dirEnv names the folder for what the watchers found.
const dirEnv = "BERTH_SUITE_DIR"

// Limits of a test binary. A machine that is slow reaches none of them.
const (
	idleMax     = 10 * time.Minute // without a line of output and with less than idleCPU
	idleCPU     = 5 * time.Second
	idleEvery   = 5 * time.Second  // between two looks
	stacksMax   = 20 * time.Second // to print where it stands
	outputDelay = 10 * time.Second // for output of what it left running
)

// cost is what the tests of a package took.
type cost struct {
	Seconds float64 `json:"seconds"` // CPU time of the test binary and of the processes that it waited for
	Unit    float64 `json:"unit"`    // seconds that the unit of work took before and after, on average
}

// scaled returns the seconds on a machine where the unit of work takes unit seconds.
func (c cost) scaled(unit float64) float64 { return c.Seconds * unit / c.Unit }

// watch runs a test binary, writes what it cost, and ends it when it stands still. It returns its exit
// code.
func watch(command []string, out, problems io.Writer) int {
	before := measureUnit()
	c := exec.Command(command[0], command[1:]...) //nolint:gosec // go test says what to run, and ends it
	seen := &seenWriter{w: out}
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = os.Stdin, seen, seen, outputDelay
	if err := c.Start(); err != nil {
		fmt.Fprintln(problems, "suite:", err)
		return 1
	}
	ended := make(chan struct{})
	go guard(c.Process, seen, ended)
	err := c.Wait()
	close(ended)
	used := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	if noted := noteCost(cost{used.Seconds(), (before + measureUnit()) / 2}); noted != nil {
		fmt.Fprintln(problems, "suite:", noted)
		return 1
	}
	if code := c.ProcessState.ExitCode(); code > 0 || err == nil {
		return code
	}
	fmt.Fprintln(problems, "suite:", err)
	return 1
}

// guard passes signals on to a test binary, and ends it when it stands still.
func guard(p *os.Process, seen *seenWriter, ended <-chan struct{}) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	lines, cpu, since := seen.lines.Load(), cpuOf(p.Pid), time.Now()
	for {
		select {
		case <-ended:
			return
		case s := <-signals:
			_ = p.Signal(s) // it may have ended
		case <-tick.C:
			if n, used := seen.lines.Load(), cpuOf(p.Pid); n != lines || used-cpu > idleCPU {
				lines, cpu, since = n, used, time.Now()
			} else if time.Since(since) > idleMax {
				_ = p.Signal(syscall.SIGQUIT) // it prints where it stands
				select {
				case <-ended:
				case <-time.After(stacksMax):
					_ = p.Kill() // it may have ended
				}
				return
			}
		}
	}
}

// seenWriter counts what is written.
type seenWriter struct {
	w     io.Writer
	lines atomic.Int64
}

// Write implements io.Writer.
func (s *seenWriter) Write(b []byte) (int, error) {
	s.lines.Add(1)
	return s.w.Write(b) //nolint:wrapcheck // it stands for that writer
}

// cpuOf returns the CPU time of a process and of those that it waited for; 0 if it is gone.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var sum int64
	for i, f := range strings.Fields(rest) {
		if i >= 11 && i <= 14 { // utime, stime, cutime, cstime of proc(5), in hundredths of a second
			n, _ := strconv.ParseInt(f, 10, 64) // the kernel wrote it
			sum += n
		}
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// measureUnit returns the CPU seconds of a fixed piece of work: how slow this machine is at this moment.
func measureUnit() float64 {
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before) // it does not fail for this process
	block, sum := make([]byte, 64<<10), uint32(0)
	for range 100 {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Koopman), block) // Koopman's: in plain Go, on each processor
		block[0] = byte(sum)
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	return seconds(after) - seconds(before)
}

func seconds(r syscall.Rusage) float64 {
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

// noteCost writes what the tests of the package cost whose folder this process is in.
func noteCost(c cost) error {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return nil
	}
	at, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("looking for the package: %w", err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing what tests cost: %w", err)
	}
	if err = os.WriteFile(costFile(dir, at), text, 0o600); err != nil {
		return fmt.Errorf("writing what tests cost: %w", err)
	}
	return nil
}

// costFile returns the file for what the tests in a folder cost.
func costFile(dir, folder string) string {
	return filepath.Join(dir, strings.ReplaceAll(strings.Trim(filepath.ToSlash(folder), "/"), "/", "_")+".json")
}
