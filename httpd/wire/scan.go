package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"

	"berth/api"
)

// Limits of a JSON body, beside its size. The largest legal body, a boot with all
// of its groups full, is 13 deep and has fewer values.
const (
	JSONDepthMax  = 16     // lists and objects in each other, the outermost being 1
	JSONValuesMax = 20_000 // lists, objects, texts, numbers, true, false and null; names do not count
	JSONItemsMax  = 1_000  // items of a list of objects, which are the largest once decoded
)

// scan refuses a body that is too deep or has too many values, before anything
// is decoded or allocated for it: a small body can take 50 times its size once
// decoded. It does not ask whether the body is JSON; up to the first byte that is
// none, its count is exact.
func scan(b []byte) error {
	depth, values := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\r', '\n', ',':
			continue
		case ':':
			values-- // what stood before was a name
			continue
		case ']', '}':
			depth--
			continue
		case '[', '{':
			if depth++; depth > JSONDepthMax {
				return api.Errorf(api.CodeInvalid, "the body may be nested at most %d deep", JSONDepthMax)
			}
		case '"':
			i = textEnd(b, i)
		default:
			i = wordEnd(b, i)
		}
		if values++; values > JSONValuesMax {
			return api.Errorf(api.CodeInvalid, "the body may have at most %d JSON values", JSONValuesMax)
		}
	}
	return nil
}

// textEnd returns the place of the quote that ends the text that begins at i, or
// of the last byte.
func textEnd(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return min(i, len(b)-1)
}

// wordEnd returns the place of the last byte of the number, true, false or null
// that begins at i.
func wordEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\r', '\n', ',', ':', '[', ']', '{', '}', '"':
			return i - 1
		}
	}
	return i - 1
}

// names walks valid JSON beside the type that it is for, and refuses names that
// the type does not have, in exactly its own case, at any depth. It copies
// nothing. What is not an object where the type wants one is left to the decoder.
type names struct {
	b      []byte
	i      int                                      // the next byte
	of     map[reflect.Type]map[string]reflect.Type // fields of the types so far
	places []string                                 // names on the way here; "" for a place in a list
	items  []int                                    // beside places: the place in the list
}

func checkNames(t reflect.Type, b []byte) error {
	n := &names{b: b, of: map[reflect.Type]map[string]reflect.Type{}}
	return n.value(t)
}

// place says where the walk is, such as thing.list[3].name.
func (n *names) place() string {
	out := ""
	for i, name := range n.places {
		switch {
		case n.items[i] >= 0:
			out += "[" + strconv.Itoa(n.items[i]) + "]"
		case out == "":
			out = name
		default:
			out += "." + name
		}
	}
	return out
}

// peek returns the next byte that is neither blank nor a separator.
func (n *names) peek() byte {
	for {
		switch c := n.b[n.i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			n.i++
		default:
			return c
		}
	}
}

// skip walks over one value and returns it.
func (n *names) skip() []byte {
	n.peek()
	start := n.i
	for depth := 0; ; {
		switch n.peek() {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '"':
			n.i = textEnd(n.b, n.i)
		default:
			n.i = wordEnd(n.b, n.i)
		}
		n.i++
		if depth == 0 {
			return n.b[start:n.i]
		}
	}
}

func (n *names) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first := n.peek()
	switch {
	case t == reflect.TypeFor[[]byte]() && (first == '[' || first == 'n'):
		n.skip()
		return api.Errorf(api.CodeInvalid, "%s must be %s, not %s", orBody(n.place()), kindName(t), map[byte]string{'[': "a list", 'n': "null"}[first])
	case t == reflect.TypeFor[[]byte](), reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return n.own(t, n.skip())
	case t.Kind() == reflect.Struct && first == '{':
		return n.fields(t)
	case t.Kind() == reflect.Slice && first == '[':
		return n.list(t.Elem())
	}
	n.skip()
	return nil
}

func (n *names) fields(t reflect.Type) error {
	known, ok := n.of[t]
	if !ok {
		known = namesOf(t)
		n.of[t] = known
	}
	n.i++
	n.places, n.items = append(n.places, ""), append(n.items, -1)
	last := len(n.places) - 1
	for n.peek() != '}' {
		var name string
		if err := json.Unmarshal(n.skip(), &name); err != nil {
			return invalidJSON(err)
		}
		n.places[last] = name
		field, ok := known[name]
		if !ok {
			return api.Errorf(api.CodeInvalid, "unknown field %q", n.place())
		}
		if err := n.value(field); err != nil {
			return err
		}
	}
	n.i++
	n.places, n.items = n.places[:last], n.items[:last]
	return nil
}

func (n *names) list(t reflect.Type) error {
	n.i++
	n.places, n.items = append(n.places, ""), append(n.items, 0)
	last := len(n.places) - 1
	for ; n.peek() != ']'; n.items[last]++ {
		if t.Kind() == reflect.Struct && n.items[last] == JSONItemsMax {
			n.places, n.items = n.places[:last], n.items[:last]
			return api.Errorf(api.CodeInvalid, "%s may have at most %d items", n.place(), JSONItemsMax)
		}
		if err := n.value(t); err != nil {
			return err
		}
	}
	n.i++
	n.places, n.items = n.places[:last], n.items[:last]
	return nil
}

// own reads a value whose type has a spelling of its own, because the decoder
// does not say where such a value stands.
func (n *names) own(t reflect.Type, b []byte) error {
	err := json.Unmarshal(b, reflect.New(t).Interface())
	if err == nil {
		return nil
	}
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		return api.Errorf(api.CodeInvalid, "%s must be %s", orBody(n.place()), kindName(t))
	}
	if ae, ok := errors.AsType[*api.Error](err); ok {
		return api.Errorf(ae.Code, "%s: %s", orBody(n.place()), ae.Msg)
	}
	return nil // of another kind: the decoder says so, with its place
}
