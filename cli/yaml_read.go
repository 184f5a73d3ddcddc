package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"berth/api"
)

// Limits of a YAML file from the user.
const (
	yamlMaxBytes = 1 << 20
	yamlDepthMax = 64 // nested lists and objects that start in one line
)

// ReadYAML reads a file in YAML, of which JSON is a part; the path - means in, the standard
// input. It refuses files that could expand beyond their own length: see plainYAML.
func ReadYAML(in io.Reader, path string) ([]byte, error) {
	b, err := readAll(in, path, yamlMaxBytes)
	if err != nil {
		return nil, err
	}
	if err := plainText(b); err != nil {
		return nil, err
	}
	return b, plainYAML(b)
}

// plainText refuses a file that is not UTF-8, and JSON with half of a surrogate pair.
func plainText(b []byte) error {
	check := api.CheckText
	if first := bytes.TrimLeft(b, " \t\r\n"); len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		check = api.CheckJSONText
	}
	if err := check(b); err != nil {
		return errors.New(api.MessageOf(err))
	}
	return nil
}

// readAll reads a file of at most limit bytes; the path - means in, the standard input.
func readAll(in io.Reader, path string, limit int64) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return b, err
}

// plainYAML refuses anchors and aliases, which can make gigabytes of a few hundred bytes,
// and deep nesting. It reads only tokens and expands nothing, so it must run before the
// file is decoded.
func plainYAML(b []byte) error {
	brackets, dashes := 0, 0
	for _, t := range lexer.Tokenize(string(b)) {
		if t.Type == token.AnchorType || t.Type == token.AliasType {
			return fmt.Errorf("line %d has an anchor or alias (%s); write out its value, or quote a text that starts with * or &",
				t.Position.Line, t.Value)
		}
		brackets += opens[t.Type]
		if dashes++; t.Type != token.SequenceEntryType && t.Type != token.MappingKeyType {
			dashes = 0
		}
		if max(brackets, dashes) > yamlDepthMax {
			return fmt.Errorf("line %d has more than %d nested lists and objects", t.Position.Line, yamlDepthMax)
		}
	}
	return nil
}

// opens has the change in the number of open brackets for each token.
var opens = map[token.Type]int{
	token.SequenceStartType: 1, token.MappingStartType: 1, token.SequenceEndType: -1, token.MappingEndType: -1,
}

// strictYAML decodes the result of ReadYAML by the JSON names of v's fields. A name that v
// does not have is an error.
func strictYAML(b []byte, v any) error {
	text, err := yaml.YAMLToJSON(b)
	if err != nil {
		return fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("it does not fit: %s must be %s, not %s", cmp.Or(te.Field, "the file"), kindName(te.Type), valueName(te.Value))
	}
	if err != nil {
		return fmt.Errorf("it does not fit: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// kindNames has the plain names of the kinds that are not numbers.
var kindNames = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
}

// kindName returns the plain name of a field's type.
func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return cmp.Or(kindNames[t.Kind()], "a whole number")
}

// valueNames has the plain names of the values in errors of package json.
var valueNames = map[string]string{
	"string": "a text", "bool": "true or false", "array": "a list", "object": "an object", "number": "a number",
}

// valueName returns the plain name of a JSON value.
func valueName(v string) string { return cmp.Or(valueNames[v], v) }
