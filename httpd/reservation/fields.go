package reservation

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/httpd/openstack"
)

// fields reads the fields of one object of a body. The first refusal stays in err, and
// what is read after it does not count.
type fields struct {
	place string // in front of the names in refusals
	left  map[string]any
	err   error
}

func newFields(place string, of map[string]any) *fields {
	return &fields{place: place, left: maps.Clone(of)}
}

// refuse keeps the first refusal.
func (f *fields) refuse(err error) {
	if f.err == nil {
		f.err = err
	}
}

// take returns the value of a field, which counts as read.
func (f *fields) take(name string) (v any, given bool) {
	v, given = f.left[name]
	delete(f.left, name)
	return v, given
}

// require refuses the object if a field is missing; several are named at once.
func (f *fields) require(names ...string) {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, given := f.left[name]
		return given
	})
	if len(missing) > 0 {
		f.refuse(invalidError("Missing parameter %s%s", strings.Join(missing, ", "), inPlace(f.place)))
	}
}

func inPlace(place string) string {
	if place == "" {
		return ""
	}
	return " in " + place
}

// malformed refuses the value of a field.
func (f *fields) malformed(name string, v any, want string) {
	f.refuse(invalidError("Malformed parameter %s%s: it must be %s, not %s", name, inPlace(f.place), want, openstack.Show(v)))
}

// text reads a text of at most longest characters.
func (f *fields) text(name string, longest int) (s string, given bool) {
	v, given := f.take(name)
	if !given {
		return "", false
	}
	s, ok := v.(string)
	if !ok || utf8.RuneCountInString(s) > longest {
		f.malformed(name, v, "a text of at most "+strconv.Itoa(longest)+" characters")
	}
	return s, true
}

// whole reads a whole number, which may be spelled as a text.
func (f *fields) whole(name string, least, most int64) (n int64, given bool) {
	v, given := f.take(name)
	if !given {
		return 0, false
	}
	n, ok := wholeOf(v)
	if !ok || n < least || n > most {
		f.malformed(name, v, "a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n, true
}

func wholeOf(v any) (int64, bool) {
	text, _ := v.(string)
	if n, ok := v.(json.Number); ok {
		text = n.String()
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && !strings.HasPrefix(text, "+")
}

// affinity reads true, false or nil. The stock client sends a text, and "None" for nil.
func (f *fields) affinity(name string) (a *bool, given bool) {
	v, given := f.take(name)
	if b, ok := v.(bool); ok {
		return &b, given
	}
	s, isText := v.(string)
	yes, no := true, false
	switch {
	case v == nil:
	case isText && strings.EqualFold(s, "true"):
		return &yes, given
	case isText && strings.EqualFold(s, "false"):
		return &no, given
	case isText && (strings.EqualFold(s, "none") || strings.EqualFold(s, "null") || s == ""):
	default:
		f.malformed(name, v, "true, false or null")
	}
	return nil, given
}

// condition reads a condition on hosts: a text with JSON, or JSON itself.
func (f *fields) condition(name string, longest int) (text string, given bool) {
	v, given := f.take(name)
	switch v := v.(type) {
	case nil:
		return "", given
	case string:
		text = v
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // it was decoded from JSON
		text = strings.TrimSuffix(b.String(), "\n")
	}
	if len(text) > longest {
		f.refuse(malformedRequirements(text, "they may have at most %d bytes", longest))
	}
	return text, given
}

// list reads an array of at most most objects; null is empty.
func (f *fields) list(name string, most int) (out []map[string]any, given bool) {
	v, given := f.take(name)
	items, ok := v.([]any)
	if v != nil && !ok || len(items) > most {
		f.malformed(name, v, "a list of at most "+strconv.Itoa(most)+" objects")
		return nil, given
	}
	for _, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			f.malformed(name, item, "a list of objects")
		}
		out = append(out, o)
	}
	return out, given
}

// texts reads an array of at most most texts; null is empty.
func (f *fields) texts(name string, most int) (out []string, given bool) {
	v, given := f.take(name)
	items, ok := v.([]any)
	if v != nil && !ok || len(items) > most {
		f.malformed(name, v, "a list of at most "+strconv.Itoa(most)+" texts")
		return nil, given
	}
	for _, item := range items {
		s, ok := item.(string)
		if !ok {
			f.malformed(name, item, "a list of texts")
		}
		out = append(out, s)
	}
	return out, given
}

// done refuses fields that nobody has read, and returns the first refusal.
func (f *fields) done() error {
	if f.err == nil && len(f.left) > 0 {
		names := slices.Sorted(maps.Keys(f.left))
		for i := range names {
			names[i] = "'" + openstack.Cut(names[i]) + "'"
		}
		f.refuse(invalidError("Unknown parameter%s %s", inPlace(f.place), openstack.Cut(strings.Join(names, ", "))))
	}
	return f.err
}
