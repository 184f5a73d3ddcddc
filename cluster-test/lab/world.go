package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/await"
	"berth/internal/dice"
)

// Options configure a World. The zero value is a Plain world.
type Options struct {
	Tags      []string // further build tags of the binary
	Machines  Kind     // what processes run on
	DiskBytes int64    // of each machine's own disk, in bytes; 0 means DiskBytes
	Env       []string // further variables of every process, "NAME=value"
	Quick     bool     // nodes elect as fast as the product does, for tests of elections; else as long as processes run, none is deposed
	Tap       bool     // nodes write what passes their gateways below TapDir; needs the tag chaos
	Keep      bool     // keep data and logs even if the test passes
}

// World owns everything that one test starts.
type World struct {
	T     *testing.T
	Seed  uint64  // of the test's random draws; see dice
	Dir   string  // with everything that is kept after a failure
	Zones []*Zone // in the order of their making

	// Clients is where the test itself and its commands are. It has no disk.
	Clients *Machine

	opts  Options
	logs  string // one file for each service
	net   network
	wires wires

	over     chan struct{}  // closed when the world ends
	watchers sync.WaitGroup // one for each process

	mu       sync.Mutex // guards what follows
	bin      string     // that is started
	machines []*Machine
	procs    []*proc
	exits    []Exit
	allowed  []func(Exit) bool
	faults   []error
	restored bool
	moves    bool // instances may be moved
}

// New returns an empty world that ends with the test.
func New(t *testing.T, o Options) *World {
	t.Helper()
	if !o.Quick {
		o.Tags = append(o.Tags, "chaos") // it has the variable
	}
	bin, err := BuildBinary(o.Tags...)
	require.NoError(t, err)
	dir, err := newDir()
	require.NoError(t, err)
	w := &World{T: t, Seed: dice.Seed(t), Dir: dir, opts: o, bin: bin, logs: t.ArtifactDir(), over: make(chan struct{})}
	t.Cleanup(w.takeDown)
	w.net, w.Clients, err = newNetwork(w)
	require.NoError(t, err)
	w.wires = wires{net: w.net, deaf: map[*Machine]map[*Machine]int{}, gone: map[*Machine]bool{}, slow: map[*Machine]bool{}, bad: map[*Machine]bool{}, echo: map[*Machine]bool{}}
	return w
}

// UseBinary has everything that is started from now on run another release of berth.
func (w *World) UseBinary(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bin = path
}

func (w *World) binary() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bin
}

// recordExit notes the end of a process.
func (w *World) recordExit(e Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exits = append(w.exits, e)
}

// failAtEnd fails the test when the world ends.
func (w *World) failAtEnd(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, err)
}

// Exits returns every end of a process so far, in their order.
func (w *World) Exits() []Exit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.exits)
}

// Allow sets which processes may end by themselves; the end of any other fails the test.
// It may be called again, even after such an end.
func (w *World) Allow(f func(Exit) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allowed = append(w.allowed, f)
}

// FromBackup declares that a zone was restored: instances that were gone may run again.
func (w *World) FromBackup() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restored = true
}

// takeDown removes everything: processes, the instances that they left running, disks and
// wires. It checks logs for forbidden texts, and the exits of processes; and it keeps data
// and logs if the test failed.
func (w *World) takeDown() {
	assert.NoError(w.T, w.unexpectedExits()) //nolint:testifylint // all else is taken down all the same
	close(w.over)
	w.mu.Lock()
	procs, machines := slices.Clone(w.procs), slices.Clone(w.machines)
	w.mu.Unlock()
	var errs []error
	for _, m := range machines {
		errs = append(errs, m.thawDisk())
	}
	for _, p := range procs {
		p.signal(syscallKill)
	}
	w.watchers.Wait()
	errs = append(errs, killInstances(w.Dir))
	for _, m := range machines {
		errs = append(errs, m.close())
	}
	if w.net != nil { // it was made
		errs = append(errs, w.net.close())
	}
	errs = append(errs, w.faults...)          // nothing is left that complains
	assert.NoError(w.T, errors.Join(errs...)) //nolint:testifylint // logs are read all the same
	logs := w.judgeLogs(procs)
	if !w.T.Failed() && !w.opts.Keep {
		assert.NoError(w.T, os.RemoveAll(w.Dir))
		return
	}
	if w.T.Failed() {
		for _, log := range logs {
			w.T.Logf("--- %s\n%s", filepath.Base(log), lastLines(log, 10))
		}
	}
	assert.NoError(w.T, keepLogs(w.Dir, w.logs)) //nolint:testifylint // how to run it again is said all the same
	w.T.Logf("data, disks and logs are kept in %s\nagain: %s", w.Dir, w.replayCommand())
}

// unexpectedExits returns an error for each process that ended by itself without being
// allowed to.
func (w *World) unexpectedExits() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, e := range w.exits {
		if !e.Meant && !e.droppedLog() && !slices.ContainsFunc(w.allowed, func(f func(Exit) bool) bool { return f(e) }) {
			errs = append(errs, fmt.Errorf("%s has ended by itself at %s: %s: %s", e.Service, e.At.Format(time.StampMilli), e.How, e.Last))
		}
	}
	return errors.Join(errs...)
}

// judgeLogs fails the test for a log with a forbidden text, and returns all logs.
func (w *World) judgeLogs(procs []*proc) []string {
	var seen []string
	for _, p := range procs {
		if slices.Contains(seen, p.Log) {
			continue
		}
		seen = append(seen, p.Log)
		text, err := os.ReadFile(p.Log)
		assert.NoError(w.T, err) //nolint:testifylint // the other logs are read all the same
		text = p.machine.withoutDiskErrors(p.Log, text)
		for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
			assert.False(w.T, bytes.Contains(text, []byte(bad)), "%s: its log has %q", p.Log, bad)
		}
	}
	return seen
}

// replayCommand returns the command that runs the test again; dice says with which seed.
func (w *World) replayCommand() string {
	here, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	pkg := here
	for up := here; up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			pkg = "." + strings.TrimPrefix(here, up)
			break
		}
	}
	tags := slices.Concat(buildFlags)
	if len(buildTags) > 0 {
		tags = append(tags, "-tags", strings.Join(buildTags, ","))
	}
	return strings.Join(slices.Concat([]string{"go", "test"}, tags,
		[]string{pkg, "-count=1", "-run", fmt.Sprintf("'^%s$'", w.T.Name())}), " ")
}

// faultEnv names the deliberate fault that a program with many of them makes: see cluster-test/mutants.
const faultEnv = "BERTH_FAULT"

// environment is the environment of processes and commands, without that of the user.
func (w *World) environment(more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir}
	if fault, has := os.LookupEnv(faultEnv); has {
		env = append(env, faultEnv+"="+fault)
	}
	return slices.Concat(env, w.opts.Env, more)
}

// TapDir returns where a node's tap writes.
func (w *World) TapDir(service string) string { return filepath.Join(w.Dir, "taps", service) }

// runCommand runs one command to its end, where clients are, and returns its standard
// output.
func (w *World) runCommand(ctx context.Context, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.binary(), args...)
	cmd.Env = w.environment(env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := runInside(w.Clients.ns, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("berth %s: %w\n%s", strings.Join(args, " "), err, errOut.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// mustRun is Run of a command that must succeed.
func (w *World) mustRun(env []string, args ...string) string {
	w.T.Helper()
	out, err := w.runCommand(w.T.Context(), env, args...)
	require.NoError(w.T, err)
	return out
}

// writePrivate writes a private file outside of all machines' disks, and returns its path.
func (w *World) writePrivate(name, text string) string {
	w.T.Helper()
	path := filepath.Join(w.Dir, name)
	require.NoError(w.T, os.WriteFile(path, []byte(text), 0o600))
	return path
}
