package clustertest

import (
	"bytes"
	"context"
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
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// World owns everything that one test starts.
type World struct {
	restored bool // from a backup: instances that were gone may run again
	t        *testing.T
	bin      string
	dir      string // data of nodes and agents
	logs     string // one file for each process
	procs    []*Proc
	zones    []*Zone
}

// NewWorld returns an empty world that ends with the test.
func NewWorld(t *testing.T) *World {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	bin, err := binary()
	require.NoError(t, err)
	w := &World{t: t, bin: bin, dir: t.TempDir(), logs: t.ArtifactDir()}
	t.Cleanup(w.end)
	return w
}

// end kills all processes and then the instances that they left running, looks
// into the logs for what must never be there, and prints them if the test failed.
func (w *World) end() {
	for _, p := range w.procs {
		assert.True(w.t, p.meant || p.Running(), "%s has ended by itself", p.log)
		p.Signal(syscall.SIGKILL)
	}
	for _, p := range w.procs {
		<-p.done
	}
	for _, i := range instancesUnder(w.t, w.dir) {
		_ = syscall.Kill(-i.PID, syscall.SIGKILL) // each has a session of its own; it may have ended meanwhile
	}
	var seen []string
	for _, p := range w.procs {
		if slices.Contains(seen, p.log) {
			continue
		}
		seen = append(seen, p.log)
		text, err := os.ReadFile(p.log)
		assert.NoError(w.t, err) //nolint:testifylint // the other logs are read all the same
		for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
			assert.False(w.t, bytes.Contains(text, []byte(bad)), "%s: its log has %q", p.log, bad)
		}
	}
	if w.t.Failed() {
		for _, log := range seen {
			w.t.Logf("--- %s\n%s", filepath.Base(log), tail(log, 40))
		}
	}
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// environment is what processes and commands get: nothing of the user's own.
func (w *World) environment(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir}, more...)
}

// Run runs one command to its end and returns its standard output.
func (w *World) Run(env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 40*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.bin, args...)
	cmd.Env = w.environment(env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("berth %s: %w\n%s", strings.Join(args, " "), err, errOut.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// MustRun is Run of a command that must succeed.
func (w *World) MustRun(env []string, args ...string) string {
	w.t.Helper()
	out, err := w.Run(env, args...)
	require.NoError(w.t, err)
	return out
}

// File writes a private file and returns its path.
func (w *World) File(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Proc is one process of the binary.
type Proc struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done

	meant bool // a test has ended it
}

// Start starts a process that logs to the end of name's file.
func (w *World) Start(name string, args ...string) *Proc {
	w.t.Helper()
	p := &Proc{log: filepath.Join(w.logs, name+".log"), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer func() { _ = f.Close() }() // the process has its own
	// Not CommandContext: the world ends it, and tests kill it before that.
	p.cmd = exec.Command(w.bin, args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = w.environment(), f, f
	// It ends with this process even if that is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	starter() <- func() { started <- p.cmd.Start() }
	require.NoError(w.t, <-started)
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	w.procs = append(w.procs, p)
	return p
}

// starter returns what runs functions on a thread that never ends: the kernel
// takes the end of the thread that started a process for the end of its parent.
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

// Signal signals this process alone, unless it has ended.
func (p *Proc) Signal(s syscall.Signal) {
	if p.Running() {
		p.meant = true
		_ = p.cmd.Process.Signal(s) // it may end at this very moment
	}
}

// Kill ends the process as a power cut would, and waits for its end.
func (p *Proc) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, and returns how it did.
func (p *Proc) Stop(d time.Duration) error {
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
		return errors.New("it did not end after SIGTERM")
	}
}

// Running reports whether the process has not been waited for.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// RealInstance is a process that a process driver has started.
type RealInstance struct {
	ID  string
	PID int
}

// instancesUnder returns the processes of instances that run in a folder below
// dir, by pid: those with an instance's id in the environment they started with.
func instancesUnder(t *testing.T, dir string) []RealInstance {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
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
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // it has ended meanwhile
		}
		for v := range bytes.SplitSeq(text, []byte{0}) {
			if id, ok := bytes.CutPrefix(v, []byte("BERTH_INSTANCE_ID=")); ok {
				out = append(out, RealInstance{string(id), pid})
			}
		}
	}
	slices.SortFunc(out, func(a, b RealInstance) int { return a.PID - b.PID })
	return out
}
