package reservation

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"berth/api"
	"berth/filters/query"
	"berth/httpd/openstack"
)

// Conditions on hosts are lists: [OP, "$name", "value"], or ["and", ...] and ["or", ...] of
// such lists. They become the query of package filters/query.

// malformedRequirements refuses a condition.
func malformedRequirements(text, format string, args ...any) error {
	err := api.Errorf(api.CodeInvalid, format, args...)
	return invalidError("Malformed requirements %s: %s", openstack.Cut(text), api.MessageOf(err))
}

// compileConditions returns the query that hosts must pass to meet all conditions, "" for
// none.
func compileConditions(texts ...string) (string, error) {
	all := []any{"and"}
	for _, text := range texts {
		one, err := compileCondition(text)
		if err != nil {
			return "", err
		}
		if one != nil {
			all = append(all, one)
		}
	}
	var out any = all
	switch len(all) {
	case 1:
		return "", nil
	case 2:
		out = all[1]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return "", err
	}
	q, err := query.Compile(b.String())
	if err != nil {
		return "", malformedRequirements(strings.Join(texts, " "), "%s", api.MessageOf(err))
	}
	return q.String(), nil
}

// compileCondition returns one condition as an expression of a query, nil for none.
func compileCondition(text string) (any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil //nolint:nilnil // no condition
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, malformedRequirements(text, "they are not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, malformedRequirements(text, "there is something after their end")
	}
	list, ok := v.([]any)
	if ok && len(list) == 0 {
		return nil, nil //nolint:nilnil // no condition
	}
	out, reason := compileExpression(v, 1)
	if reason != "" {
		return nil, malformedRequirements(text, "%s", reason)
	}
	return out, nil
}

// compileExpression returns one list as an expression of a query, or the reason why it is
// none.
func compileExpression(v any, depth int) (expression any, reason string) {
	list, ok := v.([]any)
	switch {
	case !ok || len(list) == 0:
		return nil, `a condition is a list such as [">=", "$vcpus", "4"]`
	case depth > query.DepthMax:
		return nil, "the lists are nested too deep"
	}
	op, _ := list[0].(string)
	if op != "and" && op != "or" {
		return compileComparison(op, list[1:])
	}
	if len(list) == 1 {
		return nil, `"` + op + `" needs at least one condition`
	}
	out := []any{op}
	for _, item := range list[1:] {
		one, reason := compileExpression(item, depth+1)
		if reason != "" {
			return nil, reason
		}
		out = append(out, one)
	}
	return out, ""
}

// comparisons has the comparisons of conditions with those of queries.
var comparisons = map[string]string{"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

// hostFields has the variables of queries for the fields of hosts.
var hostFields = map[string]struct {
	variable string
	kind     openstack.Kind // "" for an attribute, whose values tell
}{
	fieldVCPUs:    {"$vcpus_total", openstack.Integer},
	fieldMemory:   {"$ram_mb_total", openstack.Integer},
	fieldDisk:     {"$disk_gb_total", openstack.Integer},
	fieldHostname: {"$host.name", openstack.String},
	fieldService:  {"$host.name", openstack.String},
	fieldAZ:       {"$host.availability_zone", openstack.String},
	fieldType:     {variable: "$attributes." + fieldType},
	fieldVersion:  {variable: "$attributes." + fieldVersion},
	fieldCPU:      {variable: "$attributes." + fieldCPU},
}

// compileComparison compiles [OP, "$name", "value"] without its operator.
func compileComparison(op string, args []any) (expression any, reason string) {
	is, known := comparisons[op]
	if !known {
		return nil, "a condition begins with ==, !=, <, <=, >, >=, and, or"
	}
	if len(args) != 2 {
		return nil, "a comparison has a name and a value"
	}
	name, isText := args[0].(string)
	value, isValue := args[1].(string)
	bare, dollar := strings.CutPrefix(name, "$")
	switch {
	case !isText || !dollar || bare == "":
		return nil, `the name of a capability is a text that begins with "$"`
	case !isValue || value == "":
		return nil, "a value is a text that is not empty"
	}
	field, isField := hostFields[bare]
	switch {
	case !isField && slices.Contains(standardFields, bare):
		return nil, "$" + bare + " is a field of hosts that no condition can have"
	case !isField:
		return compare(is, "$attributes."+bare, literalOf(value, is)), ""
	case field.kind == "":
		return compare(is, field.variable, literalOf(value, is)), ""
	case field.kind == openstack.String:
		return compareAlike(is, field.variable, value), ""
	}
	if _, isNumber := query.ParseMicros(value); !isNumber {
		return nil, "$" + bare + " is a number, and " + openstack.Show(value) + " is none"
	}
	return compareAlike(is, field.variable, json.Number(value)), ""
}

// literalOf returns a value as hosts have it that spell it so: a number, true or false, or
// a text. True and false have no order, so that comparisons of order take them for texts.
func literalOf(value, op string) any {
	if _, ok := query.ParseMicros(value); ok {
		return json.Number(value)
	}
	if (value == "true" || value == "false") && (op == "=" || op == "!=") {
		return value == "true"
	}
	return value
}

// compareAlike compares a variable that has the same type on every host.
func compareAlike(op, variable string, value any) any {
	if op == "!=" {
		return []any{"not", []any{"=", variable, value}}
	}
	return []any{op, variable, value}
}

// compare compares an attribute, which may have any type. A host without it matches
// nothing; one where it has another type than the value differs from the value, and has no
// order with it.
func compare(op, variable string, value any) any {
	if op != "!=" {
		return []any{op, variable, value}
	}
	out := []any{"or", []any{"not", []any{"=", variable, value}}}
	if _, is := value.(json.Number); !is {
		out = append(out, []any{">=", variable, json.Number("-9000000000000")}) // any number
	}
	if _, is := value.(string); !is {
		out = append(out, []any{">=", variable, ""}) // any text
	}
	if _, is := value.(bool); !is {
		out = append(out, []any{"in", variable, true, false})
	}
	return out
}
