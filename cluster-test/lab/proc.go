package lab

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// proc is one process of the binary. Its methods are safe for concurrent use.
type proc struct {
	Name string
	Log  string // the file that it writes to, after those of this name before it

	machine *Machine
	cmd     *exec.Cmd
	began   time.Time
	done    chan struct{} // closed when it has ended
	err     error         // how it ended; read after done
	meant   atomic.Bool   // a test has ended it
}

// startProcess starts a process on m that logs to the end of name's file.
func (w *World) startProcess(m *Machine, name string, env []string, args ...string) (*proc, error) {
	p := &proc{Name: name, Log: filepath.Join(w.logs, name+".log"), machine: m, done: make(chan struct{}), began: time.Now()}
	f, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // the process has its own
	// Not CommandContext: the world ends it, and tests kill it before that.
	p.cmd = exec.Command(w.binary(), args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = w.environment(env...), f, f
	// It ends with this process even if that is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	starter() <- func() { started <- runInside(m.ns, p.cmd.Start) }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs = append(w.procs, p)
	return p, nil
}

// starter returns a function that runs functions on a thread that never ends: the kernel
// treats the end of the thread that started a process as the end of its parent.
var starter = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// signal signals only this process, unless it has ended. An end after SIGKILL or SIGTERM is
// intended.
func (p *proc) signal(s syscall.Signal) {
	if p.running() {
		if s == syscall.SIGKILL || s == syscall.SIGTERM {
			p.meant.Store(true)
		}
		_ = p.cmd.Process.Signal(s) // it may end at this very moment
	}
}

// kill ends the process at once and waits for its end. A process that waits for a
// disk that hangs ends when the hang is over.
func (p *proc) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop asks the process to end, and returns its outcome.
func (p *proc) stop() error {
	p.signal(syscall.SIGTERM)
	if awaitTrue(func() bool { return !p.running() }) != nil {
		return errors.New("it did not end after SIGTERM")
	}
	return p.err
}

// running reports whether the process has not been waited for.
func (p *proc) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// busyPort reports whether the process found a port taken.
func (p *proc) busyPort() bool { return strings.Contains(p.tail(3), "address already in use") }

// tail returns the last lines of the process's log.
func (p *proc) tail(lines int) string { return lastLines(p.Log, lines) }

// lastLines returns the last lines of a file.
func lastLines(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// RealInstance is a group of processes that a process driver has started.
type RealInstance struct {
	ID  string
	PID int // of the first of the group, which the others outlive now and then
}

// instancesUnder returns the groups of processes of instances that run in a folder
// below dir, by pid: those with an instance's id in the environment they started with.
func instancesUnder(dir string) ([]RealInstance, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var out []RealInstance
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err != nil || !strings.HasPrefix(cwd, dir+string(filepath.Separator)) {
			continue
		}
		text, err := readEnviron(pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		for v := range bytes.SplitSeq(text, []byte{0}) {
			id, ok := bytes.CutPrefix(v, []byte("BERTH_INSTANCE_ID="))
			group, err := syscall.Getpgid(pid)
			if i := (RealInstance{string(id), group}); ok && err == nil && !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	slices.SortFunc(out, func(a, b RealInstance) int { return a.PID - b.PID })
	return out, nil
}

// readEnviron returns the environment of a process, or an error if it has ended. While one begins its program, which is after
// its starter has been told that it runs, the kernel shows none for a moment.
func readEnviron(pid int) (text []byte, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	never := awaitTrue(func() bool {
		text, err = os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && len(text) == 0 {
			_, err = os.Readlink(filepath.Join(dir, "cwd")) // one that has ended has none
		}
		return err != nil || len(text) > 0
	})
	return text, cmp.Or(err, never)
}

// Instances returns the processes of instances that run on any machine of the
// world. It is safe for concurrent use.
func (w *World) Instances() ([]RealInstance, error) { return instancesUnder(w.Dir) }

// killInstances ends the instances that run in a folder below dir.
func killInstances(dir string) error {
	all, err := instancesUnder(dir)
	for _, i := range all {
		_ = syscall.Kill(-i.PID, syscall.SIGKILL) // each has a session of its own; it may have ended meanwhile
	}
	return err
}
