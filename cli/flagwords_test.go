package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api/rest"
)

// noFlags are words of refusals that look like fields and have no flag, with what they are for a user of the command line.
var noFlags = map[string]string{
	"name": "an argument, or --name", "hosts": "arguments, or --host", "groups": "of a file", "rules": "of a file", "count": "of a group", "class": "no user gives it",
	"active": "the command line always gives one that is allowed", "marker": "the client gives it", "after": "the client gives it", "limit": "the client gives it", "level": "an argument", "limits": "arguments",
	"scheduler": "the whole body", "command": "what is behind --", "leases": "no field", "servers": "no field", "volumes": "no field",
	"server_id": "an argument", "zone.name": "an argument", "project": "an argument",
	"os": "os:scheduler_hints, which the command line never gives", "scheduler_hints": "its fields have flags, see TestFieldsHaveFlags", "attach_to": "of a file", "volume.attach_to": "of a file", "allocation_ratio": "an option of an inventory",
	"server.scheduler_hints": "the command line gives one of two", "return_reservation_id": "the command line never gives it",
}

// TestRefusalsSpeakNoHTTP goes over the sentences of refusals in the source: each names flags in place of fields, and commands in
// place of calls. A new field or call needs a line in flagwords.go, or in noFlags.
func TestRefusalsSpeakNoHTTP(t *testing.T) {
	call := regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE) /`)
	calls := 0
	for _, sentence := range refusalsIn(t, "../zone/intake", "../httpd/native") {
		if call.MatchString(sentence) {
			calls++
		}
		bare := quotedText.ReplaceAllString(inFlags(sentence), "it")
		assert.NotRegexp(t, call, bare, sentence)
		if m := fieldFirst.FindStringSubmatch(bare); m != nil && !strings.HasPrefix(bare, "-") {
			assert.Contains(t, noFlags, m[1], "what is the flag of it? %s", sentence)
		}
		for _, m := range fieldInside.FindAllStringSubmatch(bare, -1) {
			assert.Contains(t, noFlags, m[2], "what is the flag of it? %s", sentence)
		}
	}
	assert.Greater(t, calls, 7, "the source is read")
}

// TestFieldsHaveFlags: the same for the fields of bodies whose refusals are made of names and limits in tables.
func TestFieldsHaveFlags(t *testing.T) {
	for _, body := range []any{rest.ZoneConfig{}, rest.GroupWish{}, rest.ZoneRule{}} {
		prefix := ""
		if _, is := body.(rest.ZoneRule); is {
			prefix = "zones."
		}
		for _, field := range fieldsIn(reflect.TypeOf(body), prefix) {
			assert.True(t, strings.HasPrefix(inFlags(field+" must be other"), "--"), field)
			assert.Equal(t, field, strings.TrimSuffix(inFlags("groups[0]."+field+" must be other"), " must be other")[len("groups[0]."):], "it is of a file")
		}
	}
}

// fieldsIn returns the names of the fields of a body that hold no others.
func fieldsIn(body reflect.Type, prefix string) []string {
	var out []string
	for i := range body.NumField() {
		f := body.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && name != "traits" {
			out = append(out, fieldsIn(inner, prefix+name+".")...)
			continue
		}
		out = append(out, prefix+name)
	}
	return out
}

// refusalsIn returns the sentences of refusals in the source of some packages, with something in place of each verb.
func refusalsIn(t *testing.T, dirs ...string) []string {
	t.Helper()
	var out []string
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if c, is := n.(*ast.CallExpr); is {
					out = append(out, refusalOfCall(c)...)
				}
				return true
			})
		}
	}
	return out
}

// refusalOfCall returns the sentence of a call that refuses something, or checks a field by its name.
func refusalOfCall(c *ast.CallExpr) []string {
	var called string
	switch f := c.Fun.(type) {
	case *ast.Ident:
		called = f.Name
	case *ast.SelectorExpr:
		called = f.Sel.Name
	}
	form := "%s"
	switch called {
	case "Errorf", "noteMissing":
	case "CheckName", "CheckPairs", "parseSpan":
		form = "%s must be other"
	default:
		return nil
	}
	for _, arg := range c.Args {
		if sum, is := arg.(*ast.BinaryExpr); is {
			arg = sum.Y
		}
		if lit, is := arg.(*ast.BasicLit); is && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			text = strings.TrimPrefix(text, "%s") // the part of the body
			return []string{fmt.Sprintf(form, verbOfFormat.ReplaceAllStringFunc(text, func(v string) string {
				if strings.HasSuffix(v, "q") {
					return `"GET /it, plan_ttl"`
				}
				return "7"
			}))}
		}
	}
	return nil
}

// verbOfFormat finds the verbs of a format.
var verbOfFormat = regexp.MustCompile(`%[.0-9*]*[a-z]`)
