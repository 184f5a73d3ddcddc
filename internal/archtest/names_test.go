package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tables returns every list of packages of these tests, by its name.
func tables() map[string][]string {
	out := map[string][]string{"layers": slices.Concat(layers...), "free": free, "pure": pure, "tools": tools}
	for judge, may := range independent {
		out["independent"] = append(append(out["independent"], judge), may...)
	}
	for _, in := range doors {
		out["doors"] = append(out["doors"], in...)
	}
	for _, e := range excused {
		out["excused"] = append(out["excused"], e.pkg)
	}
	return out
}

// TestTablesNamePackagesThatExist: a misspelt name would hold nothing to a rule.
func TestTablesNamePackagesThatExist(t *testing.T) {
	all := load(t)
	for table, names := range tables() {
		for _, name := range names {
			assert.True(t, slices.ContainsFunc(all, func(p pkg) bool { return matches([]string{name}, p.name) }),
				"table_test.go, %s: there is no package %s", table, name)
		}
	}
}

var (
	quoted      = regexp.MustCompile("`([a-z][a-z0-9/-]*)`")
	lintedPlace = regexp.MustCompile(`\$\{config-path\}/([a-z0-9/-]+)/\*`)
)

// TestTheDocumentedLayersAreThoseOfTheTable: docs/architecture.md is the same table for
// people.
func TestTheDocumentedLayersAreThoseOfTheTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "\n| Layer | Packages |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for _, m := range quoted.FindAllStringSubmatch(table, -1) {
		documented[m[1]] = true
	}
	want := slices.Sorted(slices.Values(slices.Concat(layers...)))
	assert.Equal(t, want, slices.Sorted(maps.Keys(documented)), "docs/architecture.md, table of layers")
}

// TestTheLinterNamesFoldersThatExist, like the tables of these tests.
func TestTheLinterNamesFoldersThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	require.NoError(t, err)
	found := lintedPlace.FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		assert.DirExists(t, filepath.Join(root, filepath.FromSlash(m[1])), ".golangci.yml")
	}
}

// listedFile finds a file of the repository in a checklist. Words in capitals stand for a
// name.
var listedFile = regexp.MustCompile("`((?:[a-z][a-z0-9_.-]*/)+[a-z0-9_.-]+\\.(?:go|txt|json|md|yaml))`")

// TestChecklistsNameFilesThatExist: the next person looks there first.
func TestChecklistsNameFilesThatExist(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(root, "docs", "checklists", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, lists)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		require.NoError(t, err)
		_, first, _ := strings.Cut(string(text), "\n")
		assert.Contains(t, first, "ouch these, in this order", "%s begins with the files to touch", filepath.Base(list))
		for _, m := range listedFile.FindAllStringSubmatch(string(text), -1) {
			assert.FileExists(t, filepath.Join(root, filepath.FromSlash(m[1])), filepath.Base(list))
		}
	}
}
