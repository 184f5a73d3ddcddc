package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// site is one place of a file where a fault can be made, and the fault.
type site struct {
	room string // the package, within the module
	file string // within the module
	line int
	kind string // of fault

	begin, end int    // of what is replaced, in bytes
	text       string // the replacement
	was, is    string // the line, without and with the fault
}

// String describes the place and the change of the fault.
func (s *site) String() string {
	return fmt.Sprintf("%s:%d %s: `%s` for `%s`", s.file, s.line, s.kind, s.is, s.was)
}

// name returns a word for the fault that no other has.
func (s *site) name() string {
	return strings.NewReplacer("/", ".", " ", "-").Replace(fmt.Sprintf("%s-%d-%d-%s", s.file, s.begin, s.end, s.kind))
}

// room is a package in which faults are made, and the suites that must find them: its own
// first.
type room struct {
	pkg    string
	parts  []string // further packages that the same suites test
	suites []suite
}

// rooms are where random faults are made.
var rooms = []room{
	{
		"zone",
		[]string{"zone/estimate", "zone/fleet", "zone/leases", "zone/saga"},
		[]suite{{"zone", ""}, {"zone/estimate", ""}, {"zone/fleet", ""}, {"zone/leases", ""}, {"zone/saga", ""}, {"httpd/native", ""}, {"httpd/gateway", ""}, {"cluster-test/sim", ""}},
	},
	{"raftstore/state", nil, []suite{{"raftstore/state", ""}, {"zone", ""}, {"zone/estimate", ""}, {"zone/fleet", ""}, {"zone/leases", ""}, {"zone/saga", ""}, {"httpd/placement", ""}, {"httpd/native", ""}, {"cluster-test/check", ""}}},
	{"raftstore", nil, []suite{{"raftstore", ""}, {"node", ""}, {"cluster-test/sim", ""}}},
	{"federation", nil, []suite{{"federation", ""}, {"node", ""}, {"cluster-test/sim", ""}}},
	{"httpd/gateway", nil, []suite{{"httpd/gateway", ""}, {"internal/archtest", ""}, {"node", ""}, {"cluster-test/sim", ""}}},
	{"api/client", nil, []suite{{"api/client", ""}, {"httpd/native", ""}, {"httpd/placement", ""}, {"httpd/gateway", ""}, {"cli", ""}}},
	{"agent", nil, []suite{{"agent", ""}, {"httpd/agents", ""}, {"node", ""}, {"cluster-test/sim", ""}}},
}

// sites returns every place of a room's packages where a fault can be made.
func (r room) sites(root string) ([]site, error) {
	var out []site
	for _, pkg := range append([]string{r.pkg}, r.parts...) {
		more, err := sitesOf(root, pkg)
		if err != nil {
			return nil, err
		}
		for i := range more {
			more[i].room = r.pkg
		}
		out = append(out, more...)
	}
	return out, nil
}

// sitesOf returns every place of a package's code where a fault can be made, in
// the order of files and places.
func sitesOf(root, pkg string) ([]site, error) {
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", pkg, err)
	}
	var out []site
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading code: %w", err)
		}
		found, err := sitesIn(pkg+"/"+filepath.Base(path), text)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// sitesIn returns the places of one file.
func sitesIn(file string, text []byte) ([]site, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing code: %w", err)
	}
	f := &finder{files: files, file: file, text: text}
	for _, d := range tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && !slices.Contains(silent, fn.Name.Name) {
			ast.Inspect(fn.Body, f.visit)
		}
	}
	slices.SortStableFunc(f.found, func(a, b site) int { return cmp.Compare(a.begin, b.begin) })
	return f.found, nil
}

// Words of code in which a fault changes no promised behaviour: texts of logs and errors,
// sizes of preallocations, hooks of the tests themselves, and early releases of
// resources.
var (
	silent  = []string{"String", "Error", "LogValue", "GoString", "Unwrap"}
	unheard = []string{
		"Errorf", "New", "Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Sprintf", "Logf",
		"make", "On", "At", "panic", "Grow", "cancel", "stop", "Stop", "Close", "Unlock", "RUnlock", "Lock", "RLock",
	}
)

// finder collects the sites of one file.
type finder struct {
	files *token.FileSet
	file  string
	text  []byte
	found []site
	names map[*ast.CaseClause]bool // clauses that only name what nothing is done for
}

// calls reports whether a call is of one of these, whatever its package.
func calls(c *ast.CallExpr, names []string) bool {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return slices.Contains(names, f.Name)
	case *ast.SelectorExpr:
		return slices.Contains(names, f.Sel.Name)
	}
	return false
}

// visit adds the faults of one node, and reports whether those within it are wanted.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if calls(n, unheard) {
			return false
		}
		f.call(n)
	case *ast.DeferStmt:
		return false
	case *ast.BlockStmt:
		f.block(n.List)
	case *ast.SwitchStmt:
		if n.Tag != nil {
			f.noteNames(n.Body)
		}
	case *ast.TypeSwitchStmt:
		f.noteNames(n.Body)
	case *ast.CaseClause:
		f.clause(n)
		f.block(n.Body)
	case *ast.CommClause:
		f.block(n.Body)
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.BinaryExpr:
		f.operator(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add("negation dropped", n.Pos(), n.X.Pos(), "")
		}
	case *ast.BasicLit:
		f.literal(n)
	case *ast.BranchStmt:
		f.branch(n)
	case *ast.ReturnStmt:
		f.returned(n)
	case *ast.CompositeLit:
		f.fields(n)
	}
	return true
}

// add records a fault: text in place of the code between two positions.
func (f *finder) add(kind string, from, to token.Pos, text string) {
	begin, end := f.files.Position(from).Offset, f.files.Position(to).Offset
	top := 1 + strings.LastIndexByte(string(f.text[:begin]), '\n')
	bottom := len(f.text)
	if i := strings.IndexByte(string(f.text[end:]), '\n'); i >= 0 {
		bottom = end + i
	}
	oneLine := func(s string) string {
		words := strings.Join(strings.Fields(s), " ")
		if len(words) > lineMax {
			words = words[:lineMax] + "..."
		}
		return words
	}
	f.found = append(f.found, site{
		room: filepath.Dir(f.file), file: f.file, line: f.files.Position(from).Line, kind: kind, begin: begin, end: end, text: text,
		was: oneLine(string(f.text[top:bottom])),
		is:  oneLine(string(f.text[top:begin]) + text + string(f.text[end:bottom])),
	})
}

// lineMax is the number of bytes of a line of code to print.
const lineMax = 160

func (f *finder) source(n ast.Node) string {
	return string(f.text[f.files.Position(n.Pos()).Offset:f.files.Position(n.End()).Offset])
}

// condition adds the faults of an if.
func (f *finder) condition(c ast.Expr) {
	f.add("never", c.Pos(), c.End(), "false && ("+f.source(c)+")")
	if f.source(c) == "err != nil" {
		return // every call would be refused
	}
	f.add("always", c.Pos(), c.End(), "true || ("+f.source(c)+")")
}

// others has the replacements of an operator.
var others = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*",
}

func (f *finder) operator(b *ast.BinaryExpr) {
	if o, ok := others[b.Op]; ok && f.source(b) != "err != nil" {
		f.add("operator", b.OpPos, b.OpPos+token.Pos(len(b.Op.String())), o)
	}
	nothing := map[token.Token]string{token.LAND: "true || ", token.LOR: "false && "}[b.Op]
	if nothing == "" {
		return
	}
	for _, half := range []ast.Expr{b.X, b.Y} {
		f.add("half of a condition dropped", half.Pos(), half.End(), "("+nothing+"("+f.source(half)+"))")
	}
}

func (f *finder) literal(l *ast.BasicLit) {
	if l.Kind == token.INT {
		f.add("one more", l.Pos(), l.End(), "("+l.Value+" + 1)")
	}
}

func (f *finder) call(c *ast.CallExpr) {
	if name, ok := c.Fun.(*ast.Ident); ok && (name.Name == "min" || name.Name == "max") {
		f.add("other extreme", name.Pos(), name.End(), map[string]string{"min": "max", "max": "min"}[name.Name])
	}
}

func (f *finder) branch(b *ast.BranchStmt) {
	if b.Label != nil {
		return
	}
	switch b.Tok { //nolint:exhaustive // the others lead elsewhere
	case token.BREAK:
		f.add("other way", b.Pos(), b.End(), "continue")
	case token.CONTINUE:
		f.add("other way", b.Pos(), b.End(), "break")
	}
}

func (f *finder) returned(r *ast.ReturnStmt) {
	for _, e := range r.Results {
		name, ok := e.(*ast.Ident)
		switch {
		case !ok:
		case name.Name == "true":
			f.add("other answer", e.Pos(), e.End(), "false")
		case name.Name == "false":
			f.add("other answer", e.Pos(), e.End(), "true")
		case strings.HasPrefix(strings.ToLower(name.Name), "err"):
			f.add("error swallowed", e.Pos(), e.End(), "nil")
		}
	}
}

// fields leaves out one field of a literal after the other.
func (f *finder) fields(l *ast.CompositeLit) {
	for i, e := range l.Elts {
		if _, ok := e.(*ast.KeyValueExpr); !ok {
			continue
		}
		to := e.End()
		if i+1 < len(l.Elts) {
			to = l.Elts[i+1].Pos()
		} else if f.text[f.files.Position(to).Offset] == ',' {
			to++
		}
		f.add("field left out", e.Pos(), to, "")
	}
}

// noteNames notes the empty clauses of a switch by value or type that has no default: without them nothing is done either.
func (f *finder) noteNames(b *ast.BlockStmt) {
	if f.names == nil {
		f.names = map[*ast.CaseClause]bool{}
	}
	for _, s := range b.List {
		if c := s.(*ast.CaseClause); c.List == nil {
			return
		}
	}
	for _, s := range b.List {
		if c := s.(*ast.CaseClause); len(c.Body) == 0 {
			f.names[c] = true
		}
	}
}

// clause leaves out one value of a case, or the whole of it.
func (f *finder) clause(c *ast.CaseClause) {
	if len(c.List) < 2 || f.names[c] {
		return // a condition alone is met by the faults within it
	}
	for i, e := range c.List {
		if i+1 < len(c.List) {
			f.add("case left out", e.Pos(), c.List[i+1].Pos(), "")
		} else {
			f.add("case left out", c.List[i-1].End(), e.End(), "")
		}
	}
}

// block leaves out one statement after the other.
func (f *finder) block(list []ast.Stmt) {
	for _, s := range list {
		drop := false
		switch s := s.(type) {
		case *ast.ExprStmt:
			c, ok := s.X.(*ast.CallExpr)
			drop = ok && !calls(c, unheard)
		case *ast.AssignStmt:
			drop = s.Tok != token.DEFINE && !blank(s)
		case *ast.IncDecStmt:
			drop = true
		}
		if drop {
			f.add("statement left out", s.Pos(), s.End(), "")
		}
	}
}

// blank reports whether an assignment is to nothing.
func blank(s *ast.AssignStmt) bool {
	return !slices.ContainsFunc(s.Lhs, func(e ast.Expr) bool {
		name, ok := e.(*ast.Ident)
		return !ok || name.Name != "_"
	})
}
