package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/agent/driver"
	"berth/api"
)

// usersOfTests is a range that nothing else of the machine uses, nor these tests in another process.
var usersOfTests = func() UserRange {
	first := uint32(1786130000 + os.Getpid()%(1<<22)*8) //nolint:gosec // below the limit of users
	return UserRange{First: first, Last: first + 2}
}()

func openApart(t *testing.T, dir string, users UserRange) *Driver {
	t.Helper()
	d, err := Open(t.Context(), Config{Dir: dir, Grace: 300 * time.Millisecond, Users: &users, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	return d
}

// apart returns a driver on a folder of its own whose instances each have a user.
func apart(t *testing.T) (*Driver, string) {
	t.Helper()
	needRoot(t)
	dir := filepath.Join(passableDir(t), "instances")
	t.Cleanup(func() { sweep(t, dir) })
	return openApart(t, dir, usersOfTests), dir
}

func (d *Driver) uid(id api.InstanceID) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.all[id]; i != nil {
		return i.UID
	}
	return 0
}

// TestRangesOfUsers: their form and their limits.
func TestRangesOfUsers(t *testing.T) {
	for text, want := range map[string]string{
		"65536-65536":           "",
		"65535-65536":           "must be within 65536-2147483647",
		"200000-265535":         "", // 65536 of them
		"200000-265536":         "must have 1 to 65536",
		"2147483647-2147483647": "",
		"2147483647-2147483648": "must be within",
		"200001-200000":         "must have 1 to",
		"200000":                "FIRST-LAST",
		"200000-":               "FIRST-LAST",
		"-200000":               "FIRST-LAST",
		"a-b":                   "FIRST-LAST",
		"200000-4294967296":     "FIRST-LAST",
		"200000-200001-200002":  "FIRST-LAST",
	} {
		_, err := ParseUsers(text)
		if want == "" {
			assert.NoError(t, err, text)
			continue
		}
		assert.Equal(t, api.CodeInvalid, api.CodeOf(err), text)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := Open(t.Context(), Config{Dir: t.TempDir(), User: nobody, Users: &usersOfTests, Log: slog.New(slog.DiscardHandler)})
	assert.ErrorContains(t, err, "not both")
}

// TestRangesOfTwoAgentsDoNotOverlap: the second agent of a machine that wants a user of the first one
// does not start, until that one has ended.
func TestRangesOfTwoAgentsDoNotOverlap(t *testing.T) {
	needRoot(t)
	r := usersOfTests
	first := openApart(t, filepath.Join(passableDir(t), "instances"), r)
	dir := filepath.Join(passableDir(t), "instances")
	for _, other := range []UserRange{r, {r.First, r.First}, {r.Last, r.Last + 1}, {r.First - 1, r.First}} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*lockEvery)
		_, err := Open(ctx, Config{Dir: dir, Users: &other, Log: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, err, "another agent of this machine has some of them", "%v", other)
		cancel()
	}
	for _, other := range []UserRange{{r.First - 1, r.First - 1}, {r.Last + 1, r.Last + 1}} {
		require.NoError(t, openApart(t, dir, other).Close())
	}
	require.NoError(t, first.Close())
	openApart(t, dir, r)
}

// TestInstancesAreKeptApart: each has a user that no other has. It can neither read what another
// leaves readable in its folder, nor signal another, nor read the agent's folder.
func TestInstancesAreKeptApart(t *testing.T) {
	d, dir := apart(t)
	secret := filepath.Join(filepath.Dir(dir), "agent.pem")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	victim := shellWork(`umask 0; echo open > open; echo ready; while :; do /bin/sleep 1; done`)
	require.NoError(t, d.Start(t.Context(), "h", victim))
	awaitOutput(t, d, victim.Instance, "ready\n")
	pid := d.pid(victim.Instance)
	attack := shellWork(fmt.Sprintf(`id -u; id -g; id -G; cat %s; ls %s; cat %s; ls %s; cat /proc/%d/environ; kill -9 %d; echo end`,
		filepath.Join(dir, string(victim.Instance), workFolder, "open"), filepath.Join(dir, string(victim.Instance)), secret, dir, pid, pid))
	require.NoError(t, d.Start(t.Context(), "h", attack))
	untilEnded(t, d, attack.Instance)
	a, b := d.uid(victim.Instance), d.uid(attack.Instance)
	assert.Equal(t, []uint32{usersOfTests.First, usersOfTests.First + 1}, []uint32{a, b})
	assert.Equal(t, fmt.Sprintf("%d\n%d\n%d\nend\n", b, b, b), read(t, d, attack.Instance, stdoutFile))
	told := strings.ToLower(read(t, d, attack.Instance, stderrFile))
	assert.Equal(t, 6, strings.Count(told, "permission denied")+strings.Count(told, "not permitted")+strings.Count(told, "no such file"), "%s", told) // it has a /tmp of its own
	assert.Equal(t, api.StatusActive, state(t, d, victim.Instance).Status)
}

// TestUsersAreGivenOnce: to none twice, over a restart of the agent too; what is used up is the fault
// of the boot; and the end of an instance, not that of its process, gives its user back.
func TestUsersAreGivenOnce(t *testing.T) {
	d, dir := apart(t)
	runs, ends, damaged, over := sleeper(), shellWork("exit 0"), sleeper(), sleeper()
	for n, w := range []api.Workload{runs, ends, damaged} {
		require.NoError(t, d.Start(t.Context(), "h", w))
		assert.Equal(t, usersOfTests.First+uint32(n), d.uid(w.Instance))
		r, err := loadRecord(d.root, w.Instance)
		require.NoError(t, err)
		assert.Equal(t, d.uid(w.Instance), r.UID, "it is on disk")
	}
	untilEnded(t, d, ends.Instance)
	require.NoError(t, d.root.WriteFile(string(damaged.Instance)+"/"+recordFile, []byte("{"), 0o600))
	for range 2 {
		require.NoError(t, d.Close())
		d = openApart(t, dir, usersOfTests)
		require.ErrorContains(t, d.Start(t.Context(), "h", over), "all 3 users that the agent has for instances are taken")
		assert.Contains(t, state(t, d, over.Instance).Fault, fmt.Sprintf("are taken: %d-%d", usersOfTests.First, usersOfTests.Last))
		require.NoError(t, d.Stop(t.Context(), over.Instance))
	}
	for n, w := range []api.Workload{runs, ends, damaged} {
		require.NoError(t, d.Stop(t.Context(), w.Instance))
		next := sleeper()
		require.NoError(t, d.Start(t.Context(), "h", next))
		assert.Equal(t, usersOfTests.First+uint32(n), d.uid(next.Instance))
	}
}

// TestAllOfAUserEnds: what has left the session and dropped the mark is found by its user; one that
// runs without an instance keeps its user from others.
func TestAllOfAUserEnds(t *testing.T) {
	d, _ := apart(t)
	w := shellWork(`env -i /usr/bin/setsid /bin/sh -c 'echo $$; exec /bin/sleep 1000' & wait`)
	require.NoError(t, d.Start(t.Context(), "h", w))
	var stray int
	until(t, "it has left", func() bool {
		_, err := fmt.Sscan(read(t, d, w.Instance, stdoutFile), &stray)
		return err == nil && hasUser(stray, d.uid(w.Instance))
	})
	d.mu.Lock()
	r := d.all[w.Instance].record
	delete(d.all, w.Instance)
	d.mu.Unlock()
	other := sleeper()
	require.NoError(t, d.Start(t.Context(), "h", other))
	assert.Equal(t, usersOfTests.First+1, d.uid(other.Instance))
	require.NoError(t, d.killAll(t.Context(), r))
	left, err := readStat(stray)
	assert.True(t, err != nil || left.isOver(), "it has ended, though nobody may have waited for it")
}

// TestVolumesFollowTheirInstance: an attached volume and all in it belongs to the instance that has
// it, and to nobody else: not to the one that had it, nor to the next with that one's user.
func TestVolumesFollowTheirInstance(t *testing.T) {
	d, dir := apart(t)
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	work := filepath.Join(dir, "vol-1", workFolder)
	script := `while ! cd "$BERTH_VOLUMES/vol-1" 2>/dev/null; do /bin/sleep 0.01; done; mkdir -p -m 700 in; echo $1 >>in/log && cat in/log; while :; do /bin/sleep 1; done`
	with := func(word string) api.Workload {
		w := shellWork(script)
		w.Command = append(w.Command, "sh", word)
		return w
	}
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Link(outside, filepath.Join(work, "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(work, "symlink")))
	one, two := with("one"), with("two")
	require.NoError(t, d.Start(t.Context(), "h", one))
	require.NoError(t, d.Start(t.Context(), "h", two))
	require.NoError(t, d.Attach(t.Context(), one.Instance, []api.InstanceID{"vol-1"}))
	awaitOutput(t, d, one.Instance, "one\n")
	assert.Equal(t, d.uid(one.Instance), d.ownerOfWork("vol-1"))
	require.NoError(t, d.Attach(t.Context(), one.Instance, nil))
	assert.Zero(t, d.ownerOfWork("vol-1"))
	require.NoError(t, d.Attach(t.Context(), two.Instance, []api.InstanceID{"vol-1"}))
	awaitOutput(t, d, two.Instance, "one\ntwo\n")
	var s unix.Stat_t
	require.NoError(t, unix.Stat(outside, &s))
	assert.Zero(t, s.Uid, "what has another name elsewhere is nobody else's")

	require.NoError(t, d.Stop(t.Context(), one.Instance))
	require.NoError(t, d.Stop(t.Context(), two.Instance))
	assert.Equal(t, usersOfTests.First+1, d.ownerOfWork("vol-1"))
	for range 3 { // in turn: the last of the range comes first
		require.NoError(t, d.Start(t.Context(), "h", sleeper()))
	}
	assert.Zero(t, d.ownerOfWork("vol-1"), "another instance has that user now")
}

// TestDeepVolumes: at the limit a volume can be given, and beyond it the agent says why not.
func TestDeepVolumes(t *testing.T) {
	d, dir := apart(t)
	w := sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	require.NoError(t, d.Start(t.Context(), "h", volume("vol-1")))
	deep := filepath.Join(dir, "vol-1", workFolder, strings.Repeat("a/", volumeDepthMax-1))
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, d.Attach(t.Context(), w.Instance, []api.InstanceID{"vol-1"}))
	require.NoError(t, d.Attach(t.Context(), w.Instance, nil))
	require.NoError(t, os.Mkdir(filepath.Join(deep, "a"), 0o700))
	require.ErrorContains(t, d.Attach(t.Context(), w.Instance, []api.InstanceID{"vol-1"}), "more than 256 deep")
	assert.Empty(t, state(t, d, w.Instance).Volumes)
}

// TestNoticesCanBeRead by an instance that runs as another user.
func TestNoticesCanBeRead(t *testing.T) {
	d, _ := apart(t)
	w := shellWork(`while [ ! -e "$BERTH_PREEMPT_NOTICE" ]; do /bin/sleep 0.01; done; cat "$BERTH_PREEMPT_NOTICE"`)
	require.NoError(t, d.Start(t.Context(), "h", w))
	require.NoError(t, d.Notify(t.Context(), w.Instance, driver.Notice{PreemptNotice: api.PreemptNotice{Quiet: true}}))
	untilEnded(t, d, w.Instance)
	assert.Contains(t, read(t, d, w.Instance, stdoutFile), "deadline")
}
