package table

import "github.com/tidwall/btree"

// Tallies is a table of counts by a pair of keys, in the order of the first and then of the second.
// As in Pairs, the keys share their texts with whatever has them already. One goroutine may change
// it; its copies may be read by any number.
type Tallies struct {
	tree btree.BTreeG[tally]
	last string         // first key that was counted last
	hint btree.PathHint // where its pair was found
}

type tally struct {
	pair
	n int
}

func (a tally) before(b tally) bool { return a.pair.before(b.pair) }

// Init implements Table.
func (t *Tallies) Init() {
	*t = Tallies{tree: *btree.NewBTreeGOptions(tally.before, btree.Options{NoLocks: true, Degree: degree})}
}

// CopyFrom implements Table.
func (t *Tallies) CopyFrom(of Table) { *t = Tallies{tree: *of.(*Tallies).tree.Copy()} } //nolint:forcetypeassert // as it says

// CopyFinal implements Table.
func (t *Tallies) CopyFinal(of Table) {
	c := Tallies{tree: of.(*Tallies).tree} //nolint:forcetypeassert // as it says
	t.CopyFrom(&c)                         // this marks what is copied: not of
}

// Add adds n to the count of a pair. A pair with a count of 0 is not in the table.
func (t *Tallies) Add(first, second string, n int) {
	if first != t.last {
		t.last = first
	}
	k := tally{pair: pair{t.last, second}}
	old, _ := t.tree.GetHint(k, &t.hint)
	if k.n = old.n + n; k.n == 0 {
		t.tree.Delete(k)
		return
	}
	if old.n != 0 {
		k.pair = old.pair // the texts that are there already
	}
	t.tree.SetHint(k, &t.hint)
}

// Len returns the number of pairs.
func (t *Tallies) Len() int { return t.tree.Len() }

// Keys returns the pairs in order, each as its keys with a NUL between them.
func (t *Tallies) Keys() []string {
	out := make([]string, 0, t.Len())
	t.tree.Scan(func(k tally) bool {
		out = append(out, k.first+"\x00"+k.second)
		return true
	})
	return out
}

// Values returns the counts in the order of Keys.
func (t *Tallies) Values() []int {
	out := make([]int, 0, t.Len())
	t.tree.Scan(func(k tally) bool {
		out = append(out, k.n)
		return true
	})
	return out
}

// Ascend visits the second keys of the pairs with a first key, in order, until visit returns false.
func (t *Tallies) Ascend(first string, visit func(second string, n int) bool) {
	t.tree.Ascend(tally{pair: pair{first: first}}, func(k tally) bool { return k.first == first && visit(k.second, k.n) })
}
