package wire

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"
)

var bytesType = reflect.TypeFor[[]byte]()

// shape is what a walk must know of a type. It is nil for a type that any value fits, or
// that is left to the decoder.
type shape struct {
	own     reflect.Type      // of a value with a spelling of its own; nil for others
	fields  map[string]*shape // of a struct, by their names in JSON
	elem    *shape            // of a list
	objects bool              // the items of the list are structs
}

// newOwn returns a pointer to a new value with a spelling of its own.
func (s *shape) newOwn() any { return reflect.New(s.own).Interface() }

// shapes has the shapes of the bodies so far.
var shapes sync.Map // reflect.Type -> *shape

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape) //nolint:forcetypeassert // only shapes are stored
	}
	s := makeShape(t, map[reflect.Type]*shape{})
	shapes.Store(t, s)
	return s
}

// makeShape returns the shape of a type; made has those of the types that it is part of.
func makeShape(t reflect.Type, made map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := made[t]; ok {
		return s
	}
	s := &shape{}
	made[t] = s
	switch {
	case t == bytesType, reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		s.own = t
	case t.Kind() == reflect.Struct:
		s.fields = map[string]*shape{}
		for name, field := range namesOf(t) {
			s.fields[name] = makeShape(field, made)
		}
	case t.Kind() == reflect.Slice:
		s.elem, s.objects = makeShape(t.Elem(), made), t.Elem().Kind() == reflect.Struct
	}
	return s
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
