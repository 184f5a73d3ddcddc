package table

import "github.com/tidwall/btree"

// Pairs is a table of pairs of keys, in the order of the first and then of the second. Other than
// keys that are joined, pairs share their texts with whatever has them already. One goroutine
// may change it; its copies may be read by any number.
type Pairs struct {
	tree btree.BTreeG[pair]
	last string // first key of the pair that was inserted last: the next one often has the same
}

type pair struct{ first, second string }

func (a pair) before(b pair) bool {
	if a.first != b.first {
		return a.first < b.first
	}
	return a.second < b.second
}

// Init implements Table.
func (p *Pairs) Init() {
	*p = Pairs{tree: *btree.NewBTreeGOptions(pair.before, btree.Options{NoLocks: true, Degree: degree})}
}

// CopyFrom implements Table.
func (p *Pairs) CopyFrom(of Table) { *p = Pairs{tree: *of.(*Pairs).tree.Copy()} } //nolint:forcetypeassert // as it says

// CopyFinal implements Table.
func (p *Pairs) CopyFinal(of Table) {
	c := Pairs{tree: of.(*Pairs).tree} //nolint:forcetypeassert // as it says
	p.CopyFrom(&c)                     // this marks what is copied: not of
}

// Insert adds a pair.
func (p *Pairs) Insert(first, second string) {
	if first != p.last {
		p.last = first
	}
	p.tree.Set(pair{p.last, second})
}

// Delete removes a pair.
func (p *Pairs) Delete(first, second string) { p.tree.Delete(pair{first, second}) }

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
