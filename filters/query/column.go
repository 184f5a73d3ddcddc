package query

import (
	"math"

	"berth/api"
)

const (
	wordBits = 64
	all      = ^uint64(0)
)

// kind is the type of a value. Values of different kinds are never compared.
type kind uint8

// The kinds.
const (
	kindNumber kind = iota + 1 // int64 millionths
	kindText                   // compared byte by byte
	kindBool
)

// String returns what people call k.
func (k kind) String() string {
	switch k {
	case kindNumber:
		return "a number"
	case kindText:
		return "a text"
	case kindBool:
		return "true or false"
	}
	return "no value"
}

// Columns is all that a query can see of hosts: each method returns one variable
// of every row, or nil if no row has it. A column that was returned must not
// change while it is in use. Rows are those of the set that is given to Keep.
type Columns interface {
	Free(class api.ResourceClass) *Column  // what slots of a request could take in all
	Total(class api.ResourceClass) *Column // what there is in all, ratios applied
	Instances() *Column                    // instances on the host
	Attribute(name string) *Column         // operators' values over agents'; any text may be asked for
	AZ() *Column                           // names of availability zones
	Name() *Column                         // names of hosts; nil for a caller who must not learn them
}

// Column is one variable of every row. A row has one value, of any kind, or
// none. Setting a row again replaces its value. The zero Column has no rows.
type Column struct {
	rows                     int
	numbers                  []int64 // nil as long as there is none; whole words long, as texts is
	texts                    []string
	isNumber, isText, no, ok []uint64
}

// NewColumn returns a column in which rows 0 to rows-1 have no value.
func NewColumn(rows int) *Column {
	words := (rows + wordBits - 1) / wordBits
	bits := make([]uint64, 4*words)
	cut := func(i int) []uint64 { return bits[i*words : (i+1)*words : (i+1)*words] }
	return &Column{rows: rows, isNumber: cut(0), isText: cut(1), no: cut(2), ok: cut(3)}
}

// SetNumber gives row a whole number. One beyond NumberMax counts as larger than
// every number that a query can name.
func (c *Column) SetNumber(row int, n int64) {
	switch {
	case n > NumberMax:
		c.SetMicros(row, math.MaxInt64)
	case n < -NumberMax:
		c.SetMicros(row, math.MinInt64)
	default:
		c.SetMicros(row, n*micros)
	}
}

// SetMicros gives row a number in millionths.
func (c *Column) SetMicros(row int, n int64) {
	if c.numbers == nil {
		c.numbers = make([]int64, len(c.isNumber)*wordBits)
	}
	c.markKind(row, c.isNumber)
	c.numbers[row] = n
}

// SetText gives row a text.
func (c *Column) SetText(row int, s string) {
	if c.texts == nil {
		c.texts = make([]string, len(c.isText)*wordBits)
	}
	c.markKind(row, c.isText)
	c.texts[row] = s
}

// SetBool gives row true or false.
func (c *Column) SetBool(row int, b bool) {
	if b {
		c.markKind(row, c.ok)
	} else {
		c.markKind(row, c.no)
	}
}

// markKind says of what kind the value of row is: the one that has the bits of to.
func (c *Column) markKind(row int, to []uint64) {
	w, bit := row/wordBits, uint64(1)<<(row%wordBits)
	for _, of := range [][]uint64{c.isNumber, c.isText, c.no, c.ok} {
		of[w] &^= bit
	}
	to[w] |= bit
}

// operandBlock returns the values of one kind in 64 rows.
func (c *Column) operandBlock(k kind, w int) operand {
	if c == nil || w >= len(c.ok) {
		return operand{}
	}
	switch k {
	case kindNumber:
		if known := c.isNumber[w]; known != 0 {
			return operand{known: known, numbers: c.numbers[w*wordBits : (w+1)*wordBits]}
		}
	case kindText:
		if known := c.isText[w]; known != 0 {
			return operand{known: known, texts: c.texts[w*wordBits : (w+1)*wordBits]}
		}
	case kindBool:
		return operand{known: c.ok[w] | c.no[w], yes: c.ok[w]}
	}
	return operand{}
}

// truthOf says which of 64 rows have a value that counts as true (not false, 0 or
// the empty text), and which have one that does not.
func (c *Column) truthOf(w int) (t, f uint64) {
	b, n, s := c.operandBlock(kindBool, w), c.operandBlock(kindNumber, w), c.operandBlock(kindText, w)
	t, f = b.yes, b.known&^b.yes
	if n.known != 0 {
		zero := equalBits(n.numbers, []int64{0})
		t, f = t|n.known&^zero, f|n.known&zero
	}
	if s.known != 0 {
		empty := equalBits(s.texts, []string{""})
		t, f = t|s.known&^empty, f|s.known&empty
	}
	return t, f
}
