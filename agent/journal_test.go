package agent

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth/agent/driver/fake"
	"berth/api"
)

// TestJournalLinesAreJSON: a line is spelled as encoding/json spells it, whatever is in it.
func TestJournalLinesAreJSON(t *testing.T) {
	text := rapid.OneOf(
		rapid.Just(""), rapid.StringMatching(`[ -~]{0,20}`), rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		l := line{
			At:   time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).UTC(),
			Term: rapid.Uint64().Draw(t, "term"), Event: text.Draw(t, "event"), Host: api.HostID(text.Draw(t, "host")),
			Instance: api.InstanceID(text.Draw(t, "instance")), Detail: text.Draw(t, "detail"),
		}
		want, err := json.Marshal(l)
		require.NoError(t, err)
		require.Equal(t, string(want), string(l.appendJSON(nil)))
	})
}

func BenchmarkJournalLine(b *testing.B) {
	l := line{At: time.Unix(1_700_000_000, 123_456_789).UTC(), Term: 7, Event: eventRunning, Host: "8f0c1c50-1111-4111-8111-000000000001", Instance: "8f0c1c50-1111-4111-8111-000000000002"}
	b.Run("appended", func(b *testing.B) {
		var text []byte
		for b.Loop() {
			text = l.appendJSON(text[:0])
		}
	})
	b.Run("marshalled", func(b *testing.B) {
		for b.Loop() {
			_, err := json.Marshal(l)
			require.NoError(b, err)
		}
	})
}

// TestEachCharacterInTheJournal is spelled as encoding/json spells it; what needs no escape costs no memory.
func TestEachCharacterInTheJournal(t *testing.T) {
	var plain strings.Builder
	for r := rune(0); r < 0x2100; r++ {
		for _, text := range []string{string(r), "a" + string(r), string([]byte{byte(r)})} {
			want, err := json.Marshal(line{Detail: text})
			require.NoError(t, err)
			require.Equal(t, string(want), string(line{Detail: text}.appendJSON(nil)), "%q", text)
		}
		if r >= ' ' && r <= '~' && !strings.ContainsRune("\"\\<>&", r) {
			plain.WriteRune(r)
		}
	}
	l := line{At: time.Unix(1, 1).UTC(), Event: eventStart, Host: "h", Instance: "a", Detail: plain.String()}
	text := l.appendJSON(nil)
	assert.Zero(t, testing.AllocsPerRun(10, func() { text = l.appendJSON(text[:0]) }))
	for _, r := range plain.String() {
		l.Detail = string(r)
		assert.Zero(t, testing.AllocsPerRun(1, func() { text = l.appendJSON(text[:0]) }), "%q", r)
	}
}

// openJournalIn returns a journal in a folder, and the log of its failures.
func openJournalIn(t *testing.T, dir string) (*journal, *record) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	r := &record{}
	j, err := openJournal(root, func() time.Time { return time.Unix(9, 0).In(time.FixedZone("east", 3600)) }, r.logger(slog.LevelInfo))
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.closeFile() })
	return j, r
}

// TestJournalGoesOn where an earlier one has ended, in a file that only its owner can read; what it has counts for its limit.
func TestJournalGoesOn(t *testing.T) {
	dir := t.TempDir()
	j, _ := openJournalIn(t, dir)
	assert.Equal(t, int64(journalMaxBytes), j.max)
	j.writeLine(line{Term: 1, Event: eventTerm})
	size := j.size
	file := j.file
	require.NoError(t, j.closeFile())
	require.ErrorIs(t, file.Close(), os.ErrClosed, "it is closed")
	j, _ = openJournalIn(t, dir)
	assert.Equal(t, size, j.size)
	j.writeLine(line{Term: 2, Event: eventTerm})
	assert.Equal(t, 2*size, j.size)
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	const of = `{"at":"1970-01-01T00:00:09Z","term":%d,"event":"term"}` + "\n"
	assert.Equal(t, fmt.Sprintf(of, 1)+fmt.Sprintf(of, 2), string(text))
	info, err := os.Stat(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
}

// TestJournalThatCannotBeOpened is why an agent cannot start.
func TestJournalThatCannotBeOpened(t *testing.T) {
	c := config(newZone(), fake.New(fake.Options{}), 1)
	c.Dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(c.Dir, journalFile), 0o700))
	_, err := New(c)
	require.ErrorContains(t, err, "opening the journal: ")
}

// TestJournalThatCannotBeWritten: each row of failures is a warning, with why the first one failed; afterwards it goes on.
func TestJournalThatCannotBeWritten(t *testing.T) {
	const message = "journal cannot be written"
	for name, c := range map[string]struct {
		spoil func(t *testing.T, j *journal, dir string) (mend func())
		why   string // "" if it is no failure
	}{
		"the old one cannot be replaced": {func(t *testing.T, _ *journal, dir string) func() {
			t.Helper()
			old := filepath.Join(dir, journalOldFile)
			require.NoError(t, os.RemoveAll(old))
			require.NoError(t, os.MkdirAll(filepath.Join(old, "x"), 0o700))
			return func() { require.NoError(t, os.RemoveAll(old)) }
		}, "renameat"},
		"there is a folder of its name": {func(t *testing.T, j *journal, dir string) func() {
			t.Helper()
			mine := filepath.Join(dir, journalFile)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, journalOldFile)))
			require.NoError(t, os.Remove(mine))
			require.NoError(t, os.Mkdir(mine, 0o700))
			require.NoError(t, os.Mkdir(filepath.Join(dir, journalOldFile), 0o700))
			require.NoError(t, os.Mkdir(filepath.Join(dir, journalOldFile, "x"), 0o700))
			return func() {
				require.NoError(t, os.RemoveAll(mine))
				require.NoError(t, os.RemoveAll(filepath.Join(dir, journalOldFile)))
			}
		}, "renameat"},
		"it was closed": {func(t *testing.T, j *journal, _ string) func() {
			t.Helper()
			require.NoError(t, j.file.Close())
			return func() {}
		}, "file already closed"},
		"it was removed": {func(t *testing.T, _ *journal, dir string) func() {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, journalFile)))
			return func() {}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j, r := openJournalIn(t, dir)
			j.writeLine(line{Event: eventTerm})
			j.max = j.size // each line needs a file of its own
			for range 2 {
				mend := c.spoil(t, j, dir)
				j.writeLine(line{Event: eventTerm})
				if c.why != "file already closed" {
					j.writeLine(line{Event: eventTerm})
				}
				lines := r.of(message)
				if c.why == "" {
					assert.Empty(t, lines)
				} else if assert.Len(t, lines, 1) {
					assert.Contains(t, lines[0], "level=WARN")
					assert.Contains(t, lines[0], c.why)
				}
				mend()
				j.writeLine(line{Event: eventEnded})
				assert.Empty(t, r.of(message))
				text, err := os.ReadFile(filepath.Join(dir, journalFile))
				require.NoError(t, err)
				assert.Contains(t, string(text), `"event":"ended"`)
			}
		})
	}
}

// TestALineAfterOneThatFailed is written, though it would fit into the file that was closed.
func TestALineAfterOneThatFailed(t *testing.T) {
	dir := t.TempDir()
	j, r := openJournalIn(t, dir)
	j.writeLine(line{Event: eventTerm})
	j.max = 3 * j.size
	old := filepath.Join(dir, journalOldFile)
	require.NoError(t, os.MkdirAll(filepath.Join(old, "x"), 0o700))
	j.writeLine(line{Event: eventTerm, Detail: strings.Repeat("x", int(j.max))})
	require.Len(t, r.of("journal cannot be written"), 1)
	require.NoError(t, os.RemoveAll(old))
	j.writeLine(line{Event: eventEnded})
	assert.Empty(t, r.of("journal cannot be written"))
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"event":"ended"`)
	assert.FileExists(t, old)
}
