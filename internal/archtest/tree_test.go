package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is what import paths of our own packages start with.
const module = "berth/"

// root is the folder of the repository, seen from this package.
const root = "../.."

// file is one parsed Go file.
type file struct {
	name   string // slash-separated, from the repository's root
	isTest bool
	text   string
	set    *token.FileSet
	tree   *ast.File
}

// pkg is one folder with Go files; name is that folder from the root.
type pkg struct {
	name  string
	files []file
}

// load returns every package of the module in order of name, with each of its Go files, whatever
// its build tags. Folders that are modules of their own, hidden or called testdata are left
// out, as the go command does.
func load(t *testing.T) []pkg {
	t.Helper()
	all, err := tree()
	require.NoError(t, err, "reading the tree")
	require.Greater(t, len(all), 1, "the tree was not found")
	return all
}

// tree parses all files, once for all tests.
var tree = sync.OnceValues(func() ([]pkg, error) {
	byName := map[string]*pkg{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(at, root), string(filepath.Separator)))
		if d.IsDir() {
			return enter(at, rel)
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		f, err := parse(at, rel)
		if err != nil {
			return err
		}
		dir := path.Dir(rel)
		if byName[dir] == nil {
			byName[dir] = &pkg{name: dir}
		}
		byName[dir].files = append(byName[dir].files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []pkg
	for _, p := range byName {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b pkg) int { return strings.Compare(a.name, b.name) })
	return all, nil
})

// enter returns fs.SkipDir for a folder that holds no packages of this module.
func enter(at, rel string) error {
	if rel == "" {
		return nil
	}
	base := path.Base(rel)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func parse(at, rel string) (file, error) {
	text, err := os.ReadFile(at)
	if err != nil {
		return file{}, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	return file{rel, strings.HasSuffix(rel, "_test.go"), string(text), set, tree}, nil
}

// imports returns the local name of every import path of f; "." and "_" stand
// for themselves. Without a name in the source it is the last element of the
// path that is not a major version.
func (f file) imports() map[string]string {
	names := map[string]string{}
	for _, spec := range f.tree.Imports {
		imp, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		if spec.Name != nil {
			names[imp] = spec.Name.Name
			continue
		}
		elems := strings.Split(imp, "/")
		last := elems[len(elems)-1]
		if _, err := strconv.Atoi(strings.TrimPrefix(last, "v")); err == nil && len(elems) > 1 {
			last = elems[len(elems)-2]
		}
		names[imp] = last
	}
	return names
}

// uses calls visit for every selector of the package with the given local name:
// name.X for every X, with its place. A local variable of the same name would be
// taken for the package, so such a variable is refused too.
func (f file) uses(name string, visit func(sel, at string)) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
				visit(s.Sel.Name, f.set.Position(s.Pos()).String())
			}
		}
		return true
	})
}

// matches reports whether name is one of the names in list, or lies below one
// that ends in "/...".
func matches(list []string, name string) bool {
	return slices.ContainsFunc(list, func(want string) bool {
		if folder, deep := strings.CutSuffix(want, "/..."); deep {
			return strings.HasPrefix(name, folder+"/")
		}
		return name == want
	})
}

// within reports whether imp is one of the import paths in list or in one of
// their folders.
func within(list []string, imp string) bool {
	return slices.ContainsFunc(list, func(want string) bool {
		return imp == want || strings.HasPrefix(imp, want+"/")
	})
}
