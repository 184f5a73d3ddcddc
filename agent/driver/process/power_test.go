package process

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// TestRunsShareTheirFiles: a run finds what the one before it has left, and its output comes after that of
// the one before.
func TestRunsShareTheirFiles(t *testing.T) {
	d := fresh(t)
	w := shellWork(`echo run >>runs; echo out $(wc -l <runs); exec /bin/sleep 1000`)
	for n := range 3 {
		w.Runs = uint64(n)
		require.NoError(t, d.Start(t.Context(), "h", w))
		want := ""
		for k := range n + 1 {
			want += "out " + strconv.Itoa(k+1) + "\n"
		}
		until(t, "it has begun", func() bool { return read(t, d, w.Instance, stdoutFile) == want })
		require.NoError(t, d.Halt(t.Context(), w.Instance))
		assert.Zero(t, living(t, w.Instance))
	}
	require.NoError(t, d.Stop(t.Context(), w.Instance))
	assert.NoDirExists(t, filepath.Join(d.conf.Dir, string(w.Instance)))
}

// TestCrashAtEachStepOfARun breaks off the start of a second run after every step, and opens the folder again:
// the run before is the last one until the word, with its files, and there is never more than one process.
func TestCrashAtEachStepOfARun(t *testing.T) {
	for reached, name := range []string{"cleared", "child", "recorded", "word"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, w := open(t, dir, ""), sleeper()
			require.NoError(t, d.Start(t.Context(), "h", w))
			require.NoError(t, d.Halt(t.Context(), w.Instance))
			kept := filepath.Join(dir, string(w.Instance), workFolder, "kept")
			require.NoError(t, os.WriteFile(kept, nil, 0o600))
			w.Runs = 1
			breakOffRun(t, d, w, reached)
			t.Cleanup(func() { sweep(t, dir) })
			require.NoError(t, d.Close())

			next := open(t, dir, "")
			s := state(t, next, w.Instance)
			if name == "word" {
				assert.Equal(t, api.StatusActive, s.Status)
				assert.Equal(t, uint64(1), s.Runs)
			} else {
				assert.Equal(t, api.StatusShutoff, s.Status, "the run before has ended")
				assert.Zero(t, s.Runs)
				until(t, "its gate ends without a word", func() bool { return living(t, w.Instance) == 0 })
			}
			require.NoError(t, next.Start(t.Context(), "h", w))
			until(t, "it runs", func() bool { return living(t, w.Instance) == 1 })
			assert.FileExists(t, kept)
			assert.Equal(t, uint64(1), state(t, next, w.Instance).Runs)
		})
	}
}

// breakOffRun starts a second run of w as startAgain does and stops after some of its steps, as if the agent had
// been killed there.
func breakOffRun(t *testing.T, d *Driver, w api.Workload, reached int) {
	t.Helper()
	require.NoError(t, d.clearRun(w.Instance))
	if reached < 1 {
		return
	}
	d.mu.Lock()
	i := &instance{record: d.all[w.Instance].record}
	d.mu.Unlock()
	i.Status, i.Runs, i.Again, i.Halted = api.StatusActive, w.Runs, true, false
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
	require.NoError(t, saveRecord(d.root, i.record))
	if reached < 3 {
		return
	}
	_, err = word.WriteString("go\n")
	require.NoError(t, err)
	until(t, "it is released", func() bool { return d.isReleased(w.Instance) })
}

// TestHaltedWhileNobodyLooked: the next driver finds a process dead whose end was ordered: that is no ERROR.
func TestHaltedWhileNobodyLooked(t *testing.T) {
	dir := t.TempDir()
	d, w := open(t, dir, ""), sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	d.mu.Lock()
	r := d.all[w.Instance].record
	d.mu.Unlock()
	require.NoError(t, d.Halt(t.Context(), w.Instance))
	r.Halted = true // as it is on disk before the signal
	require.NoError(t, saveRecord(d.root, r))
	require.NoError(t, d.Close())
	next := open(t, dir, "")
	s := state(t, next, w.Instance)
	assert.Equal(t, api.StatusShutoff, s.Status, s.Fault)
}

// TestRunThatIsCutShort: a start whose context ends before the word leaves the run before as the last one.
func TestRunThatIsCutShort(t *testing.T) {
	d, w := fresh(t), sleeper()
	require.NoError(t, d.Start(t.Context(), "h", w))
	require.NoError(t, d.Halt(t.Context(), w.Instance))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Runs = 1
	require.ErrorIs(t, d.Start(ctx, "h", w), context.Canceled)
	s := state(t, d, w.Instance)
	assert.Equal(t, api.StatusShutoff, s.Status)
	assert.Zero(t, s.Runs)
	require.NoError(t, d.Start(t.Context(), "h", w))
	assert.Equal(t, 1, living(t, w.Instance))
}
