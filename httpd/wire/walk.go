package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"

	"berth/api"
)

// Limits of a JSON body, beside its size. The largest legal body, a boot with all
// of its groups full, is 13 deep and has fewer values.
const (
	jsonDepthMax  = 16     // lists and objects in each other, the outermost being 1
	jsonValuesMax = 20_000 // lists, objects, texts, numbers, true, false and null; names do not count
	jsonItemsMax  = 1_000  // items of a list of objects, which are the largest once decoded
)

// namesMax is the number of names of one object that are compared one by one.
const namesMax = 32

// walk is the one pass over a body before it is decoded, beside the type that it is for.
// It allocates nothing that grows with the body until the limits are known to hold: a
// small body can take 50 times its size once decoded.
type walk struct {
	b             []byte
	i             int                 // the next byte
	depth, values int                 // in front of it
	levels        [jsonDepthMax]level // the open lists and objects
	names         [][]byte            // of the open objects, the innermost last

	deep   bool  // decode what has a spelling of its own
	limit  error // the limit that the body exceeds; the walk ends there
	twice  error // a name that is given twice; the walk ends there
	text   bool  // a text is not UTF-8
	misfit error // the first thing that does not fit the type
}

// level is an open list or object.
type level struct {
	name []byte          // of an object: the current name; nil in a list
	item int             // of a list: the current item
	wide map[string]bool // of an object with more than namesMax names: all of them
}

func newWalk(b []byte) *walk { return &walk{b: b, names: make([][]byte, 0, namesMax)} }

// checkJSON refuses what must not be decoded. A limit goes first, wherever it is exceeded,
// then text that is not UTF-8, then broken JSON and repeated names, and last what does not
// fit the type. Values of a wrong kind are left to the decoder, which reports their place.
func checkJSON(b []byte, s *shape) error {
	w := newWalk(b)
	whole := w.value(s)
	w.skipBlanks()
	switch whole = whole && w.i == len(b); {
	case w.limit != nil, !whole && !w.withinLimits():
		return w.limit
	case w.text, !whole:
		if err := checkText(b); err != nil {
			return err
		}
	}
	switch {
	case w.twice != nil:
		return w.twice
	case !whole:
		return brokenJSON(b)
	case w.misfit != nil:
		return findMisfit(b, s)
	}
	return nil
}

// findMisfit returns an error for the first thing in valid JSON that does not fit the type
// and whose place the decoder does not report; nil without one.
func findMisfit(b []byte, s *shape) error {
	w := newWalk(b)
	w.deep = true
	w.value(s)
	return w.misfit
}

// withinLimits counts to the end of the body, and reports whether limits hold. The rest
// need not be JSON; up to the first byte that is not, the count is exact.
func (w *walk) withinLimits() bool {
	rest := walk{b: w.b, i: w.i, depth: w.depth, values: w.values}
	for ; rest.i < len(rest.b) && rest.limit == nil; rest.i++ {
		switch rest.b[rest.i] {
		case ' ', '\t', '\r', '\n', ',':
		case ':':
			rest.values-- // what stood before was a name
		case ']', '}':
			rest.depth--
		case '[', '{':
			_ = rest.open() && rest.count() // the limit is noted
		case '"':
			rest.i, _ = textEnd(rest.b, rest.i)
			rest.count()
		default:
			rest.i = wordEnd(rest.b, rest.i)
			rest.count()
		}
	}
	w.limit = rest.limit
	return w.limit == nil
}

// open notes a list or an object, and reports whether there may be so many in each other.
func (w *walk) open() bool {
	if w.depth++; w.depth > jsonDepthMax {
		w.limit = api.Errorf(api.CodeInvalid, "the body may be nested at most %d deep", jsonDepthMax)
	}
	return w.limit == nil
}

// count notes a value, and reports whether there may be so many.
func (w *walk) count() bool {
	if w.values++; w.values > jsonValuesMax {
		w.limit = api.Errorf(api.CodeInvalid, "the body may have at most %d JSON values", jsonValuesMax)
	}
	return w.limit == nil
}

func (w *walk) skipBlanks() {
	for w.i < len(w.b) && (w.b[w.i] == ' ' || w.b[w.i] == '\t' || w.b[w.i] == '\r' || w.b[w.i] == '\n') {
		w.i++
	}
}

// peek skips blanks and returns the next byte, 0 at the end.
func (w *walk) peek() byte {
	if w.skipBlanks(); w.i < len(w.b) {
		return w.b[w.i]
	}
	return 0
}

// take skips blanks and then the byte c, if that is next.
func (w *walk) take(c byte) bool {
	if w.peek() != c {
		return false
	}
	w.i++
	return true
}

// value walks over one value, and reports whether the walk can go on. Where it cannot, the
// next byte is the first of what is wrong.
func (w *walk) value(s *shape) bool {
	first, start := w.peek(), w.i
	ok := false
	switch first {
	case 0, ']', '}', ',', ':':
	case '{':
		ok = w.open() && w.count() && w.object(s)
	case '[':
		ok = w.open() && w.count() && w.list(s)
	case '"':
		_, ok = w.quoted()
	default:
		end := wordEnd(w.b, w.i) + 1
		if ok = isWord(w.b[w.i:end]) && w.count(); ok {
			w.i = end
		}
	}
	if ok && s != nil && s.own != nil && w.misfit == nil {
		w.misfit = w.checkOwn(s, w.b[start:w.i])
	}
	return ok
}

// isWord reports whether b is a number, true, false or null.
func isWord(b []byte) bool {
	return len(b) == 1 && '0' <= b[0] && b[0] <= '9' || json.Valid(b)
}

// quoted walks over a text and returns it with its quotes.
func (w *walk) quoted() ([]byte, bool) {
	end, plain := textEnd(w.b, w.i)
	raw := w.b[w.i : end+1]
	if !plain && !json.Valid(raw) || !w.count() {
		return nil, false
	}
	w.text = w.text || !plain && api.CheckJSONText(raw) != nil
	w.i = end + 1
	return raw, true
}

// object walks over an object.
func (w *walk) object(s *shape) bool {
	l, base := &w.levels[w.depth-1], len(w.names)
	*l = level{}
	w.i++
	for more := !w.take('}'); more; more = !w.take('}') {
		if l.name != nil && !w.take(',') || !w.name(l, base) || !w.take(':') {
			return false
		}
		w.values-- // it was a name
		var of *shape
		if s != nil && s.fields != nil {
			known := false
			if of, known = s.fields[string(l.name)]; !known && w.misfit == nil {
				w.misfit = api.Errorf(api.CodeInvalid, "unknown field %q", w.place(w.depth))
			}
		}
		if !w.value(of) {
			return false
		}
	}
	w.depth, w.names = w.depth-1, w.names[:base]
	return true
}

// name walks over a name of an object whose other names begin at base, and reports whether
// it is a new one.
func (w *walk) name(l *level, base int) bool {
	if w.peek() != '"' {
		return false
	}
	raw, ok := w.quoted()
	if !ok {
		return false
	}
	l.name = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') >= 0 {
		var text string
		_ = json.Unmarshal(raw, &text) // it is valid
		l.name = []byte(text)
	}
	given := l.wide[string(l.name)]
	for _, other := range w.names[base:] {
		given = given || bytes.Equal(l.name, other)
	}
	if given {
		w.twice = api.Errorf(api.CodeInvalid, "the name %q is given twice", l.name)
		return false
	}
	if len(w.names)-base < namesMax {
		w.names = append(w.names, l.name)
		return true
	}
	if l.wide == nil {
		if !w.withinLimits() {
			return false
		}
		l.wide = map[string]bool{}
	}
	l.wide[string(l.name)] = true
	return true
}

// list walks over a list.
func (w *walk) list(s *shape) bool {
	l := &w.levels[w.depth-1]
	*l = level{}
	w.i++
	var of *shape
	if s != nil {
		of = s.elem
	}
	for more := !w.take(']'); more; more = !w.take(']') {
		if l.item > 0 && !w.take(',') {
			return false
		}
		if l.item == jsonItemsMax && s != nil && s.objects && w.misfit == nil {
			w.misfit = api.Errorf(api.CodeInvalid, "%s may have at most %d items", w.place(w.depth-1), jsonItemsMax)
		}
		if !w.value(of) {
			return false
		}
		l.item++
	}
	w.depth--
	return true
}

// place returns where the walk is in the outermost levels, such as thing.list[3].name.
func (w *walk) place(depth int) string {
	out := ""
	for i := range w.levels[:depth] {
		switch l := &w.levels[i]; {
		case l.name == nil:
			out += "[" + strconv.Itoa(l.item) + "]"
		case out == "":
			out = string(l.name)
		default:
			out += "." + string(l.name)
		}
	}
	return out
}

// checkOwn refuses a value whose type has a spelling of its own, because the decoder does
// not report where such a value is. Only a deep walk decodes it, but for null, which the
// decoder may not show to the type at all.
func (w *walk) checkOwn(s *shape, b []byte) error {
	bytes := s.own == bytesType
	switch {
	case bytes && b[0] == '[':
		return api.Errorf(api.CodeInvalid, "%s must be %s, not a list", orBody(w.place(w.depth)), kindName(s.own))
	case bytes && b[0] == 'n':
		return api.Errorf(api.CodeInvalid, "%s must be %s, not null", orBody(w.place(w.depth)), kindName(s.own))
	case !w.deep && b[0] != 'n':
		return nil
	}
	err := json.Unmarshal(b, s.newOwn())
	if err == nil {
		return nil
	}
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		return api.Errorf(api.CodeInvalid, "%s must be %s", orBody(w.place(w.depth)), kindName(s.own))
	}
	if ae, ok := errors.AsType[*api.Error](err); ok {
		return api.Errorf(ae.Code, "%s: %s", orBody(w.place(w.depth)), ae.Msg)
	}
	return nil // of another kind: the decoder reports it, with its place
}

// textEnd returns the place of the quote that ends the text that begins at i, or of the
// last byte, and whether the text is plain: it ends, and is of printable ASCII without
// escapes.
func textEnd(b []byte, i int) (end int, plain bool) {
	plain = true
	for i++; i < len(b) && b[i] != '"'; i++ {
		if c := b[i]; c == '\\' {
			i++
			plain = false
		} else if c < ' ' || c >= 0x80 {
			plain = false
		}
	}
	return min(i, len(b)-1), plain && i < len(b)
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
