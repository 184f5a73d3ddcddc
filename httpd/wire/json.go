package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"berth/api"
)

// ReadJSON decodes the one JSON value of a request's body into v, a pointer to a
// struct. Bodies over limit bytes, other content types, text that is not UTF-8,
// unknown or repeated names, names in another case, wrong types, and anything after
// the value are refused with a sentence that names the place.
func ReadJSON(r *http.Request, limit int64, v any) error {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if mt, _, err := mime.ParseMediaType(ct); err != nil || mt != "application/json" {
			return api.Errorf(api.CodeMediaType, "the body must be application/json, not %q", ct)
		}
	}
	b, err := ReadBody(r, limit)
	if err != nil {
		return err
	}
	if err := scan(b); err != nil {
		return err
	}
	if err := checkText(b); err != nil {
		return err
	}
	if err := precheck(b); err != nil {
		return err
	}
	if err := checkNames(reflect.TypeOf(v).Elem(), b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return invalidJSON(err)
	}
	return nil
}

// drainMaxBytes is how much of a body that is too large is read and thrown away.
const drainMaxBytes = 32 << 20

// ReadBody reads a body of at most limit bytes.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, api.Wrap(api.CodeInvalid, "wire.ReadBody", "the body could not be read", err)
	}
	if int64(len(b)) > limit {
		_, _ = io.CopyN(io.Discard, r.Body, drainMaxBytes) // so that the caller hears the answer, and not a reset
		return nil, api.Errorf(api.CodeTooLarge, "the body may have at most %d bytes", limit)
	}
	return b, nil
}

func invalidJSON(err error) error {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if n, whole := strings.CutPrefix(te.Value, "number "); whole && !strings.ContainsAny(n, ".eE") && kindName(te.Type) == aWholeNumber {
			return api.Errorf(api.CodeInvalid, "%s must be a whole number in range, not %s", orBody(te.Field), n)
		}
		return api.Errorf(api.CodeInvalid, "%s must be %s, not %s", orBody(te.Field), kindName(te.Type), te.Value)
	}
	if ae, ok := errors.AsType[*api.Error](err); ok {
		return ae
	}
	return api.Errorf(api.CodeInvalid, "the body is not valid JSON: %s", err.Error())
}

func orBody(field string) string {
	if field == "" {
		return "the body"
	}
	return field
}

// kindNames says what people call the kinds that are not numbers.
var kindNames = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Array: "a list",
	reflect.Map: "an object", reflect.Struct: "an object",
}

// aWholeNumber is what people call all other kinds.
const aWholeNumber = "a whole number"

func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[[]byte]() {
		return "a text in base64"
	}
	return cmp.Or(kindNames[t.Kind()], aWholeNumber)
}

// precheck walks the tokens of a body and keeps none: it is JSON, no name is
// repeated, and nothing comes after the value.
func precheck(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	w := &walker{}
	for n := 0; ; n++ {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return api.Errorf(api.CodeInvalid, "the body is empty; it must be a JSON object")
			}
			if len(w.open) > 0 {
				return api.Errorf(api.CodeInvalid, "the body is not valid JSON: it ends too early")
			}
			return nil
		}
		if err != nil {
			return invalidJSON(err)
		}
		if w.done {
			return api.Errorf(api.CodeInvalid, "the body has something after its JSON value")
		}
		if err := w.see(t); err != nil {
			return err
		}
	}
}

// walker follows the nesting of a token stream.
type walker struct {
	open []level
	done bool
}

// level is one open object or list.
type level struct {
	object bool
	names  map[string]bool // of an object: names so far
	value  bool            // in an object: the next token is a value
}

func (w *walker) see(t json.Token) error {
	if d, ok := t.(json.Delim); ok && (d == '}' || d == ']') {
		w.open = w.open[:len(w.open)-1]
		w.end()
		return nil
	}
	if top := w.top(); top != nil && top.object && !top.value {
		name, _ := t.(string)
		if top.names == nil {
			top.names = map[string]bool{}
		}
		if top.names[name] {
			return api.Errorf(api.CodeInvalid, "the name %q is given twice", name)
		}
		top.names[name] = true
		top.value = true
		return nil
	}
	switch t {
	case json.Delim('{'):
		w.open = append(w.open, level{object: true})
	case json.Delim('['):
		w.open = append(w.open, level{})
	default:
		w.end()
	}
	return nil
}

func (w *walker) top() *level {
	if len(w.open) == 0 {
		return nil
	}
	return &w.open[len(w.open)-1]
}

// end notes that a value is complete.
func (w *walker) end() {
	if top := w.top(); top == nil {
		w.done = true
	} else {
		top.value = false
	}
}

// namesOf returns the fields of a struct by the names that they have in JSON.
func namesOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			maps.Copy(out, namesOf(f.Type)) // its fields stand among the others
			continue
		}
		if f.IsExported() && name != "-" {
			if name == "" {
				name = f.Name
			}
			out[name] = f.Type
		}
	}
	return out
}
