package mutant

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryFaultIsDescribed(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "mutant.go", nil, 0)
	require.NoError(t, err)
	var named []Name
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		named = append(named, Name(text))
		return false
	})
	var described []Name
	does := map[string]bool{}
	for _, f := range Faults() {
		described = append(described, f.Name)
		assert.NotEmpty(t, f.Does, f.Name)
		assert.False(t, does[f.Does], "%s does what another does", f.Name)
		does[f.Does] = true
	}
	assert.NotEmpty(t, named)
	assert.Equal(t, named, described)
}
