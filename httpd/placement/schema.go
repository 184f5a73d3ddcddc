package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/api"
	"berth/httpd/wire"
)

// kind is what a JSON value must be.
type kind string

// The kinds, as refusals name them.
const (
	kindObject  kind = "object"
	kindArray   kind = "array"
	kindString  kind = "string"
	kindInteger kind = "integer" // 10, 10.0 and 1e1 are the same one
	kindNumber  kind = "number"
	kindNull    kind = "null"
)

// schema says what a JSON value must look like. Check returns values that keep to
// it as map[string]any, []any, string, int64 for an integer, json.Number for a
// number, and nil.
type schema struct {
	kind kind
	null bool // it may be null instead

	fields   map[string]*schema // of an object
	required []string           // names of fields that must be there
	names    *regexp.Regexp     // what other names of an object must look like; nil: there may be none
	loose    bool               // names that do not look so may be there too, whatever they hold
	each     *schema            // of what these names have, or of the items of an array
	fewest   int                // of them
	unique   bool               // no two items of an array are equal

	least, most int64 // of an integer, if most is not 0
	longest     int   // characters of a string, if it is not 0
	shortest    int
	pattern     *regexp.Regexp // of a string
	uuid        bool           // a string that is a UUID, in any spelling
	ratio       bool           // a number that is an allocation ratio; it is returned as a readRatio
}

// Patterns of names.
var (
	nameClass  = regexp.MustCompile(`^[A-Z0-9_]+$`)
	nameCustom = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
	nameUUID   = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)
	anyName    = regexp.MustCompile(``)
)

// readBody reads the JSON of a request and checks it. The number of bytes, of
// values and of levels is limited as in every public body.
func readBody(r *http.Request, s *schema) (any, error) {
	var raw json.RawMessage
	err := wire.ReadJSON(r, api.BodyMaxBytes, &raw)
	if api.CodeOf(err) == api.CodeInvalid {
		return nil, invalid("Malformed JSON: %s", api.MessageOf(err))
	}
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, invalid("Malformed JSON: %s", err.Error())
	}
	return s.check("", v)
}

// readObject is readBody for a schema of an object.
func readObject(r *http.Request, s *schema) (map[string]any, error) {
	v, err := readBody(r, s)
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any)
	return out, nil
}

// isJSON reports whether the body of a request says that it is JSON.
func isJSON(r *http.Request) bool {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mt == mediaJSON
}

// params reads the query of a call that takes the names that known admits, and read,
// which is the door's.
func params(r *http.Request, known func(name string) bool) (url.Values, error) {
	q, err := parseQuery(r.URL.RawQuery, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	var strange []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if name != "read" && !known(name) {
			strange = append(strange, name)
		}
	}
	if len(strange) > 0 {
		return nil, badQuery("%s", unexpected(strange))
	}
	return q, nil
}

// unexpected says that there are names that may not be.
func unexpected(names []string) string {
	verb := "was"
	if len(names) > 1 {
		verb = "were"
	}
	return "Additional properties are not allowed ('" + cut(strings.Join(names, "', '")) + "' " + verb + " unexpected)"
}

// broken is a refusal of a value at a place in the body. Rule is the part of the
// schema that it does not keep to.
func broken(place, rule, format string, args ...any) error {
	if place == "" {
		place = "the body"
	}
	return invalid("JSON does not validate: %s  Failed validating '%s' at %s", fmt.Sprintf(format, args...), rule, place)
}

// check returns v as s has it, or a refusal that names the place.
func (s *schema) check(place string, v any) (any, error) {
	if v == nil && s.null {
		return nil, nil //nolint:nilnil // null is a value
	}
	switch v := v.(type) {
	case map[string]any:
		if s.kind == kindObject {
			return s.checkObject(place, v)
		}
	case []any:
		if s.kind == kindArray {
			return s.checkArray(place, v)
		}
	case string:
		if s.kind == kindString {
			return v, s.checkString(place, v)
		}
	case json.Number:
		if s.kind == kindNumber && s.ratio {
			return ratioOf(place, v)
		}
		if s.kind == kindNumber {
			return v, nil
		}
		if n, whole := integer(v); whole && s.kind == kindInteger {
			return n, s.checkInteger(place, v, n)
		}
	case nil:
		if s.kind == kindNull {
			return nil, nil //nolint:nilnil // null is a value
		}
	}
	return nil, broken(place, "type", "%s is not of type '%s'", show(v), s.kind)
}

func (s *schema) checkObject(place string, v map[string]any) (any, error) {
	for _, name := range s.required {
		if _, ok := v[name]; !ok {
			return nil, broken(place, "required", "'%s' is a required property", name)
		}
	}
	if len(v) < s.fewest {
		return nil, broken(place, "minProperties", "{} does not have enough properties")
	}
	out := make(map[string]any, len(v))
	var strange []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		of, known := s.fields[name]
		if !known && s.names != nil && s.names.MatchString(name) {
			of, known = s.each, true
		}
		if !known {
			strange = append(strange, name)
			continue
		}
		one, err := of.check(place+"['"+name+"']", v[name])
		if err != nil {
			return nil, err
		}
		out[name] = one
	}
	if len(strange) > 0 && !s.loose {
		return nil, broken(place, "additionalProperties", "%s", unexpected(strange))
	}
	return out, nil
}

func (s *schema) checkArray(place string, v []any) (any, error) {
	if len(v) < s.fewest {
		return nil, broken(place, "minItems", "%s is too short", show(v))
	}
	out := make([]any, len(v))
	seen := map[any]bool{}
	for i, item := range v {
		one, err := s.each.check(place+"["+strconv.Itoa(i)+"]", item)
		if err != nil {
			return nil, err
		}
		if s.unique { // of texts alone
			if seen[one] {
				return nil, broken(place, "uniqueItems", "it has non-unique elements: %s", show(one))
			}
			seen[one] = true
		}
		out[i] = one
	}
	return out, nil
}

func (s *schema) checkString(place, v string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case n < s.shortest:
		return broken(place, "minLength", "%s is too short", show(v))
	case s.longest > 0 && n > s.longest:
		return broken(place, "maxLength", "%s is too long", show(v))
	case s.pattern != nil && !s.pattern.MatchString(v):
		return broken(place, "pattern", "%s does not match '%s'", show(v), s.pattern)
	}
	if s.uuid {
		if _, ok := uuidOf(v); !ok {
			return broken(place, "format", "%s is not a 'uuid'", show(v))
		}
	}
	return nil
}

func (s *schema) checkInteger(place string, text json.Number, n int64) error {
	switch {
	case s.most == 0:
	case n < s.least:
		return broken(place, "minimum", "%s is less than the minimum of %d", text, s.least)
	case n > s.most:
		return broken(place, "maximum", "%s is greater than the maximum of %d", text, s.most)
	}
	return nil
}

// integer reads a number that is whole. One beyond the range of its type counts
// as the end of that range.
func integer(text json.Number) (int64, bool) {
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

// showMax is how many characters of a value a refusal shows.
const showMax = 300

// show spells a value for a refusal.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return "'" + cut(v) + "'"
	}
	b, _ := json.Marshal(v) // it was read from JSON
	return cut(string(b))
}

// cut shortens a text to showMax characters.
func cut(s string) string {
	if utf8.RuneCountInString(s) <= showMax {
		return s
	}
	return string([]rune(s)[:showMax]) + "..."
}

// uuidOf returns a UUID in its canonical form: it may be in upper case, without
// dashes, in braces, or begin with urn:uuid:.
func uuidOf(text string) (string, bool) {
	s := strings.ToLower(text)
	s = strings.ReplaceAll(s, "urn:", "")
	s = strings.ReplaceAll(s, "uuid:", "")
	s = strings.Trim(s, "{}")
	s = strings.ReplaceAll(s, "-", "")
	if len(s) != 32 {
		return "", false
	}
	s = s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
	return s, api.ValidUUID(s)
}

// generation is the one that a body names. It is never that of anything if it is
// below 0.
func generation(v any) (n uint64, possible bool) {
	i, ok := v.(int64)
	return uint64(max(i, 0)), ok && i >= 0 //nolint:gosec // it is not below 0
}

// texts returns the items of an array of strings.
func texts(v any) []string {
	items, _ := v.([]any)
	out := make([]string, len(items))
	for i, item := range items {
		out[i], _ = item.(string)
	}
	return out
}

// setOf returns the items in order, each once. It is not nil, because nil in a
// command leaves what there is.
func setOf(items []string) []string {
	return slices.Compact(append([]string{}, slices.Sorted(slices.Values(items))...))
}
