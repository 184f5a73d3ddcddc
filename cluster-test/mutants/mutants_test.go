package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAsASuite is the suite that other tests run: the name of the overlay says how
// it ends.
func TestAsASuite(t *testing.T) {
	_, overlay, _ := strings.Cut(os.Getenv("GOFLAGS"), " -overlay=")
	name := strings.TrimPrefix(overlay, "/")
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
		t.Skip("it is run by other tests alone")
	}
}

// asSuite returns a folder with this test binary as the suite of its package, and
// that suite.
func asSuite(t *testing.T) (string, suite) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "mutants.test")))
	return dir, suite{"cluster-test/mutants", "^TestAsASuite$"}
}

func TestTry(t *testing.T) {
	t.Parallel()
	dir, s := asSuite(t)
	// A timeout of the tests themselves would not show what happens after it.
	r := &runner{root: "../..", dir: dir, timeout: time.Second}
	for fault, want := range map[string]outcome{
		"":        {end: skipped, reason: "it is run by other tests alone"},
		"passes":  {end: passed},
		"fails":   {end: failed, test: "TestAsASuite"},
		"crashes": {end: failed, test: "TestAsASuite (did not end)"},
		"hangs":   {end: failed, test: "TestAsASuite (did not end)"},
	} {
		r.env = []string{"GOFLAGS= -overlay=/" + fault}
		o, err := r.try(t.Context(), s)
		require.NoError(t, err, fault)
		assert.Equal(t, want, outcome{o.end, o.test, o.reason, ""}, fault)
	}

	// What says nothing about a fault is neither found nor missed.
	_, err := r.try(t.Context(), suite{s.pkg, "^TestNoSuch$"})
	require.ErrorContains(t, err, "it has no tests")
	_, err = r.try(t.Context(), suite{"no/such", ""})
	require.Error(t, err)
}

func TestLook(t *testing.T) {
	t.Parallel()
	dir, s := asSuite(t)
	var said bytes.Buffer
	h := newHunter("../..", dir, 1, nil, &said)
	built := &builder{}
	built.once.Do(func() {})
	h.plain[s.pkg] = built
	look := func(fault string) string {
		t.Helper()
		by, err := h.look(t.Context(), dir, "/"+fault, s)
		require.NoError(t, err)
		return by
	}
	assert.Equal(t, "TestAsASuite", look("fails"))
	assert.Equal(t, "TestAsASuite (did not end)", look("crashes"))
	assert.Empty(t, look("passes"))
	assert.Empty(t, said.String())

	assert.Empty(t, look("fails once"), "a flake finds nothing")
	assert.Contains(t, said.String(), "TestAsASuite failed, but not because of the fault")
	assert.Equal(t, "TestAsASuite", look("fails thrice"), "what fails now and then is a find")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "tmp", "broken"), nil, 0o600))
	assert.Empty(t, look("fails"), "a test that fails without the fault as well finds nothing")
	require.NoError(t, os.Remove(filepath.Join(dir, "tmp", "broken")))

	said.Reset()
	assert.Empty(t, look(""))
	found, err := h.hunt(t.Context(), nil, []suite{s})
	require.NoError(t, err)
	assert.True(t, found.untried, "what skips itself has not looked")
	assert.Equal(t, "cluster-test/mutants ^TestAsASuite$ is skipped here: it is run by other tests alone\n", said.String(), "and is not run again")
}

// TestFaults fails for a fault whose patch does not fit the code any more, or that
// names a test which is not there: each would end the whole run.
func TestFaults(t *testing.T) {
	t.Parallel()
	all, err := readFaults(faults)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, f := range all {
		c, err := f.change(t.Context(), root)
		if !assert.NoError(t, err) { //nolint:testifylint // the next are looked at as well
			continue
		}
		for file, text := range c {
			was, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			assert.NotEqual(t, string(was), string(text), "%s: %s", f.name, file)
			_, err = format.Source(text)
			require.NoError(t, err, "%s: %s", f.name, file)
		}
		if f.test.pkg == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, f.test.pkg, "*_test.go"))
		require.NoError(t, err)
		var tests []byte
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			tests = append(tests, text...)
		}
		assert.Contains(t, string(tests), "\nfunc "+strings.Trim(f.test.run, "^$")+"(", "%s: %s", f.name, f.test)
	}
}

func TestParseFault(t *testing.T) {
	t.Parallel()
	f, err := parseFault([]byte("does: harm\nonly: zone TestZ\n\n--- a/x.go\n"))
	require.NoError(t, err)
	assert.Equal(t, fault{does: "harm", test: suite{"zone", "^TestZ$"}, only: true, patch: []byte("--- a/x.go\n")}, f)
	for text, want := range map[string]string{
		"does: harm\n--- a/x.go\n":               "an empty line",
		"does: harm\n\nno patch":                 "a patch",
		"test: zone TestZ\n\n--- a/x.go\n":       "does not say what it does",
		"does: harm\ntest: zone\n\n--- a/x.go\n": "a package and a test",
		"does: harm\nmore: x\n\n--- a/x.go\n":    "none of the words",
	} {
		_, err := parseFault([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// TestPatchThatDoesNotFit has a fault whose code has changed since, and one whose
// file is gone.
func TestPatchThatDoesNotFit(t *testing.T) {
	t.Parallel()
	const patch = "--- a/x.go\n+++ b/x.go\n@@ -1,3 +1,3 @@\n package x\n \n-var a = 1\n+var a = 2\n"
	f := fault{name: "harm", patch: []byte(patch)}
	root := t.TempDir()
	_, err := f.change(t.Context(), root)
	require.ErrorContains(t, err, "harm: copying what it changes")
	file := filepath.Join(root, "x.go")
	require.NoError(t, os.WriteFile(file, []byte("package x\n\nvar a = 1\n"), 0o600))
	c, err := f.change(t.Context(), root)
	require.NoError(t, err)
	assert.Equal(t, change{"x.go": []byte("package x\n\nvar a = 2\n")}, c)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "package x\n\nvar a = 1\n", string(text), "the module stays as it is")
	require.NoError(t, os.WriteFile(file, []byte("package x\n\nvar a = 3\n"), 0o600))
	_, err = f.change(t.Context(), root)
	require.ErrorContains(t, err, "harm: its patch does not fit the code any more")
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
		{fault{name: "a", does: "harm"}, []hunt{{by: "zone TestZ", took: 1500 * time.Millisecond}, {took: time.Second}}},
		{fault{name: "b", does: "more harm"}, []hunt{{untried: true}, {untried: true}}},
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
	all[0].hunts[0].broken = "it does not compile:\n..."
	require.ErrorContains(t, verdict(all), "not found: a", "and neither is what was never made")
	out.Reset()
	require.NoError(t, table(&out, all[:1]))
	assert.Contains(t, out.String(), "| - (it does not compile)")
}

func TestPick(t *testing.T) {
	t.Parallel()
	all, err := readFaults(faults)
	require.NoError(t, err)
	picked, err := pick(all, nil)
	require.NoError(t, err)
	assert.Equal(t, all, picked)
	picked, err = pick(all, []string{"map-order"})
	require.NoError(t, err)
	assert.Len(t, picked, 1)
	_, err = pick(all, []string{"map-order", "no-such"})
	require.ErrorContains(t, err, `"no-such"`)
	require.ErrorContains(t, run(t.Context(), []string{"no-such"}, &bytes.Buffer{}, &bytes.Buffer{}), `"no-such"`)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-list"}, &out, &out))
	assert.Equal(t, len(all), strings.Count(out.String(), "\n"))
}
