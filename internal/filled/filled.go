// Package filled helps tests to see that no field of a struct is lost on its way. Only tests may import it.
package filled

import (
	"fmt"
	"reflect"
	"slices"
)

// Of returns a T all of whose exported fields have values other than zero, down to those of its elements; texts and numbers differ
// from each other. Lists and maps have one element, and a type within itself is left empty.
func Of[T any]() T {
	var out T
	(&filler{}).fill(reflect.ValueOf(&out).Elem())
	return out
}

type filler struct {
	last   int            // the number that was used last
	within []reflect.Type // being filled
}

func (f *filler) fill(v reflect.Value) {
	if !v.CanSet() || slices.Contains(f.within, v.Type()) {
		return
	}
	f.within = append(f.within, v.Type())
	defer func() { f.within = f.within[:len(f.within)-1] }()
	f.last++
	switch v.Kind() { //nolint:exhaustive // the others stay empty
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.last%100) + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.last%100) + 1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.last))
	case reflect.String:
		v.SetString(fmt.Sprintf("v%d", f.last))
	case reflect.Pointer:
		if !slices.Contains(f.within, v.Type().Elem()) {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	}
}

// Zero returns the names of the exported fields within v that are zero or empty, such as "Groups.Name", each once and
// sorted. Nothing within an empty one is named.
func Zero(v any) []string {
	all := map[string]bool{}
	zero(reflect.ValueOf(v), "", all)
	var out []string
	for name := range all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func zero(v reflect.Value, name string, all map[string]bool) {
	switch v.Kind() { //nolint:exhaustive // the others have nothing within
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			zero(v.Elem(), name, all)
			return
		}
	case reflect.Struct:
		exported := 0
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			exported++
			inner := f.Name
			if name != "" {
				inner = name + "." + f.Name
			}
			zero(v.Field(i), inner, all)
		}
		if exported > 0 {
			return
		}
	case reflect.Slice, reflect.Array:
		if v.Len() > 0 && hasFields(v.Type().Elem()) {
			for i := range v.Len() {
				zero(v.Index(i), name, all)
			}
			return
		}
	}
	if v.Kind() == reflect.Map && v.Len() == 0 || v.Kind() == reflect.Slice && v.Len() == 0 || !v.IsValid() || v.IsZero() {
		all[name] = true
	}
}

func hasFields(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}
