package client

import (
	"reflect"
	"unicode/utf8"

	"berth/api"
)

// notText is the refusal of a request with text that is not UTF-8. The encoder would
// replace it, and the zone would get a different name than the caller gave.
func notText(op string) error {
	return api.Wrap(api.CodeInvalid, op, "the request has text that is not valid UTF-8", nil)
}

// isText reports whether every text in a value is UTF-8: names and values of maps,
// items of lists and fields, at any depth. Bytes are not text.
func isText(v reflect.Value) bool {
	switch v.Kind() { //nolint:exhaustive // other kinds contain no text
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return isText(v.Elem()) // of nil, a value of no kind
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		return allText(v.Len(), v.Index)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !isText(it.Key()) || !isText(it.Value()) {
				return false
			}
		}
	case reflect.Struct:
		return allText(v.NumField(), v.Field)
	}
	return true
}

// allText reports whether every text in the first n parts of a value is UTF-8.
func allText(n int, part func(int) reflect.Value) bool {
	for i := range n {
		if !isText(part(i)) {
			return false
		}
	}
	return true
}
