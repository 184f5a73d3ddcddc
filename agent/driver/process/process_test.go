package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/await"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
		return
	}
	if dir := os.Getenv(heldEnv); dir != "" {
		hold(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir, cgroup string) *Driver {
	t.Helper()
	return openAs(t, dir, cgroup, nil)
}

func openAs(t *testing.T, dir, cgroup string, user *Identity) *Driver {
	t.Helper()
	d, err := Open(t.Context(), Config{
		Dir: dir, Grace: 300 * time.Millisecond, Cgroup: cgroup, User: user, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

// fresh opens a driver on a folder of its own and clears it at the end.
func fresh(t *testing.T) *Driver {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	return open(t, dir, "")
}

// sweep stops everything in dir.
func sweep(t *testing.T, dir string) {
	t.Helper()
	d, err := Open(context.Background(), Config{Dir: dir, Grace: time.Nanosecond, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer d.Close()
	list, err := d.List(context.Background())
	require.NoError(t, err)
	for _, s := range list {
		require.NoError(t, d.Stop(context.Background(), s.Instance))
	}
}

func shellWork(script string) api.Workload {
	return api.Workload{
		Instance: api.InstanceID(api.NewUUID()), Name: "web", Flavor: "tiny",
		Command: []string{"/bin/sh", "-c", script},
	}
}

func sleeper() api.Workload {
	w := shellWork("")
	w.Command = []string{"/bin/sleep", "1000"}
	return w
}

func (d *Driver) pid(id api.InstanceID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.all[id]; i != nil {
		return i.PID
	}
	return 0
}

// state returns what d lists of an instance.
func state(t *testing.T, d *Driver, id api.InstanceID) driver.State {
	t.Helper()
	list, err := d.List(t.Context())
	require.NoError(t, err)
	for _, s := range list {
		if s.Instance == id {
			return s
		}
	}
	return driver.State{}
}

// untilEnded waits for an instance to end by itself.
func untilEnded(t *testing.T, d *Driver, id api.InstanceID) driver.State {
	t.Helper()
	var s driver.State
	until(t, "the instance ends", func() bool {
		s = state(t, d, id)
		return s.Status != api.StatusActive
	})
	return s
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.True(t, what, ok)
}

// marker returns what every process of an instance finds in its environment,
// whichever driver has started it.
func marker(id api.InstanceID) string { return envInstance + "=" + string(id) }

// carries reports whether a process has the mark of an instance.
func carries(t *testing.T, pid int, id api.InstanceID) (yes bool) {
	t.Helper()
	until(t, "its environment can be seen", func() (sure bool) {
		yes, sure = hasMark(pid, marker(id))
		return sure
	})
	return yes
}

// living returns the processes that carry the mark of an instance.
func living(t *testing.T, id api.InstanceID) (n int) {
	t.Helper()
	all, err := listPIDs()
	require.NoError(t, err)
	for _, pid := range all {
		if s, err := readStat(pid); err == nil && !s.isOver() && carries(t, pid, id) {
			n++
		}
	}
	return n
}

func read(t *testing.T, d *Driver, id api.InstanceID, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.conf.Dir, string(id), name))
	require.NoError(t, err)
	return string(text)
}

// TestStartAndStop looks at what only this driver has: see TestConduct for the rest.
func TestStartAndStop(t *testing.T) {
	d, w := fresh(t), sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	s, err := readStat(d.pid(w.Instance))
	require.NoError(t, err)
	assert.Equal(t, d.pid(w.Instance), s.group, "a group of its own")
	assert.Equal(t, d.pid(w.Instance), s.session, "a session of its own")

	require.NoError(t, d.Stop(t.Context(), w.Instance))
	assert.Zero(t, living(t, w.Instance))
	assert.NoDirExists(t, filepath.Join(d.conf.Dir, string(w.Instance)))
}

func TestHowItEnds(t *testing.T) {
	d := fresh(t)
	for _, c := range []struct {
		script string
		status api.Status
		fault  string
	}{
		{"exit 0", api.StatusShutoff, ""},
		{"exit 3", api.StatusError, "the process ended with exit code 3"},
		{"kill -9 $$", api.StatusError, "the process was killed by SIGKILL"},
	} {
		w := shellWork(c.script)
		require.NoError(t, d.Start(t.Context(), "h", w))
		s := untilEnded(t, d, w.Instance)
		assert.Equal(t, c.status, s.Status, c.script)
		assert.Equal(t, c.fault, s.Fault, c.script)
		if c.status == api.StatusShutoff {
			require.ErrorIs(t, d.Start(t.Context(), "h", w), driver.ErrEnded)
		} else {
			require.EqualError(t, d.Start(t.Context(), "h", w), c.fault)
		}
	}
}

func TestWhatItSees(t *testing.T) {
	d := fresh(t)
	t.Setenv("SECRET", "of the agent")
	w := shellWork(`/usr/bin/env; echo "arg $0"; pwd; echo oops >&2; echo fds /proc/$$/fd/*`)
	w.Command = append(w.Command, `"; echo injected`)
	w.Metadata = map[string]string{"role": "web", "Zone_2": "b", "LD-PRELOAD": "x", "": "x", "nul": "a\x00b", "é": "x"}
	require.NoError(t, d.Start(t.Context(), "h", w))
	untilEnded(t, d, w.Instance)
	out := read(t, d, w.Instance, stdoutFile)
	for _, want := range []string{
		"PATH=" + instancePath, envInstance + "=" + string(w.Instance), envName + "=web", envFlavor + "=tiny",
		envMetadata + "role=web", envMetadata + "Zone_2=b", `arg "; echo injected`,
		filepath.Join(d.conf.Dir, string(w.Instance), workFolder),
	} {
		assert.Contains(t, out, want+"\n")
	}
	for _, no := range []string{"SECRET", "PRELOAD", "nul", "\ninjected"} {
		assert.NotContains(t, out, no)
	}
	for n := 3; n < 10; n++ { // a shell keeps some of its own from 10 on
		assert.NotContains(t, out, fmt.Sprintf("/fd/%d ", n))
	}
	assert.Equal(t, "oops\n", read(t, d, w.Instance, stderrFile))
	for name, mode := range map[string]os.FileMode{"": 0o700, workFolder: 0o700, stdoutFile: 0o600, recordFile: 0o600} {
		info, err := os.Stat(filepath.Join(d.conf.Dir, string(w.Instance), name))
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}
	assert.ElementsMatch(t, environmentOf(w, "/d/i", "BERTH_MARK=a.b"), []string{
		"PATH=" + instancePath, "BERTH_MARK=a.b", marker(w.Instance), envName + "=web", envFlavor + "=tiny",
		"BERTH_PREEMPT_NOTICE=/d/i/work/preempt-notice.json", "BERTH_VOLUMES=/d/i/volumes",
		envMetadata + "role=web", envMetadata + "Zone_2=b",
	})
}

func TestWhatCannotStart(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, "")
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"none":     {nil, "flavor has no command in this zone"},
		"relative": {[]string{"sleep"}, "must be an absolute path"},
		"missing":  {[]string{"/no/such/program"}, "no such file"},
		"folder":   {[]string{"/bin"}, "cannot be run"},
		"zero":     {[]string{"/bin/sleep", "a\x00"}, "zero byte"},
	} {
		w := sleeper()
		w.Command = c.command
		require.ErrorContains(t, d.Start(t.Context(), "h", w), c.want, name)
		s := state(t, d, w.Instance)
		assert.Equal(t, api.StatusError, s.Status, name)
		assert.Contains(t, s.Fault, c.want, name)
		w.Command = []string{"/bin/sleep", "1000"}
		require.ErrorContains(t, d.Start(t.Context(), "h", w), c.want, "it is not tried again by itself")
	}
	for _, id := range []api.InstanceID{"", "..", "../x", "a/b", ".lock"} {
		require.Error(t, d.Start(t.Context(), "h", api.Workload{Instance: id, Command: []string{"/bin/true"}}))
		require.NoError(t, d.Stop(t.Context(), id))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Start(ctx, "h", sleeper()), context.Canceled)

	require.NoError(t, d.Close())
	again := open(t, dir, "")
	list, err := again.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, list, 5, "failures are remembered")
	for _, s := range list {
		require.NoError(t, again.Stop(t.Context(), s.Instance))
	}
}

func TestStopIsSoftThenHard(t *testing.T) {
	d := fresh(t)
	soft := shellWork(`trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	hard := shellWork(`trap '' TERM; echo up; while :; do sleep 0.01; done`)
	for _, w := range []api.Workload{soft, hard} {
		require.NoError(t, d.Start(t.Context(), "h", w))
		until(t, "it runs", func() bool { return read(t, d, w.Instance, stdoutFile) != "" })
	}
	out, err := os.Open(filepath.Join(d.conf.Dir, string(soft.Instance), stdoutFile))
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, d.Stop(t.Context(), soft.Instance))
	said := make([]byte, 64)
	n, _ := out.Read(said)
	assert.Equal(t, "up\nbye\n", string(said[:n]))
	begin := time.Now()
	require.NoError(t, d.Stop(t.Context(), hard.Instance))
	assert.GreaterOrEqual(t, time.Since(begin), d.conf.Grace)
	assert.Zero(t, living(t, hard.Instance))
}

func TestGrandchildrenGoToo(t *testing.T) {
	d := fresh(t)
	script := `trap '' TERM
/bin/sleep 1001 & setsid /bin/sleep 1002 & (setsid env -u BERTH_INSTANCE_ID /bin/sleep 1003 & ) ; (/bin/sleep 1004 &)
echo up; wait; while :; do sleep 1; done`
	w := shellWork(script)
	require.NoError(t, d.Start(t.Context(), "h", w))
	until(t, "it runs", func() bool { return read(t, d, w.Instance, stdoutFile) != "" && living(t, w.Instance) >= 4 })
	require.NoError(t, d.Stop(t.Context(), w.Instance))
	assert.Zero(t, living(t, w.Instance))

	left := shellWork(`/bin/sleep 1005 & setsid /bin/sleep 1006 & exit 0`)
	require.NoError(t, d.Start(t.Context(), "h", left))
	assert.Equal(t, api.StatusShutoff, untilEnded(t, d, left.Instance).Status)
	until(t, "what the process left behind is ended", func() bool { return living(t, left.Instance) == 0 })
	sweepStray(t)
}

// TestRestlessChildrenGoToo looks at children that begin a new program all the time, so
// that many are in between, where nobody can see whose they are, when their parent ends.
func TestRestlessChildrenGoToo(t *testing.T) {
	d := fresh(t)
	w := shellWork(`echo 'exec /bin/sh "$0"' >again
for i in $(seq 16); do setsid /bin/sh ./again & done; exit 0`)
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, api.StatusShutoff, untilEnded(t, d, w.Instance).Status)
	assert.Zero(t, living(t, w.Instance))
}

// sweepStray ends the one process of the test above that hides from everything
// but a control group.
func sweepStray(t *testing.T) {
	t.Helper()
	all, err := listPIDs()
	require.NoError(t, err)
	for _, pid := range all {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(line) == "/bin/sleep\x001003\x00" {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
}

func TestOneDriverHasTheFolder(t *testing.T) {
	d := fresh(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*lockEvery)
	defer cancel()
	_, err := Open(ctx, Config{Dir: d.conf.Dir, Log: d.conf.Log})
	require.ErrorContains(t, err, "another agent has it")
	for _, c := range []Config{{}, {Dir: "x"}, {Dir: "x", Log: d.conf.Log, Grace: -1}, {Dir: "x", Log: d.conf.Log, Cgroup: "../x"}} {
		_, err := Open(t.Context(), c)
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err))
	}
}

func TestClosedDriver(t *testing.T) {
	d, w := fresh(t), sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.Error(t, d.Start(t.Context(), "h", w))
	require.Error(t, d.Stop(t.Context(), w.Instance))
	_, err := d.List(t.Context())
	require.Error(t, err)
	assert.Equal(t, 1, living(t, w.Instance), "it goes on")
}

func TestDescribe(t *testing.T) {
	d := fresh(t)
	assert.Contains(t, d.Describe(), "no limits, for want of cgroup controllers; volumes are ")
}
