package process

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
)

// printer returns an instance with a fence that prints a line to each output and goes on.
func printer() api.Workload {
	return fenced(shellWork(`echo out; printf err >&2; exec /bin/sleep 1000`))
}

// untilPrinted waits until the outputs of an instance end with what a run of printer prints.
func untilPrinted(t *testing.T, d *Driver, id api.InstanceID, out, err string) {
	t.Helper()
	until(t, "it has printed", func() bool { return wholeOf(t, d, id, api.Stdout) == out && wholeOf(t, d, id, api.Stderr) == err })
}

// wholeOf returns all that is kept of an output.
func wholeOf(t *testing.T, d *Driver, id api.InstanceID, s api.OutputStream) string {
	t.Helper()
	return string(piece(t, d, api.OutputQuestion{Instance: id, Stream: s, Limit: api.OutputMaxBytes, Last: true}).Data)
}

// TestOutputOutlivesAKill: what a run printed that its fence or the end of its agent has ended comes before what the
// next run prints, with a line between them. It ends with the instance, and leaves nothing.
func TestOutputOutlivesAKill(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d, w := open(t, dir, ""), printer()
	require.NoError(t, d.Start(t.Context(), "h", w))
	untilPrinted(t, d, w.Instance, "out\n", "err")

	require.NoError(t, d.Kill(t.Context(), w.Instance))
	require.NoError(t, d.Kill(t.Context(), w.Instance), "once more")
	assert.NoDirExists(t, filepath.Join(dir, string(w.Instance)))
	require.NoError(t, d.ForgetOutputs(func(id api.InstanceID) bool { return id == w.Instance }))
	require.NoError(t, d.Start(t.Context(), "h", w))
	out, errs := "out\n"+keptMark+"out\n", "err\n"+keptMark+"err"
	untilPrinted(t, d, w.Instance, out, errs)
	assert.Empty(t, namesIn(t, filepath.Join(dir, keptFolder)), "there is one copy")

	require.NoError(t, d.Close())
	d = open(t, dir, "")
	require.Len(t, d.Severed(), 1)
	require.NoError(t, d.Close())
	d = open(t, dir, "")
	require.NoError(t, d.Start(t.Context(), "h", w))
	out, errs = out+keptMark+"out\n", errs+"\n"+keptMark+"err"
	untilPrinted(t, d, w.Instance, out, errs)
	a := piece(t, d, api.OutputQuestion{Instance: w.Instance, Stream: api.Stdout, After: 4, Limit: len(keptMark)})
	assert.Equal(t, keptMark, string(a.Data), "offsets count from the beginning of all")

	require.NoError(t, d.Kill(t.Context(), w.Instance))
	require.NoError(t, d.Stop(t.Context(), w.Instance), "it is deleted before it starts anew")
	assert.Empty(t, namesIn(t, filepath.Join(dir, keptFolder)))
}

// namesIn returns what is in a folder, nothing if there is none.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestWhoseOutputIsForgotten: what is kept of an instance that is not wanted any more is removed, by a later driver too.
// Of one without a fence, of one that has printed nothing and of one that was stopped nothing is kept.
func TestWhoseOutputIsForgotten(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	d := open(t, dir, "")
	all := []api.Workload{printer(), printer(), shellWork(`echo out; exec /bin/sleep 1000`), fenced(sleeper()), printer()}
	for n, w := range all {
		require.NoError(t, d.Start(t.Context(), "h", w))
		if n != 3 {
			until(t, "it has printed", func() bool { return wholeOf(t, d, w.Instance, api.Stdout) == "out\n" })
		}
	}
	for _, w := range all[:4] {
		require.NoError(t, d.Kill(t.Context(), w.Instance))
	}
	require.NoError(t, d.Stop(t.Context(), all[4].Instance))
	assert.ElementsMatch(t, []string{string(all[0].Instance), string(all[1].Instance)}, namesIn(t, filepath.Join(dir, keptFolder)))
	require.NoError(t, d.Close())
	d = open(t, dir, "")
	require.NoError(t, d.ForgetOutputs(func(id api.InstanceID) bool { return id == all[1].Instance }))
	assert.Equal(t, []string{string(all[1].Instance)}, namesIn(t, filepath.Join(dir, keptFolder)))
}

// TestKeptOutputHasItsLimit: all runs together have the room of one output.
func TestKeptOutputHasItsLimit(t *testing.T) {
	d, dir := freshSmall(t)
	w := fenced(shellWork(writesALot + "exec /bin/sleep 1000"))
	for range 3 {
		require.NoError(t, d.Start(t.Context(), "h", w))
		untilTrimmed(t, dir, w.Instance)
		require.NoError(t, d.Kill(t.Context(), w.Instance))
	}
	require.NoError(t, d.Start(t.Context(), "h", w))
	for _, name := range []string{stdoutFile, stderrFile} {
		assert.LessOrEqual(t, sizeOf(dir, w.Instance, name+earlierPart), int64(OutputLeast))
	}
	untilTrimmed(t, dir, w.Instance)
}

// TestKeptOutputAfterAnAbortedStart: a start that is broken off at any step leaves what earlier runs have printed to the
// next one.
func TestKeptOutputAfterAnAbortedStart(t *testing.T) {
	for reached := range 4 {
		t.Run(fmt.Sprint(reached), func(t *testing.T) {
			dir := t.TempDir()
			d, w := open(t, dir, ""), printer()
			t.Cleanup(func() { sweep(t, dir) })
			require.NoError(t, d.Start(t.Context(), "h", w))
			untilPrinted(t, d, w.Instance, "out\n", "err")
			require.NoError(t, d.Kill(t.Context(), w.Instance))
			plain := w
			plain.Fence = 0
			breakOff(t, d, plain, reached)
			require.NoError(t, d.Close())
			d = open(t, dir, "")
			require.NoError(t, d.Start(t.Context(), "h", w))
			untilPrinted(t, d, w.Instance, "out\n"+keptMark+"out\n", "err\n"+keptMark+"err")
		})
	}
}

// TestOnlyOutputIsKept: what a command has put in the place of its output is not.
func TestOnlyOutputIsKept(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() { sweep(t, dir) })
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	d, err := Open(t.Context(), Config{Dir: dir, Grace: 300 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	w := printer()
	require.NoError(t, d.Start(t.Context(), "h", w))
	untilPrinted(t, d, w.Instance, "out\n", "err")
	at := filepath.Join(dir, string(w.Instance), stdoutFile)
	require.NoError(t, os.Remove(at))
	require.NoError(t, os.Symlink(secret, at))
	require.NoError(t, d.Kill(t.Context(), w.Instance))
	require.NoError(t, d.Start(t.Context(), "h", w))
	untilPrinted(t, d, w.Instance, "out\n", "err\n"+keptMark+"err")
	text, err := os.ReadFile(secret)
	require.NoError(t, err)
	assert.False(t, strings.Contains(string(text), "berth"))
}
