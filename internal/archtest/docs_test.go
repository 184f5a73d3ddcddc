package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named finds, in a document, a package with a colon behind it or a test of the
// package that was named last.
var named = regexp.MustCompile("`([a-z][a-z0-9/-]*)`:\\s|`((?:Test|Fuzz)[A-Za-z0-9_]+)(?:/[^`]*)?`")

func TestEveryPromiseIsHeldByATestThatExists(t *testing.T) {
	tests := map[string]bool{}
	for _, p := range load(t) {
		for _, f := range p.files {
			for _, d := range f.tree.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.isTest {
					tests[p.name+" "+fn.Name.Name] = true
				}
			}
		}
	}
	const doc = "guarantees.md"
	text, err := os.ReadFile(filepath.Join(root, "docs", doc))
	require.NoError(t, err)
	pkg, found := "", 0
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			pkg = m[1]
			continue
		}
		if m[2] == "TestName" { // it tells how to read the rest
			continue
		}
		found++
		assert.True(t, tests[pkg+" "+m[2]], "docs/%s: package %s has no %s", doc, pkg, m[2])
	}
	assert.Greater(t, found, 50, "docs/%s names its tests", doc)
}
