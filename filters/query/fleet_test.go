package query_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"berth/api"
	"berth/capacity"
	"berth/filters/query"
)

// host is what a query may know of one host. The zero host is a hole.
type host struct {
	free, total map[api.ResourceClass]int64
	instances   int64
	attributes  map[string]string
	name, az    string
}

// fleet gives the columns of some hosts, one in each row.
type fleet []host

func (f fleet) column(value func(h host, set *query.Column, row int) bool) *query.Column {
	c, found := query.NewColumn(len(f)), false
	for row, h := range f {
		if h.free != nil && value(h, c, row) {
			found = true
		}
	}
	if !found {
		return nil
	}
	return c
}

func (f fleet) amounts(of func(host) map[api.ResourceClass]int64, class api.ResourceClass) *query.Column {
	return f.column(func(h host, set *query.Column, row int) bool {
		n, ok := of(h)[class]
		if ok {
			set.SetNumber(row, n)
		}
		return ok
	})
}

func (f fleet) Free(class api.ResourceClass) *query.Column {
	return f.amounts(func(h host) map[api.ResourceClass]int64 { return h.free }, class)
}

func (f fleet) Total(class api.ResourceClass) *query.Column {
	return f.amounts(func(h host) map[api.ResourceClass]int64 { return h.total }, class)
}

func (f fleet) Instances() *query.Column {
	return f.column(func(h host, set *query.Column, row int) bool { set.SetNumber(row, h.instances); return true })
}

func (f fleet) Attribute(name string) *query.Column {
	return f.column(func(h host, set *query.Column, row int) bool {
		text, ok := h.attributes[name]
		if ok {
			setAttribute(set, row, text)
		}
		return ok
	})
}

func (f fleet) AZ() *query.Column {
	return f.column(func(h host, set *query.Column, row int) bool { return setName(set, row, h.az) })
}

func (f fleet) Name() *query.Column {
	return f.column(func(h host, set *query.Column, row int) bool { return setName(set, row, h.name) })
}

// setName gives row a text that is never read as a number, if there is one.
func setName(c *query.Column, row int, text string) bool {
	if text != "" {
		c.SetText(row, text)
	}
	return text != ""
}

// setAttribute gives row the value of an attribute's text: a number, true or
// false, or else the text itself.
func setAttribute(c *query.Column, row int, text string) {
	if n, ok := query.ParseMicros(text); ok {
		c.SetMicros(row, n)
		return
	}
	if text == "true" || text == "false" {
		c.SetBool(row, text == "true")
		return
	}
	c.SetText(row, text)
}

// rows returns the set of all rows that are no holes.
func (f fleet) rows() capacity.Set {
	s := capacity.NewSet(len(f))
	for row, h := range f {
		if h.free != nil {
			s.Add(row)
		}
	}
	return s
}

// keep returns the rows that q passes.
func (f fleet) keep(q *query.Query) []int {
	pass := f.rows()
	q.Keep(f, &pass)
	out := []int{}
	for row := range pass.All() {
		out = append(out, row)
	}
	return out
}

// What follows is the slow, obvious interpreter: it walks the decoded JSON once
// for each host. A value is a *big.Rat, a string, a bool, or nil for none.

var errRefused = errors.New("refused")

// decode returns the query, nil if it passes all, or an error.
func decode(text string) ([]any, error) {
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if len(text) > query.BytesMax || !json.Valid([]byte(text)) || strings.ToValidUTF8(text, "") != text || d.Decode(&v) != nil {
		return nil, errRefused
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		if v == "" {
			return nil, nil
		}
	case map[string]any:
		if len(v) == 0 {
			return nil, nil
		}
	case []any:
		if len(v) == 0 {
			return nil, nil
		}
		nodes := 0
		_, err := check(v, 0, &nodes)
		return v, err
	}
	return nil, errRefused
}

// check returns the type of v as far as it is known before there is a host.
func check(v any, depth int, nodes *int) (string, error) {
	if *nodes++; *nodes > query.NodesMax {
		return "", errRefused
	}
	switch v := v.(type) {
	case bool:
		return "bool", nil
	case string:
		if name, ok := strings.CutPrefix(v, "$"); ok {
			if slices.Contains(amounts, name) || strings.HasPrefix(name, "free.") || strings.HasPrefix(name, "total.") {
				return "number", nil
			}
			if name == "host.name" || name == "host.availability_zone" {
				return "text", nil
			}
			return "", nil
		}
		return "text", nil
	case json.Number:
		if number(v.String()) == nil {
			return "", errRefused
		}
		return "number", nil
	case []any:
		return "bool", checkList(v, depth+1, nodes)
	}
	return "", errRefused
}

// amounts are the variables that are numbers on every host that has them.
var amounts = []string{"free_ram_mb", "free_disk_gb", "vcpus_free", "ram_mb_total", "disk_gb_total", "vcpus_total", "instances"}

func checkList(v []any, depth int, nodes *int) error {
	if depth > query.DepthMax || len(v) == 0 {
		return errRefused
	}
	name, _ := v[0].(string)
	if !slices.Contains([]string{"=", "<", ">", "<=", ">=", "in", "and", "or", "not"}, name) {
		return errRefused
	}
	types := map[string]bool{}
	for _, arg := range v[1:] {
		t, err := check(arg, depth, nodes)
		if err != nil {
			return err
		}
		if t != "" {
			types[t] = true
		}
	}
	if logic := name == "and" || name == "or" || name == "not"; logic || len(v) < 3 {
		return nil
	}
	if len(types) > 1 || strings.ContainsAny(name, "<>") && types["bool"] {
		return errRefused
	}
	return nil
}

var (
	largest = big.NewRat(query.NumberMax, 1)
	million = big.NewRat(1_000_000, 1)
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]{1,6})?$`)
	powered = regexp.MustCompile(`[eE][+-]?0*[0-9]{5}`) // too much for big.Rat
)

// number returns nil for one that has more than six places or is too large.
func number(text string) *big.Rat {
	if powered.MatchString(text) {
		if strings.Trim(strings.FieldsFunc(text, func(r rune) bool { return r == 'e' || r == 'E' })[0], "-0.") == "" {
			return new(big.Rat)
		}
		return nil // no test has a mantissa that makes up for it
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || new(big.Rat).Abs(r).Cmp(largest) > 0 || !new(big.Rat).Mul(r, million).IsInt() {
		return nil
	}
	return r
}

func (h host) variable(name string) any {
	for prefix, of := range map[string]map[api.ResourceClass]int64{"free.": h.free, "total.": h.total} {
		if class, ok := strings.CutPrefix(name, prefix); ok {
			return amount(of, api.ResourceClass(class))
		}
	}
	switch name {
	case "free_ram_mb":
		return amount(h.free, api.MemoryMB)
	case "free_disk_gb":
		return amount(h.free, api.DiskGB)
	case "vcpus_free":
		return amount(h.free, api.VCPU)
	case "ram_mb_total":
		return amount(h.total, api.MemoryMB)
	case "disk_gb_total":
		return amount(h.total, api.DiskGB)
	case "vcpus_total":
		return amount(h.total, api.VCPU)
	case "instances":
		return big.NewRat(h.instances, 1)
	case "host.name":
		return textOrNone(h.name)
	case "host.availability_zone":
		return textOrNone(h.az)
	}
	for _, prefix := range []string{"attributes.", "capabilities."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			name = rest
			break
		}
	}
	text, ok := h.attributes[name]
	switch {
	case !ok:
		return nil
	case text == "true", text == "false":
		return text == "true"
	case decimal.MatchString(text) && number(text) != nil:
		return number(text)
	}
	return text
}

func amount(of map[api.ResourceClass]int64, class api.ResourceClass) any {
	if n, ok := of[class]; ok {
		return big.NewRat(n, 1)
	}
	return nil
}

func textOrNone(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (h host) value(v any) any {
	switch v := v.(type) {
	case []any:
		return h.evaluate(v)
	case json.Number:
		return number(v.String())
	case string:
		if name, ok := strings.CutPrefix(v, "$"); ok {
			return h.variable(name)
		}
	}
	return v
}

// evaluate returns true, false, or nil for no answer.
func (h host) evaluate(list []any) any {
	args := []any{}
	for _, a := range list[1:] {
		args = append(args, h.value(a))
	}
	switch op := list[0].(string); op {
	case "and":
		return conjunction(args)
	case "not":
		return negation(conjunction(args))
	case "or":
		for i := range args {
			args[i] = negation(truth(args[i]))
		}
		return negation(conjunction(args))
	default:
		return comparison(op, args)
	}
}

func truth(v any) any {
	switch v := v.(type) {
	case *big.Rat:
		return v.Sign() != 0
	case string:
		return v != ""
	}
	return v
}

func negation(v any) any {
	if b, ok := v.(bool); ok {
		return !b
	}
	return nil
}

func conjunction(args []any) any {
	unknown := false
	for _, a := range args {
		switch truth(a) {
		case false:
			return false
		case nil:
			unknown = true
		}
	}
	if unknown {
		return nil
	}
	return true
}

func comparison(op string, args []any) any {
	if len(args) < 2 {
		return false
	}
	for _, a := range args {
		_, isBool := a.(bool)
		if a == nil || fmt.Sprintf("%T", a) != fmt.Sprintf("%T", args[0]) || isBool && strings.ContainsAny(op, "<>") {
			return nil
		}
	}
	matches := 0
	for _, a := range args[1:] {
		order := compare(args[0], a)
		is := map[string]bool{"=": order == 0, "in": order == 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}
		if is[op] {
			matches++
		}
	}
	return matches == len(args)-1 || op == "in" && matches > 0
}

func compare(a, b any) int {
	switch a := a.(type) {
	case *big.Rat:
		return a.Cmp(b.(*big.Rat))
	case string:
		return strings.Compare(a, b.(string))
	}
	if a == b {
		return 0
	}
	return 1
}
