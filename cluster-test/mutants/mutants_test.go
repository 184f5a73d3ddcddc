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

// TestAsASuite is the suite that other tests run: the name of the fault says how
// it ends.
func TestAsASuite(t *testing.T) {
	name := os.Getenv(faultEnv)
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
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "cluster-test-mutants.test")))
	return dir, suite{"cluster-test/mutants", "^TestAsASuite$"}
}

func TestTry(t *testing.T) {
	t.Parallel()
	dir, s := asSuite(t)
	// A timeout of the tests themselves would not show what happens after it.
	r := &runner{root: "../..", dir: dir, tmp: filepath.Join(dir, "tmp"), timeout: time.Second}
	for fault, want := range map[string]outcome{
		"":        {end: skipped, reason: "it is run by other tests alone"},
		"passes":  {end: passed},
		"fails":   {end: failed, test: "TestAsASuite"},
		"crashes": {end: failed, test: "TestAsASuite (did not end)"},
		"hangs":   {end: failed, test: "TestAsASuite (did not end)"},
	} {
		r.env = []string{faultEnv + "=" + fault}
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
	h.suites[binary(dir, s.pkg)] = built
	look := func(fault string) string {
		t.Helper()
		by, err := h.look(t.Context(), specimen{fault: fault, dir: dir, tmp: filepath.Join(dir, "tmp")}, s)
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
	found, err := h.hunt(t.Context(), "", nil, []suite{s})
	require.NoError(t, err)
	assert.True(t, found.untried, "what skips itself has not looked")
	assert.Equal(t, "cluster-test/mutants ^TestAsASuite$ is skipped here: it is run by other tests alone\n", said.String(), "and is not run again")
}

// TestFaults fails for a fault that does not fit the code any more, or that
// names a test which is not there: each would end the whole run.
func TestFaults(t *testing.T) {
	t.Parallel()
	all, err := readFaults(faults)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, f := range all {
		c, err := f.change(root)
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
	f, err := parseFault([]byte("does: harm\nonly: zone TestZ\n\nin x T.f\nimport \"fmt\"\n- a\n- b\n+ c\n..\n- d\n\nin y g\n- e\n+ f\n"))
	require.NoError(t, err)
	assert.Equal(t, fault{does: "harm", test: suite{"zone", "^TestZ$"}, only: true, edits: []edit{
		{pkg: "x", decl: "T.f", imports: []string{`"fmt"`}, pairs: []pair{{"a\nb\n", "c\n"}, {"d\n", ""}}},
		{pkg: "y", decl: "g", pairs: []pair{{"e\n", "f\n"}}},
	}}, f)
	for text, want := range map[string]string{
		"does: harm\nin x f\n- a\n":               "an empty line",
		"does: harm\n\nno edit":                   "must follow a line",
		"does: harm\n\n":                          "no line",
		"does: harm\n\nin x\n- a\n":               "a package and a declaration",
		"does: harm\n\nin x f\n+ a\n":             "a text behind - is needed",
		"does: harm\n\nin x f\n- a\n..\n":         "a text behind - is needed",
		"does: harm\n\nin x f\n* a\n":             "begins with none of",
		"test: zone TestZ\n\nin x f\n- a\n":       "does not say what it does",
		"does: harm\ntest: zone\n\nin x f\n- a\n": "a package and a test",
		"does: harm\nmore: x\n\nin x f\n- a\n":    "none of the words",
	} {
		_, err := parseFault([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// TestEdits has code that is edited in several places, and faults that do not fit it.
func TestEdits(t *testing.T) {
	t.Parallel()
	const code = `package x

import (
	"errors"
	"strings"
)

var limit = 1

type t[V any] struct{}

// f is ` + "`" + `f` + "`" + `.
func (*t[V]) f(a int) error {
	if a > limit { // too much
		return errors.New(strings.ToUpper("much"))
	}
	a++
	a++
	return nil
}

func g() { _ = strings.ToUpper("a") }
`
	root := t.TempDir()
	file := filepath.Join(root, "x.go")
	require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
	for text, want := range map[string][2]string{ // what is replaced in the code, with what
		"in . limit\n- limit = 1\n+ limit = 2\n":                              {"limit = 1", "limit = 2"},
		"in . t.f\n- a  >\n-   limit   {\n+ a >= limit {\n":                   {"a > limit { // too much", "a >= limit { // too much"},
		"in . t.f\n- a++\n- return nil\n+ return nil\n":                       {"a++\n\treturn nil", "return nil"},
		"in . t.f\n- errors.New(strings.ToUpper(\"much\"))\n+ nil\n":          {`errors.New(strings.ToUpper("much"))`, "nil"},
		"in . g\nimport \"fmt\"\n- strings.ToUpper\n+ fmt.Sprint\n":           {"_ = strings.ToUpper", "_ = fmt.Sprint"},
		"in . g\n- func g()\n+ func g(int)\n\nin . limit\n- 1\n+ len(\"\")\n": {"limit = 1", `limit = len("")`},
	} {
		f, err := parseFault([]byte("does: harm\n\n" + text))
		require.NoError(t, err)
		c, err := f.change(root)
		require.NoError(t, err, text)
		got := string(c["x.go"])
		require.Contains(t, code, want[0])
		assert.Contains(t, got, want[1], text)
		assert.Equal(t, strings.Contains(got, "errors.New"), strings.Contains(got, `"errors"`), "an import that is used no more goes: %s", got)
		assert.Equal(t, strings.Contains(text, "import"), strings.Contains(got, `"fmt"`))
		assert.Equal(t, strings.Contains(text, "g(int)"), strings.Contains(got, "g(int)"), "all edits of a file are made")
	}
	for text, want := range map[string]string{
		"in y limit\n- 1\n":      "harm: it does not fit the code any more: y has no declaration limit",
		"in . f\n- a++\n":        "has no declaration f",
		"in . t.f\n- a++\n":      "there 2 times",
		"in . t.f\n- a--\n":      "there 0 times",
		"in . g\n- {\n+ {{\n":    "is not Go",
		"in . limit\n- 1\n+ )\n": "is not Go",
	} {
		f, err := parseFault([]byte("does: harm\n\n" + text))
		require.NoError(t, err)
		f.name = "harm"
		_, err = f.change(root)
		require.ErrorContains(t, err, want, text)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, code, string(text), "the module stays as it is")
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

func TestLedgerIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.md")
	all := []fault{{name: "a", does: "harm"}, {name: "b", does: "more"}, {name: "c", does: "new"}}
	require.NoError(t, os.WriteFile(path, []byte("# L\n"+ledgerBegins+"| b | old words | x TestX | 2.0 | y TestY | 1.0 |\n| gone | z | z | 1 | | |\n"+ledgerEnds+"more\n"), 0o600))
	require.NoError(t, updateLedger(path, all, []finding{
		{all[0], []hunt{{by: "x TestA", took: 1500 * time.Millisecond}}},
		{all[1], []hunt{{untried: true}}},
	}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, `# L
`+ledgerBegins+`| fault | what it does | found by | s | from outside by | s |
| --- | --- | --- | --- | --- | --- |
| a | harm | x TestA | 1.5 |  |  |
| b | more | x TestX | 2.0 | y TestY | 1.0 |
| c | new |  |  |  |  |
`+ledgerEnds+"more\n", string(text))
	require.NoError(t, os.WriteFile(path, []byte("# L\n"), 0o600))
	require.Error(t, updateLedger(path, all, nil))
	require.Error(t, updateLedger(filepath.Join(path, "none"), all, nil))
}

// TestLedgerListsTheFaults: the table of the ledger has a row for each fault, and no other.
func TestLedgerListsTheFaults(t *testing.T) {
	t.Parallel()
	all, err := readFaults(faults)
	require.NoError(t, err)
	text, err := os.ReadFile("../../docs/ledger.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), ledgerBegins)
	table, _, _ := strings.Cut(rest, ledgerEnds)
	rows := readRows(table)
	assert.Len(t, rows, len(all)+2, "a row for each fault, and two for the head")
	for _, f := range all {
		if assert.Contains(t, rows, f.name, "make mutants writes it; or add a row") {
			assert.Equal(t, f.does, rows[f.name][1], f.name)
		}
	}
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
