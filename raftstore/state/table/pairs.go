package table

import "github.com/tidwall/btree"

// Pairs is a table of pairs of keys, in the order of the first and then of the second. Other than
// keys that are joined, pairs share their texts with whatever has them already. One goroutine
// may change it; its views may be read by any number.
type Pairs struct {
	tree pairTree
	last string // first key of the pair that was inserted last: the next one often has the same
}

type pair struct{ first, second string }

// pairTree hides the type of the tree; see the package.
type pairTree interface {
	insert(k pair)
	remove(k pair)
	Len() int
	Scan(visit func(k pair) bool)
	Ascend(first pair, visit func(k pair) bool)
	view() pairTree
	copyView() pairTree
}

type pairBTree struct {
	*btree.BTreeG[pair]
	guard[*pairBTree]
}

func newPairTree() pairTree {
	return &pairBTree{BTreeG: btree.NewBTreeGOptions(pair.before, btree.Options{NoLocks: true, Degree: degree})}
}

func (t *pairBTree) insert(k pair) {
	t.change()
	t.Set(k)
}

func (t *pairBTree) remove(k pair) {
	t.change()
	t.Delete(k)
}

func (t *pairBTree) view() pairTree {
	if t.shown == nil {
		t.shown = &pairBTree{BTreeG: t.Copy()}
		t.shown.keep(t.shown)
	}
	return t.shown
}

func (t *pairBTree) copyView() pairTree {
	of := *t.BTreeG // Copy marks what it copies
	return &pairBTree{BTreeG: of.Copy()}
}

func (a pair) before(b pair) bool {
	if a.first != b.first {
		return a.first < b.first
	}
	return a.second < b.second
}

// Init implements Table.
func (p *Pairs) Init() { *p = Pairs{tree: newPairTree()} }

// SetView implements Table.
func (p *Pairs) SetView(of Table) { *p = Pairs{tree: of.(*Pairs).tree.view()} } //nolint:forcetypeassert // as it says

// SetCopy implements Table.
func (p *Pairs) SetCopy(view Table) { *p = Pairs{tree: view.(*Pairs).tree.copyView()} } //nolint:forcetypeassert // as it says

// Insert adds a pair.
func (p *Pairs) Insert(first, second string) {
	if first != p.last {
		p.last = first
	}
	p.tree.insert(pair{p.last, second})
}

// Delete removes a pair.
func (p *Pairs) Delete(first, second string) { p.tree.remove(pair{first, second}) }

// Len returns the number of pairs.
func (p *Pairs) Len() int { return p.tree.Len() }

// Keys returns the pairs in order, each as its keys with a NUL between them.
func (p *Pairs) Keys() []string {
	out := make([]string, 0, p.Len())
	p.tree.Scan(func(k pair) bool {
		out = append(out, k.first+"\x00"+k.second)
		return true
	})
	return out
}

// Ascend visits the second keys of the pairs with a first key, from one on in order, until visit
// returns false.
func (p *Pairs) Ascend(first, from string, visit func(second string) bool) {
	p.tree.Ascend(pair{first, from}, func(k pair) bool { return k.first == first && visit(k.second) })
}
