package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
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
	ct := r.Header.Get("Content-Type")
	if mt, _, err := mime.ParseMediaType(ct); err != nil || mt != "application/json" { // nothing that a foreign page may send unasked
		return api.Errorf(api.CodeMediaType, "the body must be application/json, not %q", ct)
	}
	if how := r.Header.Get("Content-Encoding"); how != "" && how != "identity" {
		return api.Errorf(api.CodeMediaType, "the body must not be compressed, but its Content-Encoding is %q", how)
	}
	b, err := readBody(r, limit)
	if err != nil {
		return err
	}
	s := shapeOf(reflect.TypeOf(v).Elem())
	if err := checkJSON(b, s); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return cmp.Or(findMisfit(b, s), invalidJSON(err))
	}
	return checkParts(b, reflect.ValueOf(v).Elem())
}

// checkParts refuses a body in which an object that v has by value, such as server in a boot,
// is null or absent, unless its tag lets it be.
func checkParts(b []byte, v reflect.Value) error {
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() != reflect.Struct || f.Anonymous || name == "" || strings.Contains(rest, "omit") || !v.Field(i).IsZero() {
			continue
		}
		var parts map[string]json.RawMessage
		if json.Unmarshal(b, &parts) != nil {
			continue // it is null as a whole, or has a spelling of its own
		}
		if text := parts[name]; len(text) == 0 || string(text) == "null" {
			return api.Errorf(api.CodeInvalid, "%s is missing: the body must be an object with %q", name, name)
		}
	}
	return nil
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

// kindNames has the words for kinds that are not numbers.
var kindNames = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Array: "a list",
	reflect.Map: "an object", reflect.Struct: "an object",
}

// aWholeNumber is the word for all other kinds.
const aWholeNumber = "a whole number"

func kindName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == bytesType {
		return "a text in base64"
	}
	return cmp.Or(kindNames[t.Kind()], aWholeNumber)
}

// brokenJSON returns the error for a body that is not one JSON value.
func brokenJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for n, depth := 0, 0; ; n++ {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return api.Errorf(api.CodeInvalid, "the body is empty; it must be a JSON object")
		case errors.Is(err, io.EOF):
			return api.Errorf(api.CodeInvalid, "the body is not valid JSON: it ends too early")
		case err != nil:
			return invalidJSON(err)
		case n > 0 && depth == 0:
			return api.Errorf(api.CodeInvalid, "the body has something after its JSON value")
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}
