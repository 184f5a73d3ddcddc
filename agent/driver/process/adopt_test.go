package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/api"
	"berth/internal/dice"
)

// TestAdoptRunning takes over what runs as the processes that they are.
func TestAdoptRunning(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	first, w := open(t, dir, ""), sleeper()
	require.NoError(t, first.Start(t.Context(), "h", w))
	pid := first.pid(w.Instance)
	require.NoError(t, first.Close())

	d := open(t, dir, "")
	assert.Equal(t, pid, d.pid(w.Instance))
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, 1, living(t, w.Instance), "no second copy")
}

// TestCrashAtEachStep breaks a start off after every step and opens the folder
// again: what was not let go can be started, what was is found, and there is
// never more than one.
func TestCrashAtEachStep(t *testing.T) {
	steps := []string{"folder", "child", "joined", "recorded", "word"}
	for reached, name := range steps {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, w := open(t, dir, ""), sleeper()
			breakOff(t, d, w, reached)
			t.Cleanup(func() { sweep(t, dir) }) // before the child is waited for
			require.NoError(t, d.Close())

			next := open(t, dir, "")
			if reached < len(steps)-1 {
				assert.Empty(t, state(t, next, w.Instance), "it never ran")
				assert.Zero(t, living(t, w.Instance))
			}
			require.NoError(t, next.Start(t.Context(), "h", w))
			until(t, "it runs", func() bool { return living(t, w.Instance) == 1 })
			assert.Equal(t, api.StatusActive, state(t, next, w.Instance).Status)
		})
	}
}

// TestAdoptWhatIsAboutToRun opens the folder while a gate has its word and has not
// become the command yet: it is waited for, and goes on as what it is.
func TestAdoptWhatIsAboutToRun(t *testing.T) {
	dir := t.TempDir()
	d, w := open(t, dir, ""), sleeper()
	require.NoError(t, d.makeFolder(w.Instance))
	cmd, word, _, err := d.startGate(record{Instance: w.Instance}, w, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Wait() }) // the test is the parent, and init would do this
	t.Cleanup(func() { sweep(t, dir) })
	pid := cmd.Process.Pid
	stand(t, pid)
	s, err := readStat(pid)
	require.NoError(t, err)
	require.NoError(t, saveRecord(d.root, record{Instance: w.Instance, Host: "h", PID: pid, Start: s.start, Boot: d.boot, Status: api.StatusActive}))
	_, err = word.WriteString("go\n")
	require.NoError(t, errors.Join(err, word.Close(), d.Close()))

	next, err := Open(t.Context(), Config{Dir: dir, Grace: time.Nanosecond, Log: slog.New(heard{func() { goOn(pid) }})})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, next.Close()) })
	assert.Equal(t, pid, next.pid(w.Instance), "the same process goes on")
	assert.True(t, next.isReleased(w.Instance))
	require.NoError(t, next.Start(t.Context(), "h", w))
	assert.Equal(t, 1, living(t, w.Instance))
}

// TestStartReturnsWhenItRuns holds a gate up that has its word: Start does not say
// that the command runs before it does.
func TestStartReturnsWhenItRuns(t *testing.T) {
	for name, w := range map[string]api.Workload{"free": sleeper(), "fenced": fenced(sleeper())} {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			d.shell = slowShell(t)
			let := make(chan bool, 1)
			go func() {
				assert.NoError(t, d.Start(t.Context(), "h", w))
				let <- d.isReleased(w.Instance)
			}()
			pid := d.standing(t, w.Instance)
			select {
			case <-let:
				require.Fail(t, "it was said to run while its gate stood still")
			case <-time.After(100 * time.Millisecond): // long for what has nothing to do
			}
			goOn(pid)
			assert.True(t, <-let)
		})
	}
}

// TestStartThatIsCutAfterItsWord: the word cannot be taken back, so it is listed,
// and a repeat waits for it. A gate that ends without becoming the command is an
// ERROR.
func TestStartThatIsCutAfterItsWord(t *testing.T) {
	d := fresh(t)
	d.shell = slowShell(t)
	goes, ends := sleeper(), sleeper()
	for _, w := range []api.Workload{goes, ends} {
		ctx, cut := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Start(ctx, "h", w) }()
		pid := d.standing(t, w.Instance)
		cut()
		require.ErrorIs(t, <-done, context.Canceled)
		assert.Equal(t, api.StatusActive, state(t, d, w.Instance).Status)
		go func() { done <- d.Start(t.Context(), "h", w) }()
		if w.Instance == goes.Instance {
			goOn(pid)
			require.NoError(t, <-done)
			assert.True(t, d.isReleased(w.Instance))
			continue
		}
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		require.Error(t, <-done)
		assert.Equal(t, api.StatusError, untilEnded(t, d, w.Instance).Status)
		assert.False(t, d.isReleased(w.Instance))
	}
}

// slowShell returns a shell that stands still before it does anything.
func slowShell(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sh")
	require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\nkill -STOP $$\nexec /bin/sh \"$@\"\n"), 0o700))
	return name
}

// standing waits until the gate of an instance stands still and Start has no more to
// do than to wait for it, and returns its number.
func (d *Driver) standing(t *testing.T, id api.InstanceID) int {
	t.Helper()
	until(t, "its gate stands still", func() bool {
		s, err := readStat(d.pid(id))
		return err == nil && s.state == 'T'
	})
	return d.pid(id)
}

// stand stops a process and waits until it has.
func stand(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	until(t, "it stands still", func() bool {
		s, err := readStat(pid)
		return err == nil && s.state == 'T'
	})
}

func goOn(pid int) { _ = unix.Kill(pid, unix.SIGCONT) } // what is gone needs no signal

// heard is a log that calls f when something is waited for.
type heard struct{ f func() }

func (h heard) Enabled(context.Context, slog.Level) bool { return true }
func (h heard) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h heard) WithGroup(string) slog.Handler            { return h }
func (h heard) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "waiting for it") {
		h.f()
	}
	return nil
}

// breakOff starts w as launch does and stops after some of its steps, as if the
// agent had been killed there: its end of the pipe is closed, and nothing is
// cleaned up.
func breakOff(t *testing.T, d *Driver, w api.Workload, reached int) {
	t.Helper()
	i := &instance{record: record{Instance: w.Instance, Host: "h", Boot: d.boot, Status: api.StatusActive}}
	require.NoError(t, d.makeFolder(w.Instance))
	if reached < 1 {
		return
	}
	cmd, word, _, err := d.startGate(record{Instance: w.Instance}, w, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Wait() }) // the test is the parent, and init would do this
	defer word.Close()
	if reached < 2 {
		return
	}
	i.PID = cmd.Process.Pid
	s, err := readStat(i.PID)
	require.NoError(t, err)
	i.Start = s.start
	if reached < 3 {
		return
	}
	require.NoError(t, saveRecord(d.root, i.record))
	if reached < 4 {
		return
	}
	_, err = word.WriteString("go\n")
	require.NoError(t, err)
	until(t, "it is released", func() bool { return d.isReleased(w.Instance) })
}

func TestAdoptWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	w, booted, other := sleeper(), sleeper(), sleeper()
	for _, w := range []api.Workload{w, booted, other} {
		require.NoError(t, d.Start(t.Context(), "h", w))
		until(t, "it is released", func() bool { return d.isReleased(w.Instance) })
		require.NoError(t, d.Stop(t.Context(), w.Instance))
		require.NoError(t, d.makeFolder(w.Instance))
		require.NoError(t, d.root.WriteFile(string(w.Instance)+"/"+releasedFile, nil, 0o600))
	}
	self, err := readStat(os.Getpid())
	require.NoError(t, err)
	// It died with nobody there; it ran before a reboot; its number is somebody else's now.
	require.NoError(t, saveRecord(d.root, record{Instance: w.Instance, Host: "h", PID: 1 << 22, Boot: d.boot, Status: api.StatusActive}))
	require.NoError(t, saveRecord(d.root, record{Instance: booted.Instance, Host: "h", PID: os.Getpid(), Start: self.start, Boot: "x", Status: api.StatusActive}))
	require.NoError(t, saveRecord(d.root, record{Instance: other.Instance, Host: "h", PID: os.Getpid(), Start: self.start - 1, Boot: d.boot, Status: api.StatusActive}))
	damaged := sleeper()
	require.NoError(t, d.Start(t.Context(), "h", damaged))
	require.NoError(t, d.root.WriteFile(string(damaged.Instance)+"/"+recordFile, []byte("{"), 0o600))
	require.NoError(t, d.root.Mkdir("not.an~id", 0o700))
	require.NoError(t, d.Close())

	d = open(t, dir, "")
	assert.Equal(t, "the process ended while no agent could see how", state(t, d, w.Instance).Fault)
	assert.Equal(t, "the machine was restarted", state(t, d, booted.Instance).Fault)
	assert.Equal(t, "the process ended while no agent could see how", state(t, d, other.Instance).Fault)
	assert.Contains(t, state(t, d, damaged.Instance).Fault, "reading the record")
	assert.Equal(t, 1, living(t, damaged.Instance))
	require.NoError(t, d.Stop(t.Context(), damaged.Instance))
	assert.Zero(t, living(t, damaged.Instance), "it is found by its mark")
	assert.DirExists(t, filepath.Join(dir, "not.an~id"))
}

// victimEnv makes the test binary an agent that waits to be killed.
const victimEnv = "BERTH_TEST_VICTIM"

// victim starts instances one after the other, saying so, until it is killed.
func victim(dir string) {
	d, err := Open(context.Background(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println("cannot open:", err)
		return
	}
	fmt.Println("open")
	for n := range victims {
		w := sleeper()
		w.Instance = api.InstanceID(fmt.Sprintf("%s-%d", filepath.Base(dir), n))
		if err := d.Start(context.Background(), "h", w); err != nil {
			fmt.Println("cannot start:", err)
		}
	}
	fmt.Println("all")
	select {}
}

const victims = 6

// TestKilledAgent kills a real agent at some moment of its starts, and starts
// everything again in its place: each runs exactly once.
func TestKilledAgent(t *testing.T) {
	for _, round := range dice.Part(t, []int{0, 1, 2, 3, 4, 5}, 2) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), api.NewUUID())
			t.Cleanup(func() { sweep(t, dir) })
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimEnv+"="+dir)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			said, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "open\n", said)
			moment := time.NewTimer(time.Duration(dice.Rand(t).Int64N(int64(18 * time.Millisecond))))
			<-moment.C
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()

			d := open(t, dir, "")
			for n := range victims {
				w := sleeper()
				w.Instance = api.InstanceID(fmt.Sprintf("%s-%d", filepath.Base(dir), n))
				require.NoError(t, d.Start(t.Context(), "h", w))
				until(t, "it runs once", func() bool { return d.isReleased(w.Instance) && living(t, w.Instance) == 1 })
			}
		})
	}
}

// TestTwoDriversOneInstance has an instance leave one driver while another one of
// the same machine runs it: what the first ends is its own alone.
func TestTwoDriversOneInstance(t *testing.T) {
	a, b := fresh(t), fresh(t)
	w := sleeper()
	require.NoError(t, a.Start(t.Context(), "h1", w))
	require.NoError(t, b.Start(t.Context(), "h2", w))
	require.Equal(t, 2, living(t, w.Instance))
	require.NoError(t, a.Stop(t.Context(), w.Instance))
	assert.Zero(t, a.pid(w.Instance))
	assert.Equal(t, 1, living(t, w.Instance))
	require.NoError(t, b.Stop(t.Context(), w.Instance))
	assert.Zero(t, living(t, w.Instance))
}
