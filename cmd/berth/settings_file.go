package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"berth/api"
	"berth/cli"
)

// given is a setting in a configuration file.
type given struct {
	name   string
	line   int // of its key
	values []string
}

// mistake is why a configuration file is refused.
type mistake struct {
	Line    int    `json:"line"` // 0 for the file as a whole
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// mistakes are all reasons why a configuration file is refused.
type mistakes struct {
	path string
	all  []mistake
}

// Error implements error: a line for each, as compilers have them.
func (m *mistakes) Error() string {
	lines := make([]string, 0, len(m.all))
	for _, one := range m.all {
		lines = append(lines, one.show(m.path))
	}
	return strings.Join(lines, "\n")
}

func (m *mistake) show(path string) string {
	if m.Line > 0 {
		path = fmt.Sprintf("%s:%d", path, m.Line)
	}
	if m.Key != "" {
		path += ": " + m.Key
	}
	return path + ": " + m.Message
}

// settingsFile is a configuration file that was read. Its values are right, each by itself.
type settingsFile struct {
	path string
	all  []given
}

// readSettings reads a configuration file for the command c; the path - means in. What is
// wrong with the file itself is returned as *mistakes.
func readSettings(in io.Reader, path string, c *cobra.Command, known settings) (*settingsFile, error) {
	bad := &mistakes{path: path}
	refuse := func(line int, key, format string, args ...any) {
		bad.all = append(bad.all, mistake{line, key, fmt.Sprintf(format, args...)})
	}
	if err := checkWritable(path); err != nil {
		return nil, err
	}
	b, err := cli.ReadYAML(in, path)
	if _, os := errors.AsType[*fs.PathError](err); os {
		return nil, api.Wrap(api.CodeInvalid, "berth", "the configuration file cannot be read: "+err.Error(), err)
	}
	if err != nil {
		refuse(0, "", "%s", err.Error())
		return nil, bad
	}
	tree, err := parser.ParseBytes(b, 0)
	if err != nil {
		line := 0
		message := err.Error()
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			line, message = syntax.GetToken().Position.Line, syntax.GetMessage()
		}
		refuse(line, "", "it is not YAML: %s", message)
		return nil, bad
	}
	out := &settingsFile{path: path}
	for i, doc := range tree.Docs {
		if i > 0 {
			refuse(doc.Body.GetToken().Position.Line, "", "there must be one document, not several with --- between them")
			break
		}
		pairs, ok := pairsOf(doc.Body)
		if !ok {
			refuse(doc.Body.GetToken().Position.Line, "", "it must have lines of key: value, such as log-level: info")
		}
		for _, p := range pairs {
			g, err := readSetting(p, c, known)
			if err != nil {
				refuse(g.line, g.name, "%s", err.Error())
				continue
			}
			out.all = append(out.all, g)
		}
	}
	if out.gives("user") && out.gives("users") {
		refuse(out.line("users"), "users", "user and users cannot be given together")
	}
	if len(bad.all) > 0 {
		return nil, bad
	}
	return out, nil
}

// checkWritable refuses a file that others may write: it says as whom a process runs what.
func checkWritable(path string) error {
	info, err := os.Stat(path)
	if path == "-" || err != nil {
		return nil //nolint:nilerr // whoever reads it will say so
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o022 != 0 {
		return api.Errorf(api.CodeInvalid, "%s can be changed by others: chmod go-w it", path)
	}
	return nil
}

// pairsOf returns the keys and values of a node, false for one that has none.
func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	case nil, *ast.CommentGroupNode, *ast.NullNode:
		return nil, true
	}
	return nil, false
}

// readSetting reads one line of a file.
func readSetting(p *ast.MappingValueNode, c *cobra.Command, known settings) (given, error) {
	key := p.Key.GetToken()
	g := given{name: key.Value, line: key.Position.Line}
	rule, ok := known[g.name]
	flag := c.Flags().Lookup(g.name)
	if !ok || flag == nil {
		return g, unknownKey(g.name, known)
	}
	var err error
	if g.values, err = valuesIn(p.Value, flag.Value.Type()); err != nil {
		return g, fmt.Errorf("%w; allowed is: %s", err, rule.allowed)
	}
	for _, v := range g.values {
		if rule.check == nil {
			break
		}
		if err := rule.check(v); err != nil {
			message := strings.TrimPrefix(plainMessage(err), "--"+g.name+" ")
			return g, fmt.Errorf("%s; allowed is: %s", message, rule.allowed)
		}
	}
	return g, nil
}

// plainMessage returns what an error tells people.
func plainMessage(err error) string {
	if told, ok := errors.AsType[*api.Error](err); ok {
		return api.MessageOf(told)
	}
	return err.Error()
}

// unknownKey returns the error for a key that is no setting.
func unknownKey(name string, known settings) error {
	plain := strings.ReplaceAll(strings.TrimLeft(strings.ToLower(name), "-"), "_", "-")
	if _, ok := known[plain]; ok {
		return fmt.Errorf("there is no such setting; it is spelled %s", plain)
	}
	return fmt.Errorf("there is no such setting; there are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

// typeNames has the plain names of the types of flags.
var typeNames = map[string]string{
	"string": "a text", "bool": "true or false", "int": "a whole number", "float64": "a number", "duration": "a time such as 24h, as a text",
	"stringArray": "a list of texts", "stringSlice": "a list of texts", "stringToInt64": "an object of whole numbers",
}

// valuesIn returns the values of a node for a flag of a type, as the flag reads them.
func valuesIn(n ast.Node, kind string) ([]string, error) {
	wrong := func(n ast.Node) error {
		hint := ""
		switch n.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
			if kind == "string" || strings.HasPrefix(kind, "stringA") || strings.HasPrefix(kind, "stringS") {
				hint = "; put it in quotes"
			}
		}
		return fmt.Errorf("must be %s, not %s%s", typeNames[kind], valueName(n), hint)
	}
	switch kind {
	case "stringArray", "stringSlice":
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return nil, wrong(n)
		}
		out := []string{}
		for _, v := range list.Values {
			text, ok := textIn(v)
			if !ok {
				return nil, wrong(v)
			}
			out = append(out, text)
		}
		return out, nil
	case "stringToInt64":
		pairs, ok := pairsOf(n)
		if _, null := n.(*ast.NullNode); !ok || null {
			return nil, wrong(n)
		}
		out := []string{}
		for _, p := range pairs {
			if _, ok := p.Value.(*ast.IntegerNode); !ok {
				return nil, wrong(p.Value)
			}
			out = append(out, p.Key.GetToken().Value+"="+p.Value.GetToken().Value)
		}
		return out, nil
	}
	ok := false
	switch n.(type) {
	case *ast.BoolNode:
		ok = kind == "bool"
	case *ast.IntegerNode:
		ok = kind == "int" || kind == "float64"
	case *ast.FloatNode:
		ok = kind == "float64"
	case *ast.StringNode, *ast.LiteralNode:
		ok = kind == "string" || kind == "duration"
	}
	if !ok {
		return nil, wrong(n)
	}
	if text, ok := textIn(n); ok {
		return []string{text}, nil
	}
	return []string{n.GetToken().Value}, nil
}

func textIn(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), true
	}
	return "", false
}

// valueName returns the plain name of a value.
func valueName(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.IntegerNode:
		return "a whole number"
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "an object"
	case *ast.NullNode:
		return "nothing"
	}
	return cmp.Or(strings.ToLower(n.Type().String()), "something else")
}

func (s *settingsFile) gives(name string) bool { return s.line(name) > 0 }

// line returns the line of a setting, 0 for one that is not given.
func (s *settingsFile) line(name string) int {
	for _, g := range s.all {
		if g.name == name {
			return g.line
		}
	}
	return 0
}

// apply sets the flags that the command line does not give, as if it did, and returns those that it
// gives with another value.
func (s *settingsFile) apply(c *cobra.Command) (beaten []string, err error) {
	instead := map[string]string{"user": "users", "users": "user"}
	typed := map[string]bool{}
	for _, g := range s.all {
		typed[g.name] = c.Flags().Changed(g.name)
		typed[instead[g.name]] = instead[g.name] != "" && c.Flags().Changed(instead[g.name])
	}
	for _, g := range s.all {
		flag := c.Flags().Lookup(g.name)
		if typed[g.name] || typed[instead[g.name]] {
			if !slices.Equal(valuesAsInFile(c, g.name), g.values) {
				beaten = append(beaten, g.name)
			}
			continue
		}
		if l, ok := flag.Value.(listValue); ok {
			err = l.Replace(g.values)
		} else if len(g.values) > 0 {
			err = flag.Value.Set(strings.Join(g.values, ","))
		}
		if err != nil {
			return nil, &mistakes{s.path, []mistake{{g.line, g.name, err.Error()}}}
		}
		flag.Changed = true
	}
	return beaten, nil
}

// valuesAsInFile returns the values of a flag as a file has them.
func valuesAsInFile(c *cobra.Command, name string) []string {
	flag := c.Flags().Lookup(name)
	if l, ok := flag.Value.(listValue); ok {
		return l.GetSlice()
	}
	text := flag.Value.String()
	if flag.Value.Type() == "stringToInt64" {
		return slices.DeleteFunc(strings.Split(strings.Trim(text, "[]"), ","), func(s string) bool { return s == "" })
	}
	return []string{text}
}
