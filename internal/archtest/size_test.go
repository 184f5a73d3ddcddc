package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unfinished matches marks of work that was put off. It is spelt in two halves,
// so that it does not match itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)

// fileOf parses one file of a package that exists in a test only.
func fileOf(t *testing.T, source string) file {
	t.Helper()
	set := token.NewFileSet()
	text := "package p\n" + source
	tree, err := parser.ParseFile(set, "p.go", text, parser.ParseComments)
	require.NoError(t, err)
	return file{name: "p.go", text: text, set: set, tree: tree}
}

func TestFilesAreShort(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			if lines := strings.Count(f.text, "\n"); !f.isTest {
				assert.LessOrEqual(t, lines, fileLinesMax, "%s: split it by noun", f.name)
			}
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			for at, lines := range lengths(f) {
				assert.True(t, f.isTest || lines <= funcLinesMax, "%s has %d lines; at most %d", at, lines, funcLinesMax)
			}
		}
	}
}

func TestNothingIsPutOff(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			if at := unfinished.FindStringIndex(f.text); at != nil {
				t.Errorf("%s:%d: finish it or leave it out", f.name, 1+strings.Count(f.text[:at[0]], "\n"))
			}
		}
	}
}

// lengths returns, by place and name, how many lines each function of f has
// between its first and its last, without those that hold a comment alone.
func lengths(f file) map[string]int {
	lines := strings.Split(f.text, "\n")
	found := map[string]int{}
	for _, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		first, last := f.set.Position(fn.Pos()), f.set.Position(fn.End())
		n := 0
		for i := first.Line; i < last.Line-1; i++ { // lines[i] is line i+1
			if !strings.HasPrefix(strings.TrimSpace(lines[i]), "//") {
				n++
			}
		}
		found[first.String()+" "+fn.Name.Name] = n
	}
	return found
}

func TestLengths(t *testing.T) {
	body := func(n int) string { return "func f() {\n" + strings.Repeat("\tf()\n\t// so\n", n) + "}\n" }
	for _, n := range []int{0, 1, funcLinesMax, funcLinesMax + 1} {
		assert.Equal(t, map[string]int{"p.go:2:1 f": n}, lengths(fileOf(t, body(n))))
	}
}
