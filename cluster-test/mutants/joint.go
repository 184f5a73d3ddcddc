package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// faultEnv names the one fault that a program with many of them makes, when it starts.
const faultEnv = "BERTH_FAULT"

// joint is the code of the module with many faults, so that a suite is compiled once for all of them. A function
// with faults has a copy for each, and begins with a switch to the copy of the chosen one:
//
//	func (t *T) Get(p1 int) (int, error) { switch berthFault { case "off-by-one": return t.berthFault3(p1) }
//		return t.list[p1], nil
//	}
//
// It is what the literature calls a mutant schema (R. Untch, J. Offutt, M. J. Harrold: Mutation analysis using mutant
// schemata, 1993).
type joint struct {
	root  string
	files map[string]*jointFile // by path within the module
	made  int                   // copies so far
}

// jointFile is a file with the functions that faults change.
type jointFile struct {
	source
	copies []copied
}

// copied is one function with one fault.
type copied struct {
	fault   string
	name    string // of the function
	text    string
	number  int      // no other copy has it: methods of one type may be in several files
	imports []string // that the file has for the fault alone
}

// errAlone is the error of a fault that changes more than functions, and so cannot be in one program with others.
var errAlone = errors.New("it changes more than functions")

func newJoint(root string) *joint { return &joint{root: root, files: map[string]*jointFile{}} }

// add adds a fault. The error is errAlone if it must be compiled alone, or tells that its code is not Go.
func (j *joint) add(fault string, c change) error {
	parsed := map[string]*jointFile{}
	copies := map[string][]copied{}
	for file, text := range c {
		was, ok := j.files[file]
		if !ok {
			before, err := os.ReadFile(filepath.Join(j.root, file))
			if err != nil {
				return fmt.Errorf("reading code: %w", err)
			}
			s, err := parseSource(before)
			if err != nil {
				return err
			}
			was = &jointFile{source: s}
		}
		is, err := parseSource(text)
		if err != nil {
			return err
		}
		if copies[file], err = was.changed(is, fault); err != nil {
			return err
		}
		parsed[file] = was
	}
	for _, file := range slices.Sorted(maps.Keys(parsed)) {
		f := parsed[file]
		for _, c := range copies[file] {
			c.number = j.made
			j.made++
			f.copies = append(f.copies, c)
		}
		j.files[file] = f
	}
	return nil
}

// drop removes a fault.
func (j *joint) drop(fault string) {
	for _, f := range j.files {
		f.copies = slices.DeleteFunc(f.copies, func(c copied) bool { return c.fault == fault })
	}
}

// packages returns the import paths of what has faults.
func (j *joint) packages() []string {
	paths := map[string]bool{}
	for file := range j.files {
		paths["berth/"+filepath.ToSlash(filepath.Dir(file))] = true
	}
	return slices.Sorted(maps.Keys(paths))
}

// change returns the files of the module with all faults, and one more in each package, which reads the name of the
// chosen one.
func (j *joint) change() change {
	c := change{}
	for file, f := range j.files {
		c[file] = f.render()
		chosen := "package " + f.tree.Name.Name + "\n\nimport \"syscall\"\n\nvar berthFault, _ = syscall.Getenv(\"" + faultEnv + "\")\n"
		c[filepath.ToSlash(filepath.Join(filepath.Dir(file), "zz_berth_fault.go"))] = []byte(chosen)
	}
	return c
}

// brokenLine is where the compiler reports an error in the copy of a function: copies have lines of their own.
var brokenLine = regexp.MustCompile(`berth-fault/([^:/\s]+):\d+(?::\d+)?: (.*)`)

// settle removes the faults that do not compile, and writes the rest into the folder. It returns the overlay,
// and the errors of the compiler for each removed fault.
func (j *joint) settle(ctx context.Context, dir string) (overlay string, broken map[string]string, err error) {
	broken = map[string]string{}
	for {
		if overlay, err = j.change().overlay(j.root, dir); err != nil {
			return "", nil, err
		}
		text, err := compiler(ctx, j.root, slices.Concat([]string{"build", "-o", os.DevNull, "-overlay", overlay}, j.packages())...)
		if err == nil {
			return overlay, broken, nil
		}
		bad := (*compileError)(nil)
		if !errors.As(err, &bad) {
			return "", nil, err
		}
		lines := brokenLine.FindAllStringSubmatch(text, -1)
		if lines == nil {
			return "", nil, fmt.Errorf("the code of all faults together: %w", err)
		}
		for _, l := range lines {
			broken[l[1]] += l[0] + "\n"
			j.drop(l[1])
		}
	}
}

// source is a file of Go.
type source struct {
	text []byte
	set  *token.FileSet
	tree *ast.File
}

func parseSource(text []byte) (source, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return source{}, fmt.Errorf("reading code: %w", err)
	}
	return source{text, set, tree}, nil
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

func (s *source) of(n ast.Node) string { return string(s.text[s.offset(n.Pos()):s.offset(n.End())]) }

func (s *source) imports() (out []string) {
	for _, i := range s.tree.Imports {
		out = append(out, s.of(i))
	}
	return out
}

// decls returns the functions by their names, and the texts of all other declarations but imports.
func (s *source) decls() (funcs map[string]*ast.FuncDecl, others []string) {
	funcs = map[string]*ast.FuncDecl{}
	for _, d := range s.tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := declName(d)
			if funcs[name] != nil { // init and _ may be there more than once
				others = append(others, s.of(d))
				continue
			}
			funcs[name] = d
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				others = append(others, s.of(d))
			}
		}
	}
	return funcs, others
}

// changed returns copies of the functions that another version of the file has changed.
func (s *source) changed(is source, fault string) ([]copied, error) {
	before, otherBefore := s.decls()
	after, otherAfter := is.decls()
	if len(before) != len(after) || !slices.Equal(otherBefore, otherAfter) {
		return nil, errAlone
	}
	had := s.imports()
	more := slices.DeleteFunc(is.imports(), func(i string) bool { return slices.Contains(had, i) })
	var out []copied
	for _, name := range slices.Sorted(maps.Keys(before)) {
		f := after[name]
		if f == nil {
			return nil, errAlone
		}
		if is.of(f) == s.of(before[name]) {
			continue
		}
		sameHead := string(is.text[is.offset(f.Pos()):is.offset(f.Body.Pos())]) == string(s.text[s.offset(before[name].Pos()):s.offset(before[name].Body.Pos())])
		if !sameHead || !callable(f) {
			return nil, errAlone
		}
		text := string(is.text[is.offset(f.Pos()):is.offset(f.Name.Pos())]) + copyName + string(is.text[is.offset(f.Name.End()):is.offset(f.End())])
		out = append(out, copied{fault: fault, name: name, text: text, imports: more})
	}
	return out, nil
}

// copyName stands for the name of a copy until it has a number.
const copyName = "berthFault#"

// callable reports whether another function can do the work of this one: recover works only where it is
// deferred itself, and init cannot be called.
func callable(f *ast.FuncDecl) bool {
	ok := f.Name.Name != "init" && f.Name.Name != "_"
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && id.Name == "recover" {
			ok = false
		}
		return ok
	})
	return ok
}

// insertion is text that goes before a place of a file, in place of the bytes that follow it up to another place.
type insertion struct {
	from, to int
	text     string
}

// render returns the file with its copies.
func (f *jointFile) render() []byte {
	funcs, _ := f.decls()
	var ins []insertion
	var copies strings.Builder
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		var cases strings.Builder
		head, call := f.head(funcs[name])
		for _, c := range f.copies {
			if c.name != name {
				continue
			}
			own := "berthFault" + strconv.Itoa(c.number)
			fmt.Fprintf(&cases, "case %q: %s; ", c.fault, strings.Replace(call, copyName, own, 1))
			fmt.Fprintf(&copies, "\n//line berth-fault/%s:1\n%s\n", c.fault, strings.Replace(c.text, copyName, own, 1))
		}
		if cases.Len() == 0 {
			continue
		}
		body := f.offset(funcs[name].Body.Lbrace) + 1
		ins = append(ins, head...)
		ins = append(ins, insertion{body, body, " switch berthFault { " + cases.String() + "};"})
	}
	after, imports := f.offset(f.tree.Name.End()), map[string]bool{}
	for _, c := range f.copies {
		for _, i := range c.imports {
			imports[i] = true
		}
	}
	for _, i := range slices.Sorted(maps.Keys(imports)) {
		ins = append(ins, insertion{after, after, "; import " + i})
	}
	slices.SortStableFunc(ins, func(a, b insertion) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	at := 0
	for _, i := range ins {
		out.Write(f.text[at:i.from])
		out.WriteString(i.text)
		at = i.to
	}
	out.Write(f.text[at:])
	out.WriteString(copies.String())
	return []byte(out.String())
}

// head returns what names the receiver and the parameters of a function that have no name, and the statement that calls a copy of it
// with them.
func (s *source) head(f *ast.FuncDecl) (ins []insertion, call string) {
	count := 0
	names := func(list *ast.FieldList) (out []string) {
		if list == nil {
			return nil
		}
		for _, field := range list.List {
			dots := ""
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				dots = "..."
			}
			if len(field.Names) == 0 {
				count++
				own := "berthArg" + strconv.Itoa(count)
				at := s.offset(field.Type.Pos())
				ins = append(ins, insertion{at, at, own + " "})
				out = append(out, own+dots)
			}
			for _, n := range field.Names {
				own := n.Name
				if own == "_" {
					count++
					own = "berthArg" + strconv.Itoa(count)
					ins = append(ins, insertion{s.offset(n.Pos()), s.offset(n.End()), own})
				}
				out = append(out, own+dots)
			}
		}
		return out
	}
	if of := names(f.Recv); len(of) > 0 {
		call = of[0] + "."
	}
	call += copyName
	if f.Type.TypeParams != nil {
		call += "[" + strings.Join(names(f.Type.TypeParams), ", ") + "]"
	}
	call += "(" + strings.Join(names(f.Type.Params), ", ") + ")"
	if f.Type.Results.NumFields() > 0 {
		return ins, "return " + call
	}
	return ins, call + "; return"
}
