package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/api"
	"berth/httpd/wire"
)

// Kind is the type of a JSON value.
type Kind string

// The kinds, as refusals name them.
const (
	Object  Kind = "object"
	Array   Kind = "array"
	String  Kind = "string"
	Integer Kind = "integer" // 10, 10.0 and 1e1 are equal
	Number  Kind = "number"
)

// Schema describes a JSON value. A valid value is read as map[string]any, []any,
// string, int64 for an integer, json.Number for a number, and nil.
type Schema struct {
	Kind     Kind
	Nullable bool // it may also be null

	Fields   map[string]*Schema // of an object
	Required []string           // names of required fields
	Names    *regexp.Regexp     // pattern of other names of an object; nil: no others
	Loose    bool               // names that match no pattern may also be present, with any value
	Each     *Schema            // of the values under Names, or of the items of an array
	Fewest   int                // minimum number of items or fields
	Unique   bool               // all items of an array of strings differ

	Least, Most int64 // of an integer, if Most is not 0
	Longest     int   // maximum characters of a string, if it is not 0
	Shortest    int
	Pattern     *regexp.Regexp // of a string
	UUID        bool           // a string that is a UUID, in any notation

	// Parse, if it is not nil, reads a Number; place is its place in the body, for
	// Broken.
	Parse func(place string, n json.Number) (any, error)
}

// ReadBody reads the JSON of a request and checks it. Bytes, values and levels are
// limited as in every public body.
func ReadBody(r *http.Request, s *Schema) (any, error) {
	v, err := readValue(r)
	if err != nil {
		return nil, err
	}
	return s.Check(v)
}

// readValue reads the JSON of a request: map[string]any, []any, string, json.Number, bool
// and nil.
func readValue(r *http.Request) (any, error) {
	var raw json.RawMessage
	err := wire.ReadJSON(r, api.BodyMaxBytes, &raw)
	if api.CodeOf(err) == api.CodeInvalid {
		return nil, api.Errorf(api.CodeInvalid, "Malformed JSON: %s", api.MessageOf(err))
	}
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, api.Errorf(api.CodeInvalid, "Malformed JSON: %s", err.Error())
	}
	return v, nil
}

// ParseValue reads JSON text that is not in a body, with the limits of ReadBody. Its values are
// those of ReadFields, and not checked.
func ParseValue(text string) (any, error) {
	return readValue(&http.Request{Header: http.Header{"Content-Type": {MediaJSON}}, Body: io.NopCloser(strings.NewReader(text))})
}

// ReadFields reads the JSON object of a request, with the limits of ReadBody; its values are
// not checked, and numbers are json.Number. Without a body it is empty.
func ReadFields(r *http.Request) (map[string]any, error) {
	if r.ContentLength == 0 {
		return map[string]any{}, nil
	}
	v, err := readValue(r)
	if err != nil {
		return nil, err
	}
	out, ok := v.(map[string]any)
	if !ok {
		return nil, api.Errorf(api.CodeInvalid, "Malformed JSON: the body must be an object")
	}
	return out, nil
}

// ReadObject is ReadBody for a schema of an object.
func ReadObject(r *http.Request, s *Schema) (map[string]any, error) {
	v, err := ReadBody(r, s)
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any)
	return out, nil
}

// isJSON reports whether a request declares its body to be JSON.
func isJSON(r *http.Request) bool {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mt == MediaJSON
}

// unexpectedProperties reports properties that the schema does not allow.
func unexpectedProperties(names []string) string {
	verb := "was"
	if len(names) > 1 {
		verb = "were"
	}
	return "Additional properties are not allowed ('" + Cut(strings.Join(names, "', '")) + "' " + verb + " unexpected)"
}

// Broken refuses a value at a place in the body. rule is the violated part of the
// schema.
func Broken(place, rule, format string, args ...any) error {
	if place == "" {
		place = "the body"
	}
	return api.Errorf(api.CodeInvalid, "JSON does not validate: %s  Failed validating '%s' at %s", fmt.Sprintf(format, args...), rule, place)
}

// Check converts a decoded JSON value to the types of s, or returns a refusal that
// names the place.
func (s *Schema) Check(v any) (any, error) { return s.checkAt("", v) }

// checkAt is Check for the value at a place.
func (s *Schema) checkAt(place string, v any) (any, error) {
	if v == nil && s.Nullable {
		return nil, nil //nolint:nilnil // null is a value
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Kind == Object {
			return s.checkObject(place, v)
		}
	case []any:
		if s.Kind == Array {
			return s.checkArray(place, v)
		}
	case string:
		if s.Kind == String {
			return v, s.checkString(place, v)
		}
	case json.Number:
		if s.Kind == Number && s.Parse != nil {
			return s.Parse(place, v)
		}
		if s.Kind == Number {
			return v, nil
		}
		if n, whole := readInteger(v); whole && s.Kind == Integer {
			return n, s.checkInteger(place, v, n)
		}
	}
	return nil, Broken(place, "type", "%s is not of type '%s'", Show(v), s.Kind)
}

func (s *Schema) checkObject(place string, v map[string]any) (any, error) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return nil, Broken(place, "required", "'%s' is a required property", name)
		}
	}
	if len(v) < s.Fewest {
		return nil, Broken(place, "minProperties", "{} does not have enough properties")
	}
	out := make(map[string]any, len(v))
	var strange []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		of, known := s.Fields[name]
		if !known && s.Names != nil && s.Names.MatchString(name) {
			of, known = s.Each, true
		}
		if !known {
			strange = append(strange, name)
			continue
		}
		one, err := of.checkAt(place+"['"+name+"']", v[name])
		if err != nil {
			return nil, err
		}
		out[name] = one
	}
	if len(strange) > 0 && !s.Loose {
		return nil, Broken(place, "additionalProperties", "%s", unexpectedProperties(strange))
	}
	return out, nil
}

func (s *Schema) checkArray(place string, v []any) (any, error) {
	if len(v) < s.Fewest {
		return nil, Broken(place, "minItems", "%s is too short", Show(v))
	}
	out := make([]any, len(v))
	seen := map[any]bool{}
	for i, item := range v {
		one, err := s.Each.checkAt(place+"["+strconv.Itoa(i)+"]", item)
		if err != nil {
			return nil, err
		}
		if s.Unique { // only of strings
			if seen[one] {
				return nil, Broken(place, "uniqueItems", "it has non-unique elements: %s", Show(one))
			}
			seen[one] = true
		}
		out[i] = one
	}
	return out, nil
}

func (s *Schema) checkString(place, v string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case n < s.Shortest:
		return Broken(place, "minLength", "%s is too short", Show(v))
	case s.Longest > 0 && n > s.Longest:
		return Broken(place, "maxLength", "%s is too long", Show(v))
	case s.Pattern != nil && !s.Pattern.MatchString(v):
		return Broken(place, "pattern", "%s does not match '%s'", Show(v), s.Pattern)
	}
	if s.UUID {
		if _, ok := ParseUUID(v); !ok {
			return Broken(place, "format", "%s is not a 'uuid'", Show(v))
		}
	}
	return nil
}

func (s *Schema) checkInteger(place string, text json.Number, n int64) error {
	switch {
	case s.Most == 0:
	case n < s.Least:
		return Broken(place, "minimum", "%s is less than the minimum of %d", text, s.Least)
	case n > s.Most:
		return Broken(place, "maximum", "%s is greater than the maximum of %d", text, s.Most)
	}
	return nil
}

// readInteger reads a whole number. A number beyond int64 counts as the limit of its
// range.
func readInteger(text json.Number) (int64, bool) {
	if n, err := text.Int64(); err == nil {
		return n, true
	}
	f, err := text.Float64()
	switch {
	case math.IsInf(f, 1) || f >= math.MaxInt64:
		return math.MaxInt64, true
	case math.IsInf(f, -1) || f <= math.MinInt64:
		return math.MinInt64, true
	}
	return int64(f), err == nil && f == math.Trunc(f)
}
