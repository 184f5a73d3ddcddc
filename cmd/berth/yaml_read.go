package main

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
)

// Limits of a file in YAML that somebody gives.
const (
	yamlMaxBytes = 1 << 20
	yamlDepthMax = 64 // lists and objects in each other that begin in one line
)

// yamlFile reads a file in YAML, which JSON is too; - is standard input. It refuses
// what would cost more than the file is long: see plainYAML.
func yamlFile(e *env, path string) ([]byte, error) {
	b, err := readAll(e, path, yamlMaxBytes)
	if err != nil {
		return nil, err
	}
	return b, plainYAML(b)
}

// readAll reads a file of at most limit bytes; - is standard input.
func readAll(e *env, path string, limit int64) ([]byte, error) {
	in := e.in
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

// plainYAML refuses anchors and aliases, of which a few hundred bytes can stand for
// gigabytes, and deep nesting. It looks at the words alone and expands nothing, so
// it must come before anything is decoded.
func plainYAML(b []byte) error {
	brackets, dashes := 0, 0
	for _, t := range lexer.Tokenize(string(b)) {
		run := 0
		switch t.Type {
		case token.AnchorType, token.AliasType:
			return fmt.Errorf("line %d has an anchor or alias (%s); write out what it stands for, or put a text that begins so in quotes",
				t.Position.Line, t.Value)
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			run = dashes + 1
		}
		if dashes = run; max(brackets, dashes) > yamlDepthMax {
			return fmt.Errorf("line %d has more than %d lists and objects in each other", t.Position.Line, yamlDepthMax)
		}
	}
	return nil
}

// strictYAML reads what yamlFile returned by the JSON names of v's fields; names that
// v does not have are an error.
func strictYAML(b []byte, v any) error {
	text, err := yaml.YAMLToJSON(b)
	if err != nil {
		return fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("it does not fit: %s must be %s, not %s", cmp.Or(te.Field, "all of it"), kindName(te.Type), valueName(te.Value))
	}
	if err != nil {
		return fmt.Errorf("it does not fit: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// kindName says what people call a type of a field.
func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

// valueName says what people call a value that JSON has.
func valueName(v string) string {
	switch v {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "number":
		return "a number"
	}
	return v
}
