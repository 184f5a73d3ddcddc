package table

import "github.com/tidwall/btree"

// Tallies is a table of counts by a pair of keys, in the order of the first and then of the second.
// As in Pairs, the keys share their texts with whatever has them already. One goroutine may change
// it; its views may be read by any number.
type Tallies struct {
	tree tallyTree
	last string // first key that was counted last
}

// tallyTree hides the type of the tree; see the package.
type tallyTree interface {
	// add adds n to the count of the pair of k, which is 0 if it is not there.
	add(k pair, n int)
	Len() int
	Scan(func(tally) bool)
	Ascend(tally, func(tally) bool)
	view() tallyTree
	copyView() tallyTree
}

type tallyBTree struct {
	*btree.BTreeG[tally]
	hint btree.PathHint // where the last pair was found
	guard[*tallyBTree]
}

func newTallyTree() tallyTree {
	return &tallyBTree{BTreeG: btree.NewBTreeGOptions(tally.before, btree.Options{NoLocks: true, Degree: degree})}
}

func (t *tallyBTree) view() tallyTree {
	if t.shown == nil {
		t.shown = &tallyBTree{BTreeG: t.Copy()}
		t.shown.keep(t.shown)
	}
	return t.shown
}

func (t *tallyBTree) copyView() tallyTree {
	of := *t.BTreeG // Copy marks what it copies
	return &tallyBTree{BTreeG: of.Copy()}
}

type tally struct {
	pair
	n int
}

func (a tally) before(b tally) bool { return a.pair.before(b.pair) }

// Init implements Table.
func (t *Tallies) Init() { *t = Tallies{tree: newTallyTree()} }

// SetView implements Table.
func (t *Tallies) SetView(of Table) { *t = Tallies{tree: of.(*Tallies).tree.view()} } //nolint:forcetypeassert // as it says

// SetCopy implements Table.
func (t *Tallies) SetCopy(view Table) { *t = Tallies{tree: view.(*Tallies).tree.copyView()} } //nolint:forcetypeassert // as it says

// Add adds n to the count of a pair. A pair with a count of 0 is not in the table.
func (t *Tallies) Add(first, second string, n int) {
	if first != t.last {
		t.last = first
	}
	t.tree.add(pair{t.last, second}, n)
}

func (t *tallyBTree) add(p pair, n int) {
	t.change()
	k := tally{pair: p}
	old, _ := t.GetHint(k, &t.hint)
	if k.n = old.n + n; k.n == 0 {
		t.Delete(k)
		return
	}
	if old.n != 0 {
		k.pair = old.pair // the texts that are there already
	}
	t.SetHint(k, &t.hint)
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
