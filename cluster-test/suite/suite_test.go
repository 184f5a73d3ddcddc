package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const smallTable = "unit 0.05\na test 10 20\nb cluster 1 1\nc test 0 0\n"

func small(t *testing.T) *table {
	t.Helper()
	table, err := parseTable([]byte(smallTable))
	require.NoError(t, err)
	return table
}

// TestTableNamesThePackagesWithTests: a package that no line names would not run.
func TestTableNamesThePackagesWithTests(t *testing.T) {
	t.Chdir("../..")
	table, err := readTable(tableFile)
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	out, err := list.Output()
	require.NoError(t, err)
	var want, got []string
	for line := range strings.Lines(string(out)) {
		want = append(want, strings.TrimPrefix(strings.TrimSpace(line), module))
	}
	for _, l := range table.lines {
		got = append(got, l.pkg)
	}
	assert.Equal(t, want, got, "in order, and each once")
	text, err := os.ReadFile(tableFile)
	require.NoError(t, err)
	assert.Equal(t, string(table.text()), string(text), "it is as -write writes it")
}

func TestTableIsChecked(t *testing.T) {
	for _, bad := range []string{
		"", "a test 1 2\n", "unit 0\n", "unit x\n", "unit 1\na test 1\n", "unit 1\na other 1 2\n", "unit 1\na test 1 -2\n", "unit 1\na test 1 2 3\n",
	} {
		_, err := parseTable([]byte(bad))
		assert.Error(t, err, bad)
	}
	_, err := small(t).packagesOf("none")
	require.Error(t, err)
	got, err := small(t).packagesOf(suiteTest)
	require.NoError(t, err)
	assert.Equal(t, []string{"./a", "./c"}, got)
	_, err = readTable(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestTableIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "packages.txt")
	table := small(t)
	require.NoError(t, table.write(path, true, map[string]cost{"a": {Seconds: 3, Unit: 0.1}, "b": {Seconds: 2.01, Unit: 0.05}}))
	again, err := readTable(path)
	require.NoError(t, err)
	assert.Equal(t, &line{"a", suiteTest, 1.5, 20}, again.find("a"), "twice as slow a machine, half the seconds")
	assert.Equal(t, &line{"b", suiteReal, 2.1, 2.1}, again.find("b"))
	require.Error(t, table.write(path, true, map[string]cost{"d": {1, 1}}))
}

// TestBudget is at twice the line and 3 s, and just above.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		pkg     string
		short   bool
		seconds float64
		over    bool
	}{
		{"a", true, 19.99, false},
		{"a", true, 20.01, true},
		{"a", false, 39.99, false},
		{"a", false, 40.01, true},
		{"c", true, 2.99, false},
		{"c", true, 3.01, true},
		{"other", true, 1000, false},
	} {
		r := newReport(small(t), tt.short, &bytes.Buffer{})
		r.costs[tt.pkg] = cost{tt.seconds * 2, 0.1}
		assert.Equal(t, tt.over, len(r.overBudget()) == 1, "%+v", tt)
	}
}

// TestReport: the last lines of a run have the first failure, its message, its seed and the command for it.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := newReport(small(t), true, &out)
	costs := func(string) (cost, bool) { return cost{1, 0.05}, true }
	for _, e := range []event{
		{Action: "run", Package: "berth/a", Test: "TestOK"},
		{Action: "output", Package: "berth/a", Test: "TestOK", Output: "what passes says nothing\n"},
		{Action: "pass", Package: "berth/a", Test: "TestOK"},
		{Action: "skip", Package: "berth/a", Test: "TestSkipped"},
		{Action: "output", Package: "berth/a", Test: "TestBad/one", Output: "=== RUN TestBad/one\n"},
		{Action: "output", Package: "berth/a", Test: "TestBad/one", Output: "    x_test.go:1: it is " + strings.Repeat("!", failureLineMax) + "\n"},
		{Action: "output", Package: "berth/a", Test: "TestBad", Output: "    repeat it with: BERTH_SEED=7\n"},
		{Action: "fail", Package: "berth/a", Test: "TestBad/one"},
		{Action: "fail", Package: "berth/a", Test: "TestBad"},
		{Action: "fail", Package: "berth/a", Elapsed: 2},
		{Action: "build-output", ImportPath: "berth/b.test", Output: "b/b.go:1: no such thing\n"},
		{Action: "fail", Package: "berth/b", FailedBuild: "berth/b.test"},
		{Action: "pass", Package: "berth/d"},
	} {
		r.add(e, costs)
	}
	require.ErrorIs(t, r.finish(time.Second, "", errors.ErrUnsupported), errors.ErrUnsupported)
	all, last, ok := strings.Cut(out.String(), "first failure: ")
	require.True(t, ok)
	assert.NotContains(t, all, "says nothing")
	assert.Contains(t, all, "no such thing")
	assert.Contains(t, last, "FAILED a TestBad/one\n")
	assert.Contains(t, last, "it is !!!")
	assert.NotContains(t, last, strings.Repeat("!", failureLineMax))
	assert.NotContains(t, last, "=== RUN")
	assert.Contains(t, last, "BERTH_SEED=7")
	assert.Contains(t, last, "alone: go test -count=1 -run '^TestBad$/^one$' ./a\n")
	assert.Contains(t, last, "\n1 passed, 1 failed, 1 skipped\n")
	require.ErrorContains(t, r.finish(0, "", nil), "add to "+tableFile+" a line for")
}

func TestLongFailuresAreCut(t *testing.T) {
	f := failure{"a", "T", []string{strings.Repeat("x\n", failureLinesMax+1)}}
	assert.Contains(t, f.text(), fmt.Sprintf("\n  ... %d lines ...\n", 1+failureLinesMax/3))
	for at := range 2 * failureLinesMax { // wherever the message is, it is printed
		output := slices.Repeat([]string{"x\n"}, 2*failureLinesMax)
		output[at] = "    Error Trace: here\n"
		f.output = output
		text := f.text()
		assert.Contains(t, text, "Error Trace: here", at)
		assert.LessOrEqual(t, strings.Count(text, "\n"), failureLinesMax+3, at)
		shown := strings.Count(text, "  x\n") + 1
		for _, cut := range regexp.MustCompile(`\.\.\. (\d+) lines`).FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(cut[1])
			require.NoError(t, err)
			shown += n
		}
		assert.Equal(t, len(output), shown, at)
	}
	f.output = []string{strings.Repeat("x\n", failureLinesMax)}
	assert.NotContains(t, f.text(), "...")
	assert.Equal(t, "go test -count=1 -tags chaos ./a", (&failure{pkg: "a"}).repeat("chaos"))
}

// TestWatch runs processes as go test runs a test binary through this program.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(dirEnv, dir)
	at, err := os.Getwd()
	require.NoError(t, err)
	var out, problems bytes.Buffer
	assert.Equal(t, 0, watch([]string{"sh", "-c", "echo hello"}, &out, &problems))
	assert.Equal(t, "hello\n", out.String())
	c, ran := readCost(dir, at)
	require.True(t, ran)
	assert.Positive(t, c.Unit)
	_, ran = readCost(dir, at)
	assert.False(t, ran, "it is read once")
	assert.Equal(t, 3, watch([]string{"sh", "-c", "exit 3"}, &out, &problems))
	assert.Equal(t, 1, watch([]string{"sh", "-c", "kill -9 $$"}, &out, &problems))
	assert.Equal(t, 1, watch([]string{"/none"}, &out, &problems))
	assert.Contains(t, problems.String(), "no such file")
	assert.Zero(t, cpuOf(0))
	assert.InDelta(t, 2, cost{4, 0.1}.scaled(0.05), 1e-9)
}

func TestFlags(t *testing.T) {
	t.Chdir("../..")
	for _, bad := range [][]string{{}, {"-suite", "none"}, {"-suite", "test", "./a"}, {"-what"}} {
		assert.Error(t, run(context.Background(), bad, &bytes.Buffer{}), "%v", bad)
	}
	packages, rest, err := options{args: []string{"./a", "--", "-x"}}.packages(nil)
	require.NoError(t, err)
	assert.Equal(t, [2][]string{{"./a"}, {"-x"}}, [2][]string{packages, rest})
}
