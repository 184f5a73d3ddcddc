package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/internal/mutant"
)

// TestAsASuite is the suite that TestTry runs: the fault says how it ends.
func TestAsASuite(t *testing.T) {
	name := os.Getenv("BERTH_MUTANT")
	if _, err := os.Stat(filepath.Join(os.TempDir(), "broken")); err == nil && name == "" {
		t.Fail()
	}
	switch name {
	case "passes":
	case "fails once", "fails thrice":
		// Each run leaves a file, so that the next knows of it.
		files, err := filepath.Glob(filepath.Join(os.TempDir(), name+"*"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(os.TempDir(), fmt.Sprint(name, len(files))), nil, 0o600))
		if len(files) == 0 || name == "fails thrice" && len(files) < 3 {
			t.Fail()
		}
	case "fails":
		t.Fail()
	case "crashes":
		os.Exit(2)
	case "hangs":
		<-t.Context().Done()
	default:
		t.Skip("it is run by TestTry alone")
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "mutants.test")))
	// A timeout of the tests themselves would not show what happens after it.
	r := &runner{root: "../..", dir: dir, timeout: time.Second, absent: map[suite]bool{}}
	s := suite{"cluster-test/mutants", "^TestAsASuite$"}
	for fault, want := range map[mutant.Name]outcome{
		"":        {end: skipped, reason: "it is run by TestTry alone"},
		"passes":  {end: passed},
		"fails":   {end: failed, test: "TestAsASuite"},
		"crashes": {end: failed, test: "TestAsASuite (did not end)"},
		"hangs":   {end: failed, test: "TestAsASuite (did not end)"},
	} {
		o, err := r.try(t.Context(), s, fault)
		require.NoError(t, err, fault)
		assert.Equal(t, want, outcome{o.end, o.test, o.reason, ""}, fault)
	}

	h, err := r.hunt(t.Context(), "fails", []suite{s})
	require.NoError(t, err)
	assert.Equal(t, "cluster-test/mutants TestAsASuite", h.by)
	h, err = r.hunt(t.Context(), "passes", []suite{s})
	require.NoError(t, err)
	assert.Empty(t, h.by)

	// What says nothing about a fault is neither found nor missed.
	_, err = r.try(t.Context(), suite{s.pkg, "^TestNoSuch$"}, "fails")
	require.ErrorContains(t, err, "it has no tests")
	_, err = r.try(t.Context(), suite{"no/such", ""}, "fails")
	require.Error(t, err)
}

func TestLook(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "mutants.test")))
	var said bytes.Buffer
	r := &runner{root: "../..", dir: dir, timeout: time.Minute, progress: &said, absent: map[suite]bool{}}
	s := suite{"cluster-test/mutants", "^TestAsASuite$"}
	look := func(m mutant.Name) string {
		t.Helper()
		by, err := r.look(t.Context(), s, m)
		require.NoError(t, err)
		return by
	}
	assert.Equal(t, "TestAsASuite", look("fails"))
	assert.Equal(t, "TestAsASuite (did not end)", look("crashes"))
	assert.Empty(t, look("passes"))
	assert.Empty(t, said.String())

	assert.Empty(t, look("fails once"), "a flake finds nothing")
	assert.Contains(t, said.String(), "TestAsASuite failed, but not because of")
	assert.Equal(t, "TestAsASuite", look("fails thrice"), "what fails now and then is a find")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "tmp", "broken"), nil, 0o600))
	assert.Empty(t, look("fails"), "a test that fails without the fault as well finds nothing")
	require.NoError(t, os.Remove(filepath.Join(dir, "tmp", "broken")))

	said.Reset()
	assert.Empty(t, look(""))
	h, err := r.hunt(t.Context(), "", []suite{s})
	require.NoError(t, err)
	assert.True(t, h.untried, "what skips itself has not looked")
	assert.Equal(t, 1, strings.Count(said.String(), "is skipped here: it is run by TestTry alone"), "and is not run again")
}

// TestHintsExist fails for a hint that names a test which is not there: it would
// end the whole run.
func TestHintsExist(t *testing.T) {
	t.Parallel()
	for name, s := range first {
		files, err := filepath.Glob(filepath.Join("../..", s.pkg, "*_test.go"))
		require.NoError(t, err)
		var all []byte
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			all = append(all, text...)
		}
		test := strings.Trim(s.run, "^$")
		assert.Contains(t, string(all), "\nfunc "+test+"(", "%s: %s", name, s)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	text := "--- PASS: TestB (0s)\n=== RUN   TestA\n=== RUN   TestA/x\n--- FAIL: TestA (0s)\n    --- FAIL: TestA/x\n--- FAIL: TestC (0s)\nFAIL\n"
	o, err := judge(text, true)
	require.NoError(t, err)
	assert.Equal(t, failed, o.end)
	assert.Equal(t, "TestA", o.test)
	assert.Equal(t, text[len("--- PASS: TestB (0s)\n"):], o.about(), "not what passed before it")

	o, err = judge("--- SKIP: TestA (0s)\n--- PASS: TestB (0s)\nPASS\n", false)
	require.NoError(t, err)
	assert.Equal(t, passed, o.end, "a part of it ran")

	_, err = judge("panic: init\n", true)
	require.Error(t, err)
	_, err = judge("testing: warning: no tests to run\nPASS\n", false)
	require.Error(t, err)
}

func TestTableAndVerdict(t *testing.T) {
	t.Parallel()
	all := []finding{
		{mutant.Fault{Name: "a", Does: "harm"}, []hunt{{by: "zone TestZ", took: 1500 * time.Millisecond}, {took: time.Second}}},
		{mutant.Fault{Name: "b", Does: "more harm"}, []hunt{{untried: true}, {untried: true}}},
	}
	var out bytes.Buffer
	require.NoError(t, table(&out, all))
	assert.Equal(t, `| fault | what it does | found by                   | s   | from outside by            | s   |
| ---   | ---          | ---                        | --- | ---                        | --- |
| a     | harm         | zone TestZ                 | 1.5 | -                          | 1.0 |
| b     | more harm    | not tried here: needs root |     | not tried here: needs root |     |

1 of 1 faults found, 1 not tried here: needs root
`, out.String())
	require.NoError(t, verdict(all), "what cannot be tried is no failure, and what nobody sees from outside")
	all[0].hunts[0].by = ""
	require.ErrorContains(t, verdict(all), "not found: a")
}

func TestPick(t *testing.T) {
	t.Parallel()
	all, err := pick(nil)
	require.NoError(t, err)
	assert.Equal(t, mutant.Faults(), all)
	one, err := pick([]string{"map-order"})
	require.NoError(t, err)
	assert.Len(t, one, 1)
	_, err = pick([]string{"map-order", "no-such"})
	require.ErrorContains(t, err, `"no-such"`)
	require.ErrorContains(t, run(t.Context(), []string{"no-such"}, &bytes.Buffer{}, &bytes.Buffer{}), `"no-such"`)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-list"}, &out, &out))
	assert.Equal(t, len(mutant.Faults()), strings.Count(out.String(), "\n"))
}

// TestEveryFaultStandsSomewhere fails for a fault that has a name and is not in
// the code.
func TestEveryFaultStandsSomewhere(t *testing.T) {
	t.Parallel()
	use := regexp.MustCompile(`mutant\.On\(mutant\.(\w+)\)`)
	used := map[string]bool{}
	require.NoError(t, filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "mutant") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range use.FindAllSubmatch(text, -1) {
			used[string(m[1])] = true
		}
		return err
	}))
	names, err := os.ReadFile("../../internal/mutant/mutant.go")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +Name = `).FindAllSubmatch(names, -1) {
		assert.True(t, used[string(m[1])], "%s is nowhere", m[1])
		delete(used, string(m[1]))
	}
	assert.Empty(t, used)
}
