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
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
	"berth/internal/dice"
)

// heldEnv makes the test binary an agent of instances with a fence, which waits
// to be killed. heldCgroup names the parent of their control groups.
const (
	heldEnv    = "BERTH_TEST_HELD"
	heldCgroup = "BERTH_TEST_HELD_CGROUP"
)

// Scripts of instances that are hard to end: family has children that ignore
// signals, and runaway one that has left its session as well.
const (
	family  = `trap '' TERM HUP; /bin/sleep 1011 & (/bin/sleep 1012 &); echo up; while :; do /bin/sleep 1; done`
	runaway = `setsid /bin/sleep 1013 & echo up; exec /bin/sleep 1014`
)

func fenced(w api.Workload) api.Workload {
	w.Fence = time.Minute
	return w
}

// held returns what hold starts in dir, and an instance without a fence.
func held(dir string) []api.Workload {
	all := []api.Workload{fenced(sleeper()), fenced(shellWork(family)), fenced(shellWork(runaway)), sleeper()}
	for n := range all {
		all[n].Instance = api.InstanceID(fmt.Sprintf("%s-%d", filepath.Base(dir), n))
	}
	return all
}

// hold starts instances, says so, and waits to be killed.
func hold(dir string) {
	d, err := Open(context.Background(), Config{Dir: dir, Cgroup: os.Getenv(heldCgroup), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println("cannot open:", err)
		return
	}
	fmt.Println("open")
	for _, w := range held(dir) {
		if err := d.Start(context.Background(), "h", w); err != nil {
			fmt.Println("cannot start:", err)
		}
	}
	fmt.Println("all")
	select {}
}

// holder starts a process that runs hold and returns what it says.
func holder(t *testing.T, dir, cgroup string) (cmd *exec.Cmd, said func() string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), heldEnv+"="+dir, heldCgroup+"="+cgroup)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	r := bufio.NewReader(out)
	return cmd, func() string {
		line, failure := r.ReadString('\n')
		require.NoError(t, failure)
		return strings.TrimSpace(line)
	}
}

// upInstances waits until the scripts of held run with all that they start.
func upInstances(t *testing.T, dir string, all []api.Workload) {
	t.Helper()
	until(t, "all of it runs", func() bool {
		for _, w := range all[1:3] {
			text, err := os.ReadFile(filepath.Join(dir, string(w.Instance), stdoutFile))
			if err != nil || len(text) == 0 {
				return false
			}
		}
		left := sleeps(t, all[2].Instance, "1013") == 1                                   // it has left its session before it became that
		return left && living(t, all[1].Instance) >= 5 && living(t, all[2].Instance) >= 3 // the command's, and a warden
	})
}

// sleeps returns how many processes have the mark of an instance and this
// command line.
func sleeps(t *testing.T, id api.InstanceID, seconds string) (n int) {
	t.Helper()
	all, err := listPIDs()
	require.NoError(t, err)
	for _, pid := range all {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && string(line) == "/bin/sleep\x00"+seconds+"\x00" && carries(t, pid, id) {
			n++
		}
	}
	return n
}

// strikeWarden kills the warden of an instance, so that the kernel alone knows.
func strikeWarden(t *testing.T, id api.InstanceID) {
	t.Helper()
	all, err := listPIDs()
	require.NoError(t, err)
	for _, pid := range all {
		line, failure := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if failure == nil && strings.HasPrefix(string(line), "sh\x00-c\x00end=") && carries(t, pid, id) {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	until(t, "the command is alone", func() bool { return living(t, id) == 1 })
}

func TestFencedDiesWithItsAgent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), api.NewUUID())
	t.Cleanup(func() { sweep(t, dir) })
	cmd, said := holder(t, dir, "")
	require.Equal(t, "open", said())
	require.Equal(t, "all", said())
	all := held(dir)
	upInstances(t, dir, all)
	strikeWarden(t, all[0].Instance)

	begin := time.Now()
	require.NoError(t, cmd.Process.Kill())
	for n, w := range all[:3] {
		leaves := 0
		if n == 2 {
			leaves = 1 // what has left its session
		}
		until(t, "it ends with its agent", func() bool { return living(t, w.Instance) == leaves })
		t.Logf("instance %d: ended %s after its agent", n, time.Since(begin))
	}
	_ = cmd.Wait()
	assert.Equal(t, 1, sleeps(t, all[2].Instance, "1013"))
	assert.Equal(t, 1, living(t, all[3].Instance), "without a fence it goes on")

	d := open(t, dir, "")
	assert.Zero(t, living(t, all[2].Instance), "nothing is left when the next driver is ready")
	list, err := d.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []driver.State{{Host: "h", Instance: all[3].Instance, Status: api.StatusActive}}, list)
	gone := map[api.InstanceID]bool{}
	for _, s := range d.Severed() {
		assert.True(t, s.Fenced)
		gone[s.Instance] = true
	}
	assert.Len(t, gone, 3)
	require.NoError(t, d.Start(t.Context(), "h", all[0]), "it may run again")
	assert.True(t, state(t, d, all[0].Instance).Fenced)
}

// TestFencedGroupDiesWithItsAgent: with a version 2 control group nothing can leave.
func TestFencedGroupDiesWithItsAgent(t *testing.T) {
	parent := limited(t).conf.Cgroup
	dir := filepath.Join(t.TempDir(), api.NewUUID())
	t.Cleanup(func() {
		d, err := Open(context.Background(), Config{Dir: dir, Cgroup: parent, Grace: 1, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		for _, w := range held(dir) {
			require.NoError(t, d.Stop(context.Background(), w.Instance))
		}
		require.NoError(t, d.Close())
	})
	cmd, said := holder(t, dir, parent)
	require.Equal(t, "open", said())
	require.Equal(t, "all", said())
	all := held(dir)
	upInstances(t, dir, all)
	if findGroups(mountinfo(t), parent).v2 == "" {
		t.Skip("no version 2 control group can be made here")
	}
	begin := time.Now()
	require.NoError(t, cmd.Process.Kill())
	for _, w := range all[:3] {
		until(t, "it ends with its agent", func() bool { return living(t, w.Instance) == 0 })
	}
	t.Logf("all ended %s after their agent", time.Since(begin))
	_ = cmd.Wait()
}

func mountinfo(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return string(text)
}

// TestFencedKilledAtAnyMoment kills an agent while it starts instances: those
// with a fence end without anybody's help.
func TestFencedKilledAtAnyMoment(t *testing.T) {
	for _, round := range dice.Part(t, []int{0, 1, 2, 3, 4, 5}, 2) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), api.NewUUID())
			t.Cleanup(func() { sweep(t, dir) })
			cmd, said := holder(t, dir, "")
			require.Equal(t, "open", said())
			moment := time.NewTimer(time.Duration(dice.Rand(t).Int64N(int64(12 * time.Millisecond))))
			<-moment.C
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			all := held(dir)
			for _, w := range all[:2] {
				until(t, "it ends with its agent", func() bool { return living(t, w.Instance) == 0 })
			}
			d := open(t, dir, "")
			for _, w := range all[:3] {
				assert.Empty(t, state(t, d, w.Instance))
				assert.Zero(t, living(t, w.Instance))
			}
		})
	}
}

func TestFencedEndsWithItsDriver(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	runs, ended, free := fenced(shellWork(family)), fenced(shellWork("exit 3")), sleeper()
	for _, w := range []api.Workload{runs, ended, free} {
		require.NoError(t, d.Start(t.Context(), "h", w))
	}
	until(t, "it runs", func() bool { return living(t, runs.Instance) >= 5 })
	untilEnded(t, d, ended.Instance)
	require.NoError(t, d.Close())
	assert.Zero(t, living(t, runs.Instance))
	assert.Equal(t, 1, living(t, free.Instance))

	next := open(t, dir, "")
	assert.Empty(t, state(t, next, runs.Instance))
	assert.Equal(t, "the process ended with exit code 3", state(t, next, ended.Instance).Fault, "an end of its own is remembered")
	require.Len(t, next.Severed(), 1)
	assert.Equal(t, runs.Instance, next.Severed()[0].Instance)
	require.EqualError(t, next.Start(t.Context(), "h", ended), "the process ended with exit code 3")
}

func TestKillIsHard(t *testing.T) {
	d := fresh(t)
	d.conf.Grace = time.Hour
	w := fenced(shellWork(family))
	require.NoError(t, d.Start(t.Context(), "h", w))
	until(t, "it runs", func() bool { return living(t, w.Instance) >= 5 })
	ctx := t.Context()
	soft, cut := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.Stop(soft, w.Instance) }()
	cut()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, d.Kill(ctx, w.Instance))
	assert.Zero(t, living(t, w.Instance))
	assert.Empty(t, state(t, d, w.Instance))
	require.NoError(t, d.Kill(ctx, w.Instance), "what is already so is a success")
}

// TestFencedSeesNothingOfIt: a command is not told of its warden, has no
// descriptor of it, and no child that it did not start.
func TestFencedSeesNothingOfIt(t *testing.T) {
	d := fresh(t)
	w := fenced(shellWork(`/usr/bin/env; echo fds /proc/$$/fd/*; echo children $(cat /proc/$$/task/$$/children); kill -TERM 0; exit 4`))
	w.Command[2] = "trap '' TERM; " + w.Command[2]
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, "the process ended with exit code 4", untilEnded(t, d, w.Instance).Fault)
	until(t, "its warden ends with it", func() bool { return living(t, w.Instance) == 0 })
	out := read(t, d, w.Instance, stdoutFile)
	assert.NotContains(t, out, "end=")
	for n := 3; n < 10; n++ { // a shell keeps some of its own from 10 on
		assert.NotContains(t, out, fmt.Sprintf("/fd/%d ", n))
	}
	for l := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(l, "children"); ok {
			assert.LessOrEqual(t, len(strings.Fields(rest)), 1, "the shell that asks, and nobody else")
		}
	}
}

// TestStartThatIsTooLate: when its context has ended before the command runs, it
// never does.
func TestStartThatIsTooLate(t *testing.T) {
	d := fresh(t)
	w := fenced(shellWork("touch ran; exec /bin/sleep 1000"))
	i := &instance{gone: make(chan struct{}), record: record{Instance: w.Instance, Host: "h", Boot: d.boot, Status: api.StatusActive}}
	require.NoError(t, d.makeFolder(w.Instance))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.beginProcess(ctx, i, w, nil), context.Canceled)
	until(t, "its gate has ended", func() bool { return living(t, w.Instance) == 0 })
	assert.False(t, d.isReleased(w.Instance))
}
