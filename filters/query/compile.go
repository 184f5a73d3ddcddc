package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/api"
)

// Limits of one query.
const (
	BytesMax = api.QueryMaxBytes // of its text
	DepthMax = 8                 // lists in lists, the outermost being 1
	NodesMax = 256               // lists, literals and variables; operators do not count
)

// Query is a compiled query.
type Query struct {
	root      *node    // nil when every host passes
	variables []string // without the dollar
}

// Variables returns the variables of q without the dollar, each once, in the order in which
// they come first.
func (q *Query) Variables() []string { return q.variables }

// op is what a node is.
type op uint8

const (
	opLiteral op = iota + 1
	opVariable
	opAnd
	opOr
	opNot
	opEqual
	opIn
	opLess
	opGreater
	opAtMost
	opAtLeast
)

var operators = map[string]op{
	"=": opEqual, "<": opLess, ">": opGreater, "<=": opAtMost, ">=": opAtLeast, "in": opIn, "and": opAnd, "or": opOr, "not": opNot,
}

// operatorList names the operators in errors.
const operatorList = "=, <, >, <=, >=, in, and, or, not"

func (o op) isComparison() bool { return o >= opEqual }
func (o op) isOrdering() bool   { return o >= opLess }

// node is a literal, a variable or an expression.
type node struct {
	op       op
	name     string // of an operator
	args     []node
	over     kind      // of a comparison: what it compares; 0 if only variables know
	kind     kind      // of its value; 0 for a variable
	numbers  [1]int64  // the literal, when it is a number
	texts    [1]string // ... a text
	yes      bool      // ... true
	variable int       // its place in Query.variables
}

func (n *node) isTruthy() bool {
	return n.yes || n.numbers[0] != 0 || n.texts[0] != ""
}

// Compile reads a query. The empty text, null, "", [] and {} pass every host.
// Anything else that is not one expression within the limits is refused with an
// api.Error of CodeInvalid whose sentence names the place: [1][2] is the second
// argument of the first argument. No more is read than the limits admit.
func Compile(text string) (*Query, error) {
	if len(text) > BytesMax {
		return nil, refuseQuery("", "it may have at most %d bytes, got %d", BytesMax, len(text))
	}
	if !utf8.ValidString(text) {
		return nil, refuseQuery("", "it is not valid UTF-8")
	}
	if strings.Trim(text, " \t\r\n") == "" {
		return &Query{}, nil
	}
	p := &parser{json: json.NewDecoder(strings.NewReader(text)), numberOf: map[string]int{}}
	p.json.UseNumber()
	root, err := p.parseQuery()
	if err != nil {
		return nil, err
	}
	if _, err := p.json.Token(); !errors.Is(err, io.EOF) {
		return nil, refuseQuery("", "there is something after its end")
	}
	return &Query{root, p.variables}, nil
}

// String returns q in its canonical form: JSON without blanks, numbers and texts
// in their shortest spelling. It is never longer than what was compiled, and
// compiles to the same query; it is empty for an empty query.
func (q *Query) String() string {
	if q.root == nil {
		return ""
	}
	return string(q.appendNode(nil, q.root))
}

func (q *Query) appendNode(to []byte, n *node) []byte {
	switch {
	case n.op == opVariable:
		return appendText(to, "$"+q.variables[n.variable])
	case n.op != opLiteral:
		to = appendText(append(to, '['), n.name)
		for i := range n.args {
			to = q.appendNode(append(to, ','), &n.args[i])
		}
		return append(to, ']')
	case n.kind == kindNumber:
		return appendNumber(to, n.numbers[0])
	case n.kind == kindText:
		return appendText(to, n.texts[0])
	}
	return strconv.AppendBool(to, n.yes)
}

// escapes has the short spellings of characters that JSON does not take as they
// are.
var escapes = map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// appendText appends s as JSON and escapes no more than it must, so that the
// canonical form does not outgrow its limit.
func appendText(to []byte, s string) []byte {
	to = append(to, '"')
	for i := range len(s) {
		if short, ok := escapes[s[i]]; ok {
			to = append(to, short...)
		} else if s[i] < ' ' {
			to = fmt.Appendf(to, `\u%04x`, s[i])
		} else {
			to = append(to, s[i])
		}
	}
	return append(to, '"')
}

func refuseQuery(place, format string, args ...any) error {
	at := "query: "
	if place != "" {
		at += "at " + place + ": "
	}
	return api.Errorf(api.CodeInvalid, "%s%s", at, fmt.Sprintf(format, args...))
}

// parser reads a query token by token and stops at the first that it refuses.
type parser struct {
	json      *json.Decoder
	nodes     int
	variables []string
	numberOf  map[string]int // of a variable
}

func (p *parser) nextToken(place string) (json.Token, error) {
	t, err := p.json.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, refuseQuery(place, "it ends too early")
	}
	if err != nil {
		return nil, refuseQuery(place, "it is not valid JSON: %s", err.Error())
	}
	return t, nil
}

// parseQuery reads what stands at the top; nil passes every host.
func (p *parser) parseQuery() (*node, error) {
	t, err := p.nextToken("")
	if err != nil {
		return nil, err
	}
	switch t {
	case nil, "":
		return nil, nil //nolint:nilnil // nothing is said, and that is right
	case json.Delim('['), json.Delim('{'):
		if !p.json.More() { // [] or {}
			_, err = p.nextToken("")
			return nil, err
		}
	}
	if t != json.Delim('[') {
		return nil, refuseQuery("", `it must be a list such as ["=", "$name", 1], not %s`, showToken(t))
	}
	n, err := p.parseExpression("", 1)
	return &n, err
}

// parseExpression reads a list whose bracket has been read.
func (p *parser) parseExpression(place string, depth int) (node, error) {
	if depth > DepthMax {
		return node{}, refuseQuery(place, "lists may be nested at most %d deep", DepthMax)
	}
	if err := p.countNode(place); err != nil {
		return node{}, err
	}
	n, err := p.parseOperator(place)
	if err != nil {
		return node{}, err
	}
	for i := 1; p.json.More(); i++ {
		at := place + "[" + strconv.Itoa(i) + "]"
		arg, err := p.parseArgument(at, depth)
		if err != nil {
			return node{}, err
		}
		n.args = append(n.args, arg)
	}
	if _, err := p.nextToken(place); err != nil { // the bracket
		return node{}, err
	}
	return n, n.resolveKinds(place)
}

func (p *parser) countNode(place string) error {
	if p.nodes++; p.nodes > NodesMax {
		return refuseQuery(place, "a query may have at most %d lists, values and variables", NodesMax)
	}
	return nil
}

func (p *parser) parseOperator(place string) (node, error) {
	t, err := p.nextToken(place)
	if err != nil {
		return node{}, err
	}
	name, isText := t.(string)
	if !isText && t == json.Delim(']') {
		return node{}, refuseQuery(place, "an empty list is no expression; begin with one of %s", operatorList)
	}
	if !isText {
		return node{}, refuseQuery(place, "a list begins with an operator, not with %s; after in, write the values themselves: [\"in\", \"$name\", 20, 30]", showToken(t))
	}
	o, known := operators[name]
	if !known {
		return node{}, refuseQuery(place, "there is no operator %s; the operators are %s", showToken(t), operatorList)
	}
	return node{op: o, name: name, kind: kindBool}, nil
}

func (p *parser) parseArgument(place string, depth int) (node, error) {
	t, err := p.nextToken(place)
	if err != nil {
		return node{}, err
	}
	if t == json.Delim('[') {
		return p.parseExpression(place, depth+1)
	}
	if err := p.countNode(place); err != nil {
		return node{}, err
	}
	switch v := t.(type) {
	case bool:
		return node{op: opLiteral, kind: kindBool, yes: v}, nil
	case string:
		if name, ok := strings.CutPrefix(v, "$"); ok {
			return node{op: opVariable, kind: kindOfVariable(name), variable: p.variableIndex(name)}, nil
		}
		return node{op: opLiteral, kind: kindText, texts: [1]string{v}}, nil
	case json.Number:
		n, err := parseNumber(v.String())
		if err != nil {
			return node{}, refuseQuery(place, "the number %s %s", showToken(v), err.Error())
		}
		return node{op: opLiteral, kind: kindNumber, numbers: [1]int64{n}}, nil
	}
	return node{}, refuseQuery(place, "%s is no value; there are numbers, texts, true and false", showToken(t))
}

func (p *parser) variableIndex(name string) int {
	i, known := p.numberOf[name]
	if !known {
		i = len(p.variables)
		p.variables, p.numberOf[name] = append(p.variables, name), i
	}
	return i
}

// resolveKinds finds what a comparison compares, as far as its arguments tell, and
// refuses arguments of which no host could make sense.
func (n *node) resolveKinds(place string) error {
	if !n.op.isComparison() || len(n.args) < 2 {
		return nil
	}
	for i, arg := range n.args {
		at := place + "[" + strconv.Itoa(i+1) + "]"
		if arg.kind == kindBool && n.op.isOrdering() {
			return refuseQuery(at, "%s puts in order; true and false have none", n.name)
		}
		if arg.kind != 0 && n.over != 0 && arg.kind != n.over {
			return refuseQuery(at, "%s compares values of one type; %s and %s never match", n.name, n.over, arg.kind)
		}
		n.over = max(n.over, arg.kind)
	}
	return nil
}

// showMaxBytes is how much of a wrong value a refusal repeats.
const showMaxBytes = 64

func showToken(t json.Token) string {
	switch v := t.(type) {
	case nil:
		return "null"
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "a list"
	case json.Number:
		return shorten(v.String())
	case string:
		return string(appendText(nil, shorten(v)))
	}
	return fmt.Sprint(t)
}

func shorten(s string) string {
	if len(s) <= showMaxBytes {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:showMaxBytes]), nil)) + "..."
}
