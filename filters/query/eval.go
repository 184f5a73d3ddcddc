package query

import (
	"strings"

	"berth/api"
	"berth/capacity"
)

// Keep takes out of pass every row for which q is not true. It adds none, holds
// nothing between calls, and evaluates 64 rows at a time, only those blocks that
// have a row in pass.
func (q *Query) Keep(c Columns, pass *capacity.Set) {
	if q.root == nil {
		return
	}
	cols := make(columns, len(q.variables))
	for i, name := range q.variables {
		cols[i] = resolveColumn(name, c)
	}
	word, passing := -1, uint64(0)
	for row := range pass.All() {
		if w := row / wordBits; w != word {
			word = w
			passing, _ = cols.evaluate(q.root, w)
		}
		if passing>>(row%wordBits)&1 == 0 {
			pass.Remove(row)
		}
	}
}

// Variables that are texts on every host. VariableAZ names its availability zone.
const (
	VariableAZ   = "host.availability_zone"
	variableName = "host.name"
)

// resolveColumn finds the column of a variable. This is the whole list of what a query
// may name.
func resolveColumn(name string, c Columns) *Column {
	switch name {
	case "free_ram_mb":
		return c.Free(api.MemoryMB)
	case "free_disk_gb":
		return c.Free(api.DiskGB)
	case "vcpus_free":
		return c.Free(api.VCPU)
	case "ram_mb_total":
		return c.Total(api.MemoryMB)
	case "disk_gb_total":
		return c.Total(api.DiskGB)
	case "vcpus_total":
		return c.Total(api.VCPU)
	case "instances":
		return c.Instances()
	case VariableAZ:
		return c.AZ()
	case variableName:
		return c.Name()
	case "":
		return nil
	}
	if class, ok := strings.CutPrefix(name, "free."); ok {
		return c.Free(api.ResourceClass(class))
	}
	if class, ok := strings.CutPrefix(name, "total."); ok {
		return c.Total(api.ResourceClass(class))
	}
	if attribute, ok := strings.CutPrefix(name, "attributes."); ok {
		return c.Attribute(attribute)
	}
	return c.Attribute(strings.TrimPrefix(name, "capabilities."))
}

// kindOfVariable returns the kind that a variable has on every host that has it: an amount
// or a count is a number, a name a text. It is 0 for an attribute.
func kindOfVariable(name string) kind {
	switch name {
	case "free_ram_mb", "free_disk_gb", "vcpus_free", "ram_mb_total", "disk_gb_total", "vcpus_total", "instances":
		return kindNumber
	case VariableAZ, variableName:
		return kindText
	}
	if strings.HasPrefix(name, "free.") || strings.HasPrefix(name, "total.") {
		return kindNumber
	}
	return 0
}

// columns are the variables of a query, by their number; nil for one that no row
// has.
type columns []*Column

// operand is an argument of a comparison over 64 rows: which of them have a value
// of the kind that is compared, and the values. A literal has one value in place
// of 64.
type operand struct {
	known   uint64
	numbers []int64
	texts   []string
	yes     uint64 // of kindBool: where it is true
}

// evaluate says for which of 64 rows n is true and for which false; for the rest it
// has no answer.
func (c columns) evaluate(n *node, w int) (t, f uint64) {
	switch n.op {
	case opLiteral:
		if n.isTruthy() {
			return all, 0
		}
		return 0, all
	case opVariable:
		return c[n.variable].truthOf(w)
	case opAnd:
		return c.evaluateAll(n.args, w)
	case opNot:
		f, t = c.evaluateAll(n.args, w)
		return t, f
	case opOr:
		t, f = 0, all
		for i := range n.args {
			at, af := c.evaluate(&n.args[i], w)
			t, f = t|at, f&af
		}
		return t, f
	case opEqual, opIn, opLess, opGreater, opAtMost, opAtLeast:
		return c.evaluateComparison(n, w)
	}
	panic("query: operator without a meaning")
}

func (c columns) evaluateAll(args []node, w int) (t, f uint64) {
	t, f = all, 0
	for i := range args {
		at, af := c.evaluate(&args[i], w)
		t, f = t&at, f|af
	}
	return t, f
}

// evaluateComparison compares the first argument with all others. When no argument says
// of what kind the values are, each row is compared by the kind it has.
func (c columns) evaluateComparison(n *node, w int) (t, f uint64) {
	if len(n.args) < 2 {
		return 0, all
	}
	if n.over != 0 {
		return c.compareKind(n, n.over, w)
	}
	t, f = c.compareKind(n, kindNumber, w)
	xt, xf := c.compareKind(n, kindText, w)
	t, f = t|xt, f|xf
	if !n.op.isOrdering() {
		bt, bf := c.compareKind(n, kindBool, w)
		t, f = t|bt, f|bf
	}
	return t, f
}

func (c columns) compareKind(n *node, k kind, w int) (t, f uint64) {
	first := c.operandOf(&n.args[0], k, w)
	known, some, every := first.known, uint64(0), all
	for i := 1; i < len(n.args) && known != 0; i++ {
		other := c.operandOf(&n.args[i], k, w)
		if known &= other.known; known == 0 {
			break
		}
		is := n.op.compareBlocks(k, first, other)
		some, every = some|is, every&is
	}
	if n.op == opIn {
		return known & some, known &^ some
	}
	return known & every, known &^ every
}

func (c columns) operandOf(n *node, k kind, w int) operand {
	switch {
	case n.op == opVariable:
		return c[n.variable].operandBlock(k, w)
	case n.op == opLiteral && k == kindNumber:
		return operand{known: all, numbers: n.numbers[:]}
	case n.op == opLiteral && k == kindText:
		return operand{known: all, texts: n.texts[:]}
	}
	t, f := c.evaluate(n, w)
	return operand{known: t | f, yes: t}
}

// compareBlocks says in which of 64 rows a compares with b as o wants. Rows that are
// not known in both say nothing.
func (o op) compareBlocks(k kind, a, b operand) uint64 {
	switch k {
	case kindNumber:
		return orderedBits(o, a.numbers, b.numbers)
	case kindText:
		return orderedBits(o, a.texts, b.texts)
	case kindBool: // is never ordered
		return ^(a.yes ^ b.yes)
	}
	panic("query: comparison of no kind")
}

func orderedBits[T int64 | string](o op, a, b []T) uint64 {
	switch o {
	case opLess:
		return lessBits(a, b)
	case opGreater:
		return lessBits(b, a)
	case opAtMost:
		return ^lessBits(b, a)
	case opAtLeast:
		return ^lessBits(a, b)
	case opEqual, opIn:
		return equalBits(a, b)
	case opLiteral, opVariable, opAnd, opOr, opNot:
	}
	panic("query: comparison without an order")
}

// equalBits and less compare 64 values with 64 others, or with one; the last value
// comes first, so that no shift depends on a counter.
func equalBits[T int64 | string](a, b []T) (out uint64) {
	am, bm := len(a)-1, len(b)-1 // 63, or 0 for one value
	for i := wordBits - 1; i >= 0; i-- {
		out = out<<1 | boolBit(a[i&am] == b[i&bm])
	}
	return out
}

func lessBits[T int64 | string](a, b []T) (out uint64) {
	am, bm := len(a)-1, len(b)-1
	for i := wordBits - 1; i >= 0; i-- {
		out = out<<1 | boolBit(a[i&am] < b[i&bm])
	}
	return out
}

// boolBit is 1 for true; the compiler makes no branch of it.
func boolBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
