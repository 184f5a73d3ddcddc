package rest_test

import (
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth/api"
	"berth/api/rest"
	"berth/internal/golden"
)

// openapiPath is the document generated from the table of routes.
const openapiPath = "../../docs/openapi.yaml"

// object is an object of the document, with its keys in the order for people.
type object = yaml.MapSlice

// writer makes the document, and keeps the schemas that it refers to.
type writer struct {
	comments map[string]string // of types, and of fields as TYPE.FIELD
	schemas  map[string]object
	bodies   map[string]bool // types that a caller sends: absent fields have defaults
}

// TestOpenAPI: docs/openapi.yaml matches the table of routes; -update writes it.
func TestOpenAPI(t *testing.T) {
	w := &writer{comments: readComments(t), schemas: map[string]object{}, bodies: map[string]bool{}}
	text, err := yaml.MarshalWithOptions(w.document(), yaml.IndentSequence(true))
	require.NoError(t, err)
	head := "# Made of the table of routes in api/rest; `make golden` writes it anew.\n"
	golden.Check(t, openapiPath, append([]byte(head), text...))
	for name := range w.schemas {
		assert.NotEmpty(t, w.comments[name], "type %s has no comment to describe it", name)
	}
}

// TestOpenAPIIsValid: an independent library accepts the document, and every route is in
// it.
func TestOpenAPIIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromFile(openapiPath)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	left := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			left[method+" "+path] = true
		}
	}
	for _, r := range rest.Routes() {
		require.True(t, left[r.Name()], "%s is not in the document", r.Name())
		delete(left, r.Name())
		op := doc.Paths.Value(r.Path).GetOperation(r.Method)
		assert.NotEmpty(t, op.Summary, "%s is not described", r.Name())
		assert.Equal(t, r.Role != "", op.Security == nil, "%s: who may call it?", r.Name())
		assert.Equal(t, r.Body != nil || r.Stream && r.Method == http.MethodPut, op.RequestBody != nil, "%s: which body?", r.Name())
		assert.NotNil(t, op.Responses.Status(r.Status), "%s: which answer?", r.Name())
	}
	assert.Empty(t, left, "no such routes")
}

func (w *writer) document() object {
	for _, r := range rest.Routes() {
		w.noteBodies(reflect.TypeOf(r.Body))
	}
	paths, at := object{}, map[string]int{}
	for _, r := range rest.Routes() {
		if _, ok := at[r.Path]; !ok {
			at[r.Path] = len(paths)
			paths = append(paths, yaml.MapItem{Key: r.Path, Value: object{}})
		}
		ops, _ := paths[at[r.Path]].Value.(object)
		ops = append(ops, yaml.MapItem{Key: strings.ToLower(r.Method), Value: w.operation(&r)})
		paths[at[r.Path]].Value = ops
	}
	refusal := w.schema(reflect.TypeFor[api.ErrorBody]())
	schemas := object{}
	for _, name := range slices.Sorted(maps.Keys(w.schemas)) {
		schemas = append(schemas, yaml.MapItem{Key: name, Value: w.schemas[name]})
	}
	return object{
		{Key: "openapi", Value: "3.0.3"},
		{Key: "info", Value: object{
			{Key: "title", Value: "The native API of a Berth zone"},
			{Key: "description", Value: "docs/http.md explains what the calls mean."},
			{Key: "version", Value: rest.Find("GET /").Since},
		}},
		{Key: "security", Value: []object{{{Key: "bearer", Value: []string{}}}}},
		{Key: "paths", Value: paths},
		{Key: "components", Value: object{
			{Key: "schemas", Value: schemas},
			{Key: "responses", Value: object{{Key: "Refusal", Value: object{
				{Key: "description", Value: "A refused call; it has changed nothing."},
				{Key: "content", Value: content(refusal)},
			}}}},
			{Key: "securitySchemes", Value: object{{Key: "bearer", Value: object{{Key: "type", Value: "http"}, {Key: "scheme", Value: "bearer"}}}}},
		}},
	}
}

// content returns the content of a JSON body.
func content(schema object) object {
	return object{{Key: "application/json", Value: object{{Key: "schema", Value: schema}}}}
}

// file is the content of a body that is a file.
var file = object{{Key: "application/octet-stream", Value: object{{Key: "schema", Value: object{
	{Key: "type", Value: "string"}, {Key: "format", Value: "binary"},
}}}}}

func (w *writer) operation(r *rest.Route) object {
	op := object{
		{Key: "operationId", Value: operationID(r)},
		{Key: "tags", Value: []string{r.Group}},
		{Key: "summary", Value: r.Help},
		{Key: "x-role", Value: string(r.Role)},
		{Key: "x-read", Value: string(r.Read)},
		{Key: "x-since", Value: r.Since},
	}
	if r.Role == "" {
		op = append(op, yaml.MapItem{Key: "security", Value: []object{}})
	}
	if params := parameters(r); len(params) > 0 {
		op = append(op, yaml.MapItem{Key: "parameters", Value: params})
	}
	var body object
	switch {
	case r.Body != nil:
		body = content(w.schema(reflect.TypeOf(r.Body)))
	case r.Stream && r.Method == http.MethodPut:
		body = file
	}
	if body != nil {
		op = append(op, yaml.MapItem{Key: "requestBody", Value: object{{Key: "required", Value: true}, {Key: "content", Value: body}}})
	}
	good := object{{Key: "description", Value: http.StatusText(r.Status)}}
	switch {
	case r.Media != "": // a stream, whose items have this body
		good = append(good, yaml.MapItem{Key: "content", Value: object{{Key: r.Media, Value: object{{Key: "schema", Value: w.answer(r)}}}}})
	case r.Answer.Body != nil:
		good = append(good, yaml.MapItem{Key: "content", Value: content(w.answer(r))})
	case r.Stream && r.Method == http.MethodGet:
		good = append(good, yaml.MapItem{Key: "content", Value: file})
	}
	return append(op, yaml.MapItem{Key: "responses", Value: object{
		{Key: strconv.Itoa(r.Status), Value: good}, {Key: "default", Value: object{{Key: "$ref", Value: "#/components/responses/Refusal"}}},
	}})
}

// operationID returns the name of a route for programs, such as postHostsIdDrain.
func operationID(r *rest.Route) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(r.Method))
	if r.Path == "/" {
		b.WriteString("Root")
	}
	for _, s := range strings.FieldsFunc(r.Path, func(c rune) bool { return strings.ContainsRune("/{}-", c) }) {
		b.WriteString(strings.ToUpper(s[:1]) + s[1:])
	}
	return b.String()
}

func parameters(r *rest.Route) []object {
	var out []object
	add := func(where, name, help string, required bool, more ...yaml.MapItem) {
		p := object{{Key: "name", Value: name}, {Key: "in", Value: where}, {Key: "description", Value: help}}
		if required {
			p = append(p, yaml.MapItem{Key: "required", Value: true})
		}
		kind := map[string]string{"limit": "integer", "all_projects": "boolean", "follow": "boolean", "preemptible": "boolean"}[name]
		out = append(out, append(p, yaml.MapItem{Key: "schema", Value: append(object{{Key: "type", Value: cmp.Or(kind, "string")}}, more...)}))
	}
	if r.ID != "" {
		add("path", "id", r.ID, true)
	}
	for _, p := range r.Query {
		add("query", p.Name, p.Help, false)
	}
	if r.Method == http.MethodGet && r.Role != "" && !r.Stream {
		add("query", "read", "kind of the read", false, yaml.MapItem{Key: "enum", Value: []string{string(api.ReadLocal), string(api.ReadLinearizable)}})
	}
	if r.Keyed {
		add("header", api.HeaderIdempotencyKey, "a repeat with the same key returns the first answer", false)
	}
	return out
}

func (w *writer) answer(r *rest.Route) object {
	schema := w.schema(reflect.TypeOf(r.Answer.Body))
	if r.Answer.Key == "" {
		return schema
	}
	if r.Answer.List {
		schema = object{{Key: "type", Value: "array"}, {Key: "items", Value: schema}}
	}
	props := object{{Key: r.Answer.Key, Value: schema}}
	if r.Paged() {
		props = append(props, yaml.MapItem{Key: "next_marker", Value: object{
			{Key: "type", Value: "string"}, {Key: "description", Value: "of the next page; absent on the last one"},
		}})
	}
	return object{{Key: "type", Value: "object"}, {Key: "required", Value: []string{r.Answer.Key}}, {Key: "properties", Value: props}}
}

// noteBodies records a type that a caller sends, and all types in it.
func (w *writer) noteBodies(t reflect.Type) {
	if t == nil {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		w.noteBodies(t.Elem())
	case reflect.Struct:
		if !w.bodies[t.Name()] {
			w.bodies[t.Name()] = true
			for f := range t.Fields() {
				w.noteBodies(f.Type)
			}
		}
	}
}

// schema returns the schema of a type; for a struct, a reference by its name.
func (w *writer) schema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[api.Instant]():
		return object{{Key: "type", Value: "string"}, {Key: "format", Value: "date-time"}, {Key: "nullable", Value: true}}
	case reflect.TypeFor[rest.Duration]():
		return object{{Key: "type", Value: "string"}, {Key: "example", Value: "60s"}}
	case reflect.TypeFor[api.Ratio]():
		return object{{Key: "type", Value: "number"}}
	case reflect.TypeFor[json.RawMessage]():
		return object{{Key: "nullable", Value: true}}
	case reflect.TypeFor[[]byte]():
		return object{{Key: "type", Value: "string"}, {Key: "format", Value: "byte"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.schema(t.Elem())
	case reflect.String:
		return object{{Key: "type", Value: "string"}}
	case reflect.Bool:
		return object{{Key: "type", Value: "boolean"}}
	case reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint64:
		return object{{Key: "type", Value: "integer"}, {Key: "format", Value: "int64"}}
	case reflect.Slice:
		return object{{Key: "type", Value: "array"}, {Key: "items", Value: w.schema(t.Elem())}}
	case reflect.Map:
		each := w.schema(t.Elem())
		if t.Elem().Kind() == reflect.Pointer {
			each = append(each, yaml.MapItem{Key: "nullable", Value: true})
		}
		return object{{Key: "type", Value: "object"}, {Key: "additionalProperties", Value: each}}
	case reflect.Struct:
		w.define(t)
		return object{{Key: "$ref", Value: "#/components/schemas/" + t.Name()}}
	default:
		panic("no schema for " + t.String())
	}
}

// define makes the schema of a struct.
func (w *writer) define(t reflect.Type) {
	if _, ok := w.schemas[t.Name()]; ok {
		return
	}
	w.schemas[t.Name()] = nil // its fields may refer to it
	props, required := w.properties(t)
	s := object{{Key: "type", Value: "object"}, {Key: "description", Value: w.comments[t.Name()]}}
	if w.bodies[t.Name()] {
		s = append(s, yaml.MapItem{Key: "additionalProperties", Value: false}) // unknown fields are refused
	} else if len(required) > 0 {
		s = append(s, yaml.MapItem{Key: "required", Value: required})
	}
	w.schemas[t.Name()] = append(s, yaml.MapItem{Key: "properties", Value: props})
}

func (w *writer) properties(t reflect.Type) (props object, required []string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			more, needed := w.properties(f.Type)
			props, required = append(props, more...), append(required, needed...)
			continue
		}
		if name == "" {
			panic(t.String() + "." + f.Name + " has no name in JSON: is it a record?")
		}
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
		s := w.schema(f.Type)
		nullable := !strings.Contains(options, "omit") && slices.Contains([]reflect.Kind{reflect.Slice, reflect.Map}, f.Type.Kind())
		if help := w.comments[t.Name()+"."+f.Name]; help != "" || nullable {
			if len(s) > 0 && s[0].Key == "$ref" {
				s = object{{Key: "allOf", Value: []object{s}}}
			}
			if help != "" {
				s = append(s, yaml.MapItem{Key: "description", Value: help})
			}
			if nullable {
				s = append(s, yaml.MapItem{Key: "nullable", Value: true})
			}
		}
		props = append(props, yaml.MapItem{Key: name, Value: s})
	}
	return props, required
}

// readComments returns the comments of the types that are bodies, and of their fields.
func readComments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{".", ".."} {
		packages, err := parser.ParseDir(token.NewFileSet(), dir, nil, parser.ParseComments) //nolint:staticcheck // no build tags here
		require.NoError(t, err)
		for _, p := range packages {
			for _, f := range p.Files {
				noteComments(f, out)
			}
		}
	}
	return out
}

func noteComments(f *ast.File, out map[string]string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok || f.Name.Name == "api" && !strings.HasPrefix(spec.Name.Name, "Error") {
				continue
			}
			out[spec.Name.Name] = oneLine(g.Doc)
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					for _, name := range field.Names {
						out[spec.Name.Name+"."+name.Name] = strings.TrimSpace(oneLine(field.Doc) + " " + oneLine(field.Comment))
					}
				}
			}
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
