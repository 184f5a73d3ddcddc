package rest_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
	"berth/internal/golden"
)

// httpPath is the document whose tables of calls are made of the table of routes.
const httpPath = "../../docs/http.md"

// calls finds a table of calls in the document, with its section.
var calls = regexp.MustCompile(`(?s)\n## ([^\n]*)\n\n<!-- calls, made of api/rest -->\n.*?<!-- end -->\n`)

// TestHTTPDocument: docs/http.md has the table of routes, section by section; -update
// writes it.
func TestHTTPDocument(t *testing.T) {
	was, err := os.ReadFile(httpPath)
	require.NoError(t, err)
	tables := callTables()
	is := calls.ReplaceAllStringFunc(string(was), func(old string) string {
		section := calls.FindStringSubmatch(old)[1]
		table := tables[section]
		require.NotEmpty(t, table, "docs/http.md: there are no routes of the section %q", section)
		delete(tables, section)
		return "\n## " + section + "\n\n<!-- calls, made of api/rest -->\n" + table + "<!-- end -->\n"
	})
	assert.Empty(t, tables, "docs/http.md has no such section with <!-- calls, made of api/rest --> below its title")
	golden.Check(t, httpPath, []byte(is))
}

// TestEveryFieldIsExplained: each field of a body that a caller sends is named by
// docs/http.md, for people.
func TestEveryFieldIsExplained(t *testing.T) {
	text, err := os.ReadFile(httpPath)
	require.NoError(t, err)
	for _, r := range rest.Routes() {
		for _, name := range fieldsBelow(reflect.TypeOf(r.Body)) {
			assert.Regexp(t, `["`+"`"+`]`+regexp.QuoteMeta(name)+`["`+"`"+`]`, string(text), "docs/http.md does not name a field of %s", r.Name())
		}
	}
}

// fieldsBelow returns the names that a body has in JSON, at any depth.
func fieldsBelow(t reflect.Type) []string {
	var out []string
	for t != nil && slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		if !f.Anonymous {
			out = append(out, jsonName(f))
		}
		out = append(out, fieldsBelow(f.Type)...)
	}
	return out
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// callTables returns the table of calls of each section.
func callTables() map[string]string {
	out := map[string]string{}
	for _, r := range rest.Routes() {
		if out[r.Group] == "" {
			out[r.Group] = "| call | role | read | answer |\n| --- | --- | --- | --- |\n"
		}
		call := "`" + r.Method + " " + strings.Replace(r.Path, "{id}", "{"+r.ID+"}", 1) + "`"
		if r.Body != nil {
			call += " `" + shape(reflect.TypeOf(r.Body)) + "`"
		}
		if p := r.Params(); len(p) > 0 {
			call += " ?`" + strings.Join(p, "` `") + "`"
		}
		role := string(r.Role)
		if role == "" {
			role = "everybody"
		}
		answer := strconv.Itoa(r.Status)
		if r.Answer.Body != nil {
			answer += " `" + answerShape(r.Answer) + "`"
		}
		out[r.Group] += fmt.Sprintf("| %s | %s | %s | %s: %s |\n", call, role, r.Read, answer, r.Help)
	}
	return out
}

func answerShape(a rest.Answer) string {
	switch {
	case a.Key == "":
		return shape(reflect.TypeOf(a.Body))
	case a.List:
		return `{"` + a.Key + `": [...]}`
	case reflect.TypeOf(a.Body).Kind() != reflect.Struct:
		return `{"` + a.Key + `"}`
	default:
		return `{"` + a.Key + `": {...}}`
	}
}

// namesMax is how many names of an object a call shows; more are explained below it.
const namesMax = 8

// shape returns a body with the names that it has, and those of its one object.
func shape(t reflect.Type) string {
	var parts []string
	for f := range t.Fields() {
		if f.Anonymous {
			return "{...}"
		}
		part := `"` + jsonName(f) + `"`
		below := f.Type
		if below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		switch {
		case below.Kind() == reflect.Struct && t.NumField() == 1:
			part += ": " + shape(below)
		case below.Kind() == reflect.Struct:
			part += ": {...}"
		}
		parts = append(parts, part)
	}
	if len(parts) > namesMax {
		return "{...}"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
