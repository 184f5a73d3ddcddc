package process

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

func TestAdoptRunning(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	first := open(t, dir, "")
	stays, ends, hangs := sleeper(), shellWork("while [ ! -e go ]; do sleep 0.01; done; exit 7"), sleeper()
	for _, w := range []api.Workload{stays, ends, hangs} {
		require.NoError(t, first.Start(t.Context(), "h", w))
		until(t, "it is released", func() bool { return first.released(w.Instance) })
	}
	pid := first.pid(stays.Instance)
	require.NoError(t, first.Close())

	d := open(t, dir, "")
	assert.Equal(t, pid, d.pid(stays.Instance))
	require.NoError(t, d.Start(t.Context(), "h", stays))
	assert.Equal(t, 1, living(t, stays.Instance), "no second copy")

	// The end of a process that is not watched as a child is seen too.
	require.NoError(t, os.WriteFile(filepath.Join(dir, string(ends.Instance), workFolder, "go"), nil, 0o600))
	assert.Equal(t, "the process ended with exit code 7", untilEnded(t, d, ends.Instance).Fault)

	require.NoError(t, d.Stop(t.Context(), stays.Instance))
	assert.Zero(t, living(t, stays.Instance))
	require.NoError(t, d.Close())

	third := open(t, dir, "")
	assert.Equal(t, "the process ended with exit code 7", state(t, third, ends.Instance).Fault, "it is remembered")
	assert.Equal(t, api.StatusActive, state(t, third, hangs.Instance).Status)
	assert.Empty(t, state(t, third, stays.Instance))
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

// breakOff starts w as launch does and stops after some of its steps, as if the
// agent had been killed there: its end of the pipe is closed, and nothing is
// cleaned up.
func breakOff(t *testing.T, d *Driver, w api.Workload, reached int) {
	t.Helper()
	i := &instance{record: record{Instance: w.Instance, Host: "h", Boot: d.boot, Status: api.StatusActive}}
	require.NoError(t, d.folder(w.Instance))
	if reached < 1 {
		return
	}
	cmd, word, _, err := d.child(w)
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
	require.NoError(t, save(d.root, i.record))
	if reached < 4 {
		return
	}
	_, err = word.WriteString("go\n")
	require.NoError(t, err)
	until(t, "it is released", func() bool { return d.released(w.Instance) })
}

func TestAdoptWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	w, booted, other := sleeper(), sleeper(), sleeper()
	for _, w := range []api.Workload{w, booted, other} {
		require.NoError(t, d.Start(t.Context(), "h", w))
		until(t, "it is released", func() bool { return d.released(w.Instance) })
		require.NoError(t, d.Stop(t.Context(), w.Instance))
		require.NoError(t, d.folder(w.Instance))
		require.NoError(t, d.root.WriteFile(string(w.Instance)+"/"+releasedFile, nil, 0o600))
	}
	self, err := readStat(os.Getpid())
	require.NoError(t, err)
	// It died with nobody there; it ran before a reboot; its number is somebody else's now.
	require.NoError(t, save(d.root, record{Instance: w.Instance, Host: "h", PID: 1 << 22, Boot: d.boot, Status: api.StatusActive}))
	require.NoError(t, save(d.root, record{Instance: booted.Instance, Host: "h", PID: os.Getpid(), Start: self.start, Boot: "x", Status: api.StatusActive}))
	require.NoError(t, save(d.root, record{Instance: other.Instance, Host: "h", PID: os.Getpid(), Start: self.start - 1, Boot: d.boot, Status: api.StatusActive}))
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
	for round := range 6 {
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
			moment := time.NewTimer(time.Duration(round) * 3 * time.Millisecond)
			<-moment.C
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()

			d := open(t, dir, "")
			for n := range victims {
				w := sleeper()
				w.Instance = api.InstanceID(fmt.Sprintf("%s-%d", filepath.Base(dir), n))
				require.NoError(t, d.Start(t.Context(), "h", w))
				until(t, "it runs once", func() bool { return d.released(w.Instance) && living(t, w.Instance) == 1 })
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
