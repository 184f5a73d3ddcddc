package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"berth/api"
)

// TestNothingIsLeftForTheNextUser: what an instance writes where every user may, and its shared memory, are seen neither by the machine, nor by
// another instance, nor by the next one with its user; it finds them itself, and its folder in the same place.
func TestNothingIsLeftForTheNextUser(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(passableDir(t), "instances")
	t.Cleanup(func() { sweep(t, dir) })
	d := openApart(t, dir, UserRange{usersOfTests.First, usersOfTests.First})
	require.NotEmpty(t, d.places)
	name := "secret-" + strconv.Itoa(os.Getpid())
	script := fmt.Sprintf(`for at in %s; do [ ! -e $at/%[2]s ] || echo "found $at/%[2]s"; echo x > $at/%[2]s && cat $at/%[2]s; done
/usr/bin/ipcmk -M 64 >/dev/null; /usr/bin/ipcs -m | grep -c 0x; pwd; ls "$BERTH_VOLUMES"; echo end`, strings.Join(d.places, " "), name)
	want := strings.Repeat("x\n", len(d.places)) + "1\n"
	for range 2 {
		w := shellWork(script)
		require.NoError(t, d.Start(t.Context(), "h", w))
		untilEnded(t, d, w.Instance)
		work := filepath.Join(dir, string(w.Instance), workFolder)
		assert.Equal(t, want+work+"\nend\n", read(t, d, w.Instance, stdoutFile), "%s", read(t, d, w.Instance, stderrFile))
		for _, place := range d.places {
			assert.NoFileExists(t, filepath.Join(place, name))
			assert.FileExists(t, filepath.Join(dir, string(w.Instance), privateFolder, placeName(place), name))
		}
		again := w
		again.Runs++
		again.Command = []string{"/bin/sh", "-c", "cat /tmp/" + name}
		require.NoError(t, d.Start(t.Context(), "h", again))
		untilEnded(t, d, w.Instance)
		assert.True(t, strings.HasSuffix(read(t, d, w.Instance, stdoutFile), "end\nx\n"), "its next run finds its files")
		require.NoError(t, d.Stop(t.Context(), w.Instance))
		assert.NoDirExists(t, filepath.Join(dir, string(w.Instance)))
	}
}

// TestAFolderByAnotherName: a link leads to the folder of all instances, which one of their own covers.
func TestAFolderByAnotherName(t *testing.T) {
	needRoot(t)
	dir := passableDir(t)
	link := filepath.Join("/run", filepath.Base(dir))
	require.NoError(t, os.Symlink(dir, link))
	t.Cleanup(func() { assert.NoError(t, os.Remove(link)) })
	d := openApart(t, link, usersOfTests)
	w := shellWork(`echo x > f && cat "` + link + `/$BERTH_INSTANCE_ID/work/f"; ls "$BERTH_VOLUMES"`)
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, api.StatusShutoff, untilEnded(t, d, w.Instance).Status, "%s", read(t, d, w.Instance, stderrFile))
	assert.Equal(t, "x\n", read(t, d, w.Instance, stdoutFile))
	require.NoError(t, d.Stop(t.Context(), w.Instance))
}

// TestWithoutNamespacesInstancesRun, and the agent says what they share.
func TestWithoutNamespacesInstancesRun(t *testing.T) {
	needRoot(t)
	tools := passableDir(t)
	setpriv, err := os.ReadFile("/usr/bin/setpriv")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tools, "setpriv"), setpriv, 0o755)) //nolint:gosec // a program
	t.Setenv("PATH", tools)
	var logged bytes.Buffer
	dir := filepath.Join(passableDir(t), "instances")
	d, err := Open(t.Context(), Config{Dir: dir, Users: &usersOfTests, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	assert.Contains(t, logged.String(), "instances share the folders for temporary files")
	w := shellWork("id -u")
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, api.StatusShutoff, untilEnded(t, d, w.Instance).Status)
	require.NoError(t, d.Stop(t.Context(), w.Instance))
}

// TestDiskIsCountedWhereverItIs: in a private folder, and in a file without a name that is open, or mapped. A volume has its own limit.
func TestDiskIsCountedWhereverItIs(t *testing.T) {
	d, _ := apart(t)
	for name, script := range map[string]string{
		"elsewhere": `/usr/bin/fallocate -l 1073745920 /var/tmp/f; `,
		"nameless":  `exec 5>f; rm f; /usr/bin/fallocate -l 1073745920 /proc/self/fd/5; `,
	} {
		w := withDisk(shellWork(script+`echo done; exec /bin/sleep 1000`), 1)
		require.NoError(t, d.Start(t.Context(), "h", w))
		awaitOutput(t, d, w.Instance, "done\n")
		d.lookAtDisks()
		assert.Equal(t, overOne, untilEnded(t, d, w.Instance).Fault, name)
		require.NoError(t, d.Stop(t.Context(), w.Instance))
	}
}

// TestNamelessFiles of a user count, once each, unless something says that they are others'.
func TestNamelessFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, remove bool) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		_, err = f.Write(make([]byte, 8192))
		require.NoError(t, err)
		if remove {
			require.NoError(t, os.Remove(f.Name()))
		}
		return f
	}
	count := func(owner int, skip string) int64 {
		w := &walk{rest: func() error { return nil }}
		w.begin(enough, enough)
		require.NoError(t, w.addNameless(os.Getpid(), uint32(owner), func(path string) bool { //nolint:gosec // a number of a user
			return !strings.HasPrefix(path, dir) || skip != "" && strings.HasPrefix(path, filepath.Join(dir, skip))
		}))
		return w.bytes
	}
	put("named", false)
	assert.Zero(t, count(os.Geteuid(), ""))
	open := put("open", true)
	again, err := unix.Dup(int(open.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(again) })
	put("volume", true)
	assert.EqualValues(t, 2*8192, count(os.Geteuid(), ""))
	assert.EqualValues(t, 8192, count(os.Geteuid(), "volume"))
	assert.Zero(t, count(os.Geteuid()+1, ""))
}

// TestUsersAreGivenInTurn: a user that was freed is the last one to be given again, by the next agent too.
func TestUsersAreGivenInTurn(t *testing.T) {
	d, dir := apart(t)
	for n := range 7 {
		w := sleeper()
		require.NoError(t, d.Start(t.Context(), "h", w))
		assert.Equal(t, usersOfTests.First+uint32(n%3), d.uid(w.Instance)) //nolint:gosec // small
		require.NoError(t, d.Stop(t.Context(), w.Instance))
		require.NoError(t, d.Close())
		d = openApart(t, dir, usersOfTests)
	}
	one := UserRange{First: 70000, Last: 70000}
	assert.Equal(t, []uint32{70000, 70000}, []uint32{one.after(0, 0), one.after(70000, 0)})
	three := UserRange{First: 70000, Last: 70002}
	assert.Equal(t, []uint32{70000, 70002, 70001, 70000, 70001}, []uint32{three.after(0, 0), three.after(70001, 0), three.after(70000, 0), three.after(70002, 0), three.after(69999, 1)})
}

// TestMarksCannotBeForged: who knows the id of an instance and the folder of its agent does not have its mark, and where an instance has a
// user, no mark of another's counts.
func TestMarksCannotBeForged(t *testing.T) {
	d := fresh(t)
	victim := sleeper()
	require.NoError(t, d.Start(t.Context(), "h", victim))
	d.mu.Lock()
	r := d.all[victim.Instance].record
	d.mu.Unlock()
	require.NotEmpty(t, r.Mark)
	assert.True(t, carriesMark(t, r.PID, d.markOf(r)))
	known := envMark + "=" + d.groups.owner + "." + string(victim.Instance)
	assert.True(t, carriesMark(t, r.PID, known), "without its record, it is found all the same")
	forger := shellWork("exec env " + known + " /bin/sh -c 'echo up; exec /bin/sleep 1000'")
	require.NoError(t, d.Start(t.Context(), "h", forger))
	awaitOutput(t, d, forger.Instance, "up\n")
	var yes, sure bool
	until(t, "it has become its last program", func() bool { // at that moment nobody can tell
		yes, sure = d.belongs(d.pid(forger.Instance), r, false, false)
		return sure
	})
	assert.False(t, yes)

	alone := r
	alone.UID = usersOfTests.First
	yes, sure = d.belongs(r.PID, alone, false, false)
	assert.Equal(t, []bool{false, true}, []bool{yes, sure}, "its user tells")
}

// carriesMark reports whether a process has a mark, or one that begins with it.
func carriesMark(t *testing.T, pid int, mark string) (yes bool) {
	t.Helper()
	until(t, "its environment can be seen", func() (sure bool) {
		yes, sure = hasMark(pid, mark)
		return sure
	})
	return yes
}
