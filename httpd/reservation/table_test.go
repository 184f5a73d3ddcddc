package reservation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rowsOf reads the table of calls in docs/reservation.md: the conversations of each call.
func rowsOf(tb testing.TB) map[string][]string {
	tb.Helper()
	text, err := os.ReadFile("../../docs/reservation.md")
	require.NoError(tb, err)
	_, table, _ := strings.Cut(string(text), "## Calls")
	table, _, _ = strings.Cut(table, "\n## ")
	out := map[string][]string{}
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		state := strings.TrimSpace(cells[2])
		assert.True(tb, state == "done" || strings.HasPrefix(state, "different: "), line)
		out[strings.Trim(cells[1], " `")] = strings.Split(strings.TrimSpace(cells[3]), ", ")
	}
	return out
}

// pathOf returns the path of the calls that a path of a conversation is for.
func pathOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		path = rest
	} else {
		path = root + path
	}
	if path == "" {
		return "/"
	}
	for _, c := range new(dialect).listCalls() {
		have, want := strings.Split(path, "/"), strings.Split(c.Path, "/")
		same := len(have) == len(want)
		for i := 0; same && i < len(want); i++ {
			same = have[i] == want[i] || strings.HasPrefix(want[i], "{") && have[i] != "properties" && have[i] != "allocations" && have[i] != "plan"
		}
		if same {
			return c.Path
		}
	}
	return path
}

// TestTheTableIsThatOfTheCalls: every call has a row, and is granted and refused in the
// conversations of its row.
func TestTheTableIsThatOfTheCalls(t *testing.T) {
	rows := rowsOf(t)
	calls := map[string]bool{}
	for _, c := range new(dialect).listCalls() {
		calls[c.Method+" "+c.Path] = true
		assert.Contains(t, rows, c.Method+" "+c.Path)
	}
	for name, held := range rows {
		assert.True(t, calls[name], "there is no call %s", name)
		answers := ""
		for _, file := range held {
			text, err := os.ReadFile("testdata/" + file + ".txt")
			require.NoError(t, err)
			lines := strings.Split(string(text), "\n")
			for i, line := range lines {
				words := strings.Fields(line)
				if len(words) > 2 && words[0] == ">" && words[1]+" "+pathOf(words[2]) == name {
					answers += (lines[i+1] + "?")[:1]
				}
			}
		}
		granted := strings.ContainsAny(answers, "23")
		assert.True(t, granted, "%s is never granted in %v", name, held)
		assert.True(t, strings.Contains(answers, "4") || name == "GET /versions", "%s is never refused in %v", name, held)
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	assert.Len(t, files, len(conversations)+len(lively))
}
