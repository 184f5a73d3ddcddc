package saga

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOneFileKnowsBoots: holds, attempts and waits are for an owner of any kind. What a boot
// is in the state and in the log stands in boots.go alone.
func TestOneFileKnowsBoots(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	known := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(sel.Sel.Name, "Boot") {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "api" { // an attempt is recorded as one of a boot
				return true
			}
			known++
			assert.Equal(t, "boots.go", name, "%s is known", sel.Sel.Name)
			return true
		})
	}
	assert.Positive(t, known)
}
