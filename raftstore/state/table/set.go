package table

import "github.com/tidwall/btree"

// Set is a table of keys, in order. One goroutine may change it; its views may be read by any
// number.
type Set struct{ keys keyTree }

// keyTree hides the type of the tree; see the package.
type keyTree interface {
	Insert(k string)
	Delete(k string)
	Contains(k string) bool
	Len() int
	Min() (string, bool)
	Keys() []string
	Scan(visit func(k string) bool)
	Ascend(first string, visit func(k string) bool)
	view() keyTree
	copyView() keyTree
}

// Init implements Table.
func (s *Set) Init() { s.keys = newKeyTree() }

// SetView implements Table.
func (s *Set) SetView(of Table) { s.keys = of.(*Set).keys.view() } //nolint:forcetypeassert // as it says

// SetCopy implements Table.
func (s *Set) SetCopy(view Table) { s.keys = view.(*Set).keys.copyView() } //nolint:forcetypeassert // as it says

// Insert adds a key.
func (s *Set) Insert(k string) { s.keys.Insert(k) }

// Delete removes a key.
func (s *Set) Delete(k string) { s.keys.Delete(k) }

// Contains reports whether a key is in the set.
func (s *Set) Contains(k string) bool { return s.keys.Contains(k) }

// Len returns the number of keys.
func (s *Set) Len() int { return s.keys.Len() }

// Min returns the first key.
func (s *Set) Min() (string, bool) { return s.keys.Min() }

// Keys returns the keys in order.
func (s *Set) Keys() []string { return s.keys.Keys() }

// Scan visits the keys in order until visit returns false.
func (s *Set) Scan(visit func(k string) bool) { s.keys.Scan(visit) }

// Ascend visits the keys from a first one on in order until visit returns false.
func (s *Set) Ascend(first string, visit func(k string) bool) { s.keys.Ascend(first, visit) }

type keyBTree struct {
	tree btree.Map[string, struct{}]
	guard[*keyBTree]
}

func newKeyTree() keyTree { return &keyBTree{tree: *btree.NewMap[string, struct{}](degree)} }

func (t *keyBTree) Insert(k string) {
	t.change()
	t.tree.Set(k, struct{}{})
}

func (t *keyBTree) Delete(k string) {
	t.change()
	t.tree.Delete(k)
}

func (t *keyBTree) Contains(k string) bool {
	_, ok := t.tree.Get(k)
	return ok
}

func (t *keyBTree) Len() int { return t.tree.Len() }

func (t *keyBTree) Min() (string, bool) {
	k, _, ok := t.tree.Min()
	return k, ok
}

func (t *keyBTree) Keys() []string { return t.tree.Keys() }

func (t *keyBTree) Scan(visit func(k string) bool) {
	t.tree.Scan(func(k string, _ struct{}) bool { return visit(k) })
}

func (t *keyBTree) Ascend(first string, visit func(k string) bool) {
	t.tree.Ascend(first, func(k string, _ struct{}) bool { return visit(k) })
}

func (t *keyBTree) view() keyTree {
	if t.shown == nil {
		t.shown = &keyBTree{tree: *t.tree.Copy()}
		t.shown.keep(t.shown)
	}
	return t.shown
}

func (t *keyBTree) copyView() keyTree {
	of := t.tree // Copy marks what it copies
	return &keyBTree{tree: *of.Copy()}
}
