package state

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bookSource is what the files of this package declare.
type bookSource struct {
	owner   map[string]string // table -> book
	methods []*ast.FuncDecl
	file    map[*ast.FuncDecl]string
}

func readSource(t *testing.T) bookSource {
	t.Helper()
	noTests := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	pkgs, err := parser.ParseDir(token.NewFileSet(), ".", noTests, parser.SkipObjectResolution) //nolint:staticcheck // no build tags here
	require.NoError(t, err)
	src := bookSource{owner: map[string]string{}, file: map[*ast.FuncDecl]string{}}
	for name, f := range pkgs["state"].Files {
		for _, d := range f.Decls {
			src.add(name, d)
		}
	}
	return src
}

func (src *bookSource) add(file string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		src.methods, src.file[d] = append(src.methods, d), file
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			src.addTables(spec)
		}
	}
}

func (src *bookSource) addTables(spec ast.Spec) {
	named, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	book, ok := named.Type.(*ast.StructType)
	if !ok || !strings.HasSuffix(named.Name.Name, "Book") && named.Name.Name != "State" {
		return
	}
	for _, field := range book.Fields.List {
		for _, name := range field.Names {
			src.owner[name.Name] = named.Name.Name
		}
	}
}

// receiver returns the type that a function is a method of, "" for none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
		return star.X.(*ast.Ident).Name //nolint:forcetypeassert // no generic receivers here but table's
	}
	return ""
}

// changers are the methods that change a table, or the host table.
var changers = []string{
	"Set", "Insert", "Delete", "Place", "Restore", "Lend", "Return", "Release", "Put", "Remove", "Bump", "Advance", "SetGeneration",
}

// changed returns the fields of s that a method changes: s.x.Set and its like, s.x as an
// argument of addTally, and s.x on the left of an assignment.
func changed(f *ast.FuncDecl) (fields []string) {
	field := func(e ast.Expr) {
		if sel, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "s" {
				fields = append(fields, sel.Sel.Name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				field(left)
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(changers, sel.Sel.Name) {
				field(sel.X)
			}
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "addTally" {
				field(n.Args[0])
			}
		}
		return true
	})
	return fields
}

// TestEachBookChangesItsOwnTables: no book changes a table of another. That none calls a
// book above it the compiler holds.
func TestEachBookChangesItsOwnTables(t *testing.T) {
	src := readSource(t)
	seen := map[string]bool{}
	for _, f := range src.methods {
		for _, table := range changed(f) {
			if owner := src.owner[table]; owner != "" && receiver(f) != "" { // New and Load make all of it
				seen[owner] = true
				assert.Equal(t, owner, receiver(f), "%s changes %s", f.Name.Name, table)
			}
		}
	}
	for _, book := range []string{"membersBook", "stockBook", "quotasBook", "bindingsBook", "workBook", "sagaBook", "bootsBook", "leasesBook"} {
		assert.True(t, seen[book], "%s was looked at", book)
	}
}

// TestEachBookHasItsFiles: the methods of a book are in files with its name, and in those
// there are no methods of another.
func TestEachBookHasItsFiles(t *testing.T) {
	src := readSource(t)
	books := map[string]bool{"members": true, "stock": true, "quotas": true, "work": true, "saga": true, "boots": true, "leases": true, "events": true, "audit": true}
	for _, f := range src.methods {
		file, _, _ := strings.Cut(strings.TrimSuffix(src.file[f], ".go"), "_")
		if book, ok := strings.CutSuffix(receiver(f), "Book"); ok {
			assert.Equal(t, book, file, "%s of %s is in %s", f.Name.Name, receiver(f), src.file[f])
		} else if receiver(f) == "State" {
			assert.NotContains(t, books, file, "%s of State is in %s", f.Name.Name, src.file[f])
		}
	}
}
