package codec

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
)

// FormTag is the tag of a field that was added after the first form of its type. Its value
// is the form of the addition, from 2 to 255.
const FormTag = "form"

// NeededForm returns the lowest form that has all values in v: the greatest tag of a field
// that is not zero, and 1 without one.
func NeededForm(v any) uint8 {
	if !HasForms(v) {
		return 1
	}
	return neededForm(reflect.ValueOf(v))
}

// HasForms reports whether a field of v's type, at any depth, was added after the first form.
func HasForms(v any) bool {
	r := reflect.ValueOf(v)
	return r.IsValid() && hasForms(r.Type())
}

func neededForm(v reflect.Value) uint8 {
	form := uint8(1)
	switch v.Kind() { //nolint:exhaustive // values of other kinds have no forms
	case reflect.Pointer:
		if !v.IsNil() {
			form = neededForm(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			form = max(form, neededForm(v.Index(i)))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			form = max(form, neededForm(v.MapIndex(k)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, field := v.Type().Field(i), v.Field(i)
			if field.IsZero() {
				continue
			}
			if hasForms(f.Type) {
				form = max(form, neededForm(field))
			}
			form = max(form, formOf(f))
		}
	default:
	}
	return form
}

// formOf returns the form in which a field was added. A malformed tag is a bug.
func formOf(f reflect.StructField) uint8 {
	tag, ok := f.Tag.Lookup(FormTag)
	if !ok {
		return 1
	}
	n, err := strconv.ParseUint(tag, 10, 8)
	if err != nil || n < 2 {
		panic(fmt.Sprintf("codec: field %s: the form %q is not a number from 2 to 255", f.Name, tag))
	}
	return uint8(n)
}

// formed caches for each type whether it has tags, at any depth.
var formed sync.Map // reflect.Type -> bool

func hasForms(t reflect.Type) bool {
	if has, known := formed.Load(t); known {
		return has.(bool) //nolint:forcetypeassert // only bools are stored
	}
	has := findForms(t, map[reflect.Type]bool{})
	formed.Store(t, has)
	return has
}

// findForms looks for tags in a type, but not in those that it has seen.
func findForms(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() { //nolint:exhaustive // values of other kinds have no forms
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findForms(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); formOf(f) > 1 || findForms(f.Type, seen) {
				return true
			}
		}
	default:
	}
	return false
}
