package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml"
)

// ordered returns the value of a JSON text with the members of its objects in
// the order that they came in, for printing as YAML.
func ordered(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	v, err := orderedValue(d)
	if err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return v, nil
}

// orderedValue reads the next value of d.
func orderedValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return orderedList(d)
		}
		return orderedObject(d)
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, nil
		}
		return t.Float64()
	}
	return t, nil
}

func orderedList(d *json.Decoder) ([]any, error) {
	list := []any{}
	for d.More() {
		v, err := orderedValue(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token() // the closing bracket
	return list, err
}

func orderedObject(d *json.Decoder) (yaml.MapSlice, error) {
	object := yaml.MapSlice{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := orderedValue(d)
		if err != nil {
			return nil, err
		}
		object = append(object, yaml.MapItem{Key: name, Value: v})
	}
	_, err := d.Token() // the closing brace
	return object, err
}
