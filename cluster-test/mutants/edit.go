package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// edit is one mistake in one declaration of a package. It names no line and no file, so that it
// fits wherever the code moves within its package.
//
//	in raftstore/state Boot.State
//	- case b.Counts.Build > 0:
//	+ case b.Counts.Build > 0 || !settled:
//
// A declaration is a function, "Type.Method", a type, or a constant or variable. The text behind "-" must be in it
// exactly once, but for white space and comments; it is replaced by that behind "+". More of these pairs may
// follow, divided by a line "..". A line "import PATH" adds an import; an import that is used no more goes.
type edit struct {
	pkg, decl string
	imports   []string
	pairs     []pair
}

// pair is a text of Go and what replaces it.
type pair struct{ before, after string }

// parseEdits reads the edits of a fault.
func parseEdits(text string) (edits []edit, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		mark, rest, _ := strings.Cut(line, " ")
		if mark == "in" {
			pkg, decl, ok := strings.Cut(rest, " ")
			if !ok {
				return nil, fmt.Errorf("%q must name a package and a declaration", line)
			}
			edits = append(edits, edit{pkg: pkg, decl: decl, pairs: []pair{{}}})
			continue
		}
		if len(edits) == 0 {
			return nil, fmt.Errorf(`%q must follow a line "in PACKAGE DECLARATION"`, line)
		}
		e := &edits[len(edits)-1]
		last := &e.pairs[len(e.pairs)-1]
		switch mark {
		case "-":
			last.before += rest + "\n"
		case "+":
			last.after += rest + "\n"
		case "..":
			e.pairs = append(e.pairs, pair{})
		case "import":
			e.imports = append(e.imports, rest)
		case "":
		default:
			return nil, fmt.Errorf(`%q begins with none of "in", "-", "+", ".." and "import"`, line)
		}
	}
	for _, e := range edits {
		for _, p := range e.pairs {
			if len(lex(p.before)) == 0 {
				return nil, fmt.Errorf("in %s %s: a text behind - is needed, to know where", e.pkg, e.decl)
			}
		}
	}
	if len(edits) == 0 {
		return nil, errors.New(`it has no line "in PACKAGE DECLARATION"`)
	}
	return edits, nil
}

// apply changes the file of the module that has the declaration; c has files that were changed already.
func (e *edit) apply(root string, c change) error {
	files, err := filepath.Glob(filepath.Join(root, e.pkg, "*.go"))
	if err != nil {
		return fmt.Errorf("looking for files: %w", err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		name := filepath.ToSlash(filepath.Join(e.pkg, filepath.Base(path)))
		text, ok := c[name]
		if !ok {
			if text, err = os.ReadFile(path); err != nil {
				return fmt.Errorf("reading code: %w", err)
			}
		}
		if !strings.Contains(string(text), e.decl[strings.LastIndex(e.decl, ".")+1:]) {
			continue // this saves to parse it
		}
		from, to, err := findDecl(text, e.decl)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if to == 0 {
			continue
		}
		c[name], err = e.rewrite(text, from, to)
		return err
	}
	return fmt.Errorf("%s has no declaration %s", e.pkg, e.decl)
}

// rewrite returns the text of a file after the edit of a declaration.
func (e *edit) rewrite(text []byte, from, to int) ([]byte, error) {
	type place struct {
		from, to int
		after    string
	}
	var places []place
	for _, p := range e.pairs {
		at, n := find(lex(string(text[from:to])), lex(p.before))
		if n != 1 {
			return nil, fmt.Errorf("in %s %s: this is there %d times, and must be once:\n%s", e.pkg, e.decl, n, p.before)
		}
		places = append(places, place{from + at.from, from + at.to, strings.TrimSuffix(p.after, "\n")})
	}
	slices.SortFunc(places, func(a, b place) int { return b.from - a.from }) // from the end, so that places before it stay
	changed := string(text)
	for _, p := range places {
		changed = changed[:p.from] + p.after + changed[p.to:]
	}
	changed, err := fitImports(string(text), changed, e.imports)
	if err != nil {
		return nil, fmt.Errorf("in %s %s: %w", e.pkg, e.decl, err)
	}
	out, err := format.Source([]byte(changed))
	if err != nil {
		return nil, fmt.Errorf("in %s %s: the code with the fault is not Go: %w", e.pkg, e.decl, err)
	}
	return out, nil
}

// findDecl returns where a declaration is in a file; to is 0 if it is not there.
func findDecl(text []byte, name string) (from, to int, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, fmt.Errorf("reading code: %w", err)
	}
	place := func(n ast.Node) (int, int, error) {
		return set.Position(n.Pos()).Offset, set.Position(n.End()).Offset, nil
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if declName(d) == name {
				return place(d)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if slices.Contains(specNames(s), name) {
					return place(s)
				}
			}
		}
	}
	return 0, 0, nil
}

// declName returns the name of a function, with its type if it is a method.
func declName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

func specNames(s ast.Spec) (names []string) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		names = append(names, s.Name.Name)
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// word is one token of Go and where it is in a text.
type word struct {
	tok      token.Token
	text     string
	from, to int
}

// lex returns the words of a text, without comments and the semicolons that ends of lines stand for.
func lex(text string) (words []word) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), func(token.Position, string) {}, 0) // what is no Go fails when it is parsed
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return words
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		if lit == "" || tok.IsOperator() {
			lit = tok.String()
		}
		at := file.Offset(pos)
		words = append(words, word{tok, lit, at, at + len(lit)})
	}
}

// find returns the first place of some words among others, and the number of places.
func find(in, what []word) (at word, n int) {
	for i := range len(in) - len(what) + 1 {
		same := func(a, b word) bool { return a.tok == b.tok && a.text == b.text }
		if slices.EqualFunc(in[i:i+len(what)], what, same) {
			if n++; n == 1 {
				at = word{from: in[i].from, to: in[i+len(what)-1].to}
			}
		}
	}
	return at, n
}

// fitImports adds imports to a changed file, and removes those that it used before the change alone.
func fitImports(before, changed string, more []string) (string, error) {
	was, err := usedNames(before)
	if err != nil {
		return "", err
	}
	is, err := usedNames(changed)
	if err != nil {
		return "", fmt.Errorf("the code with the fault is not Go: %w", err)
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", changed, parser.ImportsOnly)
	if err != nil {
		return "", fmt.Errorf("reading imports: %w", err)
	}
	for _, i := range slices.Backward(tree.Imports) { // from the end, so that places before it stay
		name := importName(i)
		if was[name] && !is[name] {
			from, to := set.Position(i.Pos()).Offset, set.Position(i.End()).Offset
			changed = changed[:from] + changed[to:]
		}
	}
	for _, m := range more {
		at := set.Position(tree.Name.End()).Offset
		changed = changed[:at] + "\n\nimport " + m + changed[at:]
	}
	return changed, nil
}

// usedNames returns the names in front of a dot in a file.
func usedNames(text string) (map[string]bool, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading code: %w", err)
	}
	names := map[string]bool{}
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				names[x.Name] = true
			}
		}
		return true
	})
	return names, nil
}

// importName returns the name of an import in its file.
func importName(i *ast.ImportSpec) string {
	if i.Name != nil {
		return i.Name.Name
	}
	path, _ := strconv.Unquote(i.Path.Value) // the parser has checked it
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if _, err := strconv.Atoi(strings.TrimPrefix(last, "v")); err == nil && len(parts) > 1 {
		last = parts[len(parts)-2]
	}
	return last
}
