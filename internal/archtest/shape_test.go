package archtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// rank returns the layer of a package, exact names before folders, and whether
// it has one.
func rank(name string) (int, bool) {
	for i, names := range layers {
		for _, n := range names {
			if n == name {
				return i, true
			}
		}
	}
	for i, names := range layers {
		if matches(names, name) {
			return i, true
		}
	}
	return 0, false
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, p := range load(t) {
		_, known := rank(p.name)
		assert.True(t, known, "%s: not in layers; say in table_test.go where it belongs", p.name)
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range load(t) {
		said := false
		for _, f := range p.files {
			said = said || f.tree.Doc.Text() != ""
		}
		assert.True(t, said, "%s: no package comment", p.name)
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range load(t) {
		mine, _ := rank(p.name)
		for _, f := range p.files {
			for imp := range f.imports() {
				name, ours := strings.CutPrefix(imp, module)
				if !ours || name == p.name || f.isTest {
					continue
				}
				theirs, known := rank(name)
				assert.True(t, known && theirs < mine, "%s imports %s: arrows point down only", f.name, imp)
				assert.False(t, matches(tools, name) && !matches(tools, p.name) && !matches(free, p.name),
					"%s imports %s: it is for tests", f.name, imp)
			}
		}
	}
}

func TestDoors(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			for imp := range f.imports() {
				if f.isTest || matches(free, p.name) {
					continue
				}
				allowed, foreign := door(imp)
				assert.True(t, !foreign || matches(allowed, p.name),
					"%s imports %s: only %v may", f.name, imp, allowed)
			}
		}
	}
}

// TestHandlersProposeNothing: a handler reads a call, and a use case below it proposes
// what the call changes. A node wires both and proposes nothing itself.
func TestHandlersProposeNothing(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			for imp := range f.imports() {
				assert.False(t, matches([]string{"httpd/...", "node"}, p.name) && !matches(tools, p.name) && !f.isTest && imp == module+"raftstore/command",
					"%s imports %s: call a use case below it", f.name, imp)
			}
		}
	}
}

// TestJudgesAreIndependent of what they judge.
func TestJudgesAreIndependent(t *testing.T) {
	for _, p := range load(t) {
		may, judges := independent[p.name]
		for _, f := range p.files {
			for imp := range f.imports() {
				name, ours := strings.CutPrefix(imp, module)
				assert.False(t, judges && ours && !slices.Contains(may, name), "%s imports %s: it shares no code with what it judges", f.name, imp)
			}
		}
	}
}

// door returns the packages that may import imp, and whether that is limited at
// all: packages of the standard library without a door are free.
func door(imp string) (allowed []string, foreign bool) {
	best := ""
	for prefix := range doors {
		if strings.HasPrefix(imp, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	first, _, _ := strings.Cut(imp, "/")
	return doors[best], best != "" || strings.Contains(first, ".")
}

func TestFakesAreWrittenByHand(t *testing.T) {
	for _, p := range load(t) {
		for _, f := range p.files {
			for imp := range f.imports() {
				assert.False(t, within([]string{"github.com/stretchr/testify/mock", "github.com/stretchr/testify/suite"}, imp),
					"%s imports %s: write a fake with func fields", f.name, imp)
			}
		}
	}
}
