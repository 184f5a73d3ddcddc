package capacity

import "strings"

// attributeColumnsMax is the number of attribute names with a column. The values of further
// names are read from the descriptions, which is slower.
const attributeColumnsMax = 256

// Millionths is the number of units of Value.Number in 1.
const Millionths = 1_000_000

// NumberMax is the largest absolute value of a number; a larger one counts as text.
const NumberMax = 9_000_000_000_000

const (
	decimalsMax    = 6 // of a number; 10 to that power is Millionths
	wholeDigitsMax = 13
)

// Kind is the type of an attribute's value.
type Kind uint8

// The kinds of values.
const (
	KindNone   Kind = iota // the host has no such attribute
	KindNumber             // a decimal number
	KindBool               // true or false
	KindText               // anything else
)

// Value is the value of one attribute of one host.
type Value struct {
	Kind   Kind
	Number int64  // exact, in millionths, of KindNumber; 1 or 0 of KindBool
	Text   string // as it was written, whatever the kind
}

// ParseValue reads an attribute. A number is an optional minus, digits without
// leading zeros, and optionally a point and one to six digits, at most NumberMax
// either way; true and false are truth; all else is text.
func ParseValue(s string) Value {
	switch s {
	case "true":
		return Value{Kind: KindBool, Number: 1, Text: s}
	case "false":
		return Value{Kind: KindBool, Text: s}
	}
	if n, ok := parseMillionths(s); ok {
		return Value{Kind: KindNumber, Number: n, Text: s}
	}
	return Value{Kind: KindText, Text: s}
}

// parseMillionths reads a decimal number exactly.
func parseMillionths(s string) (int64, bool) {
	rest, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(rest, ".")
	if len(whole) > 1 && whole[0] == '0' || len(whole) > wholeDigitsMax || point && fraction == "" || len(fraction) > decimalsMax {
		return 0, false
	}
	var n int64
	for _, part := range []string{whole, fraction + "000000"[len(fraction):]} {
		if part == "" {
			return 0, false
		}
		for i := range len(part) {
			if part[i] < '0' || part[i] > '9' || n > NumberMax*Millionths/10 {
				return 0, false
			}
			n = n*10 + int64(part[i]-'0')
		}
	}
	if n > NumberMax*Millionths {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// Column is one attribute of all hosts of a view.
type Column struct {
	name   string
	number int // -1: read the descriptions
	chunks []*chunk
}

// Attribute returns the column of an attribute, even if no host has the attribute.
func (v View) Attribute(name string) Column {
	d := v.data()
	return Column{name: name, number: d.columns.numberOf(name), chunks: d.chunks}
}

// At returns the value of the host in row, of KindNone for a hole.
func (c Column) At(row int) Value {
	k, i := c.chunks[row/chunkHosts], row%chunkHosts
	if c.number < 0 {
		return k.plainAttribute(c.name, i)
	}
	if c.number >= len(k.attributes) || k.attributes[c.number] == nil {
		return Value{}
	}
	return k.attributes[c.number].at[i]
}

// Keep removes from pass every row whose value does not match. The value belongs to the view
// and must not be written or kept.
func (c Column) Keep(pass *Set, match func(v *Value) bool) {
	for n, k := range c.chunks {
		part := Set{pass.wordsOf(n)}
		switch {
		case c.number < 0:
			part.Keep(func(i int) bool {
				v := k.plainAttribute(c.name, i)
				return match(&v)
			})
		case c.number < len(k.attributes) && k.attributes[c.number] != nil:
			values := &k.attributes[c.number].at
			part.Keep(func(i int) bool { return match(&values[i]) })
		case !match(&Value{}):
			clear(part.words)
		}
	}
}

// plainAttribute returns an attribute of host i that is not in a column.
func (c *chunk) plainAttribute(name string, i int) Value {
	s := c.specs.at[i]
	if s == nil {
		return Value{}
	}
	text, ok := s.Attributes[name]
	if !ok {
		return Value{}
	}
	return ParseValue(text)
}
