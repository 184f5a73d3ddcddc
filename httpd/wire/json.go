package wire

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"berth/api"
	"berth/internal/mutant"
)

// Limits of a JSON body, beside its size.
const (
	JSONDepthMax  = 16
	JSONTokensMax = 50_000
)

// ReadJSON decodes the one JSON value of a request's body into v, a pointer to a
// struct. Bodies over limit bytes, other content types, unknown or repeated
// names, names in another case, wrong types, and anything after the value are
// refused with a sentence that names the place.
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
	if err := precheck(b); err != nil {
		return err
	}
	if err := checkNames(reflect.TypeOf(v).Elem(), b, ""); err != nil {
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
	if mutant.On(mutant.BodyUnbounded) {
		limit = math.MaxInt64 - 1
	}
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

func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[[]byte]() {
		return "a text in base64"
	}
	return cmp.Or(kindNames[t.Kind()], "a whole number")
}

// precheck walks the tokens of a body before anything is allocated for it:
// depth, number of tokens, repeated names, and nothing after the value.
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
		if n >= JSONTokensMax {
			return api.Errorf(api.CodeInvalid, "the body may have at most %d JSON tokens", JSONTokensMax)
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

// level is one open object (names is set) or list.
type level struct {
	names map[string]bool // names so far; nil for a list
	value bool            // in an object: the next token is a value
}

func (w *walker) see(t json.Token) error {
	if d, ok := t.(json.Delim); ok && (d == '}' || d == ']') {
		w.open = w.open[:len(w.open)-1]
		w.end()
		return nil
	}
	if top := w.top(); top != nil && top.names != nil && !top.value {
		name, _ := t.(string)
		if top.names[name] {
			return api.Errorf(api.CodeInvalid, "the name %q is given twice", name)
		}
		top.names[name] = true
		top.value = true
		return nil
	}
	switch t {
	case json.Delim('{'):
		w.open = append(w.open, level{names: map[string]bool{}})
	case json.Delim('['):
		w.open = append(w.open, level{})
	default:
		w.end()
	}
	if len(w.open) > JSONDepthMax {
		return api.Errorf(api.CodeInvalid, "the body may be nested at most %d deep", JSONDepthMax)
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

// checkNames refuses names that t does not have, in exactly its own case, at
// any depth. What is not an object where t wants one is left to the decoder.
func checkNames(t reflect.Type, b json.RawMessage, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[[]byte](), reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return checkValue(t, b, path)
	case t.Kind() == reflect.Struct:
		return checkFields(t, b, path)
	case t.Kind() == reflect.Slice:
		return checkItems(t, b, path)
	}
	return nil
}

func checkFields(t reflect.Type, b json.RawMessage, path string) error {
	var m map[string]json.RawMessage
	if json.Unmarshal(b, &m) != nil {
		return nil //nolint:nilerr // of another kind: the decoder says so, with its place
	}
	fields := namesOf(t)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		place := strings.TrimPrefix(path+"."+name, ".")
		f, ok := fields[name]
		if !ok {
			return api.Errorf(api.CodeInvalid, "unknown field %q", place)
		}
		if err := checkNames(f, m[name], place); err != nil {
			return err
		}
	}
	return nil
}

func checkItems(t reflect.Type, b json.RawMessage, path string) error {
	var items []json.RawMessage
	if json.Unmarshal(b, &items) != nil {
		return nil //nolint:nilerr // of another kind: the decoder says so, with its place
	}
	for i, v := range items {
		if err := checkNames(t.Elem(), v, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// checkValue reads a value whose type has a spelling of its own, because the
// decoder does not say where such a value stands.
func checkValue(t reflect.Type, b json.RawMessage, path string) error {
	err := json.Unmarshal(b, reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		return api.Errorf(api.CodeInvalid, "%s must be %s", orBody(path), kindName(t))
	}
	if ae, ok := errors.AsType[*api.Error](err); ok {
		return api.Errorf(ae.Code, "%s: %s", orBody(path), ae.Msg)
	}
	return nil // of another kind: the decoder says so, with its place
}

func namesOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" {
			if name == "" {
				name = f.Name
			}
			out[name] = f.Type
		}
	}
	return out
}
